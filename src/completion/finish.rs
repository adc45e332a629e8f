//! The cold path of a poll: it returns what destroyed queues left behind.
//!
//! After `ibv_destroy_qp` (or RESET) returned, a device adds no more completions of that queue
//! pair. So the queue pair is over once everything that was in the completion queue at that moment
//! has been returned to the program. A completion queue is first in, first out. So that point is
//! reached when a poll returned fewer completions than requested, or when as many completions have
//! been polled since as the completion queue can hold. The completions of that poll must have been
//! consumed. A poll takes `&mut`, and its completions borrow. So the queue pair is over with the
//! *next* poll that finds the batch empty.
//!
//! After a device reports a completion queue in error, the queue is not polled again. No more
//! completions are returned, and queues that ended are over at once.

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
    /// Runs if the device's queue is empty or in error, or if there is work to do before it is
    /// polled. Does that work, and fills the batch if there are completions after all.
    #[cold]
    #[inline(never)]
    pub(crate) fn find(&mut self, count: i32) -> Option<Error> {
        crate::cold_calls::note();
        if self.poller().left != 0 || count == 0 {
            return None;
        }
        let mut over = Over::default();
        if count != PLACEHOLDER {
            self.is_in_error();
        }
        // Repeats if a deferred queue pair was destroyed, because its completions may have
        // appeared.
        while self.look(&mut over) {}
        let is_dead = self.poller().is_broken && self.poller().left == 0;
        // Last, and without a lock: user code may run here, and may panic.
        over.give_back();
        is_dead.then(|| {
            let asked = "the completion queue is in error: it overran, or its device is gone";
            Error::os("ibv_poll_cq", libc::EIO, asked)
        })
    }

    /// Records that the device reported the completion queue in error.
    fn is_in_error(&mut self) {
        self.poller().is_broken = true;
        crate::sys::event!(
            ERROR, "proverbs::completion", "queue in error",
            cq = ?self.shared.handle().ptr(),
        );
    }

    /// Polls for the cold path. The batch is empty. Returns whether to poll again before the queue
    /// counts as empty.
    fn look(&mut self, over: &mut Over) -> bool {
        // (An ended queue that is not watched cannot be over. Usually a queue has just ended.)
        if self.poller().watches {
            self.finish_ended(over);
        }
        let passed = self.poller().passed;
        self.shared.note_ended(passed);
        if !self.poller().is_broken {
            match self.ask_device() {
                // Queues known to be gone cannot add completions. The queue is empty now, so they
                // have none left.
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

    /// Polls the device's queue, even while a placeholder is installed.
    fn ask_device(&mut self) -> i32 {
        let at = self.inbox.0.cast::<ibv_wc>().cast_mut();
        // SAFETY: the queue is live. The inbox has room for the batch, and contains no unreturned
        // completion.
        unsafe { data::poll_cq(self.shared.polled_queue.queue(), BATCH as i32, at) }
    }

    /// Releases the reservations of queues that are over and destroys deferred queue pairs. The
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

    /// Lets polls reach the device's queue again, unless a reason to hold them remains.
    pub(crate) fn let_go(&mut self) {
        let &mut Poller { left, watches, is_broken, .. } = self.poller();
        if left != 0 || watches || is_broken {
            self.shared.polled_queue.give(Reason::Held);
        } else {
            self.shared.polled_queue.take(Reason::Held);
        }
    }

    /// Finishes the queues that are over, without polling.
    pub(crate) fn settle_now(&mut self) -> Over {
        let mut over = Over::default();
        if self.poller().left == 0 {
            self.finish_ended(&mut over);
        }
        over
    }

    /// Destroys the deferred queue pairs that complete here. Their completions should have been
    /// returned first.
    pub(crate) fn end_deferred(&mut self) {
        let mut over = Over::default();
        for deferred in self.shared.take_deferred() {
            deferred.end(&mut over);
        }
        over.give_back();
    }

    /// Like [`poll`](Self::poll), and also returns whether the queue was found empty, or will be
    /// after these completions are taken.
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
    /// Puts orphaned buffers back into the pool, and returns their number. Orphaned buffers were
    /// posted to a queue pair that was destroyed or reset, or to a shared receive queue that was
    /// destroyed, and can no longer complete (rules [R7.16](crate::guide::rules#r7-16),
    /// [R8.18](crate::guide::rules#r8-18), [R10.15](crate::guide::rules#r10-15)).
    ///
    /// Polling `cq`, the completion queue of the queue pair, also puts them back. The first poll
    /// after one that found the queue empty does this; a [`poll`](CompletionQueue::poll) that
    /// returns fewer than 16 completions has found it empty. If the queue is never empty, this
    /// happens after as many completions as `cq` can hold. Call `reclaim` to get the number, or if
    /// there may be no further poll. If the queue pair used two completion queues, both must have
    /// reached that point.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // nothing will arrive
    /// b.destroy()?;                                             // and it was not drained
    /// // A completion may still arrive.
    /// assert_eq!((pool.reclaim(&mut cq), pool.available()), (0, 15));
    /// assert!(cq.poll_one()?.is_none());
    /// assert_eq!(pool.available(), 16); // no completion can arrive
    ///
    /// # a.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(wr::Send::inline(b"nobody listens"))?;
    /// let a = a.to_error()?;
    /// a.destroy()?;
    /// cq.poll()?.for_each(drop); // fewer than 16
    /// pool.reclaim(&mut cq); // instead of one more poll
    /// assert_eq!(pool.available(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim<E: Entry, L: Threads>(&self, cq: &mut CompletionQueue<E, L>) -> usize {
        cq.settle_now().give_back().count_of(self.slots()) + self.shared().reclaim()
    }
}

impl<C, M> Arena<C, M> {
    /// Puts the orphaned buffers of destroyed or reset queue pairs back into the arena, and returns
    /// their number. See [`Pool::reclaim`].
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { a: _a, mut b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(4096, 8)?;
    /// b.post_recv(wr::Recv::new(arena.take(100).ok_or("no room")?))?; // nothing will arrive
    /// b.destroy()?;                                                  // and it was not drained
    /// assert!(cq.poll_one()?.is_none());
    /// arena.reclaim(&mut cq); // instead of one more poll
    /// assert_eq!(arena.available(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim<E: Entry, L: Threads>(&self, cq: &mut CompletionQueue<E, L>) -> usize {
        let found = cq.settle_now().give_back();
        found.count_of(self.shared().first().addr()) + self.shared().reclaim()
    }
}
