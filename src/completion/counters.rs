//! The counts of a completion queue for an operator.

use std::sync::Arc;

use crate::completion::handle::CqHandle;
use crate::counters::budget::Budget;
use crate::counters::tally::{CqTally, STATUSES};
use crate::memory::Entry;
use crate::terms::threads::Threads;
use crate::terms::wc::WcStatus;

/// The counts of a completion queue that was created with
/// [`CqBuilder::counted`](crate::completion::CqBuilder::counted). Any thread can read them.
///
/// They do not keep the completion queue. After it ends they stay as they are. A completion is
/// counted when `ibv_poll_cq` returns it, whether or not the program reads it. Counts start at 0,
/// and never decrease. Each is read by itself, so two of them may be a few completions apart.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::CqCounters;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let mut cq: CompletionQueue = context.cq(64).counted().create()?;
/// let counters: CqCounters = cq.counters().ok_or("not counted")?;
///
/// let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
/// let depth = Depth { send: 8, recv: 8 };
/// let mut qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?.modify(init)?;
/// qp.post_recv(wr::Recv::empty())?;
/// let _qp = qp.to_error()?; // flushes the receive
/// while cq.poll_one()?.is_none() {}
///
/// let shown = std::thread::spawn(move || {
///     (counters.completions(), counters.failed(WcStatus::WrFlush), counters.unbooked())
/// });
/// let (completions, flushed, unbooked) = shown.join().map_err(|_| "panicked")?;
/// assert_eq!((completions, flushed, unbooked), (1, 1, cq.unbooked()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CqCounters {
    tally: Arc<CqTally>,
    budget: Arc<Budget>,
}

impl<E: Entry, L: Threads> CqHandle<E, L> {
    /// The counts of the completion queue for an operator, or `None` if it was created without
    /// [`counted`](crate::completion::CqBuilder::counted).
    pub fn counters(&self) -> Option<CqCounters> {
        let tally = self.inbox().tally()?.clone();
        Some(CqCounters { tally, budget: self.inbox().budget.clone() })
    }
}

impl CqCounters {
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

    /// The statuses of the completions that failed, with their counts, which are not 0.
    pub fn failures(&self) -> impl Iterator<Item = (WcStatus, u64)> + '_ {
        let all = (0..STATUSES as u32).map(WcStatus::from_c);
        all.map(|status| (status, self.failed(status))).filter(|&(_, count)| count != 0)
    }

    /// The number of entries that no queue has reserved, as for [`CqHandle::unbooked`]. With a
    /// [shared budget](crate::completion::CqBuilder::shared_budget) it is the room of all queues.
    pub fn unbooked(&self) -> u32 {
        self.budget.free()
    }
}

impl_debug!(CqCounters, |it| "CqCounters({} completions)", it.completions());
