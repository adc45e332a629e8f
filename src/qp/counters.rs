//! The counts of a queue pair for an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::QueuePair;
use crate::completion::Direction;
use crate::counters::queue_counters::{QueueCounters, RECEIVE, SEND};
use crate::counters::tally::{READ, SENT};
use crate::in_flight::InFlight;
use crate::memory::Entry;
use crate::post::queue::SendInFlight;
use crate::profile::Profile;
use crate::terms::post_error::Refusal;
use crate::terms::state::State;
use crate::terms::transport::Transport;

/// The counts of a queue pair, from [`QueuePair::counters`]. Any thread can read them while another
/// posts and polls.
///
/// They do not keep the queue pair. After it ends they stay as they are. A reset starts new counts,
/// which another call of [`counters`](QueuePair::counters) returns. Counts start at 0, and never
/// decrease. Each is read by itself, so two of them may be a few work requests apart.
///
/// | counts | are available |
/// |---|---|
/// | refused posts | always |
/// | completions | always, for sends that are all signaled, and for the queue pair's own receive queue |
/// | posts, bytes, outstanding work, completions with selective signaling | if the profile has `counted: true` |
///
/// Shared receive queues, and queue pairs with [`Raw`](crate::memory::Raw) entries, have no counts.
/// A completion queue [counts](crate::completion::CqCounters) failures by status and received
/// bytes.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{completion::Direction, post::Refusal, qp::QpCounters};
/// profile! { Watched { counted: true } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
/// #     proverbs::loopback::pair_of::<Watched>()?;
/// # let region = pd.register::<RemoteWrite>(64)?;
/// # let at = region.remote().write();
/// let counters: QpCounters = a.counters();
/// for _ in 0..a.depth().send {
///     a.post_send(wr::RdmaWrite::inline(b"8 bytes!", at))?;
/// }
/// assert!(a.post_send(wr::RdmaWrite::inline(b"no room", at)).is_err());
///
/// let depth = a.depth().send.into();
/// assert_eq!(counters.posted(Direction::Send), Some(depth));
/// assert_eq!(counters.outstanding(Direction::Send), Some(depth));
/// assert_eq!(counters.sent_bytes(), Some(8 * depth));
/// assert_eq!(counters.refused(Direction::Send, Refusal::QueueFull), 1);
///
/// proverbs::loopback::poll(&mut cq, depth as usize)?;
/// assert_eq!(counters.completed(Direction::Send), Some(depth));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct QpCounters {
    counters: Arc<QueueCounters>,
    /// The completions when they were last read, because the counters have 32 bits.
    seen: [AtomicU64; 2],
    qp_num: u32,
    is_counted: bool,
    /// Whether the completions of each direction are counted.
    has_completions: [bool; 2],
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// The counts of the queue pair for an operator. They can be read on another thread, also after
    /// the queue pair ended.
    pub fn counters(&self) -> QpCounters {
        let counters = self.core.counters.clone();
        let seen = [SEND, RECEIVE].map(|d| u64::from(counters.completed_of_any(d)).into());
        let all_signaled = SendInFlight::<P>::MARKED;
        let has_completions = [all_signaled || P::COUNTED, !self.has_srq()];
        QpCounters {
            counters,
            seen,
            qp_num: self.qp_num(),
            is_counted: P::COUNTED && P::Entry::OWNED,
            has_completions: has_completions.map(|has| has && P::Entry::OWNED),
        }
    }
}

impl QpCounters {
    /// The number of the queue pair.
    pub fn qp_num(&self) -> u32 {
        self.qp_num
    }

    /// Work requests that the device accepted. If a list is rejected in part, only those before
    /// `bad_wr` count. A post whose outcome is
    /// [unknown](crate::post::PostErrorKind::OutcomeUnknown) does not count.
    pub fn posted(&self, direction: Direction) -> Option<u64> {
        let at = direction as usize;
        // A queue pair with a shared receive queue posts no receives.
        (self.is_counted && self.has_completions[at]).then(|| self.counters.tally(at).posted())
    }

    /// Work requests whose completion was polled, and then taken or dropped. A send of a queue pair
    /// with selective signaling counts when [`complete`](QueuePair::complete) releases it.
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

    /// Posted work requests that have not [`completed`](Self::completed). The queue has room for
    /// [`depth`](QueuePair::depth) less this number.
    pub fn outstanding(&self, direction: Direction) -> Option<u64> {
        let completed = self.completed(direction)?;
        self.posted(direction).map(|posted| posted.saturating_sub(completed))
    }

    /// Bytes of posted sends and RDMA WRITEs, inline or in buffers.
    pub fn sent_bytes(&self) -> Option<u64> {
        self.is_counted.then(|| self.counters.tally(SEND).bytes(SENT))
    }

    /// Bytes of posted RDMA READs, and 8 for each atomic.
    pub fn read_bytes(&self) -> Option<u64> {
        self.is_counted.then(|| self.counters.tally(SEND).bytes(READ))
    }

    /// Posts that were rejected for this group of reasons, and work requests that a list rejected.
    pub fn refused(&self, direction: Direction, why: Refusal) -> u64 {
        self.counters.tally(direction as usize).refused(why)
    }
}

impl Clone for QpCounters {
    fn clone(&self) -> Self {
        let seen = self.seen.each_ref().map(|seen| seen.load(Ordering::Relaxed).into());
        QpCounters { counters: self.counters.clone(), seen, ..*self }
    }
}

impl_debug!(QpCounters, |it| "QpCounters({:#08x})", it.qp_num);
