//! Shared receive queues.

#![allow(unsafe_code)] // creates and posts

pub(crate) mod create;
pub(crate) mod dependents;
mod post;
#[cfg(all(test, feature = "loopback"))]
mod tests;
mod unchecked;

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

pub use create::FeedsSrq;
use dependents::Dependents;

use crate::completion::booking::CqShared;
use crate::completion::deferred_destroy::Over;
use crate::counters::queue_counters::{QueueCounters, Quiet};
use crate::device::{Context, DeviceCap, SrqId};
use crate::in_flight::InFlight;
use crate::memory::orphaned::{count_posted, reclaim_everything};
use crate::memory::window::StaleKeys;
use crate::memory::{Buf, Entry};
use crate::post::queue::SharedQueue;
use crate::rules::SharesReceives;
use crate::sys::handle;
use crate::sys::types::{ibv_srq, ibv_srq_attr, ibv_srq_attr_mask, zeroed};
use crate::terms::bounded::SrqNum;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::{AnyThread, Threads};
use crate::work::limits::{Limit, Max};

/// A shared receive queue (`ibv_create_srq`) for queue pairs of transport `T` (RC, UD or XRC;
/// [R7.3](crate::guide::rules#r7-3)), with entries of type `E` and at most `M` scatter/gather
/// elements in a receive.
///
/// Its buffers come from one pool or arena, whose headers limit the number of outstanding receives.
/// Each completion queue of its queue pairs reserves room for all of them, once
/// ([R9.9](crate::guide::rules#r9-9)). Receives that are posted here belong to the queue, not to a
/// queue pair, and are not flushed when one ends ([R7.7](crate::guide::rules#r7-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::SrqId;
/// use proverbs::srq::SrqAttr;
/// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
/// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
/// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// srq.arm_limit(1)?; // an event when no receive is left
/// let attr: SrqAttr = srq.query()?;
/// assert!(attr.max_wr >= 16 && attr.srq_limit == 1);
/// let id: SrqId = srq.id(); // the id in the event
/// srq.destroy()?; // the receive is orphaned: `Pool::reclaim` returns its buffer
/// # let _ = id;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_srq_type", "ibv_srq"))]
#[repr(C)] // the fields that posts access come first
pub struct SharedReceiveQueue<
    T: SharesReceives,
    E: Entry = Buf,
    M: Limit = Max<1>,
    L: Threads = AnyThread,
> {
    queue: SharedQueue<E, M>,
    core: Arc<SrqCore>,
    _pool: Box<dyn Any>,
    _types: PhantomData<(T, L, *mut ())>,
}

// SAFETY: the queue takes and returns entries, which are Send. `_pool`, the source of the buffers,
// has contexts of the same type as the entries (`FeedsSrq`, sealed for each), so it may be dropped
// on another thread as they may. Its other pointers refer to what it owns, or are only compared. A
// queue of a lane is not `Send`, because `InLane` is not.
unsafe impl<T, E, M, L> Send for SharedReceiveQueue<T, E, M, L>
where
    T: SharesReceives,
    E: Entry + Send,
    M: Limit,
    L: Threads + Send,
{
}

/// # Invariants
/// `buffers` is the number of the pool's buffers.
pub(crate) struct SrqCore {
    handle: handle::Srq,
    pub counters: Arc<QueueCounters>,
    /// The keys of windows that a completion of its receives may report.
    pub stale_keys: Arc<StaleKeys>,
    /// The address of the pool's first header.
    slots: usize,
    pub buffers: u32,
    pub pd: u32,
    id: SrqId,
    pub dependents: Dependents,
    /// For XRC: the number by which initiators name it, and the completion queue of its receives.
    /// They follow the handle, so that the completion queue is dropped last.
    pub number: SrqNum,
    _cq: Option<Arc<CqShared>>,
}

impl SrqCore {
    pub fn as_ptr(&self) -> *mut ibv_srq {
        self.handle.as_ptr()
    }

    /// The number of its receives that the device owns or that are in unprocessed completions. It
    /// stops counting at `most`.
    fn outstanding(&self, most: usize) -> usize {
        count_posted(self.slots, &self.counters, most)
    }

    /// Whether destroying one of its queue pairs may lose receives: some are outstanding, and the
    /// shared receive queue itself is not being destroyed.
    pub fn may_lose_receives(&self) -> bool {
        !self.dependents.is_over() && self.outstanding(1) != 0
    }

    fn close(&mut self) -> Result<(), i32> {
        if self.handle.is_closed() {
            return Ok(());
        }
        self.handle.close()?;
        let mut quiet = Quiet::default();
        self.dependents.end(&self.counters, &mut quiet);
        reclaim_everything(quiet);
        Ok(())
    }
}

impl Drop for SrqCore {
    fn drop(&mut self) {
        // (Twice, because a dropped handle that was rejected once is tried again too.)
        if self.close().or_else(|_| self.close()).is_err() {
            // The device still owns it, and may fill its buffers. They name these counters, which
            // must not be reused: counters at the same address would take the buffers back.
            std::mem::forget((self.handle.take(), self.counters.clone()));
        }
    }
}

/// The attributes of a shared receive queue (`ibv_query_srq`): [`SharedReceiveQueue::query`].
#[doc(alias("ibv_srq_attr_mask", "ibv_srq_attr"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SrqAttr {
    /// The maximum number of receives that it holds, as granted by the device.
    pub max_wr: u32,
    /// The scatter/gather elements of a receive, as granted by the device.
    pub max_sge: u32,
    /// The armed limit; 0 if none is armed, or if it fired.
    pub srq_limit: u32,
}

impl<T: SharesReceives, E: Entry, M: Limit, L: Threads> SharedReceiveQueue<T, E, M, L> {
    /// The id in events of this queue (ibv_get_async_event(3)).
    pub fn id(&self) -> SrqId {
        self.core.id
    }

    pub(crate) fn core(&self) -> &Arc<SrqCore> {
        &self.core
    }

    /// The number of posted receives whose completion was not processed or dropped yet. Each call
    /// counts them, in time proportional to the pool's buffers.
    ///
    /// It is 0 if the entry is [`Raw`](crate::memory::Raw), because the program counts them then.
    ///
    /// Receives with an unknown outcome count too. So a device that keeps a receive of a destroyed
    /// queue pair is visible here ([how a queue pair ends](crate::qp#how-a-queue-pair-ends)). The
    /// buffer returns when the shared receive queue is destroyed.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
    /// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?;
    /// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// assert_eq!((srq.recvs_outstanding(), pool.available()), (1, 15));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recvs_outstanding(&self) -> usize {
        self.core.outstanding(usize::MAX)
    }

    /// The attributes of the queue (`ibv_query_srq`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno.
    #[doc(alias = "ibv_query_srq")]
    pub fn query(&self) -> Result<SrqAttr, Error> {
        // SAFETY: the queue is alive.
        let attr = unsafe { (self.core.handle.control().query_srq)(self.core.as_ptr()) };
        let ibv_srq_attr { max_wr, max_sge, srq_limit, .. } =
            attr.map_err(|errno| Error::os("ibv_query_srq", errno, ""))?;
        Ok(SrqAttr { max_wr, max_sge, srq_limit })
    }

    /// Arms the limit (`ibv_modify_srq`). One [`SrqEvent::LimitReached`](crate::device::SrqEvent)
    /// is raised when fewer than `limit` receives are left; 0 disarms the limit. After the event,
    /// arm the limit again ([R7.6](crate::guide::rules#r7-6)). Post receives first, then arm:
    /// Soft-RoCE and the loopback device compare only when a message uses a receive, so a queue
    /// that is empty when the limit is armed never raises the event.
    /// when the limit is armed never raises the event.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno; EINVAL if `limit` exceeds the size of the
    /// queue.
    #[doc(alias("ibv_modify_srq", "IBV_SRQ_LIMIT"))]
    pub fn arm_limit(&mut self, limit: u32) -> Result<(), Error> {
        let attr = ibv_srq_attr { srq_limit: limit, ..zeroed() };
        let asked = || format!("srq_limit {limit}");
        self.modify(attr, ibv_srq_attr_mask::IBV_SRQ_LIMIT.0, asked)
    }

    /// Resizes the queue to hold at least `max_wr` receives (`ibv_modify_srq`), on devices that
    /// support it (`SRQ_RESIZE`). Use it to hold fewer receives than the pool has buffers, and
    /// later to grow the queue again. Posts beyond the size are rejected, and the errors contain
    /// the buffers. The reserved entries of completion queues do not change. A queue whose entry is
    /// [`Raw`](crate::memory::Raw) can only grow, because all its receives may be posted.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::post::PostErrorKind;
    /// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
    /// let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool)?; // 16 buffers, so 16 receives
    /// let mut recv = || pool.take().map(wr::Recv::new).ok_or("no buffer");
    /// srq.resize(2)?;
    /// post_srq_recv!(srq, [recv()?, recv()?])?;
    /// let error = srq.post_srq_recv(recv()?).unwrap_err();
    /// assert_eq!(error.into_rejected().count(), 1);
    /// assert!(srq.resize(1).is_err()); // two are posted
    /// srq.resize(3)?;
    /// srq.post_srq_recv(recv()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is unchanged unless stated.
    /// - [`Limit`](crate::ErrorKind::Limit): `max_wr` exceeds the device's `max_srq_wr`, or the
    ///   device granted less. In the second case the queue has the granted size.
    /// - [`Os`](crate::ErrorKind::Os) with the errno: EINVAL if more than `max_wr` receives are
    ///   outstanding, or the device does not support resizing. If `ibv_query_srq` failed, the queue
    ///   may have been resized.
    #[doc(alias("ibv_modify_srq", "IBV_SRQ_MAX_WR"))]
    pub fn resize(&mut self, max_wr: u32) -> Result<(), Error> {
        const VERB: &str = "ibv_modify_srq";
        let context = Context { handle: self.core.handle.parents().pd.parents().context.clone() };
        let limits = context.limits()?;
        Error::at_most(VERB, "max_wr", max_wr, limits.max_srq_wr.max(0) as u32)?;
        let can =
            DeviceCap::from_bits_retain(limits.device_cap_flags).contains(DeviceCap::SRQ_RESIZE);
        // If the program counts the receives, each of them may be outstanding.
        let posted =
            if E::OWNED { self.recvs_outstanding() } else { self.query()?.max_wr as usize };
        let asked = || match can {
            true => format!("max_wr {max_wr}, {posted} receives outstanding"),
            false => format!("max_wr {max_wr}, the device does not support SRQ_RESIZE"),
        };
        // The device is not called: Soft-RoCE before Linux 6.1.192 frees its queue when it rejects
        // this, and the next use of it crashes the kernel. Others grant more than was requested.
        if (max_wr as usize) < posted {
            return Err(Error::os(VERB, libc::EINVAL, asked()));
        }
        let attr = ibv_srq_attr { max_wr, ..zeroed() };
        self.modify(attr, ibv_srq_attr_mask::IBV_SRQ_MAX_WR.0, asked)?;
        Error::at_most(VERB, "max_wr", max_wr, self.query()?.max_wr)
    }

    fn modify(
        &mut self,
        mut attr: ibv_srq_attr,
        mask: u32,
        asked: impl Fn() -> String,
    ) -> Result<(), Error> {
        let modify = self.core.handle.control().modify_srq;
        // SAFETY: the queue is alive, and `attr` is a local.
        unsafe { modify(self.core.as_ptr(), &mut attr, mask as i32) }
            .map_err(|errno| Error::os("ibv_modify_srq", errno, asked()))
    }

    /// Destroys the queue (`ibv_destroy_srq`). Destroy the queue pairs that are attached to it
    /// first. Receives that are still posted are orphaned. Their buffers return to the pool when
    /// the completion queues of those queue pairs have been polled empty after this call, as
    /// [`Pool::reclaim`](crate::Pool::reclaim) describes.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno; EBUSY if queue pairs are attached to it. The
    /// error contains the queue.
    #[doc(alias = "ibv_destroy_srq")]
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_destroy_srq";
        self.note_lists();
        let mut over = Over::default();
        self.core.dependents.end_deferred(&mut over);
        over.give_back();
        const IN_USE: &str = "queue pairs are attached to it: destroy them first";
        let core = Arc::get_mut(&mut self.core).ok_or((libc::EBUSY, IN_USE));
        let closed = core.and_then(|core| core.close().map_err(|errno| (errno, "")));
        closed.map_err(|(errno, why)| Refused::new(self, Error::os(VERB, errno, why)))
    }

    /// Records in the counters, when they may end, whether safe code leaked a list.
    fn note_lists(&self) {
        if self.queue.in_flight.has_lists() {
            self.core.counters.note_lists();
        }
    }
}

impl<T: SharesReceives, E: Entry, M: Limit, L: Threads> Drop for SharedReceiveQueue<T, E, M, L> {
    fn drop(&mut self) {
        self.note_lists();
        let mut over = Over::default();
        self.core.dependents.close(&mut over);
        over.give_back();
    }
}

impl_debug!([T: SharesReceives, E: Entry, M: Limit, L: Threads] SharedReceiveQueue<T, E, M, L>,
    |it| "SharedReceiveQueue({}, {} buffers)", T::NAME, it.core.buffers);
