//! Polling: from `ibv_wc` to completions.

#![allow(unsafe_code)] // polls, and reads polled C structs

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
/// they are not returned twice.
#[must_use = "else they are lost"]
pub(crate) struct Polled {
    at: *const ibv_wc,
    left: u32,
}

impl Polled {
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<E: Entry, L: Threads> CompletionQueue<E, L> {
    /// Returns up to 16 available completions, without blocking (`ibv_poll_cq`).
    ///
    /// If you stop iterating early, the next poll returns the rest.
    ///
    /// Polling also finishes destroyed queue pairs: it returns their buffers and releases their
    /// reserved entries. The first poll after one that found the completion queue empty does this;
    /// a poll that returns fewer than 16 completions has found it empty. If the queue is never
    /// empty, this happens after as many completions as the queue can hold.
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
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with EIO: the completion queue overran or its device
    /// is gone ([R10.12](crate::guide::rules#r10-12)). The device is not polled again, and every
    /// later poll returns the same error. Buffers in flight are returned when their queue pairs are
    /// destroyed.
    #[doc(alias = "ibv_poll_cq")]
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Completions<'_, E>, Error> {
        let polled = self.look_for()?;
        Ok(self.completions(polled))
    }

    /// Like [`poll`](Self::poll), but returns at most one completion.
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
        // SAFETY: it was polled just now, from this queue, and is returned once, here.
        Ok(self.find_one(count)?.map(|at| unsafe { Completion::new(at) }))
    }

    /// The address of the next completion to return, after a poll for one completion that returned
    /// `count`.
    #[inline(always)]
    pub(crate) fn find_one(&mut self, count: i32) -> Result<Option<*const ibv_wc>, Error> {
        if count > 0 {
            return Ok(Some(self.inbox.0.cast()));
        }
        let first = self.find_first(count)?;
        Ok(if first.is_empty() { None } else { Some(first.at) })
    }

    /// Polls for at most `most` completions and returns the result of `ibv_poll_cq`. While the cold
    /// path has work to do, a placeholder is polled instead, and the result is negative
    /// (`PLACEHOLDER`). So 0 means that the device's queue is empty.
    #[inline(always)]
    pub(crate) fn ask(&mut self, most: i32) -> i32 {
        let inbox = self.inbox.0;
        // SAFETY: the inbox lives as long as `shared`.
        let polled = unsafe { &(*inbox).polled_queue }.polled.load(Ordering::Relaxed);
        // SAFETY: the queue that is polled is live: it is the queue of the device, or a static
        // placeholder. The inbox has room for `most` completions, and contains no unreturned
        // completion.
        unsafe { data::poll_cq(polled, most, inbox.cast::<ibv_wc>().cast_mut()) }
    }

    /// Polls like `poll`. The caller returns the result to the program (`completions`).
    #[inline(always)]
    pub(super) fn look_for(&mut self) -> Result<Polled, Error> {
        let count = self.ask(BATCH as i32);
        self.found(count)
    }

    /// The result of a poll that returned `count`.
    #[inline(always)]
    pub(crate) fn found(&mut self, count: i32) -> Result<Polled, Error> {
        if count > 0 {
            return Ok(Polled { at: self.inbox.0.cast(), left: count as u32 });
        }
        // (`find` polls first.)
        if count == 0 {
            return Ok(Polled { at: ptr::null(), left: 0 });
        }
        match self.find(count) {
            Some(error) => Err(error),
            None => Ok(self.take(BATCH as u32)),
        }
    }

    /// Returns the completions of the last poll.
    #[inline(always)]
    pub(crate) fn completions(&mut self, polled: Polled) -> Completions<'_, E> {
        Completions::new(polled.at, polled.left)
    }

    /// Fills the batch if it is empty. Returns whether it has completions.
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

    /// Records that the `left` completions from `next` on are polled and not returned yet.
    pub(crate) fn keep(&mut self, next: u32, left: u32) {
        // SAFETY: `self` is the completion queue of this inbox.
        unsafe { keep(&self.shared, next, left) };
    }

    /// Like `find`, but also takes the first completion out of the batch.
    #[cold]
    #[inline(never)]
    fn find_first(&mut self, count: i32) -> Result<Polled, Error> {
        match self.find(count) {
            Some(error) => Err(error),
            None => Ok(self.take(1)),
        }
    }

    /// Takes up to `most` completions out of the batch.
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

    /// Returns the whole batch.
    pub(crate) fn hand_out(&mut self) -> Completions<'_, E> {
        // The batch counts as empty until the iterator is dropped. A leaked iterator loses its
        // remaining completions, but no completion is returned twice.
        let polled = self.take(BATCH as u32);
        self.completions(polled)
    }
}

/// An iterator over the completions of one poll (`ibv_poll_cq`). They borrow the completion queue,
/// so they must be gone before the next poll. Dropping the iterator consumes nothing: the next poll
/// returns the remaining completions. To discard them, use `for_each(drop)`.
///
/// `for_each` and `fold` are the fastest ways to consume it, because they process four completions
/// at a time.
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
    // `more - 1` completions from `at` on, in an inbox, are polled and not returned. If there are
    // any, `at` was derived from a pointer to the whole inbox. The poller's part of the inbox is
    // borrowed for `'cq` and records no remaining completions.
    at: *const ibv_wc,
    /// One more than the number left, so that counting down finds the end (2 instructions a
    /// completion).
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

    /// The address of the next completion, if one is left.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<*const ibv_wc> {
        if self.left() == 0 { None } else { Some(self.at) }
    }

    /// # Safety
    /// Some are left.
    #[inline(always)]
    unsafe fn pull(&mut self) -> Completion<'cq, E> {
        self.more -= 1;
        // SAFETY: some were left, so the one at `at` is in the batch and not returned (invariant),
        // and `at` moves at most one past the last.
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
        // Otherwise a loop keeps a second count, of the completions taken (2 instructions a poll).
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
            // SAFETY: some are left, so `at` is in an inbox and was derived from the whole inbox
            // (invariant). The completion queue is borrowed until here.
            unsafe { put_back(self.at, self.left()) };
        }
    }
}

/// Leaves `left` completions from `at` on to the next poll.
///
/// # Safety
/// They are in an inbox, `at` was derived from a pointer to the whole inbox, and the caller has its
/// completion queue or the exclusive borrow of it.
#[cold]
unsafe fn put_back(at: *const ibv_wc, left: u32) {
    // SAFETY: `at` is in an inbox and derived from the whole inbox; the caller has its completion
    // queue, so the inbox is live (this function's contract). Finding the inbox from `at` saves a
    // field of the iterator, which a loop would keep in memory (2 instructions a poll).
    unsafe {
        let inbox = Inbox::of(at);
        keep(inbox, inbox.index_of(at) as u32, left);
    }
}

/// Records that the `left` completions from `next` on are polled and not returned yet.
///
/// # Safety
/// The caller owns the completion queue of the inbox or borrows it exclusively. (Completions that
/// were returned point into `wcs`, which is not touched.)
unsafe fn keep(inbox: &Inbox, next: u32, left: u32) {
    // SAFETY: the caller has the completion queue, so there is no other reference to the poller's
    // state.
    let poller = unsafe { inbox.poller() };
    debug_assert!(poller.left == 0 && (next + left) as usize <= BATCH);
    (poller.next, poller.left) = (next, left);
    inbox.polled_queue.give(Reason::Held);
}

impl_debug!([E: Entry] Completions<'_, E>, |it| "Completions({} left)", it.left());
