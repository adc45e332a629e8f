//! Polling: from `ibv_wc` to completions.

#![allow(unsafe_code)] // polls, and reads what was polled

use std::marker::PhantomData;

use super::{BATCH, Batch, CompletionQueue};
use crate::entry::Entry;
use crate::error::Error;
use crate::sys::data;
use crate::sys::types::ibv_wc;
use crate::wc::Completion;

/// Whether a completion is at the start of the batch.
struct Found {
    is_first: bool,
    error: Option<Error>,
}

impl<E: Entry> CompletionQueue<E> {
    /// Polls (`ibv_poll_cq`): the completions that are there, up to 16.
    ///
    /// What is not taken from the iterator is handed out by the next poll. An error means that the
    /// completion queue is dead (R10.12).
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
    /// they are reclaimed when the queue pairs are gone.
    #[inline(always)]
    pub fn poll(&mut self) -> Result<Completions<'_, E>, Error> {
        let count = self.ask(BATCH as i32);
        if count > 0 {
            let batch = &raw mut self.batch;
            // SAFETY: the field is inside the batch; no reference is made.
            let at = unsafe { &raw const (*batch).wcs }.cast();
            // INVARIANT: the provider wrote `count` completions, which are handed out here: nothing is left.
            return Ok(Completions { at, left: count as u32, batch, _queue: PhantomData });
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
        if count <= 0 {
            let Found { is_first, error } = self.find_first(count);
            if let Some(error) = error {
                return Err(error);
            }
            if !is_first {
                return Ok(None);
            }
        }
        let at = (&raw const self.batch.wcs).cast();
        // SAFETY: the provider wrote the one completion, or `find_first` put it there, and it is handed out here.
        Ok(Some(unsafe { completion(at) }))
    }

    /// Polls for `most`; as `ibv_poll_cq` answers. What an earlier poll left comes first, from its stand-in.
    #[inline(always)]
    fn ask(&mut self, most: i32) -> i32 {
        let at = (&raw mut self.batch).cast();
        // SAFETY: the queue is live, or is the stand-in, which is called with its batch; there is room for `most`.
        unsafe { data::poll_cq(self.batch.polled, most, at) }
    }

    /// Makes sure that completions are in the batch; whether there are any.
    pub(crate) fn fetch(&mut self) -> Result<bool, Error> {
        if self.batch.left == 0 {
            let count = self.ask(BATCH as i32);
            if count > 0 {
                self.keep(count);
            } else if let Some(error) = self.find(count) {
                return Err(error);
            }
        }
        Ok(self.batch.left != 0)
    }

    /// The provider wrote `count` completions, which are not handed out yet.
    fn keep(&mut self, count: i32) {
        self.batch.keep(0, count as u32);
    }

    /// As `find`, and takes the first completion out of the batch, to its start.
    #[cold]
    #[inline(never)]
    fn find_first(&mut self, count: i32) -> Found {
        let error = self.find(count);
        let is_first = error.is_none() && self.batch.left != 0;
        if is_first {
            self.batch.hand_out(1);
        }
        Found { is_first, error }
    }

    /// The queue is empty, or dead: fills the batch if there are some completions after all.
    #[cold]
    #[inline(never)]
    fn find(&mut self, count: i32) -> Option<Error> {
        if count < 0 {
            let asked = "the completion queue is in error: it overran, or its device is gone";
            return Some(Error::os("ibv_poll_cq", libc::EIO, asked));
        }
        if !self.shared.any_dead() {
            return None;
        }
        // What is gone now cannot add completions: if there is still nothing, there will not be.
        let dead = self.shared.dead();
        let count = self.ask(BATCH as i32);
        if count == 0 {
            self.shared.settle(&dead);
            return None;
        }
        // Another time: some of them may still have completions.
        self.shared.notice_dead();
        if count < 0 {
            return self.find(count);
        }
        self.keep(count);
        None
    }

    /// Hands out what is in the batch.
    pub(crate) fn hand_out(&mut self) -> Completions<'_, E> {
        // If the iterator is forgotten, what it did not hand out is lost, but nothing is handed out
        // twice: the batch is empty until the iterator says otherwise.
        let left = self.batch.hand_out(BATCH as u32);
        let batch = &raw mut self.batch;
        // SAFETY: the field is inside the batch; no reference is made.
        let at = unsafe { &raw const (*batch).wcs }.cast();
        Completions { at, left, batch, _queue: PhantomData }
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
/// `left` completions from `at` on, in `batch`, are polled and not handed out; `batch` is borrowed for `'cq`, and
/// says that nothing is left.
pub struct Completions<'cq, E: Entry> {
    at: *const ibv_wc,
    left: u32,
    batch: *mut Batch,
    _queue: PhantomData<(&'cq mut Batch, E)>,
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
/// `wc` lives as long as `'cq`, was polled from a queue of `E`, and is handed out once.
#[inline(always)]
unsafe fn completion<'cq, E: Entry>(wc: *const ibv_wc) -> Completion<'cq, E> {
    // SAFETY: the caller's contract.
    let wc = unsafe { &*wc };
    // SAFETY: as above.
    unsafe { Completion::new(wc, wc.wr_id as usize) }
}

impl<E: Entry> Drop for Completions<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.left != 0 {
            put_back(self.batch, self.at, self.left);
        }
    }
}

/// The next poll hands out `left` completions from `at` on.
#[cold]
fn put_back(batch: *mut Batch, at: *const ibv_wc, left: u32) {
    // SAFETY: the iterator borrows the batch, and is done with it.
    let batch = unsafe { &mut *batch };
    let next = (at.addr() - batch.wcs.as_ptr().addr()) / size_of::<ibv_wc>();
    batch.keep(next as u32, left);
}
