//! The entries that a completion releases from a ring.

#![allow(unsafe_code)] // turns words into entries

use crate::in_flight::ring::Ring;
use crate::memory::entry::Entry;
use crate::memory::header::word;
use crate::terms::post_error::WorkRequests;

/// The entries that a completion of a selectively signaled send queue released, in posting order.
/// An iterator, from [`QueuePair::complete`](crate::QueuePair::complete)
/// ([R10.7](crate::guide::rules#r10-7)).
///
/// `for_each` and `fold` are the fastest ways to iterate. Entries that remain are dropped with it.
pub struct Released<'q, E: Entry> {
    // Invariants: The `left` slots from `at` on (masked) contain words of entries that this value
    // owns. Nothing is entered while it borrows the ring.
    ring: &'q Ring<E>,
    at: u32,
    left: u32,
}

impl<'q, E: Entry> Released<'q, E> {
    #[inline(always)]
    pub(super) fn new(ring: &'q Ring<E>, at: u32, left: u32) -> Self {
        Released { ring, at, left }
    }

    /// Notes for monitoring that the work requests have completed.
    #[inline]
    pub(crate) fn note_done(&self) {
        self.ring.note_done();
    }

    /// Returns all entries, if they belong to exactly `N` work requests and each has a buffer. Use
    /// it to take back a chain of known length in one step.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Chosen { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Chosen>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let [head, body] = [pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?];
    /// // The last is signaled.
    /// post_send!(a, [wr::RdmaWrite::new(head, at), wr::RdmaWrite::new(body, at)])?;
    /// let completion = loop {
    ///     if let Some(completion) = cq.poll_one()? {
    ///         break completion;
    ///     }
    /// };
    /// let done = a.complete(completion).map_err(|_| "of another queue pair")?;
    /// done.status?;
    /// let [head, body] = done.released.array().map_err(|released| format!("{}", released.count()))?;
    /// # drop((head, body));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// All entries, unchanged, if there are fewer or more, or some do not have a buffer.
    #[inline(always)]
    pub fn array<const N: usize>(mut self) -> Result<[E; N], Self> {
        if self.left as usize != N {
            return Err(self);
        }
        let words: [usize; N] = std::array::from_fn(|i| {
            self.ring.word_at(self.at.wrapping_add(i as u32) & self.ring.mask)
        });
        // Combined with OR, because `NONE` is one bit: one test for all of them.
        if word::is_none(words.iter().fold(0, |all, word| all | word)) {
            return Err(self);
        }
        self.left = 0;
        // SAFETY: the slots contain words of `E`, which were just taken out.
        Ok(words.map(|word| unsafe { E::from_kept(word) }))
    }

    /// Appends all entries to `entries`, in posting order. It reserves capacity once, and then
    /// takes about 10 instructions per entry; `entries.extend(released)` takes 17.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Chosen { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Chosen>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let [head, body] = [pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?];
    /// post_send!(a, [wr::RdmaWrite::new(head, at), wr::RdmaWrite::new(body, at)])?;
    /// let mut spare = Vec::with_capacity(2);
    /// let completion = loop {
    ///     if let Some(completion) = cq.poll_one()? {
    ///         break completion;
    ///     }
    /// };
    /// let done = a.complete(completion).map_err(|_| "of another queue pair")?;
    /// done.released.append_to(&mut spare);
    /// assert_eq!(spare.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_to(mut self, entries: &mut Vec<E>) {
        entries.reserve(self.left as usize);
        let mut len = entries.len();
        while let Some(pulled) = self.pull() {
            if let Some(entry) = pulled {
                // SAFETY: room was reserved for each entry.
                unsafe { entries.as_mut_ptr().add(len).write(entry) };
                len += 1;
            }
        }
        // SAFETY: the entries up to `len` were just written.
        unsafe { entries.set_len(len) };
    }

    /// The id of the work request that completed, which is the last of the released ones.
    /// [`with_id`](crate::wr::WorkRequest::with_id) sets this id, the 16 bits of C's `wr_id` that
    /// the program can use. It is 0 if no id was set, or if the work request has a buffer. Call
    /// this before you take the last entry.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Chosen { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Chosen>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let body = pool.take().ok_or("no buffer")?;
    /// post_send!(a, [wr::RdmaWrite::new(body, at), wr::RdmaWrite::inline(b"done", at).with_id(7)])?;
    /// let completion = loop {
    ///     if let Some(completion) = cq.poll_one()? {
    ///         break completion;
    ///     }
    /// };
    /// let done = a.complete(completion).map_err(|_| "of another queue pair")?;
    /// assert_eq!(done.released.id(), 7);
    /// assert_eq!(done.released.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> u16 {
        let last = self.at.wrapping_add(self.left).wrapping_sub(1);
        let word = self.ring.word_at(last & self.ring.mask);
        if self.left != 0 && word::is_none(word) { word::id(word) } else { 0 }
    }

    /// Takes the next slot, if some are left. Returns its entry, if it has one.
    #[inline(always)]
    fn pull(&mut self) -> Option<Option<E>> {
        if self.left == 0 {
            return None;
        }
        let word = self.ring.word_at(self.at & self.ring.mask);
        self.at = self.at.wrapping_add(1);
        self.left -= 1;
        // SAFETY: the slots contain words of `E`, and this one was just taken out.
        Some((!word::is_none(word)).then(|| unsafe { E::from_kept(word) }))
    }
}

impl<E: Entry> Iterator for Released<'_, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        loop {
            if let Some(entry) = self.pull()? {
                return Some(entry);
            }
        }
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, E) -> B>(mut self, start: B, mut see: F) -> B {
        let mut all = start;
        // Usually there is only one, so it is not part of a loop.
        if let Some(Some(entry)) = self.pull() {
            all = see(all, entry);
        }
        if self.left != 0 {
            // Read again, so that they do not occupy registers before.
            let (slots, mask) = (self.ring.slots.as_ptr(), self.ring.mask);
            let mut index = self.at & mask;
            let last = (self.at.wrapping_add(self.left) - 1) & mask;
            loop {
                // SAFETY: there are `mask + 1` slots, and the ring is borrowed, so they stay.
                let word = unsafe { (*slots.add(index as usize)).get() };
                (self.at, self.left) = (index + 1, last.wrapping_sub(index) & mask);
                if !word::is_none(word) {
                    // SAFETY: the slots contain words of `E`, and this one was just taken out.
                    all = see(all, unsafe { E::from_kept(word) });
                }
                if index == last {
                    break;
                }
                index = (index + 1) & mask;
            }
        }
        all
    }
}

impl<E: Entry> Drop for Released<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.left != 0 {
            drop_rest::<E>(self.ring, self.at, self.left);
        }
    }
}

/// By value, so that the fields can be in registers.
#[cold]
#[inline(never)]
fn drop_rest<E: Entry>(ring: &Ring<E>, at: u32, left: u32) {
    let mut rest = Released { ring, at, left };
    rest.by_ref().for_each(drop);
}

impl_debug!([E: Entry] Released<'_, E>, |it| "Released({})", WorkRequests(it.left));
