//! Books of a send queue with selective signaling: a ring of entries.
//!
//! The wr_id is the id of the books and a sequence number; a completion releases every entry up to
//! its own, since the send queues of IB and RoCE complete in order (R10.7).

#![allow(unsafe_code)] // owns entries as words

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::books::Books;
use super::handles::Withheld;
use super::{Rejected, SendBooks};
use crate::entry::Entry;
use crate::sys::types::ibv_send_wr;

/// Set in the wr_ids of rings. User-space addresses have it clear.
pub(crate) const RING: u64 = 1 << 63;

/// # Invariants
/// - Slots `head..tail` (wrapping, modulo the length) hold the words of the entries that the device
///   owns, 0 where there is no buffer. All other slots hold nothing.
/// - `tail - head <= cap + 1 <= slots.len()`, a power of two; the one beyond `cap` is the sentinel of a
///   drain. Poisoning sets `cap` to 0 and ends posting, and so may what a reset withheld, for a while.
/// - `books` outlives the value, and its id is in `id`.
pub struct Ring<E: Entry> {
    slots: Box<[usize]>,
    head: u32,
    tail: u32,
    cap: u32,
    poisoned: bool,
    id: u64,
    books: *const Books,
    /// Room that completions of before a reset may still take.
    withheld: Withheld,
    _entries: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    #[cold]
    #[inline(never)]
    #[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
    extern "C" fn recover(&mut self, n: u32) -> bool {
        if !self.poisoned {
            self.cap += self.withheld.recover();
        }
        self.fits(n)
    }

    #[inline(always)]
    fn slot(&mut self, seq: u32) -> &mut usize {
        let mask = self.slots.len() - 1;
        // SAFETY: the length is a power of two, so the masked index is within it.
        unsafe { self.slots.get_unchecked_mut(seq as usize & mask) }
    }

    /// As if as many work requests had been posted and completed.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, sequence: u32) {
        (self.head, self.tail) = (sequence, sequence);
    }

    /// Whether `wr_id` is that of an outstanding work request of this ring.
    #[inline(always)]
    pub(crate) fn owns(&self, wr_id: u64) -> bool {
        // Both tests: without the second, a wrong or late completion would release live entries.
        let seq = wr_id as u32;
        wr_id & !0xffff_ffff == self.id
            && seq.wrapping_sub(self.head) < self.tail.wrapping_sub(self.head)
    }

    /// The entries up to the one of `wr_id`, which `owns` said is ours.
    #[inline(always)]
    pub(crate) fn release(&mut self, wr_id: u64) -> Released<'_, E> {
        let end = (wr_id as u32).wrapping_add(1);
        Released { left: end.wrapping_sub(self.head), ring: self }
    }
}

/// The entries that a completion of a selectively signaled send queue released, in posting order.
///
/// What is not iterated over is dropped.
pub struct Released<'q, E: Entry> {
    ring: &'q mut Ring<E>,
    left: u32,
}

impl<E: Entry> Iterator for Released<'_, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        while self.left != 0 {
            self.left -= 1;
            let head = self.ring.head;
            let word = *self.ring.slot(head);
            // The entry leaves the books before anybody runs code with it.
            self.ring.head = head.wrapping_add(1);
            if word != 0 {
                // SAFETY: slots from head to tail hold words of `E`; this one was just taken out.
                return Some(unsafe { E::from_word(word) });
            }
        }
        None
    }
}

impl<E: Entry> Drop for Released<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        for entry in self.by_ref() {
            drop(entry);
        }
    }
}

impl<E: Entry> SendBooks<E> for Ring<E> {
    unsafe fn new(books: *const Books, depth: u32) -> Self {
        let slots = vec![0; (depth + 1).next_power_of_two() as usize].into_boxed_slice();
        // SAFETY: the books outlive the value (the caller's contract).
        let id = RING | (unsafe { (*books).id } as u64) << 32;
        let withheld = Withheld::default();
        let poisoned = false;
        Ring {
            slots,
            head: 0,
            tail: 0,
            cap: depth,
            poisoned,
            id,
            books,
            withheld,
            _entries: PhantomData,
        }
    }

    #[inline(always)]
    fn books(&self) -> *const Books {
        self.books
    }

    #[inline(always)]
    fn fits(&self, n: u32) -> bool {
        self.tail.wrapping_sub(self.head).wrapping_add(n) <= self.cap
    }

    #[inline(always)]
    fn reserve(&mut self, n: u32) -> bool {
        self.fits(n) || self.recover(n)
    }

    fn room(&mut self) -> u32 {
        self.recover(0);
        self.cap.saturating_sub(self.tail.wrapping_sub(self.head))
    }

    #[inline(always)]
    fn wr_id(&self, i: u32, _: usize) -> u64 {
        self.id | self.tail.wrapping_add(i) as u64
    }

    #[inline(always)]
    fn commit<const N: usize>(&mut self, entries: [Option<E>; N]) {
        let entries = ManuallyDrop::new(entries);
        let mut i = 0;
        while i < N {
            // SAFETY: each entry is read once, and not dropped.
            let entry = unsafe { std::ptr::read(&entries[i]) };
            *self.slot(self.tail.wrapping_add(i as u32)) = entry.map_or(0, E::into_word);
            i += 1;
        }
        self.tail = self.tail.wrapping_add(N as u32);
    }

    fn commit_list(&mut self, n: u32, _: *mut ibv_send_wr) {
        self.tail = self.tail.wrapping_add(n);
    }

    #[inline(always)]
    fn put(&mut self, i: u32, word: usize) {
        *self.slot(self.tail.wrapping_add(i)) = word;
    }

    unsafe fn take_back(&mut self, n: u32, accepted: u32, _: *mut ibv_send_wr) -> Rejected<E> {
        let mut rejected = Rejected::new();
        let end = self.tail;
        self.tail = end.wrapping_sub(n - accepted);
        for i in 0..n - accepted {
            let word = *self.slot(self.tail.wrapping_add(i));
            // SAFETY: the slots hold words of `E`, and are outside head..tail from now on.
            unsafe { rejected.push(word) };
        }
        rejected
    }

    fn poison(&mut self) {
        self.poisoned = true;
        self.cap = 0;
    }

    fn needs_sentinel(&self) -> bool {
        // Beyond the capacity there is only the sentinel of a drain that was interrupted, and it is the last.
        let outstanding = self.tail.wrapping_sub(self.head);
        outstanding != 0 && outstanding <= self.cap
    }

    fn push_sentinel(&mut self) -> u64 {
        let wr_id = self.wr_id(0, 0);
        let tail = self.tail;
        *self.slot(tail) = 0;
        self.tail = tail.wrapping_add(1);
        wr_id
    }

    fn pop_sentinel(&mut self) {
        self.tail = self.tail.wrapping_sub(1);
    }

    fn release_if_owned(&mut self, wr_id: u64) -> Option<Released<'_, E>> {
        self.owns(wr_id).then(|| self.release(wr_id))
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    fn posted(&self) -> u32 {
        self.tail
    }

    fn posted_as_wr_ids(&self) -> u32 {
        0
    }

    fn completed(&self) -> u32 {
        self.head
    }

    unsafe fn reopen(&mut self, old: &Arc<Books>, left: u32, books: *const Books, depth: u32) {
        let mut withheld = std::mem::take(&mut self.withheld);
        withheld.add(old, left);
        // SAFETY: the caller's contract.
        let mut new: Self = unsafe { SendBooks::new(books, depth) };
        new.cap = depth.saturating_sub(withheld.total());
        new.withheld = withheld;
        *self = new;
    }

    fn release_all(&mut self) -> Vec<E> {
        let left = self.tail.wrapping_sub(self.head);
        Released { left, ring: self }.collect()
    }
}
