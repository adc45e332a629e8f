//! The creation arguments of a queue pair: its depths, a shared receive queue, flags.

use std::marker::PhantomData;
use std::sync::Arc;

use super::create::SENTINEL;
use crate::completion::CqBuilder;
use crate::memory::Entry;
use crate::profile::Profile;
use crate::rules::{
    CreatedBy, Creates, HasBothQueues, ReceivedAs, Seal, Serves, SharesReceives, StaysWith,
    TakesFlags, UsesOwnQueue, UsesSharedQueue,
};
use crate::srq::{SharedReceiveQueue, SrqCore};
use crate::sys::create_qp_ex::BLOCK_SELF_MCAST_LB;
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;
use crate::work::limits::Limit;

/// The number of work requests that a queue pair can hold (`cap` of ibv_create_qp(3)). Use it to
/// create a queue pair, or use [`Depth::on_srq`], or add [flags](Depth::flags).
#[doc(alias("ibv_qp_cap", "max_send_wr", "max_recv_wr"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Depth {
    /// Sends (`max_send_wr`). It must be less than the device's `max_qp_wr`, because a drain needs
    /// one work request. It is 0 for a queue pair that only receives, as in C. Posting a send then
    /// always fails with [`QueueFull`](crate::post::PostErrorKind::QueueFull).
    pub send: u32,
    /// Receives (`max_recv_wr`). It is 0 for a queue pair with a shared receive queue, or one that
    /// only sends or is only an RDMA target. Posting a receive then always fails.
    pub recv: u32,
}

impl Depth {
    /// Room for `send` sends, and the receives of `srq`. Pass it to
    /// [`create_qp`](crate::ProtectionDomain::create_qp) if the profile has `receive: SharedRq`
    /// ([R7.1](crate::guide::rules#r7-1)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, pd, pool, .. } = proverbs::loopback::pair()?;
    /// profile! { Server { receive: SharedRq } }
    ///
    /// let cq = context.create_cq(64)?;
    /// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    /// let depth = Depth::on_srq(8, &srq);
    /// let one = pd.create_qp::<Rc, Server>(&cq, &cq, depth)?;
    /// let two = pd.create_qp::<Rc, Server>(&cq, &cq, depth)?; // both share its buffers
    /// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// # drop((one, two));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ibv_qp_init_attr", "srq"))]
    pub fn on_srq<T: SharesReceives, E: Entry, M: Limit, L: Threads>(
        send: u32,
        srq: &SharedReceiveQueue<T, E, M, L>,
    ) -> OnSrq<'_, T, E, L> {
        OnSrq { send, srq: srq.core(), types: PhantomData }
    }

    /// Adds flags, for a UD queue pair ([R23.6](crate::guide::rules#r23-6)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::qp::QpCreateFlags;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// let cq = context.create_cq(32)?;
    /// let depth = Depth { send: 8, recv: 8 }.flags(QpCreateFlags { block_self_mcast_lb: true });
    /// let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth)?;
    /// # drop(qp);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("ibv_create_qp_ex", "IBV_QP_INIT_ATTR_CREATE_FLAGS", "create_flags"))]
    pub fn flags(self, flags: QpCreateFlags) -> WithFlags<Self> {
        WithFlags { depth: self, flags }
    }
}

/// A number of sends, and the shared receive queue of a queue pair. Returned by [`Depth::on_srq`].
/// Pass it to [`create_qp`](crate::ProtectionDomain::create_qp).
pub struct OnSrq<'a, T: Transport, E: Entry, L: Threads> {
    send: u32,
    srq: &'a Arc<SrqCore>,
    // Not `Send`, like a reference to the queue.
    types: PhantomData<(T, E, L, *mut ())>,
}

impl<T: Transport, E: Entry, L: Threads> OnSrq<'_, T, E, L> {
    /// Adds flags, like [`Depth::flags`].
    pub fn flags(self, flags: QpCreateFlags) -> WithFlags<Self> {
        WithFlags { depth: self, flags }
    }
}

impl<T: Transport, E: Entry, L: Threads> Clone for OnSrq<'_, T, E, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Transport, E: Entry, L: Threads> Copy for OnSrq<'_, T, E, L> {}

impl_debug!([T: Transport, E: Entry, L: Threads] OnSrq<'_, T, E, L>, |it|
    "OnSrq({} sends, {} buffers)", it.send, it.srq.buffers);

/// A [`Depth`] or an [`OnSrq`], with flags.
#[derive(Clone, Copy, Debug)]
pub struct WithFlags<D> {
    depth: D,
    flags: QpCreateFlags,
}

/// Creation flags of a UD queue pair (`create_flags` of ibv_create_qp_ex(3)), for [`Depth::flags`].
#[doc(alias("IBV_QP_CREATE_BLOCK_SELF_MCAST_LB", "ibv_qp_create_flags"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QpCreateFlags {
    /// Messages that it sends to a multicast group that it is attached to are not looped back to it
    /// (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`). Other queue pairs on the device receive them.
    pub block_self_mcast_lb: bool,
}

impl QpCreateFlags {
    pub(super) fn to_c(self) -> u32 {
        if self.block_self_mcast_lb { BLOCK_SELF_MCAST_LB } else { 0 }
    }
}

impl<L: Threads, F, C> CqBuilder<'_, L, F, C> {
    /// Adds room for `count` queue pairs of this depth whose sends and receives complete here.
    /// [`create_qp`](crate::ProtectionDomain::create_qp) reserves `depth.send + 1` and `depth.recv`
    /// entries for each ([R9.9](crate::guide::rules#r9-9)). Set `recv` to 0 for queue pairs whose
    /// receives complete on another queue, or come from a shared receive queue. Repeated calls add
    /// up.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// let depth = Depth { send: 8, recv: 8 };
    /// let cq = context.cq(0).queue_pairs(2, depth).create()?;
    /// assert!(cq.capacity() >= 2 * (8 + 1 + 8));
    /// let both = [(); 2].map(|()| pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth));
    /// assert!(both.iter().all(Result::is_ok));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue_pairs(self, count: u32, depth: Depth) -> Self {
        let each = u64::from(depth.send) + u64::from(SENTINEL) + u64::from(depth.recv);
        let all = u64::from(count).saturating_mul(each);
        self.receives(u32::try_from(all).unwrap_or(u32::MAX))
    }
}

/// The creation arguments of queue pairs with transport `T` and profile `P`
/// ([`create_qp`](crate::ProtectionDomain::create_qp)): a [`Depth`], or [`Depth::on_srq`] if the
/// profile has `receive: SharedRq`. On UD, either can have [flags](Depth::flags)
/// ([R7.1](crate::guide::rules#r7-1), [R23.6](crate::guide::rules#r23-6)).
///
/// Code that creates queue pairs of any transport needs only this bound:
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{qp::CreatedWith, state::Reset, transport::Transport};
///
/// fn create<T: Transport>(
///     pd: &ProtectionDomain,
///     cq: &CompletionQueue,
///     with: impl CreatedWith<T, DefaultProfile>,
/// ) -> Result<QueuePair<T, Reset>, proverbs::Error> {
///     pd.create_qp(cq, cq, with)
/// }
/// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
/// # let cq = context.create_cq(64)?;
/// create::<Rc>(&pd, &cq, Depth { send: 8, recv: 8 })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{T}` queue pair is not created with `{Self}`",
    label = "not a valid argument for this queue pair",
    note = "create it with a `Depth`, with `Depth::on_srq(send, &srq)` where the profile has `receive: SharedRq`, or on UD with `depth.flags(flags)`"
)]
#[allow(private_bounds)] // sealed
pub trait CreatedWith<T: Transport, P: Profile>: Parts {
    #[doc(hidden)]
    const SEAL: Seal;
}

impl<T, P> CreatedWith<T, P> for Depth
where
    T: CreatedBy<Verb: Creates<T, P>>,
    P: Profile<Receive: UsesOwnQueue>,
{
    const SEAL: Seal = Seal;
}

impl<T, P, Q, E, L> CreatedWith<T, P> for OnSrq<'_, Q, E, L>
where
    T: HasBothQueues,
    P: Profile<Receive: UsesSharedQueue>,
    Q: Serves<T>,
    E: ReceivedAs<P::Entry>,
    L: StaysWith<P::Threads>,
{
    const SEAL: Seal = Seal;
}

impl<T, P, D> CreatedWith<T, P> for WithFlags<D>
where
    T: TakesFlags,
    P: Profile,
    D: CreatedWith<T, P>,
{
    const SEAL: Seal = Seal;
}

/// Only this crate can name this trait, so no other crate can implement it or call it.
pub(crate) trait Parts {
    fn parts(&self) -> With<'_>;
}

/// The arguments of the verb.
pub(crate) struct With<'a> {
    pub(super) depth: Depth,
    pub(super) srq: Option<&'a Arc<SrqCore>>,
    pub(super) flags: QpCreateFlags,
}

impl With<'_> {
    /// How many sends and receives may have completions at the same time.
    #[cfg(feature = "cm")]
    pub(crate) fn completions(&self) -> [u32; 2] {
        [self.depth.send, self.srq.map_or(self.depth.recv, |srq| srq.buffers)]
    }
}

impl Parts for Depth {
    fn parts(&self) -> With<'_> {
        With { depth: *self, srq: None, flags: QpCreateFlags::default() }
    }
}

impl<T: Transport, E: Entry, L: Threads> Parts for OnSrq<'_, T, E, L> {
    fn parts(&self) -> With<'_> {
        let depth = Depth { send: self.send, recv: 0 };
        With { depth, srq: Some(self.srq), flags: QpCreateFlags::default() }
    }
}

impl<D: Parts> Parts for WithFlags<D> {
    fn parts(&self) -> With<'_> {
        With { flags: self.flags, ..self.depth.parts() }
    }
}
