//! Counts of posts for monitoring, if the profile requests them, and of rejected posts.

#![allow(unsafe_code)] // goes through lists that were emitted

use crate::counters::queue_counters::{RECEIVE, SEND};
use crate::counters::tally::Tally;
use crate::in_flight::InFlight;
use crate::post::queue::{Kind, Queue};
use crate::terms::post_error::PostErrorKind;

impl<Q: Kind> Queue<Q> {
    fn tally(&self) -> &Tally {
        let direction = if Q::RECEIVES { RECEIVE } else { SEND };
        self.in_flight.state().counters.tally(direction)
    }

    /// Notes a list before it is posted.
    ///
    /// # Safety
    /// `first` is a list of emitted work requests.
    #[inline(always)]
    pub(super) unsafe fn count_next(&self, first: *mut Q::Wr) {
        if Q::COUNTED {
            // SAFETY: the list is emitted (this function's contract).
            let bytes = unsafe { Q::bytes(first) };
            self.tally().next.iter().zip(bytes).for_each(|(next, bytes)| next.set(bytes));
        }
    }

    /// Counts a list of `n` that was posted.
    #[inline(always)]
    pub(super) fn count_posted(&self, n: u32) {
        if Q::COUNTED {
            self.tally().accept(n, [0; 2]);
        }
    }

    /// Counts the first `accepted` of a list whose others, from `bad` on, were rejected.
    ///
    /// # Safety
    /// `bad` is a list of emitted work requests, whose entries were not taken.
    pub(super) unsafe fn count_accepted(&self, accepted: u32, bad: *mut Q::Wr) {
        if Q::COUNTED && accepted != 0 {
            // SAFETY: the list is emitted (this function's contract).
            self.tally().accept(accepted, unsafe { Q::bytes(bad) });
        }
    }

    /// Counts a rejected post, or a work request that a list rejected.
    pub(super) fn count_refused(&self, kind: PostErrorKind) {
        self.tally().refused[kind.group() as usize].add(1);
    }
}
