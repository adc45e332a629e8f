//! What a poll does besides polling: it sends home what queues left that are gone.
//!
//! After `ibv_destroy_qp` (or RESET) returned, a device adds no completion of the queue pair. So it is over once all is
//! handed out that was in the completion queue then. A completion queue is first in, first out; so that is so when a poll
//! brought fewer than it asked for, or as many have been polled since as the completion queue holds. What that
//! poll brought must have been handed out, and must not be held any more: so it is over with the *next* poll that
//! finds nothing left in the batch, for a poll takes `&mut`, and what it hands out borrows.
//!
//! A device that said once that the completion queue is in error is not asked again: then nothing more is handed out, and what
//! is gone is over at once.

#![allow(unsafe_code)] // polls

use super::inbox::{BATCH, Poller};
use super::parked::Over;
use super::switch::Reason;
use super::{CompletionQueue, Completions};
use crate::entry::Entry;
use crate::error::Error;
use crate::sys::data;
use crate::sys::types::ibv_wc;

impl<E: Entry> CompletionQueue<E> {
    /// The device's queue is empty, or in error, or there is something to do before it is asked: does that, and fills the
    /// batch if there are completions after all.
    #[cold]
    #[inline(never)]
    pub(super) fn find(&mut self, count: i32) -> Option<Error> {
        if self.poller().left != 0 || (count == 0 && !self.shared.switch.is_on()) {
            return None;
        }
        let mut over = Over::default();
        self.poller().is_broken |= count < 0;
        // Again, if a queue pair was destroyed that was parked: now its completions are looked for.
        while self.look(&mut over) {}
        let is_dead = self.poller().is_broken && self.poller().left == 0;
        // Last, and without a lock: user code may run in it, and panic.
        over.send_home();
        is_dead.then(|| {
            let asked = "the completion queue is in error: it overran, or its device is gone";
            Error::os("ibv_poll_cq", libc::EIO, asked)
        })
    }

    /// Polls for the cold path. Nothing is in the batch. Whether there is more to do before it can be said that nothing is there.
    fn look(&mut self, over: &mut Over) -> bool {
        self.settle(over);
        let passed = self.poller().passed;
        self.shared.note_ended(passed);
        if !self.poller().is_broken {
            match self.ask_device() {
                // What is known to be gone cannot add completions: if there is nothing, there will not be.
                0 => self.poller().seen_empty_at = Some(passed),
                count if count < 0 => self.poller().is_broken = true,
                count => {
                    self.poller().passed += count as u64;
                    if (count as usize) < BATCH {
                        self.poller().seen_empty_at = Some(passed);
                    }
                    self.poller().watches = true;
                    self.keep(0, count as u32);
                    return false;
                }
            }
        }
        if self.poller().is_broken {
            self.shared.close(over);
        }
        let has_destroyed = self.settle(over);
        self.let_go();
        has_destroyed
    }

    /// Asks the device's queue, whatever takes its place.
    fn ask_device(&mut self) -> i32 {
        let at = self.inbox.0.cast::<ibv_wc>().cast_mut();
        // SAFETY: the queue is live, and there is room for as many; nothing is left there.
        unsafe { data::poll_cq(self.shared.switch.queue(), BATCH as i32, at) }
    }

    /// The bookings end of what is over by now, and queue pairs that were parked are destroyed. Nothing is in the batch. Whether
    /// one was destroyed.
    fn settle(&mut self, over: &mut Over) -> bool {
        let shared = &self.shared;
        // SAFETY: the completion queue is ours.
        let poller = unsafe { shared.poller() };
        let (watches, parked) = shared.settle(poller, over);
        poller.watches = watches;
        poller.seen_empty_at = None;
        for parked in &parked {
            parked.end(over);
        }
        !parked.is_empty()
    }

    /// From now on polls ask the device's queue, if nothing speaks against it.
    pub(super) fn let_go(&mut self) {
        let &mut Poller { left, watches, is_broken, .. } = self.poller();
        if left != 0 || watches || is_broken {
            self.shared.switch.give(Reason::Held);
        } else {
            self.shared.switch.take(Reason::Held);
        }
    }

    /// What is over by now, for who asks for it without a poll.
    pub(crate) fn settle_now(&mut self) -> Over {
        let mut over = Over::default();
        if self.poller().left == 0 {
            self.settle(&mut over);
            self.let_go();
        }
        over
    }

    /// Destroys the queue pairs that are parked, and complete here. What is there should have been handed out.
    pub(super) fn end_parked(&mut self) {
        let mut over = Over::default();
        for parked in self.shared.take_parked() {
            parked.end(&mut over);
        }
        over.send_home();
    }

    /// As [`poll`](Self::poll), and whether it saw the queue empty, or will have once these are taken.
    pub(crate) fn poll_and_see(&mut self) -> Result<(Completions<'_, E>, bool), Error> {
        let is_asked = self.poller().left == 0;
        let completions = self.poll()?;
        let sees = is_asked && completions.len() < BATCH;
        Ok((completions, sees))
    }

    /// What the poller knows.
    pub(super) fn poller(&mut self) -> &mut Poller {
        // SAFETY: the completion queue is ours, and the result borrows it.
        unsafe { self.shared.poller() }
    }
}
