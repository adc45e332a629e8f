//! Polling: from `ibv_wc` to completions.

#![allow(unsafe_code)] // polls, and reads what was polled

use std::marker::PhantomData;
use std::ptr;

use super::CompletionQueue;
use super::inbox::{BATCH, Inbox};
use super::switch::Reason;
use crate::entry::Entry;
use crate::error::Error;
use crate::sys::data;
use crate::sys::types::ibv_wc;
use crate::wc::Completion;

/// The first completion that is left, null if there is none.
struct Found {
    at: *const ibv_wc,
    error: Option<Error>,
}

impl<E: Entry> CompletionQueue<E> {
    /// Polls (`ibv_poll_cq`): the completions that are there, up to 16.
    ///
    /// What is not taken from the iterator is handed out by the next poll. An error means that the
    /// completion queue is dead (R10.12): it stays so, its device is not asked again, and every later poll gives the
    /// error. What is outstanding then comes home with the end of its queue pair.
    ///
    /// What queue pairs left that are gone comes home by itself, room and buffers: once the completion queue was seen
    /// empty since (a poll that brings fewer than 16 has seen it), or as many completions have passed as it holds, with the
    /// next poll.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { mut a, mut b, mut cq, pool, .. } = proverbs::guide::ends()?;
    /// # b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
    /// # a.post_send(Send::inline(b"hello"))?;
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
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno EIO: the completion queue overran, or its device is gone, and it stays so (R10.12). No entry is lost:
    /// they come home when the queue pairs are gone.
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Completions<'_, E>, Error> {
        let count = self.ask(BATCH as i32);
        if count > 0 {
            let inbox = self.inbox.0;
            // INVARIANT: the provider wrote `count` completions, which are handed out here: nothing is left.
            return Ok(Completions {
                at: inbox.cast(),
                left: count as u32,
                inbox,
                _queue: PhantomData,
            });
        }
        match self.find(count) {
            None => Ok(self.hand_out()),
            Some(error) => Err(error),
        }
    }

    /// As [`poll`](Self::poll), but one completion at most.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pd, .. } = proverbs::guide::ends()?;
    /// # a.post_send(RdmaWrite::inline(b"8 bytes!", pd.register::<RemoteWrite>(8)?.remote().write()))?;
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
        let mut at = self.inbox.0.cast();
        if count <= 0 {
            let found = self.find_first(count);
            if let Some(error) = found.error {
                return Err(error);
            }
            if found.at.is_null() {
                return Ok(None);
            }
            at = found.at;
        }
        // SAFETY: the provider wrote the one completion, or `find_first` took it out of the batch, and it is handed out here.
        Ok(Some(unsafe { completion(at) }))
    }

    /// Polls for `most`; as `ibv_poll_cq` answers. While there is something to do first, a stand-in says that there is none.
    #[inline(always)]
    fn ask(&mut self, most: i32) -> i32 {
        let inbox = self.inbox.0;
        // SAFETY: the inbox lives as long as `shared`.
        let polled = unsafe { &(*inbox).switch }.polled();
        // SAFETY: the queue is live, or is the stand-in; there is room for `most`, and nothing is left there.
        unsafe { data::poll_cq(polled, most, inbox.cast::<ibv_wc>().cast_mut()) }
    }

    /// Makes sure that completions are in the batch; whether there are any.
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

    /// The `left` completions from `next` on are polled, and not handed out yet.
    pub(super) fn keep(&mut self, next: u32, left: u32) {
        // SAFETY: the completion queue is ours.
        unsafe { keep(self.inbox.0, next, left) };
    }

    /// As `find`, and takes the first completion out of the batch.
    #[cold]
    #[inline(never)]
    fn find_first(&mut self, count: i32) -> Found {
        let error = self.find(count);
        let mut at = ptr::null();
        if error.is_none() {
            (at, _) = self.take(1);
        }
        Found { at, error }
    }

    /// Takes the first completions that are left out of the batch, `most` at most. Gives the first, null if there
    /// is none, and their number.
    fn take(&mut self, most: u32) -> (*const ibv_wc, u32) {
        let inbox = self.inbox.0;
        let poller = self.poller();
        let count = poller.left.min(most);
        if count == 0 {
            return (ptr::null(), 0);
        }
        let at = inbox.cast::<ibv_wc>().wrapping_add(poller.next as usize);
        poller.next += count;
        poller.left -= count;
        self.let_go();
        (at, count)
    }

    /// Hands out what is in the batch.
    pub(crate) fn hand_out(&mut self) -> Completions<'_, E> {
        // If the iterator is forgotten, what it did not hand out is lost, but nothing is handed out
        // twice: the batch is empty until the iterator says otherwise.
        let (at, left) = self.take(BATCH as u32);
        Completions { at, left, inbox: self.inbox.0, _queue: PhantomData }
    }
}

/// The completions of one poll (`ibv_poll_cq`), an iterator. They borrow the completion queue, so none outlives the next poll.
///
/// `for_each` and `fold` are the fastest way through them: they take four at a time.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut cq, .. } = proverbs::guide::ends()?;
/// let completions: Completions<'_, Buf> = cq.poll()?;
/// assert!(completions.is_empty()); // nothing was posted
/// completions.for_each(|completion| drop(completion.into_entry()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// `left` completions from `at` on, in `inbox`, are polled and not handed out; the poller's part of `inbox` is borrowed for
/// `'cq`, and says that nothing is left.
pub struct Completions<'cq, E: Entry> {
    at: *const ibv_wc,
    left: u32,
    inbox: *const Inbox,
    _queue: PhantomData<(&'cq mut Inbox, E)>,
}

impl<'cq, E: Entry> Completions<'cq, E> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// # Safety
    /// Some are left.
    #[inline(always)]
    unsafe fn pull(&mut self) -> Completion<'cq, E> {
        self.left -= 1;
        // SAFETY: `left` completions from `at` on are in the batch, which `'cq` borrows.
        let completion = unsafe { completion(self.at) };
        // SAFETY: at most one past the last of the batch.
        self.at = unsafe { self.at.add(1) };
        completion
    }
}

impl<'cq, E: Entry> Iterator for Completions<'cq, E> {
    type Item = Completion<'cq, E>;

    #[inline(always)]
    fn next(&mut self) -> Option<Completion<'cq, E>> {
        if self.left == 0 {
            return None;
        }
        // SAFETY: some are left.
        Some(unsafe { self.pull() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, start: B, mut see: F) -> B {
        let mut all = start;
        while self.left % 4 != 0 {
            // SAFETY: some are left.
            all = see(all, unsafe { self.pull() });
        }
        while self.left != 0 {
            // SAFETY: a multiple of four are left, so four are, or three.
            all = see(all, unsafe { self.pull() });
            // SAFETY: as above.
            all = see(all, unsafe { self.pull() });
            // SAFETY: as above.
            all = see(all, unsafe { self.pull() });
            // SAFETY: as above.
            all = see(all, unsafe { self.pull() });
        }
        all
    }
}

impl<E: Entry> ExactSizeIterator for Completions<'_, E> {}

/// The completion at `wc`.
///
/// # Safety
/// `wc` is in an inbox that lives as long as `'cq`, was polled from a queue of `E`, and is handed out once.
#[inline(always)]
unsafe fn completion<'cq, E: Entry>(wc: *const ibv_wc) -> Completion<'cq, E> {
    // SAFETY: the provider wrote it, and of each completion at least this field (ibv_poll_cq(3)).
    let word = unsafe { (*wc).wr_id } as usize;
    // SAFETY: the caller's contract.
    unsafe { Completion::new(wc, word) }
}

impl<E: Entry> Drop for Completions<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.left != 0 {
            put_back(self.inbox, self.at, self.left);
        }
    }
}

/// The next poll hands out `left` completions from `at` on.
#[cold]
fn put_back(inbox: *const Inbox, at: *const ibv_wc, left: u32) {
    let next = (at.addr() - inbox.addr()) / size_of::<ibv_wc>();
    // SAFETY: the iterator borrows the completion queue, and is done with it.
    unsafe { keep(inbox, next as u32, left) };
}

/// The `left` completions from `next` on are polled, and not handed out yet.
///
/// # Safety
/// `inbox` is live; the caller has its completion queue, or what borrows it. (Completions that were handed out are pointers
/// to `wcs`, which is not touched.)
unsafe fn keep(inbox: *const Inbox, next: u32, left: u32) {
    // SAFETY: the caller's contract.
    let inbox = unsafe { &*inbox };
    // SAFETY: as for this function, and nobody else has a reference to the poller's part now.
    let poller = unsafe { inbox.poller() };
    debug_assert!(poller.left == 0 && (next + left) as usize <= BATCH);
    if left != 0 {
        (poller.next, poller.left) = (next, left);
        inbox.switch.give(Reason::Held);
    }
}
