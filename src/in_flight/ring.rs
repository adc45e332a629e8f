//! Books of a send queue with selective signaling: a ring of entries.
//!
//! The wr_id is a sequence number and the id of the books; a completion releases every entry up to
//! its own, since the send queues of IB and RoCE complete in order (R10.7).

#![allow(unsafe_code)] // owns entries as words

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::books::{Books, SEND};
use super::handles::Withheld;
use super::{MOST, Rejected, SendBooks};
use crate::buf::header::word;
use crate::entry::Entry;
use crate::sys::types::ibv_send_wr;

/// The lower half of the wr_ids of a ring: the id of its books, and the tags that no handle has.
pub(super) fn id_of(books: &Books) -> u32 {
    books.id << 2 | (word::RING | word::NONE) as u32
}

/// The sequence number of a wr_id.
#[inline(always)]
pub(super) fn sequence(wr_id: u64) -> u32 {
    (wr_id >> 32) as u32
}

/// What `room` is while the ring is poisoned: nothing that is released makes it positive.
const POISONED: i32 = i32::MIN / 2;

/// Where a list begins in the ring.
#[derive(Clone, Copy)]
pub struct Cursor {
    slot: *const Cell<usize>,
    /// Its wr_id.
    name: u64,
}

/// # Invariants
/// - Slots `head..tail` (wrapping, masked) hold the words of the entries that the device owns, 0 where there
///   is no buffer. Those after `tail` may hold words of entries that are being posted.
/// - `room` is `cap - (tail - head)`, and below 0 when poisoned, which ends posting. A drain's sentinel takes one more.
/// - There are `mask + 1` slots, a power of two, and at least `cap + 1 + MOST`: entering a list that
///   turns out not to fit overwrites nothing. As many are behind them: a list is entered into slots side by side, so that
///   it needs to mask once, and `spend` moves what went beyond to where it belongs.
/// - `books` outlives the value, and its id is in `id`.
#[repr(C)]
pub struct Ring<E: Entry> {
    // Side by side: together they are the next wr_id.
    id: u32,
    tail: u32,
    head: u32,
    room: i32,
    /// Cells, because cursors write through them too.
    slots: Box<[Cell<usize>]>,
    mask: u32,
    mark: u64,
    cap: u32,
    poisoned: bool,
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
            let back = self.withheld.recover();
            self.cap += back;
            self.room += back as i32;
        }
        n as i32 <= self.room
    }

    #[inline(always)]
    fn slot(&self, seq: u32) -> &Cell<usize> {
        let index = (seq & self.mask) as usize;
        // SAFETY: there are `mask + 1` slots.
        unsafe { self.slots.get_unchecked(index) }
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
        let seq = sequence(wr_id);
        wr_id as u32 == self.id && seq.wrapping_sub(self.head) < self.tail.wrapping_sub(self.head)
    }

    /// The entries up to the one of `wr_id`, which `owns` said is ours.
    #[inline(always)]
    pub(crate) fn release(&mut self, wr_id: u64) -> Released<'_, E> {
        self.release_until(sequence(wr_id).wrapping_add(1))
    }

    /// The entries before `end`, which is not beyond the tail.
    #[inline(always)]
    fn release_until(&mut self, end: u32) -> Released<'_, E> {
        // They leave the books before anybody runs code with one.
        let at = std::mem::replace(&mut self.head, end);
        self.room += end.wrapping_sub(at) as i32;
        let slots = self.slots.as_ptr();
        Released { slots, mask: self.mask, at, end, _ring: PhantomData }
    }
}

/// A list that was entered went beyond the `len` slots of the ring, by `over`: those belong at its beginning.
#[cold]
#[inline(never)]
fn wrap(slots: &[Cell<usize>], len: u32, over: u32) {
    let (ring, beyond) = slots.split_at(len as usize);
    for (to, from) in ring.iter().zip(&beyond[..over as usize]) {
        to.set(from.get());
    }
}

/// The entries that a completion of a selectively signaled send queue released, in posting order: an iterator, shown at
/// [`QueuePair::complete`](crate::QueuePair::complete) (R10.7).
///
/// What is not iterated over is dropped.
///
/// # Invariants
/// Slots `at..end` hold words of entries that this owns; nothing is entered while it borrows the ring.
pub struct Released<'q, E: Entry> {
    slots: *const Cell<usize>,
    mask: u32,
    at: u32,
    end: u32,
    _ring: PhantomData<(&'q mut Ring<E>, E)>,
}

impl<E: Entry> Iterator for Released<'_, E> {
    type Item = E;

    #[inline(always)]
    fn next(&mut self) -> Option<E> {
        while self.at != self.end {
            let index = (self.at & self.mask) as usize;
            // SAFETY: there are `mask + 1` slots.
            let slot = unsafe { self.slots.add(index) };
            // SAFETY: the ring is borrowed, so its slots are there.
            let word = unsafe { (*slot).get() };
            self.at = self.at.wrapping_add(1);
            if word != 0 {
                // SAFETY: the slots hold words of `E`; this one was just taken out.
                return Some(unsafe { E::from_kept(word) });
            }
        }
        None
    }
}

impl<E: Entry> Drop for Released<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.at != self.end {
            drop_rest::<E>(self.slots, self.mask, self.at, self.end);
        }
    }
}

/// By value, so that what is released can be in registers.
#[cold]
#[inline(never)]
fn drop_rest<E: Entry>(slots: *const Cell<usize>, mask: u32, at: u32, end: u32) {
    let mut rest = Released::<E> { slots, mask, at, end, _ring: PhantomData };
    rest.by_ref().for_each(drop);
}

impl<E: Entry> SendBooks<E> for Ring<E> {
    const MARKED: bool = false;

    unsafe fn new(books: *const Books, depth: u32) -> Self {
        let len = (depth + 1 + MOST).next_power_of_two();
        let slots = vec![Cell::new(0); 2 * len as usize].into_boxed_slice();
        // SAFETY: the books outlive the value (the caller's contract).
        let shared = unsafe { &*books };
        Ring {
            id: id_of(shared),
            tail: 0,
            head: 0,
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
        self.tail = self.tail.wrapping_add(n);
        let over = self.tail & self.mask;
        // One work request never goes beyond.
        if n > 1 && over < n {
            wrap(&self.slots, self.mask + 1, over);
        }
        true
    }

    fn unspend(&mut self, n: u32) {
        self.room += n as i32;
    }

    #[inline(always)]
    fn reserve(&mut self, n: u32) -> bool {
        n as i32 <= self.room || self.recover(n)
    }

    fn room(&mut self) -> u32 {
        self.recover(0);
        self.room.max(0) as u32
    }

    #[inline(always)]
    fn cursor(&self) -> Cursor {
        let index = (self.tail & self.mask) as usize;
        let name = (self.tail as u64) << 32 | self.id as u64;
        Cursor { slot: self.slots.as_ptr().wrapping_add(index), name }
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
        self.slots[(self.tail & self.mask) as usize + i as usize].get()
    }

    unsafe fn take_back(&mut self, n: u32, accepted: u32, _: *mut ibv_send_wr) -> Rejected<E> {
        let mut rejected = Rejected::new();
        let end = self.tail;
        self.tail = end.wrapping_sub(n - accepted);
        self.unspend(n - accepted);
        for i in 0..n - accepted {
            let word = self.slot(self.tail.wrapping_add(i)).get();
            // SAFETY: the slots hold words of `E`, and are outside head..tail from now on.
            unsafe { rejected.push(word) };
        }
        rejected
    }

    fn poison(&mut self) {
        self.poisoned = true;
        self.room = POISONED;
    }

    fn needs_sentinel(&self) -> bool {
        // Beyond the capacity there is only the sentinel of a drain that was interrupted, and it is the last.
        let outstanding = self.tail.wrapping_sub(self.head);
        outstanding != 0 && outstanding <= self.cap
    }

    fn push_sentinel(&mut self) -> u64 {
        let cursor = self.cursor();
        let wr_id = self.wr_id(&cursor, 0, 0);
        self.slot(self.tail).set(0);
        self.tail = self.tail.wrapping_add(1);
        self.room -= 1;
        wr_id
    }

    fn pop_sentinel(&mut self) {
        self.tail = self.tail.wrapping_sub(1);
        self.room += 1;
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
        withheld.add(old, left, depth);
        // SAFETY: the caller's contract.
        let mut new: Self = unsafe { SendBooks::new(books, depth) };
        new.cap = depth.saturating_sub(withheld.total());
        new.room = new.cap as i32;
        new.withheld = withheld;
        *self = new;
    }

    fn release_all(&mut self) -> Vec<E> {
        self.release_until(self.tail).collect()
    }
}
