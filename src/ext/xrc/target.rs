//! Targets of XRC.

#![allow(unsafe_code)] // creates, modifies and queries

use std::marker::PhantomData;

use super::{XrcDomain, XrcTargetRtr, XrcTargetRts};
use crate::allows::{Allows, call};
use crate::device::Context;
use crate::qp::c_attr::{Attr, OwnAttributes};
use crate::qp::query::{ask, everything};
use crate::qp::{ConnectedInit, ConnectedReinit, QpAttr};
use crate::sys::create_qp_ex::ibv_qp_init_attr_ex;
use crate::sys::handle;
use crate::sys::refusal::{of_creation, of_transition};
use crate::sys::types::ibv_qp;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Err, Init, Reset, Rtr, Rts, State};

/// A target of XRC (`ibv_create_qp_ex` with `IBV_QPT_XRC_RECV`) in state `S`: the passive end of a
/// connection, whose other end is an initiator, a `QueuePair<Xrc, S, P>`.
///
/// It has no queues: you cannot post to it, it has no completions, and it needs no drain. Each
/// message contains the number of the [shared receive queue](XrcDomain::create_srq) that receives
/// it, and completes on that queue's completion queue. The shared receive queue must be in the
/// target's [`XrcDomain`]. Other numbers are rejected: the initiator's work request fails with
/// [`RemInvReq`](crate::completion::WcStatus::RemInvReq), and both ends move to the error state
/// ([R26.4](crate::guide::rules#r26-4)).
///
/// So each of n processes needs one initiator for each of m hosts, while RC needs one queue pair
/// for each process on those hosts. A target works from RTR on.
///
/// A target of another process cannot be opened (`ibv_open_qp`). Both processes would change the
/// state of the same queue pair, so the state in the type would be wrong.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{ext::xrc::XrcdFile, loopback::Fabric};
/// use proverbs::ext::xrc::{XrcRtr, XrcRts, XrcTarget, XrcTargetRtr};
///
/// profile! { Initiating { receive: NoRq } }
///
/// // A host with two programs, which share a domain and have one shared receive queue each:
/// let host = Fabric::new().open_device();
/// let can = host.abilities()?.can::<Xrc>().ok_or("the device has no XRC")?;
/// let domain = host.open_xrcd(&can, XrcdFile::Private)?;
/// let pd = host.alloc_pd()?;
/// let (pool, other_pool) = (pd.create_pool(4, 64)?, pd.create_pool(4, 64)?);
/// let (mut cq, mut other_cq) = (host.create_cq(4)?, host.create_cq(4)?);
/// let mut srq: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &pool, &cq)?;
/// let mut other: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &other_pool, &other_cq)?;
/// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// other.post_srq_recv(wr::Recv::new(other_pool.take().ok_or("no buffer")?))?;
///
/// // One connection reaches both. (The initiator is usually on another host.)
/// let target: XrcTarget<Reset> = domain.create_target()?;
/// let mut sent = host.create_cq(8)?;
/// let initiator = pd.create_xrc_initiator::<Initiating>(&can, &sent, 4)?;
/// # let gid = host.roce_v2_gid(1)?;
/// # let address = AddressVector::roce_v2(gid, gid.gid())?;
/// # let psn = Psn::try_from(0)?;
/// let (to, from) = (Qpn::try_from(target.qp_num())?, Qpn::try_from(initiator.qp_num())?);
/// let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
/// let target: XrcTarget<Rtr> = target.modify(init)?.modify(XrcTargetRtr::new(address, from, psn))?;
/// let initiator = initiator.modify(init)?.modify(XrcRtr::new(address, to, psn))?;
/// let mut initiator = initiator.modify(XrcRts::new(psn, ReadDepth::ONE))?;
///
/// initiator.post_send(wr::Send::inline(b"to one").to_srq(srq.number()))?;
/// initiator.post_send(wr::Send::inline(b"to the other").to_srq(other.number()))?;
/// proverbs::loopback::poll(&mut sent, 2)?;
/// let one = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("a receive has a buffer")?;
/// let two = proverbs::loopback::poll(&mut other_cq, 1)?.remove(0).ok_or("a receive has a buffer")?;
/// assert_eq!((&one[..], &two[..]), (&b"to one"[..], &b"to the other"[..]));
///
/// target.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// You cannot post to it:
///
/// ```compile_fail,E0599
/// # use proverbs::prelude::*;
/// fn post(target: &mut proverbs::ext::xrc::XrcTarget<Rtr>) {
///     target.post_send(wr::Send::inline(b"hello"));
/// }
/// ```
#[doc(alias("IBV_QPT_XRC_RECV", "IBV_QP_INIT_ATTR_XRCD", "ibv_qp_init_attr_mask"))]
#[doc(alias("ibv_qp_init_attr_ex", "xrcd"))]
pub struct XrcTarget<S: State> {
    handle: handle::XrcTarget,
    /// The port, once a transition has set it; 0 before that.
    port: u8,
    _state: PhantomData<S>,
}

impl XrcDomain {
    /// Creates a target in this domain (`ibv_create_qp_ex`) and keeps the domain open.
    /// [`XrcTarget`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno: EOPNOTSUPP if the library lacks the verb.
    pub fn create_target(&self) -> Result<XrcTarget<Reset>, Error> {
        let mut init = ibv_qp_init_attr_ex::target(self.xrcd.as_ptr());
        let control = self.xrcd.control();
        // SAFETY: the domain is live, and the attributes are a local.
        let qp = unsafe { (control.create_qp_ex)(&mut init) };
        let refused = |errno| of_creation("ibv_create_qp_ex", errno, "a target of XRC".into());
        let qp = qp.map_err(refused)?.cast();
        // SAFETY: the object was just created, and has no other owner.
        let handle = unsafe { handle::XrcTarget::new(qp, control, self.xrcd.clone()) };
        Ok(XrcTarget { handle, port: 0, _state: PhantomData })
    }
}

impl<S: State> XrcTarget<S> {
    pub(crate) fn as_ptr(&self) -> *mut ibv_qp {
        self.handle.as_ptr().cast()
    }

    pub(crate) fn context(&self) -> Context {
        Context { handle: self.handle.parents().parents().clone() }
    }

    pub(crate) fn port(&self) -> u8 {
        self.port
    }

    /// The queue pair number. The initiator connects to it, and completions of receives contain it.
    pub fn qp_num(&self) -> u32 {
        // SAFETY: the handle keeps the queue pair alive.
        unsafe { (*self.as_ptr()).qp_num }
    }

    /// Returns the current attributes from the device (`ibv_query_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno.
    pub fn query(&self) -> Result<QpAttr, Error> {
        // SAFETY: its handle keeps the queue pair.
        let (c, _) = unsafe { ask(self.handle.control(), self.as_ptr(), everything()) }?;
        Ok(QpAttr::from_c(&c))
    }

    /// Moves the target to another state with `attr` (`ibv_modify_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The target, in its old state, with [`Os`](crate::ErrorKind::Os) and the errno: EINVAL if the
    /// device rejects a value. [`Limit`](crate::ErrorKind::Limit) if path bits exceed the path bits
    /// of the port ([R24.9](crate::guide::rules#r24-9)).
    pub fn modify<A: TargetTransition<S>>(
        self,
        attr: A,
    ) -> Result<XrcTarget<A::To>, Refused<Self>> {
        let mut filled = Attr::new(<A::To as State>::STATE);
        attr.fill(&mut filled);
        let port = filled.port_or(self.port);
        if let Some(address) = filled.address {
            or_refused!(self, self.context().check_path_bits(&address, "ibv_modify_qp", port));
        }
        self.modify_to(filled, port)
    }

    /// Moves the target to the error state, in which it rejects all messages. This is not possible
    /// from RESET ([R8.1](crate::guide::rules#r8-1)).
    ///
    /// # Errors
    /// The target, with [`Os`](crate::ErrorKind::Os) and the errno: the device is gone.
    pub fn to_error(self) -> Result<XrcTarget<Err>, Refused<Self>>
    where
        Self: Allows<call::ToError>,
    {
        self.move_to()
    }

    /// Moves the target to RESET, for another initiator.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{ext::xrc::XrcTarget, state::QpState};
    /// # let proverbs::loopback::XrcPair { target, .. } = proverbs::loopback::xrc_pair()?;
    /// let target: XrcTarget<Reset> = target.to_error()?.reset()?;
    /// assert_eq!(target.query()?.state, Some(QpState::Reset));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The target, with [`Os`](crate::ErrorKind::Os) and the errno: the device is gone.
    pub fn reset(self) -> Result<XrcTarget<Reset>, Refused<Self>> {
        self.move_to()
    }

    /// Moves it to a state without other attributes.
    fn move_to<To: State>(self) -> Result<XrcTarget<To>, Refused<Self>> {
        let port = self.port;
        self.modify_to(Attr::new(To::STATE), port)
    }

    /// Moves it to `To`, which `attr` contains, at this port.
    fn modify_to<To: State>(
        self,
        mut attr: Attr,
        port: u8,
    ) -> Result<XrcTarget<To>, Refused<Self>> {
        let modify = self.handle.control().modify_qp;
        // SAFETY: the queue pair is live, and the fields of `attr` in the mask are set.
        match unsafe { modify(self.as_ptr(), &mut attr.c, attr.mask as i32) } {
            Ok(()) => Ok(XrcTarget { handle: self.handle, port, _state: PhantomData }),
            Result::Err(errno) => {
                let by = attr.address.map(|address| format!(" by {address}")).unwrap_or_default();
                let (way, attr) = ((S::STATE, To::STATE), (&attr.c, attr.mask));
                let error = of_transition(&self.context().handle, way, attr, &by, errno);
                Result::Err(Refused::new(self, error))
            }
        }
    }

    /// Destroys the target (`ibv_destroy_qp`). A target has no buffers. The receives that it used
    /// complete on the completion queues of their shared receive queues, and unused receives stay
    /// posted to the shared receive queues.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The target, with [`Os`](crate::ErrorKind::Os) and the errno.
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        let closed = self.handle.close();
        closed.map_err(|errno| Refused::new(self, Error::os("ibv_destroy_qp", errno, "")))
    }
}

ruled_by! { ToError: [S: State] XrcTarget<S>, S; }

impl_debug!([S: State] XrcTarget<S>, |it| "XrcTarget({:#08x}, {})", it.qp_num(), S::NAME);

/// Attributes that move a [target of XRC](XrcTarget) from state `S` to [`To`](TargetTransition::To)
/// (ibv_modify_qp(3)). [`to_error`](XrcTarget::to_error) and [`reset`](XrcTarget::reset) need no
/// attributes ([R26.3](crate::guide::rules#r26-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::xrc::{TargetTransition, XrcTarget, XrcTargetRts};
/// use proverbs::state::State;
/// # let proverbs::loopback::XrcPair { target, .. } = proverbs::loopback::xrc_pair()?;
/// /// A transition of a target, with a log message.
/// fn step<S: State, A: TargetTransition<S>>(
///     target: XrcTarget<S>,
///     attr: A,
/// ) -> Result<XrcTarget<A::To>, proverbs::Error> {
///     println!("{} -> {}", S::NAME, <A::To as State>::NAME);
///     Ok(target.modify(attr)?)
/// }
/// let target: XrcTarget<Rts> = step(target, XrcTargetRts::new(Psn::try_from(0)?))?;
/// # drop(target);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transition from state `{S}` of an XRC target",
    label = "no transition from `{S}` of a target takes these attributes",
    note = "the transitions are RESET -> INIT -> RTR by `ConnectedInit` and `XrcTargetRtr`; RTR -> RTS by `XrcTargetRts` is optional"
)]
pub trait TargetTransition<S: State>: OwnAttributes {
    /// The state after the transition.
    type To: State;
}

impl TargetTransition<Reset> for ConnectedInit {
    type To = Init;
}

impl TargetTransition<Init> for ConnectedReinit {
    type To = Init;
}

impl TargetTransition<Init> for XrcTargetRtr {
    type To = Rtr;
}

impl TargetTransition<Rtr> for XrcTargetRts {
    type To = Rts;
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
