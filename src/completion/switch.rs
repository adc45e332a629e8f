//! Selects the queue that a poll asks: the device's own, or a stand-in without completions.
//!
//! A poll looks at what it got anyway, so the hot path needs no check of its own: code that has
//! work for the poller puts a stand-in in the place of the queue, whose answer is no device's, and
//! the next poll takes the cold path, even on a completion queue that is never empty.
//!
//! # Why no reason is lost
//!
//! The pointer itself encodes the reasons: there is one stand-in for each set of them. So there is
//! one atomic, every change is one read-modify-write of it, and all threads agree on their order. A
//! reason given before the poller takes it is taken. A reason given after that stays in the
//! pointer, and the poll after that finds it. No store puts an old value back that could hide a
//! reason.
//!
//! What was written before a reason was given is visible to the thread that takes it: every change
//! releases, and `take` acquires from the change before it, which is the giver's or continues the
//! giver's release sequence.
//!
//! The poll itself reads without ordering. On the thread that gave the reason it reads the stand-in
//! at once, on others as soon as the store arrives. Whatever it then asks, queue or stand-in, lives
//! as long as the poller.

use crate::sync::{AtomicPtr, Ordering};

/// Why the cold path must run before the device's queue is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Completions of an earlier poll are left, or the poller wants each poll to take the cold
    /// path. Given and taken by the poller alone.
    Held = 1,
    /// A queue that completes here is gone. Given by any thread.
    Dead = 2,
}

/// The number of non-empty sets of reasons.
pub(crate) const SETS: usize = 3;

/// # Invariants
/// `polled` is `queue`, or the stand-in at `reasons - 1`.
pub(crate) struct Switch<Q: 'static> {
    /// The queue that a poll asks, which loads it without ordering.
    pub(super) polled: AtomicPtr<Q>,
    queue: *mut Q,
    stand_ins: &'static [Q; SETS],
}

impl<Q> Switch<Q> {
    pub(crate) fn new(queue: *mut Q, stand_ins: &'static [Q; SETS]) -> Self {
        Switch { polled: AtomicPtr::new(queue), queue, stand_ins }
    }

    /// The device's queue, even while a stand-in takes its place.
    pub(crate) fn queue(&self) -> *mut Q {
        self.queue
    }

    /// Test only: whether a stand-in takes the queue's place, as far as this thread knows.
    #[cfg(test)]
    pub(crate) fn is_on(&self) -> bool {
        self.polled.load(Ordering::Relaxed) != self.queue
    }

    /// Makes polls find the stand-in until the reason is taken.
    pub(crate) fn give(&self, reason: Reason) {
        self.change(|reasons| reasons | reason as usize);
    }

    /// Takes a reason; returns whether it was given.
    pub(crate) fn take(&self, reason: Reason) -> bool {
        self.change(|reasons| reasons & !(reason as usize)) & reason as usize != 0
    }

    /// Changes the reasons in one step. Returns the previous ones.
    pub(super) fn change(&self, to: impl Fn(usize) -> usize) -> usize {
        let mut before = self.polled.load(Ordering::Relaxed);
        loop {
            let reasons = self.reasons(before);
            let after = self.asked(to(reasons));
            match self.polled.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return reasons,
                Err(now) => before = now,
            }
        }
    }

    /// The reasons for which `polled` is asked.
    fn reasons(&self, polled: *mut Q) -> usize {
        let stand_in = |at: &Q| std::ptr::eq(at, polled);
        self.stand_ins.iter().position(stand_in).map_or(0, |i| i + 1)
    }

    /// The queue that is asked for these reasons.
    fn asked(&self, reasons: usize) -> *mut Q {
        match reasons {
            0 => self.queue,
            set => (&raw const self.stand_ins[set - 1]).cast_mut(),
        }
    }
}
