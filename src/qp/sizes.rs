//! The sizes of completion queues, computed from the depths of queue pairs.

use super::Depth;
use super::create::SENTINEL;
use crate::completion::builder::CqBuilder;
use crate::terms::threads::Threads;

impl<L: Threads, F, C> CqBuilder<'_, L, F, C> {
    /// Adds room for `count` queue pairs of this depth, whose sends and receives complete here:
    /// what [`create_qp`](crate::ProtectionDomain::create_qp) books for each, `depth.send + 1` and
    /// `depth.recv` entries ([R9.9](crate::guide::rules#r9-9)). Of queue pairs whose receives
    /// complete elsewhere, or come from a shared receive queue, `recv` is 0 here. Calls add up.
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
