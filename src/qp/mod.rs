//! Queue pairs.
//!
//! # How a queue pair ends
//!
//! **However a queue pair ends (dropped, destroyed or reset), its buffers return to their pools
//! automatically, at the latest when its completion queue has been polled empty. To receive the
//! buffers yourself, use [`drain`](QueuePair::drain).**
//!
//! - Polls still return the completions that are already in the completion queue, with their
//!   buffers. [`Pool::reclaim`](crate::Pool::reclaim) defines when a completion queue counts as
//!   polled empty. If a queue pair uses two completion queues, both must be empty. A dropped
//!   completion queue counts as empty.
//! - A search finds the other buffers. It visits all buffers of the protection domain that are in
//!   use, so if there are many, several queue pairs share a search. A pool or an arena runs it
//!   before `take` returns `None`, before it counts its free buffers, and when it is dropped. So a
//!   pending search affects only the duration of these calls, not their results.
//! - Buffers that have no completion of their own return at once. These are the buffers in the ring
//!   of a queue pair with selective signaling.
//! - Receives of a shared receive queue that no message used stay posted there. Some devices (mlx5)
//!   remove the completions of a queue pair that is destroyed or reset, and it is then unknown
//!   which receives it used. So dropping or destroying a queue pair that was not drained moves it
//!   to ERR. `ibv_destroy_qp` follows when its receive completion queue has been polled empty, or
//!   when that queue or the shared receive queue is destroyed. [`reset`](QueuePair::reset) fails
//!   until the queue pair was drained, unless no receive is posted there.
//! - In two cases a buffer is unavailable until the shared receive queue is destroyed: its receive
//!   completes after the completion queue was dropped, or the device was filling it when the queue
//!   pair moved to ERR, and flushes it later.
//! - If the device fails to destroy the queue pair, [`destroy`](QueuePair::destroy) returns it.
//!   Dropping it in that case leaks it, with everything that the device may still use.
//!
//! ```
//! # use proverbs::prelude::*;
//! use proverbs::qp::Drained;
//! # let proverbs::loopback::Pair { a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
//! # let mut a = a;
//! a.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // nothing will arrive
//! b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
//! a.destroy()?;
//! while cq.poll_one()?.is_some() {}
//! assert_eq!(pool.available(), 15); // the buffer of `a` is back
//!
//! let mut b = b.to_error()?;
//! let mut returned = Vec::new();
//! b.drain(&mut cq, |found| match found {
//!     Drained::Entry(buf) => returned.push(buf),
//!     Drained::Other(_) => {} // a completion of another queue pair
//! })?;
//! assert_eq!((returned.len(), pool.available()), (1, 15)); // the program has `b`'s
//! b.destroy()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(unsafe_code)] // owns the C object

// First, because rustdoc shows methods in the order of the modules that define them.
pub(crate) mod create;

pub(crate) mod modify;

mod post;

mod complete;

mod drain;
mod drain_unchecked;

pub(crate) mod query;

// The rest.
mod allows;
mod any;
pub(crate) mod attr;
#[cfg(feature = "tokio")]
mod awaited;
pub(crate) mod c_attr;
mod counters;
mod cq_room;
mod defer_destroy;
mod depth;
mod foreign;
mod limit;
mod multicast;
#[cfg(all(test, feature = "loopback"))]
mod provider_tests;
mod srd;
#[cfg(all(test, feature = "loopback"))]
mod tests;
mod unchecked;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

pub use crate::in_flight::released::Released;
pub use crate::profile::{
    AnyThread, DefaultProfile, InLane, Initiator, InitiatorDepth, NoDepth, NoReads, NoRq,
    OrdinaryPosting, OwnRq, Posting, Profile, Reads, ReceiveSource, Selective, SharedRq, SignalAll,
    Signaling, Threads,
};
pub use crate::sys::attr::qp::{QpAccess, QpAttr, QpQkey};
#[doc(hidden)] // messages of the compiler name it
pub use crate::terms::threads::AllocLaneOnItsThread;
pub use crate::work::limits::{AtLeast, InlineBytes, Limit, Max};
pub use any::AnyQueuePair;
pub use attr::{
    ConnectedInit, ConnectedReinit, Drain, RcReturn, RcRtr, RcRts, RcRtsOptional, RcSqd,
    RtrOptional, UcResume, UcReturn, UcRtr, UcRts, UcRtsOptional, UcSqd, UdInit, UdReinit,
    UdReturn, UdRtr, UdRts, UdSqd,
};
pub use counters::QpCounters;
pub use depth::{CreatedWith, Depth, OnSrq, QpCreateFlags, WithFlags};
pub use drain::Drained;
pub use modify::Transition;

use crate::allows::{Allows, call};
use crate::completion::WcError;
use crate::completion::attachments::AtEnd;
use crate::completion::booking::CqShared;
use crate::counters::queue_counters::{QueueCounters, Quiet};
#[cfg(feature = "cm")]
use crate::device::pd::ProtectionDomain;
use crate::device::{AddressHandle, AhIndex, Context};
use crate::in_flight::InFlight;
use crate::memory::Entry;
use crate::memory::orphaned::reclaim_everything;
use crate::memory::window::Windows;
use crate::post::queue::{RecvQueue, SendInFlight, SendQueue};
use crate::srq::SrqCore;
use crate::sys::ah_table::AhTable;
use crate::sys::handle;
use crate::sys::types::ibv_qp;
use crate::terms::bounded::{Mtu, Psn, ReadDepth, ResponderDepth};
use crate::terms::error::{Error, Refused};
use crate::terms::state::State;
use crate::terms::transport::Transport;

/// A queue pair (`ibv_create_qp`).
///
/// The type parameters are the transport `T`, the state `S`, and the profile `P`, which holds
/// everything else that is fixed at creation. A transition with [`modify`](Self::modify) consumes
/// the queue pair and returns it with the new state.
///
/// **The state is what this program last requested, not what the device reports.** The device may
/// have moved the queue pair to the error state since. Posts then still succeed, and their
/// completions are flushed ([R8.15](crate::guide::rules#r8-15)).
///
/// Posting requires `&mut self`. The queue pair can move between threads, but only one thread at a
/// time can use it. Dropping it returns its buffers to their pools: [how a queue pair
/// ends](crate::qp#how-a-queue-pair-ends).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{qp::{Drained, QpAttr}, state::QpState};
/// # let proverbs::loopback::Pair { a, b, mut cq, pool, .. } = proverbs::loopback::pair()?;
/// let mut qp: QueuePair<Rc, Rts> = a; // that is `QueuePair<Rc, Rts, DefaultProfile>`
/// assert_eq!((qp.depth(), qp.send_room()), (Depth { send: 8, recv: 8 }, 8));
/// assert!(qp.granted_depth().send >= qp.depth().send);
/// qp.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// assert_eq!((qp.recvs_outstanding(), qp.recv_room(), qp.sends_outstanding()), (1, 7, 0));
/// let attr: QpAttr = qp.query()?;
/// assert_eq!((attr.state, attr.dest_qpn), (Some(QpState::Rts), b.qp_num()));
///
/// // An orderly end: get every buffer back, then destroy the queue pair.
/// let mut qp: QueuePair<Rc, state::Err> = qp.to_error()?;
/// let mut returned = Vec::new();
/// qp.drain(&mut cq, |found| {
///     if let Drained::Entry(buf) = found {
///         returned.push(buf);
///     }
/// })?;
/// assert_eq!(returned.len(), 1);
/// qp.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_qp_attr", "ibv_qp"))]
pub struct QueuePair<T: Transport, S: State, P: Profile = DefaultProfile> {
    pub(crate) core: Core<P>,
    _types: PhantomData<(T, S)>,
}

/// A queue pair without its types.
///
/// # Invariants
/// - `handle` is the queue pair of `send` and `recv`, alive until `close` succeeded.
/// - Both in-flight tables point to `counters`, which are attached to both completion queues.
/// - The keys of `send` belong to the address handles in `ah`.
/// - Objects that the device may use (the address handles, and the entries of `send`) are released
///   only after the queue pair was destroyed or reset. If the device refuses to destroy it, they
///   leak.
#[repr(C, align(64))] // what a send touches, first and on one cache line
pub(crate) struct Core<P: Profile> {
    pub send: SendQueue<P>,
    pub recv: RecvQueue<P>,
    /// The fields that no post touches, so that moving a queue pair between states is cheap.
    aside: Box<Aside>,
}

/// A queue pair except for its two queues.
pub(crate) struct Aside {
    pub counters: Arc<QueueCounters>,
    pub depth: Depth,
    pub granted: Depth,
    /// The port after a transition set it; 0 before.
    pub port: u8,
    /// The longest message of a port, once it was queried. It never changes.
    pub longest: Option<(u8, u32)>,
    /// Whether the device may have moved it to the port of an alternate path.
    pub may_migrate: bool,
    pub send_cq: Arc<CqShared>,
    pub recv_cq: Arc<CqShared>,
    pub srq: Option<Arc<SrqCore>>,
    /// The address handles that its sends may use.
    pub ah: AhTable,
    /// Whether its receives were drained, so that none of them is in the completion queue.
    pub is_drained: bool,
    /// The numbers that were offered to the peer, until a reset.
    pub offered: Option<Offered>,
    /// The multicast groups that it is attached to.
    pub groups: Vec<multicast::Attachment>,
    /// Its memory windows.
    pub windows: Windows,
    pub handle: handle::Qp,
}

/// The data of an unconnected queue pair that its peer receives.
#[derive(Clone, Copy)]
pub(crate) struct Offered {
    pub psn: Psn,
    pub mtu: Mtu,
    pub initiator: Option<ReadDepth>,
    pub responder: ResponderDepth,
}

impl<P: Profile> Deref for Core<P> {
    type Target = Aside;

    fn deref(&self) -> &Aside {
        &self.aside
    }
}

impl<P: Profile> DerefMut for Core<P> {
    fn deref_mut(&mut self) -> &mut Aside {
        &mut self.aside
    }
}

/// The counters of a new queue pair, or of one that was reset.
fn counters<P: Profile>(verb: &'static str, pd: u32) -> Result<Arc<QueueCounters>, Error> {
    let counters = if SendInFlight::<P>::MARKED {
        QueueCounters::without_ring(pd)
    } else {
        QueueCounters::new(pd)
    };
    let counters =
        counters.ok_or_else(|| Error::os(verb, libc::ENOSPC, "too many queues exist"))?;
    if P::Entry::MAY_WAIT {
        counters.set_may_wait();
    }
    Ok(counters)
}

// SAFETY: the queue pair is owned, the in-flight tables point to counters that are owned too, and
// entries are Send. The counters shared with completion queues on other threads are atomics. A
// queue pair of a lane is not `Send`, because `InLane` is not.
unsafe impl<P: Profile> Send for Core<P>
where
    P::Entry: Send,
    P::Threads: Send,
{
}

// No call leaves a queue half changed if the program's code panics in it: an iterator of a list, or
// the `Drop` of a buffer's context. (The in-flight table is updated first, and such code runs
// last.)
impl<P: Profile> UnwindSafe for Core<P> {}
impl<P: Profile> RefUnwindSafe for Core<P> {}

impl<P: Profile> Core<P> {
    /// Destroys the queue pair. Only then does it release what the device may have used.
    fn close(&mut self) -> Result<Vec<P::Entry>, i32> {
        if self.handle.is_closed() {
            return Ok(Vec::new());
        }
        if !self.end_dependents() {
            return Err(libc::EBUSY);
        }
        self.handle.close()?;
        let mut quiet = Quiet::default();
        let receives = self.recv.in_flight.outstanding() + self.recv.in_flight.stale_credits();
        let at_end = self.send.at_last(receives);
        self.note_lists(&self.counters);
        self.counters.end(self.posted_as_wr_ids());
        let entries = self.send.release_all();
        at_end.tell(&self.counters, &self.send_cq, &self.recv_cq, &mut quiet);
        self.aside.ah.end(&mut self.send.own);
        reclaim_everything(quiet);
        Ok(entries)
    }

    /// Ends the objects that cannot outlive the queue pair. Returns false if the device kept some
    /// of them.
    fn end_dependents(&mut self) -> bool {
        self.detach_all();
        self.windows.end();
        self.windows.all.is_empty()
    }

    pub fn context(&self) -> Context {
        Context { handle: self.handle.parents().pd.parents().context.clone() }
    }

    /// The C object.
    pub fn qp(&self) -> *mut ibv_qp {
        self.send.object
    }

    /// The numbers of posted sends and receives whose entry is the wr_id. The counters use them to
    /// count their completions.
    fn posted_as_wr_ids(&self) -> [u32; 2] {
        [self.send.posted_as_wr_ids(), self.recv.in_flight.posted()]
    }

    /// Records in the old counters whether safe code leaked a list.
    fn note_lists(&self, counters: &QueueCounters) {
        if self.send.in_flight.has_lists() || self.recv.in_flight.has_lists() {
            counters.note_lists();
        }
    }

    /// The outstanding work of a queue pair that was destroyed or reset.
    fn at_end(&self) -> AtEnd {
        self.send.at_end(self.recv.in_flight.outstanding())
    }
}

impl<P: Profile> Drop for Core<P> {
    fn drop(&mut self) {
        // (Twice, because dropping a handle whose destruction failed tries again.)
        match self.end().or_else(|_| self.close()) {
            Ok(entries) => drop(entries),
            Err(_) => {
                // The device still has it, so everything that it may use must stay. It is not tried
                // again, because nothing would learn of its end. (The handle keeps the domain and
                // the completion queues.)
                std::mem::forget(self.handle.take());
                std::mem::forget(std::mem::take(&mut self.ah));
                std::mem::forget(self.srq.clone());
                std::mem::forget(self.counters.clone());
            }
        }
    }
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    pub(crate) fn from_core(core: Core<P>) -> Self {
        QueuePair { core, _types: PhantomData }
    }

    pub(crate) fn context(&self) -> Context {
        self.core.context()
    }

    /// The queue pair number.
    pub fn qp_num(&self) -> u32 {
        // SAFETY: the core keeps the queue pair alive.
        unsafe { (*self.core.qp()).qp_num }
    }

    /// The requested depths, which the crate enforces.
    pub fn depth(&self) -> Depth {
        self.core.depth
    }

    /// The depths that the device granted, which may be larger.
    #[doc(alias = "IBV_QP_CAP")]
    pub fn granted_depth(&self) -> Depth {
        self.core.granted
    }

    /// The maximum length of an inline send in bytes: `max_inline` of the profile.
    pub fn max_inline(&self) -> u32 {
        P::MaxInline::VALUE
    }

    /// Checks that it was created on `pd`.
    #[cfg(feature = "cm")]
    pub(crate) fn check_pd<L: Threads>(&self, pd: &ProtectionDomain<L>) -> Result<(), Error> {
        let what = "the queue pair and the protection domain";
        Error::unless_one_pd("rdma_create_qp", what, self.core.counters.pd == pd.id())
    }

    /// Whether its receives come from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        self.core.srq.is_some()
    }

    /// The number of sends that can be posted now.
    pub fn send_room(&mut self) -> usize {
        self.core.send.in_flight.room() as usize
    }

    /// The number of receives that can be posted now.
    pub fn recv_room(&mut self) -> usize {
        self.core.recv.in_flight.room() as usize
    }

    /// The number of posted sends that are not known to be complete.
    pub fn sends_outstanding(&self) -> usize {
        self.core.send.in_flight.outstanding() as usize
    }

    /// The number of posted receives that are not known to be complete.
    pub fn recvs_outstanding(&self) -> usize {
        self.core.recv.in_flight.outstanding() as usize
    }

    /// Destroys the queue pair (`ibv_destroy_qp`). Buffers that are still posted return to their
    /// pools automatically: [how a queue pair ends](crate::qp#how-a-queue-pair-ends).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// If no work is outstanding, its reserved entries in the completion queue become free at once.
    /// Otherwise they become free when the completion queue has been polled empty.
    ///
    /// # Errors
    /// The queue pair, with [`Os`](crate::ErrorKind::Os) and the errno: EBUSY if an object that
    /// this crate does not manage is attached to it, or if the device failed to deallocate one of
    /// its memory windows. The queue pair has then left its multicast groups, and its other windows
    /// are gone: they have no keys and cannot be posted any more.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        let ended = self.core.end();
        let windows = std::mem::take(&mut self.core.windows.ended);
        // (Dropping windows and entries may run the program's code, which may panic. By then
        // everything is consistent.)
        match ended {
            Ok(entries) => {
                drop(self);
                drop((windows, entries));
                Ok(())
            }
            Err(errno) => {
                let refused = Refused::new(self, Error::os("ibv_destroy_qp", errno, ""));
                drop(windows);
                Err(refused)
            }
        }
    }
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Adds an address handle, and returns its index for [`Destination`](crate::wr::Destination).
    /// The handle and the queue pair must belong to the same protection domain
    /// ([R5.2](crate::guide::rules#r5-2)).
    ///
    /// [`AddressHandle`] has an example that also removes one.
    ///
    /// # Errors
    /// The address handle, with [`PdMismatch`](crate::ErrorKind::PdMismatch) if it belongs to
    /// another domain ([R5.2](crate::guide::rules#r5-2)), or [`Os`](crate::ErrorKind::Os) with
    /// ENOSPC after 2^32 indexes.
    pub fn add_address_handle(
        &mut self,
        ah: AddressHandle,
    ) -> Result<AhIndex, Refused<AddressHandle>>
    where
        Self: Allows<call::AddAddressHandle>,
    {
        const VERB: &str = "ibv_post_send";
        let (pd, what) = (ah.pd, "the address handle and the queue pair");
        or_refused!(ah, Error::unless_one_pd(VERB, what, pd == self.core.counters.pd));
        let Core { send, aside, .. } = &mut self.core;
        aside.ah.add(&mut send.own, ah.handle).map_err(|handle| {
            let error = Error::os(VERB, libc::ENOSPC, "all address handle indexes are used");
            Refused::new(AddressHandle { handle, pd }, error)
        })
    }

    /// Removes an address handle, so that later posts cannot use it. It is destroyed when every
    /// earlier send has completed ([R5.3](crate::guide::rules#r5-3)). SRD completes sends in any
    /// order, so there it is destroyed when no send is outstanding
    /// ([R27.3](crate::guide::rules#r27-3)); the same is true on UD if the
    /// [provider](crate::Context::provider) is efa or unknown. Returns whether the index was in
    /// use.
    ///
    /// [`AddressHandle`] has an example.
    pub fn remove_address_handle(&mut self, index: AhIndex) -> bool {
        let posted = self.core.send.in_flight.posted();
        let Core { send, aside, .. } = &mut self.core;
        let known = aside.ah.remove(&mut send.own, index, posted);
        self.reap_address_handles();
        known
    }

    /// Destroys the removed address handles that no outstanding send can use any more. Returns how
    /// many are left. (`remove_address_handle` does this too.)
    ///
    /// [`AddressHandle`] has an example.
    pub fn reap_address_handles(&mut self) -> usize {
        let in_flight = &self.core.send.in_flight;
        // The number identifies them if sends complete in order.
        let in_order = T::ORDERED && self.context().provider().completes_in_order();
        if in_flight.outstanding() != 0 && !in_order {
            return self.core.ah.removed();
        }
        let completed = in_flight.completed();
        self.core.ah.reap(completed)
    }
}

/// A completion of a selectively signaled send queue. Returned by [`QueuePair::complete`]
/// ([R10.7](crate::guide::rules#r10-7)).
pub struct Completed<'q, E: Entry> {
    /// Success, or why the completed work request failed.
    pub status: Result<(), WcError>,
    /// The entries of that work request and of all earlier ones, in posting order.
    pub released: Released<'q, E>,
}

impl_debug!([T: Transport, S: State, P: Profile] QueuePair<T, S, P>, |it|
    "QueuePair({} {:#08x}, {})", T::NAME, it.qp_num(), S::NAME);

impl_debug!([E: Entry] Completed<'_, E>, |Completed { status, released }|
    "Completed {{ status: {status:?}, released: {released:?} }}");
