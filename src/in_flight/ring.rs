//! Books of a send queue with selective signaling: a ring of entries.
//!
//! The wr_id is a sequence number and the tag of the books (see `ids`); a completion releases every entry up to
//! its own, since the send queues of IB and RoCE complete in order (R10.7).

#![allow(unsafe_code)] // owns entries as words

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;

use super::books::{Books, SEND};
use super::handles::Withheld;
use super::{MOST, Rejected, SendBooks};
use crate::entry::Entry;
use crate::sys::types::ibv_send_wr;

/// What names a work request: the halves of its wr_id.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Name {
    #[cfg(target_endian = "big")]
    sequence: u32,
    id: u32,
    #[cfg(target_endian = "little")]
    sequence: u32,
}

impl Name {
    /// Both at once.
    #[inline(always)]
    fn wr_id(&self) -> u64 {
        const { assert!(size_of::<Self>() == size_of::<u64>()) };
        // SAFETY: two halves of a `u64`, in its order and aligned as it is, without padding.
        unsafe { ptr::from_ref(self).cast::<u64>().read() }
    }
}

/// Where a list begins in the ring.
#[derive(Clone, Copy)]
pub struct Cursor {
    slot: *const Cell<usize>,
    /// Its wr_id.
    name: u64,
}

/// # Invariants
/// - Both names have the tag of `books`. Slots `oldest..next` (sequence numbers, wrapping, masked) hold the words of the
///   entries that the device owns, 0 where there is no buffer.
/// - There are `mask + 1` slots, a power of two, and at least `cap + 1 + MOST`, and as many behind them. Those from `at` on
///   may hold words of entries that are being posted: side by side, so a list may go beyond the end of the ring,
///   and `spend_slowly` moves what did to where it belongs. A list that turns out not to fit overwrites nothing.
/// - `at` is the slot of `next`, or one past the last where that is the first one.
/// - `room` is how many fit without looking: no more than `cap - (next - oldest)` (what completes is added when it is
///   needed), than slots from `at` to the end of the ring, and none if poisoned. It is below 0 only between a `spend`
///   that said no and its `unspend`. (A drain's sentinel goes beyond `cap`.)
/// - `books` outlives the value.
#[repr(C)]
pub struct Ring<E: Entry> {
    next: Name,
    oldest: Name,
    at: *const Cell<usize>,
    room: i32,
    mask: u32,
    /// Cells, because cursors write through them too. (A `Box` that moves would make `at` invalid.)
    slots: Vec<Cell<usize>>,
    mark: u64,
    cap: u32,
    poisoned: bool,
    books: *const Books,
    /// Room that completions of before a reset may still take.
    withheld: Withheld,
    _entries: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// How many work requests fit.
    fn free(&self) -> u32 {
        if self.poisoned { 0 } else { self.cap.saturating_sub(self.outstanding()) }
    }

    #[inline(always)]
    fn outstanding(&self) -> u32 {
        self.next.sequence.wrapping_sub(self.oldest.sequence)
    }

    /// The index of `at`.
    fn index(&self) -> u32 {
        ((self.at.addr() - self.slots.as_ptr().addr()) / size_of::<Cell<usize>>()) as u32
    }

    /// What fits without looking again.
    fn look(&mut self) {
        self.room = self.free().min(self.mask + 1 - self.index()) as i32;
    }

    /// Begins again at the slot of `next`. Nothing is entered there.
    fn rewind(&mut self) {
        let index = (self.next.sequence & self.mask) as usize;
        self.at = self.slots.as_ptr().wrapping_add(index);
        self.look();
    }

    #[cold]
    #[inline(never)]
    #[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
    extern "C" fn recover(&mut self, n: u32) -> bool {
        self.send_dropped_home();
        if !self.poisoned {
            self.cap += self.withheld.recover();
        }
        self.look();
        n <= self.free()
    }

    /// How many work requests are done by a completion that was dropped.
    fn done_by_dropped(&self, sequence: Option<u32>) -> Option<NonZeroU32> {
        // If it was completed since, by itself or by a later one, it is in range no more.
        self.done_with(Name { sequence: sequence?, id: self.oldest.id }.wr_id())
    }

    /// Releases what completions released that were dropped, and drops it.
    fn send_dropped_home(&mut self) {
        if let Some(released) = self.release_dropped() {
            // An entry that takes its pool along runs code of the user's, which may panic; a post does not unwind, and the
            // others go home all the same.
            let drops = std::panic::AssertUnwindSafe(|| drop(released));
            if let Err(panic) = std::panic::catch_unwind(drops) {
                std::mem::forget(panic);
            }
        }
    }

    /// The word in a slot.
    #[inline(always)]
    fn word_at(&self, index: u32) -> usize {
        debug_assert!(index <= self.mask);
        // SAFETY: there are `mask + 1` slots, and callers mask the index.
        let slot = unsafe { self.slots.get_unchecked(index as usize) };
        slot.get()
    }

    fn slot(&self, sequence: u32) -> &Cell<usize> {
        &self.slots[(sequence & self.mask) as usize]
    }

    /// As if as many work requests had been posted and completed.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, sequence: u32) {
        (self.oldest.sequence, self.next.sequence) = (sequence, sequence);
        self.rewind();
    }

    /// How many work requests are done if that with this `wr_id` is: `None` unless it is an outstanding one of this ring.
    #[inline(always)]
    pub(crate) fn done_with(&self, wr_id: u64) -> Option<NonZeroU32> {
        // Both tests at once: the ids are equal, and so is nothing but 0 above the distance from the oldest; and that is
        // in range, without which a wrong or late completion would release live entries.
        // (Half of the oldest name is read before all of it, or it would be taken from that, in two instructions.)
        let outstanding = self.outstanding() as u64;
        let ahead = wr_id.wrapping_sub(self.oldest.wr_id()).rotate_left(32);
        if ahead >= outstanding {
            return None;
        }
        // SAFETY: less than a 32-bit number, so one more is not 0.
        Some(unsafe { NonZeroU32::new_unchecked((ahead as u32).wrapping_add(1)) })
    }

    /// The first `count` entries, of work requests that are outstanding.
    #[inline(always)]
    pub(crate) fn release(&mut self, count: NonZeroU32) -> Released<'_, E> {
        // They leave the books before anybody runs code with one.
        let at = self.oldest.sequence;
        self.oldest.sequence = at.wrapping_add(count.get());
        Released { ring: self, at, left: count.get() }
    }
}

/// Moves what is in the slots from `from` to `end` by `len` towards the beginning.
fn wrap(slots: &[Cell<usize>], len: u32, from: u32, end: u32) {
    let (ring, beyond) = slots.split_at(len as usize);
    for i in from.max(len)..end {
        let i = (i - len) as usize;
        ring[i].set(beyond[i].get());
    }
}

/// The entries that a completion of a selectively signaled send queue released, in posting order: an iterator, shown at
/// [`QueuePair::complete`](crate::QueuePair::complete) (R10.7).
///
/// `for_each` and `fold` are the fastest way through them. What is not iterated over is dropped.
///
/// # Invariants
/// The `left` slots from `at` on (masked) hold words of entries that this owns; nothing is entered while it borrows
/// the ring.
pub struct Released<'q, E: Entry> {
    ring: &'q Ring<E>,
    at: u32,
    left: u32,
}

impl<E: Entry> Released<'_, E> {
    /// The entry of the next slot, if there is one in it.
    ///
    /// # Safety
    /// Some slots are left.
    #[inline(always)]
    unsafe fn pull(&mut self) -> Option<E> {
        let word = self.ring.word_at(self.at & self.ring.mask);
        self.at = self.at.wrapping_add(1);
        self.left -= 1;
        // SAFETY: the slots hold words of `E`; this one was just taken out.
        (word != 0).then(|| unsafe { E::from_kept(word) })
    }
}

impl<E: Entry> Iterator for Released<'_, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        while self.left != 0 {
            // SAFETY: some are left.
            if let Some(entry) = unsafe { self.pull() } {
                return Some(entry);
            }
        }
        None
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, E) -> B>(mut self, start: B, mut see: F) -> B {
        let mut all = start;
        if self.left == 0 {
            return all;
        }
        // Most often there is but one, so it is not part of a loop.
        // SAFETY: some are left.
        if let Some(entry) = unsafe { self.pull() } {
            all = see(all, entry);
        }
        if self.left != 0 {
            // Read again, so that they are in no register before.
            let (slots, mask) = (self.ring.slots.as_ptr(), self.ring.mask);
            let mut index = self.at & mask;
            let last = (self.at.wrapping_add(self.left) - 1) & mask;
            loop {
                // SAFETY: there are `mask + 1` slots.
                let slot = unsafe { slots.add(index as usize) };
                // SAFETY: the ring is borrowed, so its slots are there.
                let word = unsafe { (*slot).get() };
                (self.at, self.left) = (index + 1, last.wrapping_sub(index) & mask);
                if word != 0 {
                    // SAFETY: the slots hold words of `E`; this one was just taken out.
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

/// By value, so that what is released can be in registers.
#[cold]
#[inline(never)]
fn drop_rest<E: Entry>(ring: &Ring<E>, at: u32, left: u32) {
    let mut rest = Released { ring, at, left };
    rest.by_ref().for_each(drop);
}

impl<E: Entry> SendBooks<E> for Ring<E> {
    const MARKED: bool = false;

    unsafe fn new(books: *const Books, depth: u32) -> Self {
        let len = (depth + 1 + MOST).next_power_of_two();
        let slots = vec![Cell::new(0); 2 * len as usize];
        // SAFETY: the books outlive the value (the caller's contract).
        let shared = unsafe { &*books };
        let first = Name { id: shared.ring_id(), sequence: 0 };
        Ring {
            next: first,
            oldest: first,
            at: slots.as_ptr(),
            room: depth as i32,
            mask: len - 1,
            slots,
            mark: shared.mark(SEND),
            cap: depth,
            poisoned: false,
            books,
            withheld: Withheld::default(),
            _entries: PhantomData,
        }
    }

    #[inline(always)]
    fn books(&self) -> *const Books {
        self.books
    }

    #[inline(always)]
    fn mark(&self) -> u64 {
        self.mark
    }

    type Cursor = Cursor;

    #[inline(always)]
    fn known_room(&self) -> i32 {
        self.room
    }

    #[inline(always)]
    fn spend(&mut self, n: u32) -> bool {
        self.room -= n as i32;
        if self.room < 0 {
            return false;
        }
        self.next.sequence = self.next.sequence.wrapping_add(n);
        self.at = self.at.wrapping_add(n as usize);
        true
    }

    fn unspend(&mut self, n: u32) {
        self.room += n as i32;
    }

    fn spend_reserved(&mut self, n: u32) {
        let begin = self.index();
        wrap(&self.slots, self.mask + 1, begin, begin + n);
        self.next.sequence = self.next.sequence.wrapping_add(n);
        self.rewind();
    }

    #[inline(always)]
    fn reserve(&mut self, n: u32) -> bool {
        n as i32 <= self.room || self.recover(n)
    }

    fn room(&mut self) -> u32 {
        self.recover(0);
        self.free()
    }

    #[inline(always)]
    fn cursor(&self) -> Cursor {
        Cursor { slot: self.at, name: self.next.wr_id() }
    }

    #[inline(always)]
    fn advance(cursor: &mut Cursor) {
        cursor.slot = cursor.slot.wrapping_add(1);
        cursor.name = cursor.name.wrapping_add(1 << 32);
    }

    #[inline(always)]
    fn wr_id(&self, cursor: &Cursor, i: u32, _: usize) -> u64 {
        cursor.name.wrapping_add((i as u64) << 32)
    }

    #[inline(always)]
    unsafe fn enter(&mut self, cursor: &Cursor, i: u32, word: usize) {
        // SAFETY: the caller's contract, and the ring has that many slots from any one on.
        let slot = unsafe { cursor.slot.add(i as usize) };
        // SAFETY: as above; nobody else has the slots.
        unsafe { (*slot).set(word) };
    }

    unsafe fn word(&self, i: u32, _: *mut ibv_send_wr) -> usize {
        self.slots[(self.index() + i) as usize].get()
    }

    unsafe fn take_back(&mut self, n: u32, accepted: u32, _: *mut ibv_send_wr) -> Rejected<E> {
        let mut rejected = Rejected::new();
        self.next.sequence = self.next.sequence.wrapping_sub(n - accepted);
        for i in 0..n - accepted {
            let word = self.slot(self.next.sequence.wrapping_add(i)).get();
            // SAFETY: the slots hold words of `E`, and are outside oldest..next from now on.
            unsafe { rejected.push(word) };
        }
        self.rewind();
        rejected
    }

    fn poison(&mut self) {
        self.poisoned = true;
        self.look();
    }

    fn needs_sentinel(&self) -> bool {
        // Beyond the capacity there is only the sentinel of a drain that was interrupted, and it is the last.
        let outstanding = self.outstanding();
        outstanding != 0 && outstanding <= self.cap
    }

    fn push_sentinel(&mut self) -> u64 {
        let wr_id = self.next.wr_id();
        self.slot(self.next.sequence).set(0);
        self.next.sequence = self.next.sequence.wrapping_add(1);
        self.rewind();
        wr_id
    }

    fn pop_sentinel(&mut self) {
        self.next.sequence = self.next.sequence.wrapping_sub(1);
        self.rewind();
    }

    fn release_if_owned(&mut self, wr_id: u64) -> Option<Released<'_, E>> {
        self.done_with(wr_id).map(|count| self.release(count))
    }

    fn release_dropped(&mut self) -> Option<Released<'_, E>> {
        // SAFETY: the books outlive the value.
        let sequence = unsafe { (*self.books).take_dropped() };
        self.done_by_dropped(sequence).map(|count| self.release(count))
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    fn posted(&self) -> u32 {
        self.next.sequence
    }

    fn posted_as_wr_ids(&self) -> u32 {
        0
    }

    fn completed(&self) -> u32 {
        // SAFETY: the books outlive the value.
        let dropped = self.done_by_dropped(unsafe { (*self.books).dropped() });
        self.oldest.sequence.wrapping_add(dropped.map_or(0, NonZeroU32::get))
    }

    unsafe fn reopen(&mut self, old: &Arc<Books>, left: u32, books: *const Books, depth: u32) {
        let mut withheld = std::mem::take(&mut self.withheld);
        withheld.add(old, left, depth);
        // SAFETY: the caller's contract.
        let mut new: Self = unsafe { SendBooks::new(books, depth) };
        new.cap = depth.saturating_sub(withheld.total());
        new.withheld = withheld;
        new.look();
        *self = new;
    }

    fn release_all(&mut self) -> Vec<E> {
        let all = NonZeroU32::new(self.outstanding());
        all.map_or_else(Vec::new, |all| self.release(all).collect())
    }
}
