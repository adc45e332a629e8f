//! Selects the queue that a poll reads: the device's own, or a placeholder without completions.
//!
//! A poll checks its result anyway, so the hot path needs no extra check. Code that has work for
//! the poller replaces the queue with a placeholder, which returns a value that no device returns.
//! The next poll then takes the cold path, even on a completion queue that is never empty. A branch
//! instead would cost 2 instructions a poll.
//!
//! # Why no reason is lost
//!
//! The pointer itself encodes the reasons: there is one placeholder for each set of reasons. So
//! there is one atomic, every change is one read-modify-write of it, and all threads agree on their
//! order. The poller takes every reason that was set before. A reason that is set later stays in
//! the pointer, and the following poll finds it. No store can restore an old value that hides a
//! reason.
//!
//! Writes before a reason is set are visible to the thread that takes it. Every change releases,
//! and `take` acquires from the previous change, which set the reason or continues its release
//! sequence.
//!
//! The poll itself loads without ordering. On the thread that set the reason it loads the
//! placeholder at once, on others as soon as the store arrives. The queue or placeholder that it
//! then polls lives as long as the poller.

// Model: src/completion/loom_tests/polled_queue.rs

#![allow(unsafe_code)] // our C objects, and their function

use std::ffi::c_int;

use crate::sync::{AtomicPtr, Ordering};
use crate::sys::types::{ibv_context, ibv_cq, ibv_wc, zeroed};

/// Why the cold path must run before the device's queue is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Completions of an earlier poll are left, or the poller wants each poll to take the cold
    /// path. Only the poller sets and takes it.
    Held = 1,
    /// A queue that completes here is gone. Any thread sets it.
    Dead = 2,
}

/// Queues that have no completions: one for each non-empty set of reasons.
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

/// The result of polling a placeholder. No device returns it as an error, because device errors are
/// -1 or a negative errno.
///
/// It is negative, so 0 means that the device's queue was polled and is empty, without a further
/// check (4 instructions a poll that finds nothing). If a device did return this value, the cold
/// path would poll it once more and use that result.
pub(super) const PLACEHOLDER: c_int = c_int::MIN;

/// The poll function of a placeholder. It makes the poller take its cold path. No user code runs in
/// here.
unsafe extern "C" fn nothing(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
    PLACEHOLDER
}

/// # Invariants
/// `polled` is `queue`, or the placeholder at `reasons - 1`.
pub(crate) struct PolledQueue {
    /// The queue that a poll reads. Polls load it without ordering.
    pub(super) polled: AtomicPtr<ibv_cq>,
    queue: *mut ibv_cq,
}

impl PolledQueue {
    pub(crate) fn new(queue: *mut ibv_cq) -> Self {
        PolledQueue { polled: AtomicPtr::new(queue), queue }
    }

    /// The device's queue, even while a placeholder is installed.
    pub(crate) fn queue(&self) -> *mut ibv_cq {
        self.queue
    }

    /// Test only: whether this thread sees a placeholder.
    #[cfg(test)]
    pub(crate) fn is_on(&self) -> bool {
        self.polled.load(Ordering::Relaxed) != self.queue
    }

    /// Makes polls find the placeholder until the reason is taken.
    pub(crate) fn give(&self, reason: Reason) {
        self.change(|reasons| reasons | reason as usize);
    }

    /// Takes a reason. Returns whether it was set.
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
