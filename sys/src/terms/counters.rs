//! The counts of queues as an operator reads them.

// No model: the atomics only widen a count of 32 bits, by a maximum.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::budget::Budget;
use crate::counters::queue_counters::{QueueCounters, SEND};
use crate::counters::tally::{CqTally, READ, SENT, STATUSES};
use crate::terms::post_error::Refusal;
use crate::terms::wc::{Direction, WcStatus};

/// The counts of a queue pair, from [`QueuePair::counters`], which has an example. Any thread can
/// read them while another posts and polls.
///
/// The counts do not keep the queue pair alive, and no longer change after it ends. A reset starts
/// new counts, which another call of [`counters`][`QueuePair::counters`] returns. Counts start at
/// 0, and never decrease. Each count is read separately, so two of them may be a few work requests
/// apart.
///
/// | counts | are available |
/// |---|---|
/// | refused posts | always |
/// | completions | always, for sends that are all signaled, and for the queue pair's own receive queue |
/// | posts, bytes, outstanding work, completions with selective signaling | if the profile has `counted: true` |
///
/// Shared receive queues, and queue pairs with [`Raw`] entries, have no counts. A completion queue
/// [counts](CqCounters) failures by status and received bytes.
///
/// [`QueuePair::counters`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html#method.counters
/// [`Raw`]: https://docs.rs/proverbs/latest/proverbs/memory/enum.Raw.html
pub struct QpCounters {
    counters: Arc<QueueCounters>,
    /// The completions when they were last read, because the counters have 32 bits.
    seen: [AtomicU64; 2],
    qp_num: u32,
    is_counted: bool,
    /// Whether the completions of each direction are counted.
    has_completions: [bool; 2],
}

impl QpCounters {
    /// Posts are counted if it `is_counted`, and completions of each direction as given.
    #[doc(hidden)]
    pub fn new(
        counters: Arc<QueueCounters>,
        qp_num: u32,
        is_counted: bool,
        has_completions: [bool; 2],
    ) -> Self {
        let seen = [0, 1].map(|at| u64::from(counters.completed_of_any(at)).into());
        QpCounters { counters, seen, qp_num, is_counted, has_completions }
    }

    /// The number of the queue pair.
    pub fn qp_num(&self) -> u32 {
        self.qp_num
    }

    /// Work requests that the device accepted. If a list is rejected in part, only those before
    /// `bad_wr` count. A post whose outcome is unknown ([R8.20]) does not count.
    ///
    /// [R8.20]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-20
    pub fn posted(&self, direction: Direction) -> Option<u64> {
        let at = direction as usize;
        // A queue pair with a shared receive queue posts no receives.
        (self.is_counted && self.has_completions[at]).then(|| self.counters.tally(at).posted.get())
    }

    /// Work requests whose completion was polled, and then taken or dropped. A send of a queue pair
    /// with selective signaling counts when `complete` releases it.
    ///
    /// Without `counted: true` this number is computed from a counter of 32 bits: read it at least
    /// once in 2^31 completions.
    pub fn completed(&self, direction: Direction) -> Option<u64> {
        let at = direction as usize;
        if !self.has_completions[at] {
            return None;
        }
        let seen = &self.seen[at];
        let posted = self.posted(direction);
        let near = posted.unwrap_or_else(|| seen.load(Ordering::Relaxed));
        let ahead = self.counters.completed_of_any(at).wrapping_sub(near as u32) as i32;
        // A drain may post one more send, which the program does not count.
        let now = near.saturating_add_signed(ahead.into()).min(posted.unwrap_or(u64::MAX));
        Some(now.max(seen.fetch_max(now, Ordering::Relaxed)))
    }

    /// Posted work requests that have not [`completed`](Self::completed). The queue's room is the
    /// queue pair's depth minus this number.
    pub fn outstanding(&self, direction: Direction) -> Option<u64> {
        let completed = self.completed(direction)?;
        self.posted(direction).map(|posted| posted.saturating_sub(completed))
    }

    /// Bytes of posted sends and RDMA WRITEs, inline or in buffers.
    pub fn sent_bytes(&self) -> Option<u64> {
        self.is_counted.then(|| self.counters.tally(SEND).bytes[SENT].get())
    }

    /// Bytes of posted RDMA READs, and 8 for each atomic.
    pub fn read_bytes(&self) -> Option<u64> {
        self.is_counted.then(|| self.counters.tally(SEND).bytes[READ].get())
    }

    /// Posts that were rejected for this group of reasons, and work requests that a list rejected.
    pub fn refused(&self, direction: Direction, why: Refusal) -> u64 {
        self.counters.tally(direction as usize).refused[why as usize].get()
    }
}

impl Clone for QpCounters {
    fn clone(&self) -> Self {
        let seen = self.seen.each_ref().map(|seen| seen.load(Ordering::Relaxed).into());
        QpCounters { counters: self.counters.clone(), seen, ..*self }
    }
}

impl_debug!(QpCounters, |it| "QpCounters({:#08x})", it.qp_num);

/// The counts of a completion queue that was created with [`CqBuilder::counted`], from
/// [`CqHandle::counters`], which has an example. Any thread can read them.
///
/// The counts do not keep the completion queue alive, and no longer change after it ends. A
/// completion is counted when `ibv_poll_cq` returns it, whether or not the program reads it. Counts
/// start at 0, and never decrease. Each count is read separately, so two of them may be a few
/// completions apart.
///
/// [`CqBuilder::counted`]:
/// https://docs.rs/proverbs/latest/proverbs/completion/struct.CqBuilder.html#method.counted
/// [`CqHandle::counters`]:
/// https://docs.rs/proverbs/latest/proverbs/completion/struct.CqHandle.html#method.counters
#[derive(Clone)]
pub struct CqCounters {
    tally: Arc<CqTally>,
    budget: Arc<Budget>,
}

impl CqCounters {
    #[doc(hidden)]
    pub fn new(tally: &Arc<CqTally>, budget: &Arc<Budget>) -> Self {
        CqCounters { tally: tally.clone(), budget: budget.clone() }
    }

    /// Polled completions, of all statuses.
    pub fn completions(&self) -> u64 {
        self.tally.completions.get()
    }

    /// Bytes of the receives that succeeded (`byte_len` of ibv_poll_cq(3)). RDMA WRITEs with
    /// immediate are included. On UD, each message counts the 40 bytes for its GRH.
    pub fn received_bytes(&self) -> u64 {
        self.tally.bytes.get()
    }

    /// Completions with this status. All statuses that the crate does not know are one count.
    pub fn failed(&self, status: WcStatus) -> u64 {
        self.tally.failed[CqTally::place(status.to_c())].get()
    }

    /// The statuses of the completions that failed, with their counts, which are not 0. The count
    /// of all unknown statuses is listed as `Unknown(0)`.
    pub fn failures(&self) -> impl Iterator<Item = (WcStatus, u64)> + '_ {
        let all = (0..STATUSES as u32).map(WcStatus::from_c);
        all.map(|status| (status, self.failed(status))).filter(|&(_, count)| count != 0)
    }

    /// The number of entries that no queue has reserved, as for `CqHandle::unbooked`. With a shared
    /// budget it is the room of all queues.
    pub fn unbooked(&self) -> u32 {
        self.budget.free()
    }
}

impl_debug!(CqCounters, |it| "CqCounters({} completions)", it.completions());

#[cfg(test)]
mod tests {
    use super::*;

    /// A completion counter has 32 bits. A handle adds the bits that it has seen, also a clone.
    #[test]
    fn a_clone_counts_beyond_32_bits() {
        let counters = QueueCounters::new(1).expect("an address of few bits");
        let one = QpCounters::new(counters, 7, false, [true; 2]);
        one.seen[SEND].store(1 << 32, Ordering::Relaxed);
        let two = one.clone();
        let both = [&one, &two].map(|it| it.completed(Direction::Send));
        assert_eq!((both, two.completed(Direction::Receive)), ([Some(1 << 32); 2], Some(0)));
    }

    #[test]
    fn unknown_statuses_have_one_count() {
        let tally = Arc::new(CqTally::default());
        let counters = CqCounters::new(&tally, &Arc::new(Budget::new(1)));
        for status in [STATUSES as u32, 77, u32::MAX] {
            tally.failed[CqTally::place(status)].add(1);
        }
        tally.failed[CqTally::place(WcStatus::RnrRetryExc.to_c())].add(2);
        assert_eq!(counters.failed(WcStatus::Unknown(1234)), 3);
        let all: Vec<_> = counters.failures().collect();
        assert_eq!(all, [(WcStatus::Unknown(0), 3), (WcStatus::RnrRetryExc, 2)]);
    }
}
