//! Transitions: `ibv_modify_qp`.

#![allow(unsafe_code)] // one verb

#[cfg(all(test, feature = "loopback"))]
mod tests;

use std::sync::Arc;

use super::attr::*;
use super::c_attr::{Attr, Fill};
use super::{Core, QueuePair, counters};
use crate::allows::{Allows, call};
use crate::counters::queue_counters::{QueueCounters, Quiet, RECEIVE, SEND};
use crate::in_flight::InFlight;
use crate::memory::orphaned::reclaim_everything;
use crate::profile::Profile;
use crate::sys::handle;
use crate::sys::refusal::{not_on_iwarp, of_transition};
use crate::sys::types::ibv_qp_attr;
#[cfg(feature = "cm")]
use crate::sys::types::ibv_qp_attr_mask as Mask;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Draining, Err, Init, QpState, Reset, Rtr, Rts, Sqd, Sqe, State};
use crate::terms::transport::{Rc, Transport, Uc, Ud};

/// Attributes that move a queue pair of transport `T` and profile `P` from state `S` to
/// [`To`](Transition::To): a row of the state table of ibv_modify_qp(3)
/// ([R8.1](crate::guide::rules#r8-1)). [`UcRtr`](crate::qp::UcRtr), [`UdRtr`](crate::qp::UdRtr) and
/// [`Drain`](crate::qp::Drain) have examples ([R8.2](crate::guide::rules#r8-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{qp::Transition, state::State, transport::Transport};
/// /// A transition of a queue pair, with a log message.
/// fn step<T: Transport, S: State, A: Transition<T, S, DefaultProfile>>(
///     qp: QueuePair<T, S>,
///     attr: A,
/// ) -> Result<QueuePair<T, A::To>, proverbs::Error> {
///     println!("{} -> {}", S::NAME, <A::To as State>::NAME);
///     Ok(qp.modify(attr)?)
/// }
/// let _ = |qp| {
///     step::<Rc, Reset, ConnectedInit>(
///         qp,
///         ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() },
///     )
/// };
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transition from state `{S}` of a `{T}` queue pair",
    label = "no transition from `{S}` of `{T}` takes these attributes",
    note = "the transitions are RESET -> INIT -> RTR -> RTS: RC by `ConnectedInit`, `RcRtr`, `RcRts`; UC by `ConnectedInit`, `UcRtr`, `UcRts`; UD by `UdInit`, `UdRtr`, `UdRts`; SRD by `UdInit`, `UdRtr`, `SrdRts`; an initiator of XRC by `ConnectedInit`, `XrcRtr`, `XrcRts`; and from SQE to RTS: UC by `UcResume`, UD by `UdReturn`"
)]
pub trait Transition<T: Transport, S: State, P: Profile>: sealed::Sealed<T, S, P> + Fill {
    /// The state after the transition.
    type To: State;
}

/// The state tables: attributes, transport, and the states before and after.
macro_rules! transitions {
    ($($attr:ty: $($t:ident $from:ident -> $to:ident),+;)*) => {$($(
        impl<P: Profile> $crate::qp::modify::sealed::Sealed<$t, $from, P> for $attr {}

        impl<P: Profile> Transition<$t, $from, P> for $attr {
            type To = $to;
        }
    )+)*};
}

pub(crate) use transitions;

transitions! {
    ConnectedInit: Rc Reset -> Init, Uc Reset -> Init;

    // From INIT on, each transport has separate attributes.
    ConnectedReinit: Rc Init -> Init, Uc Init -> Init;
    RcRtr: Rc Init -> Rtr;
    RcRts<P>: Rc Rtr -> Rts;
    RcReturn: Rc Rts -> Rts, Rc Sqd -> Rts;
    RcSqd<P>: Rc Sqd -> Draining;
    UcRtr: Uc Init -> Rtr;
    UcRts: Uc Rtr -> Rts;
    UcReturn: Uc Rts -> Rts, Uc Sqd -> Rts;
    UcResume: Uc Sqe -> Rts;
    UcSqd: Uc Sqd -> Draining;
    UdInit: Ud Reset -> Init;
    UdReinit: Ud Init -> Init;
    UdRtr: Ud Init -> Rtr;
    UdRts: Ud Rtr -> Rts;
    UdReturn: Ud Rts -> Rts, Ud Sqd -> Rts, Ud Sqe -> Rts;
    UdSqd: Ud Sqd -> Draining;
    Drain: Rc Rts -> Draining, Uc Rts -> Draining, Ud Rts -> Draining;
}

/// The remainder of a reset: regions of ended windows, the entries of the ring, and queues that can
/// have no more completions. Dropping any of them may run the program's code, which may panic.
#[must_use]
pub(crate) struct Rest<P: Profile> {
    _windows: Vec<handle::Mw>,
    _entries: Vec<P::Entry>,
    quiet: Quiet,
}

impl<P: Profile> Rest<P> {
    /// Returns the entries and the orphaned entries of the queues, and releases the regions.
    pub(crate) fn give_back(self) {
        reclaim_everything(self.quiet);
    }
}

/// The place of a queue pair: its port, and whether the device may move it to another.
struct Place {
    port: u8,
    may_migrate: bool,
}

impl<P: Profile> Core<P> {
    fn modify(
        &mut self,
        way: (QpState, QpState),
        attr: &mut ibv_qp_attr,
        mask: u32,
        asked: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let modify = self.handle.control().modify_qp;
        // SAFETY: the queue pair is live, and the fields of `attr` in the mask are set.
        let modified = unsafe { modify(self.qp(), attr, mask as i32) };
        modified.map_err(|errno| {
            of_transition(&self.context().handle, way, (attr, mask), &asked(), errno)
        })?;
        self.trace_transition(way);
        Ok(())
    }

    /// Traces the transition.
    fn trace_transition(&self, _way: (QpState, QpState)) {
        crate::sys::event!(
            DEBUG, "proverbs::qp", "transition",
            // SAFETY: the core keeps the queue pair alive.
            qp_num = unsafe { (*self.qp()).qp_num }, from = %_way.0, to = %_way.1,
        );
    }

    pub(super) fn move_to(&mut self, from: QpState, to: QpState) -> Result<(), Error> {
        let mut attr = Attr::new(to);
        self.modify((from, to), &mut attr.c, attr.mask, String::new)
    }

    /// Moves the queue pair to RESET, unless a device could lose receives by that.
    pub(super) fn reset(&mut self, from: QpState) -> Result<Rest<P>, Error> {
        let may_have_received = !matches!(from, QpState::Reset | QpState::Init);
        if may_have_received && self.may_lose_receives_of().is_some() {
            let asked = "receives of its shared receive queue may be in the completion queue: move \
                         the queue pair to ERR and drain it first, or destroy it";
            return Err(Error::os("ibv_modify_qp", libc::EBUSY, asked));
        }
        self.reset_now(from)
    }

    /// Moves the queue pair to RESET. Returns what remains to be dropped.
    pub(crate) fn reset_now(&mut self, from: QpState) -> Result<Rest<P>, Error> {
        let counters = counters::<P>("ibv_modify_qp", self.counters.pd)?;
        self.moves_by_hand(QpState::Reset)?;
        self.move_to(from, QpState::Reset)?;
        self.windows.end();
        let windows = std::mem::take(&mut self.windows.ended);
        let (entries, quiet) = self.renew(counters);
        Ok(Rest { _windows: windows, _entries: entries, quiet })
    }

    /// Returns an error unless the send queue has drained.
    pub(super) fn has_drained(&self) -> Result<(), Error> {
        if self.is_in(QpState::Sqd)?.sq_draining {
            return Err(Error::os("ibv_query_qp", libc::EAGAIN, "its send queue is draining"));
        }
        Ok(())
    }

    /// Returns an error on iWARP, where only rdma_cm changes the state of a queue pair, and nothing
    /// resets it.
    fn moves_by_hand(&self, to: QpState) -> Result<(), Error> {
        let (lacks, instead) = match to {
            QpState::Reset => {
                ("no transition to RESET", "destroy the queue pair, and create another (R24.6)")
            }
            _ => (
                "no transitions by the program",
                "create the queue pair with `CmId::create_qp`, and connect it with rdma_cm",
            ),
        };
        let asked = || format!("to {to}");
        not_on_iwarp(&self.context().handle, "ibv_modify_qp", asked, lacks, instead)
    }

    /// Checks that a program may move the queue pair to `to` with these attributes. Returns its
    /// place after the transition.
    fn admit<T: Transport>(&self, to: QpState, attr: &mut Attr) -> Result<Place, Error> {
        self.moves_by_hand(to)?;
        let port = attr.port_or(self.find_port()?);
        let mut may_migrate = self.may_migrate;
        if attr.is_of_two_paths() {
            let alternate = attr.alternate.as_ref();
            self.check_migrates::<T>(alternate, port)?;
            may_migrate |= alternate.is_some_and(|it| it.address.port != port);
        }
        if let Some(address) = &attr.address {
            self.context().check_path_bits(address, "ibv_modify_qp", port)?;
        }
        Ok(Place { port, may_migrate })
    }

    /// Makes the transition of a program's attributes.
    pub(super) fn step<T, S, A>(&mut self, attr: &A) -> Result<(), Error>
    where
        T: Transport,
        S: State,
        A: Transition<T, S, P>,
    {
        let way = (S::STATE, <A::To as State>::STATE);
        let mut filled = Attr::new(way.1);
        attr.fill(&mut filled);
        let place = self.admit::<T>(way.1, &mut filled)?;
        let address = filled.address;
        let asked = || address.map(|address| format!(" by {address}")).unwrap_or_default();
        self.step_to::<T>(way, &mut filled.c, filled.mask, place, asked)
    }

    /// Makes this transition, which ends at this place.
    fn step_to<T: Transport>(
        &mut self,
        way: (QpState, QpState),
        attr: &mut ibv_qp_attr,
        mask: u32,
        place: Place,
        asked: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let limit = self.message_limit::<T>(way, place.port)?;
        self.modify(way, attr, mask, asked)?;
        Place { port: self.port, may_migrate: self.may_migrate } = place;
        self.limit_messages::<T>(limit);
        Ok(())
    }

    /// Replaces the counters, so that earlier completions match nothing in them (R8.18). Returns
    /// the entries of the ring, and the queues that can have no more completions.
    fn renew(&mut self, new: Arc<QueueCounters>) -> (Vec<P::Entry>, Quiet) {
        self.may_migrate = false;
        new.share_as(&self.counters);
        let old = std::mem::replace(&mut self.counters, new);
        let (posted, at_end) = (self.posted_as_wr_ids(), self.at_end());
        self.note_lists(&old);
        let depth = self.depth;
        let sends = self.send.in_flight.keep_stale(&old, depth.send);
        let receives = self.recv.in_flight.keep_stale(&old, depth.recv);
        let entries = self.send.release_all();
        let (new, room) = (&self.aside.counters, (depth.send, self.send.in_flight.take_slots()));
        self.send.in_flight = InFlight::open(new, SEND, room, sends);
        self.recv.in_flight = InFlight::open(new, RECEIVE, (depth.recv, Vec::new()), receives);
        self.send_cq.renew(&old, &self.counters);
        if !Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
            self.recv_cq.renew(&old, &self.counters);
        }
        // Only now. Otherwise a poll on another thread would treat the reservation as one of a
        // destroyed queue.
        old.end(posted);
        let mut quiet = Quiet::default();
        at_end.tell(&old, &self.send_cq, &self.recv_cq, &mut quiet);
        self.is_drained = false;
        self.offered = None;
        (entries, quiet)
    }
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Moves the queue pair to another state with `attr` (`ibv_modify_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The queue pair, in its old state, with
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) and the errno: EINVAL if the device rejects a
    ///   value, such as an empty GID index ([R8.5](crate::guide::rules#r8-5)) or an MTU that
    ///   exceeds the port's ([R8.6](crate::guide::rules#r8-6)).
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the profile's inline capacity exceeds the
    ///   longest message of the port ([R3.5](crate::guide::rules#r3-5),
    ///   [R3.6](crate::guide::rules#r3-6)), or path bits exceed the path bits of the port
    ///   ([R24.9](crate::guide::rules#r24-9)).
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): the port is iWARP, where only
    ///   rdma_cm moves a queue pair ([R24.5](crate::guide::rules#r24-5)), or the port or the device
    ///   does not support alternate paths.
    #[doc(alias = "ibv_modify_qp")]
    pub fn modify<A>(mut self, attr: A) -> Result<QueuePair<T, A::To, P>, Refused<Self>>
    where
        A: Transition<T, S, P>,
    {
        let moved = self.core.step::<T, S, A>(&attr);
        self.moved(moved)
    }

    /// Moves the queue pair with attributes from rdma_cm.
    #[cfg(feature = "cm")]
    pub(crate) fn modify_by_cm<To: State>(
        mut self,
        attr: &mut ibv_qp_attr,
        mask: u32,
    ) -> Result<QueuePair<T, To, P>, Refused<Self>> {
        attr.qp_state = To::STATE.to_c();
        let is_set = mask & Mask::IBV_QP_PORT.0 != 0;
        let port = if is_set { attr.port_num } else { self.core.port };
        let place = Place { port, may_migrate: self.core.may_migrate };
        let way = (S::STATE, To::STATE);
        let asked = || " with attributes of rdma_cm".into();
        let mask = mask | Mask::IBV_QP_STATE.0;
        let moved = self.core.step_to::<T>(way, attr, mask, place, asked);
        self.moved(moved)
    }

    /// Converts a queue pair that the kernel moved to RTS.
    #[cfg(feature = "cm")]
    pub(crate) fn moved_by_cm(mut self) -> Result<QueuePair<T, Rts, P>, Refused<Self>> {
        let limit = self.core.message_limit::<T>((QpState::Rtr, QpState::Rts), self.core.port);
        let moved = limit.map(|limit| self.core.limit_messages::<T>(limit));
        if moved.is_ok() {
            self.core.trace_transition((QpState::Rtr, QpState::Rts));
        }
        self.moved(moved)
    }

    /// Like `to_error`, but infallible. If the device fails because it is gone, the queue pair may
    /// be in any state. Then no more work is posted to it, and it cannot be drained, only reset or
    /// destroyed.
    #[cfg(any(feature = "cm", test))]
    pub(crate) fn give_up(mut self) -> QueuePair<T, Err, P> {
        if self.core.move_to(S::STATE, QpState::Err).is_err() {
            self.core.send.in_flight.poison();
            self.core.recv.in_flight.poison();
        }
        QueuePair::from_core(self.core)
    }

    /// Moves the queue pair to the error state, which flushes all posted work. This is not possible
    /// from RESET ([R8.1](crate::guide::rules#r8-1)).
    ///
    /// # Errors
    /// The queue pair, with [`ErrorKind::Os`](crate::ErrorKind::Os) and the errno: the device is
    /// gone.
    pub fn to_error(mut self) -> Result<QueuePair<T, Err, P>, Refused<Self>>
    where
        Self: Allows<call::ToError>,
    {
        let moved = self.core.move_to(S::STATE, QpState::Err);
        self.moved(moved)
    }

    /// Moves the queue pair to RESET: the device discards outstanding work without completing it
    /// ([R7.16](crate::guide::rules#r7-16), [R8.18](crate::guide::rules#r8-18)). [`State`] has an
    /// example.
    ///
    /// Posted buffers return to their pools automatically: [how a queue pair
    /// ends](crate::qp#how-a-queue-pair-ends). Until the completion queue has been polled empty,
    /// room for earlier completions stays reserved.
    ///
    /// # Errors
    /// The queue pair, with
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) and the errno: EBUSY if it may have used receives
    ///   of a shared receive queue and was not [drained](Self::drain), because the device might
    ///   lose their buffers; ENOSPC if too many queues exist. With any other errno, the device is
    ///   gone.
    /// - [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported): iWARP has no transition to
    ///   RESET ([R24.6](crate::guide::rules#r24-6)).
    pub fn reset(mut self) -> Result<QueuePair<T, Reset, P>, Refused<Self>> {
        let reset = self.core.reset(S::STATE);
        self.moved(reset.map(Rest::give_back))
    }

    /// Converts the queue pair to state [SQE](Sqe), if the device reports that state (UC and UD;
    /// [R8.16](crate::guide::rules#r8-16)).
    ///
    /// # Errors
    /// The queue pair, with [`ErrorKind::Os`](crate::ErrorKind::Os) and EINVAL if it is in another
    /// state.
    pub fn into_sqe(self) -> Result<QueuePair<T, Sqe, P>, Refused<Self>>
    where
        Self: Allows<call::IntoSqe>,
    {
        let is = self.core.is_in(QpState::Sqe);
        self.moved(is.map(drop))
    }

    /// The queue pair in its new state, or the error that contains it.
    fn moved<To: State>(
        self,
        moved: Result<(), Error>,
    ) -> Result<QueuePair<T, To, P>, Refused<Self>> {
        or_refused!(self, moved);
        Ok(QueuePair::from_core(self.core))
    }
}

impl<T: Transport, P: Profile> QueuePair<T, Draining, P> {
    /// Converts the queue pair to state [SQD](Sqd), if the device reports that its send queue has
    /// drained (`sq_draining` of ibv_query_qp(3), [R8.21](crate::guide::rules#r8-21)). It queries
    /// the device once. If the send queue has not drained, call it again, or wait for the event of
    /// [`Drain::notify`](crate::qp::Drain). Earlier sends must be able to complete. They may need
    /// the peer, and on the loopback device also polls of its completion queue.
    ///
    /// # Errors
    /// The queue pair, with [`ErrorKind::Os`](crate::ErrorKind::Os) and EAGAIN while it drains,
    /// EINVAL if it is in another state, or the errno of `ibv_query_qp`.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::qp::{Drain, RcReturn};
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// b.post_recv(wr::Recv::new(pool.take().unwrap()))?;
    /// a.post_send(wr::Send::inline(b"before"))?;
    /// let mut draining: QueuePair<Rc, Draining> = a.modify(Drain::default())?;
    /// let drained: QueuePair<Rc, Sqd> = loop {
    ///     match draining.into_sqd() {
    ///         Ok(qp) => break qp,
    ///         Err(refused) if refused.error.errno() == Some(libc::EAGAIN) => {
    ///             draining = refused.into_object();
    ///         }
    ///         Err(refused) => return Err(refused.into()),
    ///     }
    ///     cq.poll()?.for_each(drop);
    /// };
    /// let a: QueuePair<Rc, Rts> = drained.modify(RcReturn::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_sqd(self) -> Result<QueuePair<T, Sqd, P>, Refused<Self>> {
        let is = self.core.has_drained();
        self.moved(is)
    }
}

pub(crate) mod sealed {
    /// Sealed for each row, not for each type. Otherwise users could implement rows for our types
    /// with their own profile.
    pub trait Sealed<T, S, P> {}
}
