//! The cold path of a poll: it gives back what destroyed queues left behind.
//!
//! After `ibv_destroy_qp` (or RESET) returned, a device adds no more completions of that queue
//! pair. So the queue pair is over once everything that was in the completion queue at that moment
//! has been handed out. A completion queue is first in, first out: that point is reached when a
//! poll returned fewer than it asked for, or when as many completions have been polled since as the
//! completion queue holds. The completions of that poll must have been handed out and must no
//! longer be held. A poll takes `&mut`, and its completions borrow; so the queue pair is over with
//! the *next* poll that finds the batch empty.
//!
//! A device that reported a completion queue in error is not asked again. Then nothing more is
//! handed out, and queues that are gone are over at once.

#![allow(unsafe_code)] // polls

use crate::completion::deferred_destroy::Over;
use crate::completion::inbox::{BATCH, Poller};
use crate::completion::polled_queue::{PLACEHOLDER, Reason};
use crate::completion::{CompletionQueue, Completions};
use crate::memory::{Arena, Entry, Pool};
use crate::sys::data;
use crate::sys::types::ibv_wc;
use crate::terms::error::Error;
use crate::terms::threads::Threads;

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// The device's queue is empty or in error, or there is work to do before it is asked. Does
    /// that work, and fills the batch if there are completions after all.
    #[cold]
    #[inline(never)]
    pub(crate) fn find(&mut self, count: i32) -> Option<Error> {
        #[cfg(all(test, feature = "loopback"))]
        crate::cold_calls::note();
        if self.poller().left != 0 || count == 0 {
            return None;
        }
        let mut over = Over::default();
        if count != PLACEHOLDER {
            self.is_in_error();
        }
        // Again if a deferred queue pair was destroyed: its completions may have appeared.
        while self.look(&mut over) {}
        let is_dead = self.poller().is_broken && self.poller().left == 0;
        // Last, and without a lock: user code may run here, and panic.
        over.give_back();
        is_dead.then(|| {
            let asked = "the completion queue is in error: it overran, or its device is gone";
            Error::os("ibv_poll_cq", libc::EIO, asked)
        })
    }

    /// The device reported the completion queue in error.
    fn is_in_error(&mut self) {
        self.poller().is_broken = true;
        crate::sys::event!(
            ERROR, "proverbs::completion", "queue in error",
            cq = ?self.shared.handle().ptr(),
        );
    }

    /// Polls for the cold path. The batch is empty. Returns whether to look again before the queue
    /// counts as empty.
    fn look(&mut self, over: &mut Over) -> bool {
        // (What is not watched cannot be over: mostly a queue ended, and nothing waits for it yet.)
        if self.poller().watches {
            self.finish_ended(over);
        }
        let passed = self.poller().passed;
        self.shared.note_ended(passed);
        if !self.poller().is_broken {
            match self.ask_device() {
                // Queues known to be gone cannot add completions: if the queue is empty now,
                // nothing of them will come.
                0 => self.poller().seen_empty_at = Some(passed),
                count if count < 0 => self.is_in_error(),
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
        let has_destroyed = self.finish_ended(over);
        self.let_go();
        has_destroyed
    }

    /// Asks the device's queue, even while a placeholder takes its place.
    fn ask_device(&mut self) -> i32 {
        let at = self.inbox.0.cast::<ibv_wc>().cast_mut();
        // SAFETY: the queue is live. The inbox has room for the batch, and no completion in it is
        // left.
        unsafe { data::poll_cq(self.shared.polled_queue.queue(), BATCH as i32, at) }
    }

    /// Ends the bookings of queues that are over by now and destroys deferred queue pairs. The
    /// batch is empty. Returns whether a queue pair was destroyed.
    fn finish_ended(&mut self, over: &mut Over) -> bool {
        let poller = *self.poller();
        let (watches, deferred) = self.shared.finish_ended(&poller, over);
        *self.poller() = Poller { watches, seen_empty_at: None, ..poller };
        for deferred in &deferred {
            deferred.end(over);
        }
        !deferred.is_empty()
    }

    /// Lets polls ask the device's queue again, unless a reason holds them.
    pub(crate) fn let_go(&mut self) {
        let &mut Poller { left, watches, is_broken, .. } = self.poller();
        if left != 0 || watches || is_broken {
            self.shared.polled_queue.give(Reason::Held);
        } else {
            self.shared.polled_queue.take(Reason::Held);
        }
    }

    /// Collects what is over by now, without a poll.
    pub(crate) fn settle_now(&mut self) -> Over {
        let mut over = Over::default();
        if self.poller().left == 0 {
            self.finish_ended(&mut over);
            self.let_go();
        }
        over
    }

    /// Destroys the deferred queue pairs that complete here. Their completions should have been
    /// handed out.
    pub(crate) fn end_deferred(&mut self) {
        let mut over = Over::default();
        for deferred in self.shared.take_deferred() {
            deferred.end(&mut over);
        }
        over.give_back();
    }

    /// Like [`poll`](Self::poll); also returns whether the queue was seen empty, or will have been
    /// once these completions are taken.
    pub(crate) fn poll_and_see(&mut self) -> Result<(Completions<'_, E>, bool), Error> {
        let is_asked = self.poller().left == 0;
        let completions = self.poll()?;
        let sees = is_asked && completions.len() < BATCH;
        Ok((completions, sees))
    }

    /// The poller's state.
    pub(crate) fn poller(&mut self) -> &mut Poller {
        // SAFETY: `self` is the completion queue of this inbox, and the result borrows it
        // exclusively.
        unsafe { self.shared.poller() }
    }
}

impl<C, M> Pool<C, M> {
    /// Takes back the buffers that a destroyed or reset queue pair left orphaned: posted, and
    /// without a completion that could still come (rules [R7.16](crate::guide::rules#r7-16),
    /// [R8.18](crate::guide::rules#r8-18), [R10.15](crate::guide::rules#r10-15)). Returns how many.
    ///
    /// Without this call they come back too, with a poll of the completion queue `cq` that the
    /// queue pair completed into: with the first poll that finds nothing after the queue pair is
    /// gone, or with the next one after a [`poll`](CompletionQueue::poll) that returned fewer than
    /// 16, or after as many completions as `cq` holds (so even on a completion queue that is never
    /// empty). Call it to learn the number, or when there may be no next poll. If the queue pair
    /// completed into two completion queues, both must have got that far.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // nothing will arrive
    /// b.destroy()?;                                             // and nobody drained it
    /// // A completion may still come.
    /// assert_eq!((pool.reclaim(&mut cq), pool.available()), (0, 15));
    /// assert!(cq.poll_one()?.is_none());
    /// assert_eq!(pool.available(), 16); // none can
    ///
    /// # a.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(wr::Send::inline(b"nobody listens"))?;
    /// let a = a.to_error()?;
    /// a.destroy()?;
    /// cq.poll()?.for_each(drop); // fewer than 16
    /// pool.reclaim(&mut cq); // in the place of one more poll
    /// assert_eq!(pool.available(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim<E: Entry, L: Threads>(&self, cq: &mut CompletionQueue<E, L>) -> usize {
        cq.settle_now().give_back().count_of(self.slots())
    }
}

impl<C, M> Arena<C, M> {
    /// Takes back the buffers that a destroyed or reset queue pair left orphaned, as
    /// [`Pool::reclaim`] does. Returns how many.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { a: _a, mut b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(4096, 8)?;
    /// b.post_recv(wr::Recv::new(arena.take(100).ok_or("no room")?))?; // nothing will arrive
    /// b.destroy()?;                                                  // and nobody drained it
    /// assert!(cq.poll_one()?.is_none());
    /// arena.reclaim(&mut cq); // in the place of one more poll
    /// assert_eq!(arena.available(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim<E: Entry, L: Threads>(&self, cq: &mut CompletionQueue<E, L>) -> usize {
        cq.settle_now().give_back().count_of(self.shared().first().addr())
    }
}
