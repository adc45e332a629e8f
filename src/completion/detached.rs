//! Completions of selectively signaled send queues that left their completion queue.

use std::sync::Arc;

use crate::completion::WcError;
use crate::counters::queue_counters::QueueCounters;

/// A completion of a selectively signaled send queue that no longer borrows its completion queue
/// ([`Completion::detach`](crate::Completion::detach)). Send it to the thread that has the queue
/// pair, and pass it to [`QueuePair::redeem`](crate::QueuePair::redeem) there.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::DetachedCompletion;
/// use std::{sync::mpsc, thread};
/// profile! { Stream { signaling: Selective } }
///
/// # let proverbs::loopback::Pair { a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair_of::<Stream>()?;
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let at = region.remote().write();
/// # let buf = pool.take().ok_or("no buffer")?;
/// let mut qp: QueuePair<Rc, Rts, Stream> = a;
/// let (to_poster, completions) = mpsc::channel::<DetachedCompletion>();
/// let poster = thread::spawn(move || {
///     qp.post_send(wr::RdmaWrite::new(buf, at)).map_err(|error| error.to_string())?;
///     let done = completions.recv().map_err(|_| "no poller")?;
///     let done = qp.redeem(done).map_err(|_| "of another queue pair")?;
///     done.status.map_err(|error| error.to_string())?;
///     Ok::<usize, String>(done.released.count())
/// });
/// let mut is_sent = false;
/// while !is_sent {
///     for completion in cq.poll()? {
///         let done = completion.detach().map_err(|_| "every send is selective")?;
///         to_poster.send(done)?;
///         is_sent = true;
///     }
/// }
/// assert_eq!(poster.join().map_err(|_| "panicked")??, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each value identifies one work request of one queue pair, and no other value identifies the same
/// work request. Another queue pair, even a later one with the same number, rejects the value, and
/// so does the same queue pair after a reset. A value never releases a later work request, even
/// after 2^32 of them.
///
/// Dropping it has the same effect as dropping the [`Completion`](crate::Completion): the entries
/// are released as soon as the queue pair needs room. After `mem::forget` they stay with the queue
/// pair until a later completion releases them.
#[must_use = "pass it to `redeem` of its queue pair"]
pub struct DetachedCompletion {
    // The counters identify the queue pair. They also own the tag of its wr_ids, so no other queue
    // pair gets that tag while this value exists.
    counters: Arc<QueueCounters>,
    number: u64,
    status: Result<(), WcError>,
    qp_num: u32,
}

impl DetachedCompletion {
    pub(super) fn new(
        (counters, number): (Arc<QueueCounters>, u64),
        status: Result<(), WcError>,
        qp_num: u32,
    ) -> Self {
        DetachedCompletion { counters, number, status, qp_num }
    }

    /// Success, or the reason for the failure ([R10.1](crate::guide::rules#r10-1)).
    ///
    /// # Errors
    /// [`WcError`] with the status of ibv_poll_cq(3).
    pub fn status(&self) -> Result<(), WcError> {
        self.status
    }

    /// The number of the queue pair. Use it to find the queue pair. Several queue pairs of one
    /// process may have the same number, on different devices or one after the other.
    pub fn qp_num(&self) -> u32 {
        self.qp_num
    }

    /// The number of the work request, if it was posted to the queue with these counters.
    pub(crate) fn number_at(&self, counters: &Arc<QueueCounters>) -> Option<u64> {
        Arc::ptr_eq(&self.counters, counters).then_some(self.number)
    }
}

impl Drop for DetachedCompletion {
    fn drop(&mut self) {
        self.counters.note_dropped(self.number);
    }
}

impl_debug!(DetachedCompletion, |it| "DetachedCompletion(QP {:#x}, {:?})", it.qp_num, it.status);
