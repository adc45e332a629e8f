//! The ledger of a send queue with selective signaling: a ring of entries.
//!
//! The wr_id is a sequence number and the tag of the books (see `counters::ids`); a completion
//! releases every entry up to its own, since the send queues of IB and RoCE complete in order
//! (R10.7).

#![allow(unsafe_code)] // owns entries as words

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr;

use crate::counters::books::Books;
use crate::ledger::withheld::Withheld;
use crate::ledger::{Account, Ledger, MOST, Until};
use crate::memory::entry::Entry;

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
/// - Both names have the tag of the books. Slots `oldest..next` (sequence numbers, wrapping,
///   masked) hold the words of the entries that the device owns, 0 where there is no buffer.
/// - There are `mask + 1` slots, a power of two, and at least `cap + 1 + MOST`, and as many behind
///   them. Those from `at` on may hold words of entries that are being posted: side by side, so a
///   list may go beyond the end of the ring, and `look_and_spend` moves what did to where it
///   belongs. A list that turns out not to fit overwrites nothing.
/// - `at` is the slot of `next`, or one past the last where that is the first one.
/// - The account's `room` is no more than `cap - (next - oldest)` (what completes is added when it
///   is needed), and than slots from `at` to the end of the ring. (A drain's sentinel goes beyond
///   `cap`.)
#[repr(C)]
pub struct Ring<E: Entry> {
    next: Name,
    oldest: Name,
    at: *const Cell<usize>,
    account: Account,
    mask: u32,
    cap: u32,
    /// Cells, because cursors write through them too. (A `Box` that moves would make `at` invalid.)
    slots: Vec<Cell<usize>>,
    _entries: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// How many work requests fit.
    fn free(&self) -> u32 {
        if self.account.is_poisoned { 0 } else { self.cap.saturating_sub(self.in_ring()) }
    }

    /// Work requests whose entries were not released.
    #[inline(always)]
    fn in_ring(&self) -> u32 {
        self.next.sequence.wrapping_sub(self.oldest.sequence)
    }

    /// The index of `at`.
    fn index(&self) -> u32 {
        ((self.at.addr() - self.slots.as_ptr().addr()) / size_of::<Cell<usize>>()) as u32
    }

    /// Begins again at the slot of `next`. Nothing is entered there.
    fn rewind(&mut self) {
        let index = (self.next.sequence & self.mask) as usize;
        self.at = self.slots.as_ptr().wrapping_add(index);
        self.measure();
    }

    /// Sees how many fit without looking again.
    fn measure(&mut self) {
        self.account.room = self.free().min(self.mask + 1 - self.index()) as i32;
    }

    /// Looks at what has completed. Gives the room.
    #[cold]
    #[inline(never)]
    #[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
    extern "C" fn look(&mut self) -> u32 {
        self.send_dropped_home();
        if !self.account.is_poisoned {
            self.cap += self.account.withheld.recover();
        }
        self.measure();
        self.free()
    }

    /// How many work requests are done by a completion that was dropped.
    fn done_by_dropped(&self, sequence: Option<u32>) -> Option<NonZeroU32> {
        // If it was completed since, by itself or by a later one, it is in range no more.
        self.done_with(Name { sequence: sequence?, id: self.oldest.id }.wr_id())
    }

    /// Releases what completions released that were dropped, and drops it.
    fn send_dropped_home(&mut self) {
        if let Some(released) = self.release(Until::Dropped) {
            // An entry that takes its pool along runs code of the user's, which may panic; a post
            // does not unwind, and the others go home all the same.
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

    /// Pairs of slots: that of the `i`th of `n` entries from `at` on where it belongs, and where a
    /// list has it, for those that go beyond the end of the ring.
    fn beyond(&self, n: u32) -> impl Iterator<Item = (&Cell<usize>, &Cell<usize>)> {
        let len = self.mask + 1;
        let slot = |index: u32| &self.slots[index as usize];
        let begin = self.index();
        (begin.max(len)..begin + n).map(move |index| (slot(index - len), slot(index)))
    }

    /// As if as many work requests had been posted and completed.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, sequence: u32) {
        (self.oldest.sequence, self.next.sequence) = (sequence, sequence);
        self.rewind();
    }

    /// How many work requests are done if that with this `wr_id` is: `None` unless it is an
    /// outstanding one of this ring.
    #[inline(always)]
    pub(crate) fn done_with(&self, wr_id: u64) -> Option<NonZeroU32> {
        // Both tests at once: the ids are equal, and so is nothing but 0 above the distance from
        // the oldest; and that is in range, without which a wrong or late completion would release
        // live entries. (`sequence` is loaded first: the other order costs an instruction.)
        let outstanding = self.in_ring() as u64;
        let ahead = wr_id.wrapping_sub(self.oldest.wr_id()).rotate_left(32);
        if ahead >= outstanding {
            return None;
        }
        // SAFETY: less than a 32-bit number, so one more is not 0.
        Some(unsafe { NonZeroU32::new_unchecked((ahead as u32).wrapping_add(1)) })
    }

    /// The first `count` entries, of work requests that are outstanding.
    #[inline(always)]
    pub(crate) fn release_first(&mut self, count: NonZeroU32) -> Released<'_, E> {
        // They leave the ledger before anybody runs code with one.
        let at = self.oldest.sequence;
        self.oldest.sequence = at.wrapping_add(count.get());
        Released { ring: self, at, left: count.get() }
    }
}

/// The entries that a completion of a selectively signaled send queue released, in posting order:
/// the iterator of [`QueuePair::complete`](crate::QueuePair::complete) (R10.7).
///
/// `for_each` and `fold` are the fastest way through them. What is not iterated over is dropped.
///
/// # Invariants
/// The `left` slots from `at` on (masked) hold words of entries that this owns; nothing is entered
/// while it borrows the ring.
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
                // SAFETY: there are `mask + 1` slots, and the ring is borrowed, so they stay.
                let word = unsafe { (*slots.add(index as usize)).get() };
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

impl<E: Entry> Ledger<E> for Ring<E> {
    const MARKED: bool = false;
    type Cursor = Cursor;

    unsafe fn open(books: *const Books, direction: usize, depth: u32, withheld: Withheld) -> Self {
        let len = (depth + 1 + MOST).next_power_of_two();
        let slots = vec![Cell::new(0); 2 * len as usize];
        // SAFETY: the caller says that the books live on.
        let (first, account) = unsafe {
            let cap = depth.saturating_sub(withheld.total());
            let first = Name { id: (*books).ring_id(), sequence: 0 };
            (first, Account::new(books, direction, cap as i32, withheld))
        };
        Ring {
            next: first,
            oldest: first,
            at: slots.as_ptr(),
            cap: account.room as u32,
            account,
            mask: len - 1,
            slots,
            _entries: PhantomData,
        }
    }

    #[inline(always)]
    fn account(&self) -> &Account {
        &self.account
    }

    #[inline(always)]
    fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }

    #[inline(always)]
    fn spend(&mut self, n: u32) -> bool {
        let fits = self.account.spend(n);
        if fits {
            self.next.sequence = self.next.sequence.wrapping_add(n);
            self.at = self.at.wrapping_add(n as usize);
        }
        fits
    }

    fn look_and_spend(&mut self, n: u32) -> bool {
        if n > self.look() {
            return false;
        }
        self.beyond(n).for_each(|(ring, list)| ring.set(list.get()));
        self.next.sequence = self.next.sequence.wrapping_add(n);
        self.rewind();
        true
    }

    fn room(&mut self) -> u32 {
        self.look()
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
    unsafe fn enter(&mut self, cursor: &Cursor, i: u32, word: usize) -> u64 {
        // SAFETY: the ring has as many slots from any one on as a list has work requests (the
        // caller's word for it), and nobody else has them.
        unsafe { (*cursor.slot.add(i as usize)).set(word) };
        cursor.name.wrapping_add((i as u64) << 32)
    }

    fn word(&self, i: u32, _: u64) -> usize {
        self.slots[(self.index() + i) as usize].get()
    }

    fn take_back(&mut self, n: u32) {
        self.next.sequence = self.next.sequence.wrapping_sub(n);
        self.rewind();
        self.beyond(n).for_each(|(ring, list)| list.set(ring.get()));
    }

    fn poison(&mut self) {
        self.account.is_poisoned = true;
        self.account.room = 0;
    }

    fn posted(&self) -> u32 {
        self.next.sequence
    }

    fn completed(&self) -> u32 {
        // SAFETY: the books outlive the value.
        let dropped = self.done_by_dropped(unsafe { (*self.account.books).dropped() });
        self.oldest.sequence.wrapping_add(dropped.map_or(0, NonZeroU32::get))
    }

    fn release(&mut self, until: Until) -> Option<Released<'_, E>> {
        let count = match until {
            Until::Completion(wr_id) => self.done_with(wr_id),
            Until::Dropped => {
                // SAFETY: the books outlive the value.
                let sequence = unsafe { (*self.account.books).take_dropped() };
                self.done_by_dropped(sequence)
            }
            Until::End => NonZeroU32::new(self.in_ring()),
        };
        count.map(|count| self.release_first(count))
    }

    fn enter_sentinel(&mut self) -> Option<u64> {
        // Beyond the capacity there is only the sentinel of a drain that was interrupted, and it is
        // the last.
        let outstanding = self.in_ring();
        if outstanding == 0 || outstanding > self.cap {
            return None;
        }
        let wr_id = self.next.wr_id();
        self.slots[(self.next.sequence & self.mask) as usize].set(0);
        self.next.sequence = self.next.sequence.wrapping_add(1);
        self.rewind();
        Some(wr_id)
    }
}
