//! Polling: from `ibv_wc` to completions.

#![allow(unsafe_code)] // polls, and reads what was polled

use std::marker::PhantomData;

use super::{BATCH, CompletionQueue};
use crate::buf::header::{Header, word};
use crate::entry::Entry;
use crate::error::Error;
use crate::in_flight::Books;
use crate::in_flight::ring::RING;
use crate::sys::data;
use crate::sys::types::ibv_wc;
use crate::wc::Completion;

impl<E: Entry> CompletionQueue<E> {
    /// Polls (`ibv_poll_cq`): the completions that are there, up to 16.
    ///
    /// What is not taken from the iterator is handed out by the next poll. An error means that the
    /// completion queue is dead (R10.12).
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Completions<'_, E>, Error> {
        self.fetch()?;
        Ok(self.hand_out())
    }

    /// As [`poll`](Self::poll), but one completion at most.
    #[inline(always)]
    pub fn poll_one(&mut self) -> Result<Option<Completion<'_, E>>, Error> {
        if self.left != 0 {
            return Ok(self.next_left());
        }
        // SAFETY: the queue is live; the batch has room and nothing in it is left.
        let count = unsafe { data::poll_cq(self.raw.0, 1, self.batch.as_mut_ptr().cast()) };
        if count <= 0 {
            return match self.nothing(count) {
                Ok(false) => Ok(None),
                Ok(true) => Ok(self.next_left()),
                Err(error) => Err(error),
            };
        }
        // SAFETY: the provider wrote the one completion, which is handed out here: `left` stays 0.
        Ok(Some(unsafe { completion(self.batch.as_ptr().cast()) }))
    }

    /// A completion that an earlier poll found.
    #[cold]
    #[inline(never)]
    fn next_left(&mut self) -> Option<Completion<'_, E>> {
        self.hand_out().next()
    }

    /// Makes sure that completions are in the batch; whether there are any.
    #[inline(always)]
    pub(crate) fn fetch(&mut self) -> Result<bool, Error> {
        if self.left != 0 {
            return Ok(true);
        }
        self.fetch_up_to(BATCH as i32)
    }

    #[inline(always)]
    fn fetch_up_to(&mut self, most: i32) -> Result<bool, Error> {
        let cq = self.raw.0;
        // SAFETY: the queue is live; the batch has room for `most` and nothing in it is left.
        let count = unsafe { data::poll_cq(cq, most, self.batch.as_mut_ptr().cast()) };
        if count <= 0 {
            return self.nothing(count);
        }
        // INVARIANT: the provider wrote `count` completions.
        self.filled = (count as u32).min(most as u32);
        self.left = self.filled;
        Ok(true)
    }

    /// The queue is empty, or dead.
    #[cold]
    #[inline(never)]
    fn nothing(&mut self, count: i32) -> Result<bool, Error> {
        if count < 0 {
            let asked = "the completion queue is in error: it overran, or its device is gone";
            return Err(Error::os("ibv_poll_cq", libc::EIO, asked));
        }
        if !self.shared.any_dead() {
            return Ok(false);
        }
        // What is gone now cannot add completions: if there is still nothing, there will not be.
        let dead = self.shared.dead();
        let cq = self.shared.handle().as_ptr();
        // SAFETY: as in `fetch_up_to`.
        let count = unsafe { data::poll_cq(cq, BATCH as i32, self.batch.as_mut_ptr().cast()) };
        if count == 0 {
            self.shared.settle(&dead);
            return Ok(false);
        }
        // Another time: some of them may still have completions.
        self.shared.notice_dead();
        if count < 0 {
            return self.nothing(count);
        }
        self.filled = (count as u32).min(BATCH as u32);
        self.left = self.filled;
        Ok(true)
    }

    #[inline(always)]
    pub(crate) fn hand_out(&mut self) -> Completions<'_, E> {
        let first = (self.filled - self.left) as usize;
        // SAFETY: `left` is at most `filled`, which is at most the length of the batch.
        let at = unsafe { self.batch.as_ptr().add(first) }.cast();
        // If the iterator is forgotten, what it did not hand out is lost, but nothing is handed out
        // twice: the batch is empty until the iterator says otherwise.
        let left = std::mem::replace(&mut self.left, 0);
        Completions { at, left, rest: &mut self.left, _queue: PhantomData }
    }
}

/// The completions of one poll. They borrow the completion queue, so none outlives the next poll.
pub struct Completions<'cq, E: Entry> {
    at: *const ibv_wc,
    left: u32,
    rest: &'cq mut u32,
    _queue: PhantomData<(&'cq ibv_wc, E)>,
}

impl<'cq, E: Entry> Completions<'cq, E> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'cq, E: Entry> Iterator for Completions<'cq, E> {
    type Item = Completion<'cq, E>;

    #[inline(always)]
    fn next(&mut self) -> Option<Completion<'cq, E>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        // SAFETY: `left` completions from `at` on are in the batch, which `'cq` borrows.
        let completion = unsafe { completion(self.at) };
        // SAFETY: at most one past the last of the batch.
        self.at = unsafe { self.at.add(1) };
        Some(completion)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl<E: Entry> ExactSizeIterator for Completions<'_, E> {}

/// The completion at `wc`, booked.
///
/// # Safety
/// `wc` lives as long as `'cq`, was polled from a queue of `E`, and is handed out once.
#[inline(always)]
unsafe fn completion<'cq, E: Entry>(wc: *const ibv_wc) -> Completion<'cq, E> {
    // SAFETY: the caller's contract.
    let wc = unsafe { &*wc };
    let wr_id = wc.wr_id;
    let word = if E::OWNED && wr_id & RING == 0 { settle(wr_id as usize) } else { 0 };
    // SAFETY: as above.
    unsafe { Completion::new(wc, word) }
}

/// Books the completion of a handle: its credit comes back, and it is no longer in flight. Gives the word of
/// its entry, 0 if it has none.
#[inline(always)]
fn settle(wr_id: usize) -> usize {
    let direction = wr_id & word::RECEIVE;
    if word::is_none(wr_id) {
        let books: *const Books = word::address(wr_id);
        // SAFETY: the completion queue keeps the books of its queues while completions can come.
        unsafe { (*books).complete(direction) };
        return 0;
    }
    let header = word::address::<Header>(wr_id);
    // SAFETY: the device gave back a wr_id that a queue of this completion queue posted: the
    // handle is alive in it, and so is its header.
    unsafe { (*header).mark(false) };
    // SAFETY: as above; the queue was noted when the handle was posted.
    let books = unsafe { (*header).queue.load(std::sync::atomic::Ordering::Relaxed) };
    // SAFETY: the completion queue keeps the books of its queues while completions can come.
    unsafe { (*books).complete(direction) };
    // SAFETY: it holds an address. (The tags of a receive do not matter: no reader of a word looks at them.)
    unsafe { std::hint::assert_unchecked(wr_id != 0) };
    wr_id
}

impl<E: Entry> Drop for Completions<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.left != 0 {
            *self.rest = self.left;
        }
    }
}
