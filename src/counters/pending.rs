//! Counts the owners that can still bring completions of a queue (the queue itself, and its
//! completion queues), and finds the last to go, which gives back what the
//! queue left.
//!
//! A queue pair or a shared receive queue ends on one thread. Each completion queue that it
//! completes into is polled on another, and may end on a third. What the queue left orphaned is
//! given back after the last of these, once.
//!
//! # Why exactly one of them does
//!
//! One count has a part for the queue itself and one for each completion queue that it is attached
//! to. Each of them gives its part back once, in one read-modify-write. These are in one order: the
//! last of them, and no other, brings the count to zero and learns it. Only the queue adds parts,
//! before it gives back its own, so the count does not reach zero before.
//!
//! Writes of each party before it gave its part back are visible to the last one: all of them
//! release, and the last acquires from those before it, which form one release sequence.

use crate::sync::{AtomicU32, Ordering};

pub(crate) struct Pending(AtomicU32);

impl Pending {
    /// The count of a new queue, attached to no completion queue.
    pub(crate) fn new() -> Self {
        Pending(AtomicU32::new(1))
    }

    /// Adds a completion queue that the queue is attached to.
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives one part back: the queue ended, or no completion of it can come by one of its
    /// completion queues any more. Returns whether that was the last part.
    #[must_use = "the last one sees to what the queue left"]
    pub(crate) fn end_one(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether all parts were given back.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
