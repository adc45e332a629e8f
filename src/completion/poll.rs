//! Polling: from `ibv_wc` to completions.

#![allow(unsafe_code)] // polls, and reads what was polled

use std::marker::PhantomData;
use std::ptr;

use crate::black_box::black_box;
use crate::completion::inbox::{BATCH, Inbox};
use crate::completion::polled_queue::Reason;
use crate::completion::{Completion, CompletionQueue};
use crate::memory::Entry;
use crate::sync::Ordering;
use crate::sys::data;
use crate::sys::types::ibv_wc;
use crate::terms::error::Error;
use crate::terms::threads::Threads;

/// The `left` completions from `at` on, which were polled. The poller no longer counts them, so
/// nobody else hands them out.
#[must_use = "else they are lost"]
pub(super) struct Polled {
    at: *const ibv_wc,
    left: u32,
}

impl Polled {
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// Polls (`ibv_poll_cq`): returns up to 16 completions, those that are there.
    ///
    /// The next poll hands out what the iterator did not. An error means that the completion queue
    /// is dead ([R10.12](crate::guide::rules#r10-12)): its device is not asked again, and every
    /// later poll returns the error. Outstanding work then comes back when its queue pair is gone.
    ///
    /// What destroyed queue pairs left behind, room and buffers, comes back by itself: with the
    /// next poll after the completion queue was seen empty (a poll that returns fewer than 16 has
    /// seen it), or after as many completions as the queue holds.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// # a.post_send(wr::Send::inline(b"hello"))?;
    /// let mut received = 0;
    /// while received == 0 {
    ///     for completion in cq.poll()? {
    ///         if let Outcome::Received(message) = completion.outcome() {
    ///             assert_eq!(message.data(), b"hello");
    ///             received += 1;
    ///         }
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno EIO: the completion queue overran or
    /// its device is gone, and stays so ([R10.12](crate::guide::rules#r10-12)). No entry is lost:
    /// they come back when their queue pairs are gone.
    #[doc(alias = "ibv_poll_cq")]
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Completions<'_, E>, Error> {
        let polled = self.look_for()?;
        Ok(self.completions(polled))
    }

    /// Like [`poll`](Self::poll), for one completion at most.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// # a.post_send(wr::RdmaWrite::inline(b"8 bytes!", pd.register::<RemoteWrite>(8)?.remote().write()))?;
    /// let completion = loop {
    ///     if let Some(completion) = cq.poll_one()? {
    ///         break completion;
    ///     }
    /// };
    /// assert_eq!(completion.qp_num(), a.qp_num());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`poll`](Self::poll).
    #[inline(always)]
    pub fn poll_one(&mut self) -> Result<Option<Completion<'_, E>>, Error> {
        let count = self.ask(1);
        // SAFETY: it was polled just now, from this queue, and is handed out once, here.
        Ok(self.find_one(count)?.map(|at| unsafe { Completion::new(at) }))
    }

    /// Where the next completion is, which is to be handed out, after a poll of one that returned
    /// `count`.
    #[inline(always)]
    pub(super) fn find_one(&mut self, count: i32) -> Result<Option<*const ibv_wc>, Error> {
        if count > 0 {
            return Ok(Some(self.inbox.0.cast()));
        }
        let first = self.find_first(count)?;
        Ok(if first.is_empty() { None } else { Some(first.at) })
    }

    /// Polls for at most `most` completions and returns what `ibv_poll_cq` does. While the cold
    /// path has something to do, a placeholder is polled instead, and the result is negative
    /// (`PLACEHOLDER`): 0 says that the device's queue is empty.
    #[inline(always)]
    pub(super) fn ask(&mut self, most: i32) -> i32 {
        let inbox = self.inbox.0;
        // SAFETY: the inbox lives as long as `shared`.
        let polled = unsafe { &(*inbox).polled_queue }.polled.load(Ordering::Relaxed);
        // SAFETY: the queue polled is live: the device's, or a placeholder, which is static. The
        // inbox has room for `most`, and no completion in it is left.
        unsafe { data::poll_cq(polled, most, inbox.cast::<ibv_wc>().cast_mut()) }
    }

    /// Polls, as `poll` does. What was found is to be handed out (`completions`).
    #[inline(always)]
    pub(super) fn look_for(&mut self) -> Result<Polled, Error> {
        let count = self.ask(BATCH as i32);
        self.found(count)
    }

    /// The result of a poll that returned `count`.
    #[inline(always)]
    pub(super) fn found(&mut self, count: i32) -> Result<Polled, Error> {
        if count > 0 {
            return Ok(Polled { at: self.inbox.0.cast(), left: count as u32 });
        }
        // (As `find` asks first.)
        if count == 0 {
            return Ok(Polled { at: ptr::null(), left: 0 });
        }
        match self.find(count) {
            Some(error) => Err(error),
            None => Ok(self.take(BATCH as u32)),
        }
    }

    /// Hands out what was polled last.
    #[inline(always)]
    pub(super) fn completions(&mut self, polled: Polled) -> Completions<'_, E> {
        Completions::new(polled.at, polled.left)
    }

    /// Fills the batch if it is empty; returns whether it has completions.
    pub(crate) fn fetch(&mut self) -> Result<bool, Error> {
        if self.poller().left == 0 {
            let count = self.ask(BATCH as i32);
            if count > 0 {
                self.keep(0, count as u32);
            } else if let Some(error) = self.find(count) {
                return Err(error);
            }
        }
        Ok(self.poller().left != 0)
    }

    /// Notes that the `left` completions from `next` on are polled and not handed out yet.
    pub(crate) fn keep(&mut self, next: u32, left: u32) {
        // SAFETY: `self` is the completion queue of this inbox.
        unsafe { keep(&self.shared, next, left) };
    }

    /// Like `find`, and takes the first completion out of the batch.
    #[cold]
    #[inline(never)]
    fn find_first(&mut self, count: i32) -> Result<Polled, Error> {
        match self.find(count) {
            Some(error) => Err(error),
            None => Ok(self.take(1)),
        }
    }

    /// Takes the next completions, `most` at most, out of the batch.
    fn take(&mut self, most: u32) -> Polled {
        let inbox = self.inbox.0;
        let poller = self.poller();
        let left = poller.left.min(most);
        let at = inbox.cast::<ibv_wc>().wrapping_add(poller.next as usize);
        if left != 0 {
            poller.next += left;
            poller.left -= left;
            self.let_go();
        }
        Polled { at, left }
    }

    /// Hands out all of the batch.
    pub(crate) fn hand_out(&mut self) -> Completions<'_, E> {
        // The batch counts as empty until the iterator is dropped. A forgotten iterator loses what
        // it did not hand out, but nothing is handed out twice.
        let polled = self.take(BATCH as u32);
        self.completions(polled)
    }
}

/// The completions of one poll (`ibv_poll_cq`), an iterator. They borrow the completion queue, so
/// none outlives the next poll.
///
/// `for_each` and `fold` are the fastest ways through them: they take four at a time.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::Completions;
/// # let proverbs::loopback::Pair { mut cq, .. } = proverbs::loopback::pair()?;
/// let completions: Completions<'_, Buf> = cq.poll()?;
/// assert!(completions.is_empty()); // nothing was posted
/// completions.for_each(|completion| drop(completion.into_entry()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Completions<'cq, E: Entry> {
    // Invariants:
    // `more`, less one, completions from `at` on, in an inbox, are polled and not handed out. If
    // there are any, `at` was derived from a pointer to all of that inbox. The poller's part of it
    // is borrowed for `'cq` and says that nothing is left.
    at: *const ibv_wc,
    /// One more than there are: so that counting down finds the end (2 instructions a completion).
    more: u32,
    _queue: PhantomData<(&'cq mut Inbox, E)>,
}

impl<'cq, E: Entry> Completions<'cq, E> {
    /// `left` completions from `at` on. (Callers keep the invariants.)
    #[inline(always)]
    fn new(at: *const ibv_wc, left: u32) -> Self {
        Completions { at, more: left + 1, _queue: PhantomData }
    }

    /// How many completions are left.
    #[inline(always)]
    fn left(&self) -> u32 {
        self.more - 1
    }

    /// Whether no completion is left.
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// Where the next one is, if one is left.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<*const ibv_wc> {
        if self.left() == 0 { None } else { Some(self.at) }
    }

    /// # Safety
    /// Some are left.
    #[inline(always)]
    unsafe fn pull(&mut self) -> Completion<'cq, E> {
        self.more -= 1;
        // SAFETY: as some were left, the one at `at` is in the batch and not handed out
        // (invariant), and `at` moves at most one past the last.
        unsafe {
            let completion = Completion::new(self.at);
            self.at = self.at.add(1);
            completion
        }
    }
}

impl<'cq, E: Entry> Iterator for Completions<'cq, E> {
    type Item = Completion<'cq, E>;

    #[inline(always)]
    fn next(&mut self) -> Option<Completion<'cq, E>> {
        if self.left() == 0 {
            return None;
        }
        // SAFETY: some are left.
        let completion = unsafe { self.pull() };
        // Else a loop has a second count, that of what was taken (2 instructions a poll).
        self.more = black_box(self.more);
        Some(completion)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left() as usize, Some(self.left() as usize))
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, start: B, mut see: F) -> B {
        let mut all = start;
        while self.left() % 4 != 0 {
            // SAFETY: some are left.
            all = see(all, unsafe { self.pull() });
        }
        while self.left() != 0 {
            for _ in 0..4 {
                // SAFETY: a multiple of four and not 0: four were left.
                all = see(all, unsafe { self.pull() });
            }
        }
        all
    }
}

impl<E: Entry> ExactSizeIterator for Completions<'_, E> {}

impl<E: Entry> Drop for Completions<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.left() != 0 {
            // SAFETY: some are left, so `at` is in an inbox and was derived from all of it
            // (invariant); the completion queue is borrowed until here.
            unsafe { put_back(self.at, self.left()) };
        }
    }
}

/// Leaves `left` completions from `at` on to the next poll.
///
/// # Safety
/// They are in an inbox, `at` was derived from a pointer to all of it, and the caller has its
/// completion queue or the exclusive borrow of it.
#[cold]
unsafe fn put_back(at: *const ibv_wc, left: u32) {
    // SAFETY: `at` is in an inbox, and derived from all of it; the caller has its completion queue,
    // so the inbox is live (this function's contract). That it is found from here spares the
    // iterator a field, which a loop would keep in memory (2 instructions a poll).
    unsafe {
        let inbox = Inbox::of(at);
        keep(inbox, inbox.index_of(at) as u32, left);
    }
}

/// Notes that the `left` completions from `next` on are polled and not handed out yet.
///
/// # Safety
/// The caller has the completion queue of the inbox or the exclusive borrow of it. (Completions
/// that were handed out point into `wcs`, which is not touched.)
unsafe fn keep(inbox: &Inbox, next: u32, left: u32) {
    // SAFETY: the completion queue is the caller's, so there is no other reference to the poller's
    // part.
    let poller = unsafe { inbox.poller() };
    debug_assert!(poller.left == 0 && (next + left) as usize <= BATCH);
    if left != 0 {
        (poller.next, poller.left) = (next, left);
        inbox.polled_queue.give(Reason::Held);
    }
}

impl_debug!([E: Entry] Completions<'_, E>, |it| "Completions({} left)", it.left());
