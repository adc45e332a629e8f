//! Counts the owners that can still return completions of a queue (the queue itself, and its
//! completion queues), and determines the last of them, which returns the orphaned buffers.
//!
//! A queue pair or a shared receive queue ends on one thread. Each of its completion queues is
//! polled on another, and may end on a third. The orphaned buffers are returned once, after the
//! last of these.
//!
//! # Why exactly one owner is the last
//!
//! It is a reference count, held by the queue itself and by each completion queue that it is
//! attached to. Each of them releases its reference once, with one read-modify-write. These are
//! totally ordered: only the last one brings the count to zero, and reads this. Only the queue adds
//! references, before it releases its own, so the count does not reach zero earlier.
//!
//! The writes of each owner before it released its reference are visible to the last one: all of
//! them release, and the last one acquires from those before it, which form one release sequence.

// Model: sys/src/counters/loom_tests/pending.rs

use crate::sync::{AtomicU32, Ordering};

pub struct Pending(AtomicU32);

impl Pending {
    /// The count of a new queue, which is not attached to a completion queue.
    #[allow(clippy::new_without_default)] // the count begins at one
    pub fn new() -> Self {
        Pending(AtomicU32::new(1))
    }

    /// Adds a completion queue that the queue is attached to.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases one reference: the queue ended, or one of its completion queues cannot return its
    /// completions any more. Returns whether that was the last reference.
    #[must_use = "the last one returns the orphaned buffers"]
    pub fn end_one(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether all references were released.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
