//! Selects the queue that a poll asks: the device's own, or a placeholder without completions.
//!
//! A poll looks at what it got anyway, so the hot path needs no check of its own: code that has
//! work for the poller puts a placeholder in the place of the queue, whose answer is no device's,
//! and the next poll takes the cold path, even on a completion queue that is never empty. A branch
//! in its place costs 2 instructions a poll.
//!
//! # Why no reason is lost
//!
//! The pointer itself encodes the reasons: there is one placeholder for each set of them. So there
//! is one atomic, every change is one read-modify-write of it, and all threads agree on their
//! order. A reason given before the poller takes it is taken. A reason given after that stays in
//! the pointer, and the poll after that finds it. No store puts an old value back that could hide a
//! reason.
//!
//! What was written before a reason was given is visible to the thread that takes it: every change
//! releases, and `take` acquires from the change before it, which is the giver's or continues the
//! giver's release sequence.
//!
//! The poll itself reads without ordering. On the thread that gave the reason it reads the
//! placeholder at once, on others as soon as the store arrives. Whatever it then asks, queue or
//! placeholder, lives as long as the poller.

#![allow(unsafe_code)] // C objects of our own, and their function

use std::ffi::c_int;

use crate::sync::{AtomicPtr, Ordering};
use crate::sys::types::{ibv_context, ibv_cq, ibv_wc, zeroed};

/// Why the cold path must run before the device's queue is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Completions of an earlier poll are left, or the poller wants each poll to take the cold
    /// path. Given and taken by the poller alone.
    Held = 1,
    /// A queue that completes here is gone. Given by any thread.
    Dead = 2,
}

/// Queues that have no completions: one for each set of reasons that is not empty.
struct Placeholders {
    cqs: [ibv_cq; 3],
    context: ibv_context,
}

// SAFETY: nothing writes to the placeholders.
unsafe impl Sync for Placeholders {}

static PLACEHOLDERS: Placeholders = Placeholders {
    cqs: [const { ibv_cq { context: (&raw const PLACEHOLDERS.context).cast_mut(), ..zeroed() } };
        3],
    context: {
        let mut context = zeroed::<ibv_context>();
        context.ops.poll_cq = Some(nothing);
        context
    },
};

/// The result of a poll of a placeholder, which no device returns as an error: those are -1 or a
/// negative errno.
///
/// As it is negative, 0 says that the device's queue was asked and is empty, and nothing else is
/// looked at (4 instructions a poll that finds nothing). A device that answered so would be asked
/// once more, by the cold path, and then believed.
pub(super) const PLACEHOLDER: c_int = c_int::MIN;

/// The poll function of a placeholder: the poller takes its cold path. No user code runs in here.
unsafe extern "C" fn nothing(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
    PLACEHOLDER
}

/// # Invariants
/// `polled` is `queue`, or the placeholder at `reasons - 1`.
pub(crate) struct PolledQueue {
    /// The queue that a poll asks, which loads it without ordering.
    pub(super) polled: AtomicPtr<ibv_cq>,
    queue: *mut ibv_cq,
}

impl PolledQueue {
    pub(crate) fn new(queue: *mut ibv_cq) -> Self {
        PolledQueue { polled: AtomicPtr::new(queue), queue }
    }

    /// The device's queue, even while a placeholder takes its place.
    pub(crate) fn queue(&self) -> *mut ibv_cq {
        self.queue
    }

    /// Test only: whether a placeholder takes the queue's place, as far as this thread knows.
    #[cfg(test)]
    pub(crate) fn is_on(&self) -> bool {
        self.polled.load(Ordering::Relaxed) != self.queue
    }

    /// Makes polls find the placeholder until the reason is taken.
    pub(crate) fn give(&self, reason: Reason) {
        self.change(|reasons| reasons | reason as usize);
    }

    /// Takes a reason; returns whether it was given.
    pub(crate) fn take(&self, reason: Reason) -> bool {
        self.change(|reasons| reasons & !(reason as usize)) & reason as usize != 0
    }

    /// Changes the reasons in one step. Returns the previous ones.
    #[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
    pub(super) fn change(&self, to: impl Fn(usize) -> usize) -> usize {
        let placeholders = &PLACEHOLDERS.cqs;
        let reasons = |polled: *mut ibv_cq| {
            placeholders.iter().position(|at| std::ptr::eq(at, polled)).map_or(0, |at| at + 1)
        };
        let asked = |polled: *mut ibv_cq| match to(reasons(polled)) {
            0 => Some(self.queue),
            set => Some((&raw const placeholders[set - 1]).cast_mut()),
        };
        match self.polled.fetch_update(Ordering::AcqRel, Ordering::Relaxed, asked) {
            Ok(before) | Err(before) => reasons(before),
        }
    }
}
