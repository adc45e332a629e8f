//! The counters of a queue pair, for monitoring.

use super::QueuePair;
use crate::in_flight::InFlight;
use crate::memory::Entry;
use crate::post::queue::SendInFlight;
use crate::profile::Profile;
pub use crate::terms::counters::QpCounters;
use crate::terms::state::State;
use crate::terms::transport::Transport;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// The counters of the queue pair, for monitoring. Other threads can read them, even after the
    /// queue pair has ended.
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
    pub fn counters(&self) -> QpCounters {
        let is_counted = P::COUNTED && P::Entry::OWNED;
        let sends = P::Entry::OWNED && (SendInFlight::<P>::MARKED || P::COUNTED);
        let receives = P::Entry::OWNED && !self.has_srq();
        let counters = self.core.counters.clone();
        QpCounters::new(counters, self.qp_num(), is_counted, [sends, receives])
    }
}
