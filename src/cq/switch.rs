//! Which queue a poll asks: the device's own, or, while there is something to do first, a stand-in that is always empty.
//!
//! A poll that finds nothing takes the cold path anyway. So nothing is looked at on the hot path: whoever has something
//! for the poller puts a stand-in in the queue's place, and the next poll comes to the cold path by itself, on a
//! completion queue that is never empty, too.
//!
//! # Why no reason is lost
//!
//! The reasons are the pointer: there is one stand-in for each set of them. So there is one atomic, each change is one
//! read-modify-write of it, and they are in one order that all threads agree on. A reason that is given
//! before the poller takes it is taken; one that is given after stays in the pointer, and the poll after that finds it.
//! Nothing is put back that could cover one up.
//!
//! What was written before a reason was given is visible to who takes it: every change releases, and `take` acquires
//! from the one before it, which is that of the giver or continues its release sequence.
//!
//! The poll itself reads without an order. On the thread that gave the reason it reads the stand-in at once, on others as
//! soon as the store gets there; what it then asks, queue or stand-in, lives as long as the poller.

use crate::sync::{AtomicPtr, Ordering};

/// What there is to do before the device's queue is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Some completions are left of an earlier poll, or the poller wants each poll to take the cold path. Given and
    /// taken by the poller alone.
    Held = 1,
    /// A queue is gone that completes here. Given by any thread.
    Dead = 2,
}

/// As many sets of reasons as are not empty.
pub(crate) const SETS: usize = 3;

/// # Invariants
/// `polled` is `queue`, or the stand-in at `reasons - 1`.
pub(crate) struct Switch<Q: 'static> {
    polled: AtomicPtr<Q>,
    queue: *mut Q,
    stand_ins: &'static [Q; SETS],
}

impl<Q> Switch<Q> {
    pub(crate) fn new(queue: *mut Q, stand_ins: &'static [Q; SETS]) -> Self {
        Switch { polled: AtomicPtr::new(queue), queue, stand_ins }
    }

    /// What a poll asks.
    #[inline(always)]
    pub(crate) fn polled(&self) -> *mut Q {
        self.polled.load(Ordering::Relaxed)
    }

    /// The device's queue, whatever takes its place.
    pub(crate) fn queue(&self) -> *mut Q {
        self.queue
    }

    /// Whether a stand-in takes the queue's place, as far as this thread knows.
    pub(crate) fn is_on(&self) -> bool {
        self.polled() != self.queue
    }

    /// From now on polls find the stand-in, until the reason is taken.
    pub(crate) fn give(&self, reason: Reason) {
        self.change(|reasons| reasons | reason as usize);
    }

    /// Takes a reason; whether it was given.
    pub(crate) fn take(&self, reason: Reason) -> bool {
        self.change(|reasons| reasons & !(reason as usize)) & reason as usize != 0
    }

    /// Changes the reasons in one step. Gives those of before.
    fn change(&self, to: impl Fn(usize) -> usize) -> usize {
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

    /// The reasons for which this is asked.
    fn reasons(&self, polled: *mut Q) -> usize {
        let stand_in = |at: &Q| std::ptr::eq(at, polled);
        self.stand_ins.iter().position(stand_in).map_or(0, |i| i + 1)
    }

    /// What is asked for these reasons.
    fn asked(&self, reasons: usize) -> *mut Q {
        match reasons {
            0 => self.queue,
            set => (&raw const self.stand_ins[set - 1]).cast_mut(),
        }
    }
}
