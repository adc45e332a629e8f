//! When nothing of a queue can complete any more, and who is to see to what it left.
//!
//! A queue pair or a shared receive queue ends on one thread; each completion queue that it completes into is polled on
//! another, and may end on a third. What the queue left stranded is to be sent home after the last of these, once.
//!
//! # Why exactly one does
//!
//! One count has a part for the queue itself and one for each completion queue that it is attached to. Each of them
//! gives its part back in one read-modify-write, once. These are in one order: the last of them, and no other, brings
//! the count to nothing, and it is told so. A part is added only by the queue, before it gives back its own,
//! so the count does not come to nothing before.
//!
//! What each did before it gave its part back is visible to the last: all of them release, and it acquires from those
//! before it, which are one release sequence.

use crate::sync::{AtomicU32, Ordering};

pub(crate) struct Pending(AtomicU32);

impl Pending {
    /// Of a queue that is there, and attached to no completion queue.
    pub(crate) fn new() -> Self {
        Pending(AtomicU32::new(1))
    }

    /// The queue, which is there, is attached to one more completion queue.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The queue ended; or no completion of it can come by one completion queue any more. Whether that was the last.
    #[must_use = "the last one sees to what the queue left"]
    pub(crate) fn end_one(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether the last one was.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
