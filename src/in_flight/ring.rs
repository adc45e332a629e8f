//! The in-flight table of a send queue with selective signaling: a ring of entries.
//!
//! The wr_id is a sequence number and the tag of the counters (see `counters::ids`). A completion
//! releases every entry up to its own, because the send queues of IB and RoCE complete in order
//! (R10.7).

#![allow(unsafe_code)] // owns entries as words

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;

use crate::black_box::black_box_word;
use crate::cold::cold_path;
use crate::counters::queue_counters::{QueueCounters, SEND};
use crate::in_flight::released::Released;
use crate::in_flight::stale::StaleCredits;
use crate::in_flight::{InFlight, MOST, QueueState, Room, Slots, Until, entry_in, state};
use crate::memory::entry::Entry;
use crate::memory::header::word;

/// The name of a work request: the halves of its wr_id.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Name {
    #[cfg(target_endian = "big")]
    pub sequence: u32,
    id: u32,
    #[cfg(target_endian = "little")]
    pub sequence: u32,
}

impl Name {
    /// Both halves as one number.
    #[inline(always)]
    fn wr_id(&self) -> u64 {
        const { assert!(size_of::<Self>() == size_of::<u64>()) };
        // SAFETY: these are the two halves of a `u64`, in its order and with its alignment, without
        // padding.
        unsafe { ptr::from_ref(self).cast::<u64>().read() }
    }
}

#[repr(C)]
pub struct Ring<E: Entry> {
    // Invariants:
    // - Both names have the tag of the counters. Slots `oldest..next` (sequence numbers, wrapping,
    //   masked) contain the words of the entries that the device owns, or a word for no buffer.
    // - There are `mask + 1` slots, a power of two and at least `depth + 1 + MOST`, and the same
    //   number behind them. Slots from `at` on may contain words of entries that are being posted.
    //   They are contiguous, so a list may extend past the end of the ring, and `look_and_spend`
    //   moves that part to its slots. A list that turns out not to fit overwrites nothing.
    // - `at` is the slot of `next`, or one past the last if that is the first slot.
    // - If the ring has claims, `room` is 0, and the number of claimed entries is `next` plus the
    //   held ones. It holds an entry if the last work request is unsignaled, so that a signaled one
    //   always fits. While nothing is being posted, it is the kept entry of the claims, which the
    //   poller returns once everything has completed.
    // - Otherwise `room` is at most `depth - (next - oldest)` of the state (completions are added
    //   when needed), and at most the number of slots from `at` to the end of the ring. (The
    //   marker of a drain exceeds `depth`.)
    pub(crate) next: Name,
    pub(super) oldest: Name,
    pub(crate) at: *const Cell<usize>,
    pub(crate) state: QueueState,
    pub(super) mask: u32,
    /// Cells, because cursors write through them too. (Moving a `Box` would invalidate `at`.)
    pub(super) slots: Vec<Cell<usize>>,
    is_poisoned: bool,
    _entries: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// The number of work requests that fit.
    fn free(&self) -> u32 {
        if self.is_poisoned { 0 } else { self.state.depth.saturating_sub(self.in_ring()) }
    }

    /// The number of work requests whose entries are not released.
    #[inline(always)]
    fn in_ring(&self) -> u32 {
        self.next.sequence.wrapping_sub(self.oldest.sequence)
    }

    /// The index of `at`.
    fn index(&self) -> u32 {
        ((self.at.addr() - self.slots.as_ptr().addr()) / size_of::<Cell<usize>>()) as u32
    }

    /// Sets `at` to the slot of `next` again. Nothing is entered there.
    pub(super) fn rewind(&mut self) {
        self.state.counters.note_next(self.next.sequence);
        let index = (self.next.sequence & self.mask) as usize;
        self.at = self.slots.as_ptr().wrapping_add(index);
        self.measure();
    }

    /// Computes how many work requests fit until completions are read again: none, if each post
    /// claims its entries.
    fn measure(&mut self) {
        let is_known = self.state.claims().is_none();
        let fits = self.free().min(self.mask + 1 - self.index());
        self.state.room = if is_known { fits as i32 } else { 0 };
    }

    /// Claims the missing completion queue entries for `n` work requests, if each post of this ring
    /// claims its entries.
    fn reserve(&self, n: u32) -> bool {
        self.state.claims().inspect(|claims| claims.claim_kept());
        self.state.claim(n.saturating_sub(self.held()))
    }

    /// The number of work requests that are done when the one with this number is. `None` if that
    /// was released before.
    fn done_by(&self, number: u64) -> Option<NonZeroU32> {
        let ahead = number.wrapping_sub(self.state.counters.number_of(self.oldest.sequence));
        (ahead < self.in_ring().into()).then(|| NonZeroU32::MIN.saturating_add(ahead as u32))
    }

    /// Releases the entries up to the work request with this number: none, if they were released
    /// before.
    pub(crate) fn release_by(&mut self, number: u64) -> Released<'_, E> {
        match self.done_by(number) {
            Some(count) => self.release_first(count),
            None => Released::new(self, self.oldest.sequence, 0),
        }
    }

    /// Notes for monitoring that all work requests before the oldest have completed.
    #[inline]
    pub(super) fn note_done(&self) {
        self.state.counters.tally(SEND).done.set(self.oldest.sequence.into());
    }

    /// Releases and drops the entries of dropped completions.
    fn give_back_dropped(&mut self) {
        if let Some(released) = self.release(Until::Dropped) {
            // An entry that drops its pool runs user code, which may panic. A post does not unwind,
            // and the other entries are returned nevertheless.
            let drops = std::panic::AssertUnwindSafe(|| drop(released));
            if let Err(panic) = std::panic::catch_unwind(drops) {
                std::mem::forget(panic);
            }
        }
    }

    /// The word in a slot.
    #[inline(always)]
    pub(super) fn word_at(&self, index: u32) -> usize {
        debug_assert!(index <= self.mask);
        // SAFETY: there are `mask + 1` slots, and callers mask the index.
        let slot = unsafe { self.slots.get_unchecked(index as usize) };
        slot.get()
    }

    /// The entries among the next `n` that extend past the end of the ring: for each, its slot in
    /// the ring, and the slot in which the list wrote it.
    fn beyond(&self, n: u32) -> impl Iterator<Item = (&Cell<usize>, &Cell<usize>)> {
        let len = self.mask + 1;
        let slot = |index: u32| &self.slots[index as usize];
        let begin = self.index();
        (begin.max(len)..begin + n).map(move |index| (slot(index - len), slot(index)))
    }

    /// The number of work requests that are done when the one with this `wr_id` is. `None` if that
    /// is not outstanding in this ring.
    #[inline(always)]
    pub(crate) fn done_with(&self, wr_id: u64) -> Option<NonZeroU32> {
        // Two tests in one: the tags are equal, so the bits above the distance from the oldest are
        // 0; and the distance is in range, because otherwise a wrong or late completion would
        // release entries that the device owns. (`sequence` is loaded first: the other order takes
        // one more instruction.)
        let outstanding = self.in_ring() as u64;
        let ahead = wr_id.wrapping_sub(self.oldest.wr_id()).rotate_left(32);
        if ahead >= outstanding {
            return None;
        }
        // SAFETY: it is less than a 32-bit number, so one more is not 0.
        Some(unsafe { NonZeroU32::new_unchecked((ahead as u32).wrapping_add(1)) })
    }

    /// Releases the first `count` entries. Their work requests are outstanding.
    #[inline(always)]
    pub(crate) fn release_first(&mut self, count: NonZeroU32) -> Released<'_, E> {
        // They leave the in-flight table before other code runs with one.
        let at = self.oldest.sequence;
        self.oldest.sequence = at.wrapping_add(count.get());
        Released::new(self, at, count.get())
    }
}

/// The number of slots of a ring: a list that starts at the last one uses those behind it.
pub(crate) fn slots(depth: u32) -> usize {
    2 * (depth + 1 + MOST).next_power_of_two() as usize
}

impl<E: Entry> InFlight<E> for Ring<E> {
    const MARKED: bool = false;
    /// The slot and its wr_id.
    type Cursor = (*const Cell<usize>, u64);
    state!();

    fn open(
        counters: &Arc<QueueCounters>,
        direction: usize,
        (depth, mut slots): Room,
        stale: StaleCredits,
    ) -> Self {
        slots.clear();
        slots.resize(self::slots(depth), Cell::new(word::NONE));
        let first = Name { id: word::of_ring(counters.ring_tag()), sequence: 0 };
        let cap = depth.saturating_sub(stale.total());
        let mut ring = Ring {
            next: first,
            oldest: first,
            at: slots.as_ptr(),
            state: QueueState::new(counters, direction, cap as i32, stale),
            mask: slots.len() as u32 / 2 - 1,
            slots,
            is_poisoned: false,
            _entries: PhantomData,
        };
        ring.measure();
        ring
    }

    fn take_slots(&mut self) -> Slots {
        std::mem::take(&mut self.slots)
    }

    #[inline(always)]
    fn cursor(&self) -> Self::Cursor {
        (self.at, self.next.wr_id())
    }

    #[inline(always)]
    fn advance((slot, wr_id): &mut Self::Cursor) {
        (*slot, *wr_id) = (slot.wrapping_add(1), wr_id.wrapping_add(1 << 32));
    }

    #[inline(always)]
    unsafe fn enter(
        &mut self,
        (slot, wr_id): &mut Self::Cursor,
        i: u32,
        word: Option<usize>,
        id: u64,
    ) -> u64 {
        let word = word.unwrap_or(word::none(id));
        // SAFETY: from every slot on, the ring has as many slots as a list has work requests (the
        // contract), and only this list uses them.
        unsafe { (*slot.add(i as usize)).set(word) };
        if i != 0 {
            // One after the other, by a shared constant. Otherwise each is the first one plus a
            // separate large constant (1 instruction per work request).
            *wr_id = black_box_word(*wr_id).wrapping_add(1 << 32);
        }
        *wr_id
    }

    #[inline(always)]
    fn spend(&mut self, n: u32) -> bool {
        let state = &mut self.state;
        state.room -= n as i32;
        // (As in `Credits::spend`.)
        if state.room < 0 {
            cold_path();
            state.room += n as i32;
            return false;
        }
        self.next.sequence = self.next.sequence.wrapping_add(n);
        self.at = self.at.wrapping_add(n as usize);
        true
    }

    fn look_and_spend(&mut self, n: u32) -> bool {
        if n > self.own_room() || !self.reserve(n) {
            return false;
        }
        self.beyond(n).for_each(|(ring, list)| ring.set(list.get()));
        self.next.sequence = self.next.sequence.wrapping_add(n);
        self.rewind();
        self.give_back_held();
        true
    }

    fn own_room(&mut self) -> u32 {
        self.give_back_dropped();
        self.state.depth += self.state.stale.recover();
        self.measure();
        self.free()
    }

    #[cold]
    #[inline(never)]
    extern "C" fn room_for(&mut self, n: u32) -> u32 {
        crate::cold_calls::note();
        let own = self.own_room();
        if n <= own && !self.reserve(n) { 0 } else { own }
    }

    fn held(&self) -> u32 {
        self.state.claims().map_or(0, |claims| {
            claims.claimed().wrapping_sub(self.next.sequence) + claims.is_kept() as u32
        })
    }

    #[cold]
    #[inline(never)]
    fn give_back_held(&mut self) {
        // (It is not known here whether the last work request is signaled.)
        self.state.claims().inspect(|claims| claims.keep_one(self.next.sequence));
    }

    fn word(&self, i: u32, _: u64) -> usize {
        entry_in(self.slots[(self.index() + i) as usize].get())
    }

    fn take_back(&mut self, n: u32) {
        self.next.sequence = self.next.sequence.wrapping_sub(n);
        // (Slots beyond the end of the ring still contain the list.)
        self.rewind();
        self.give_back_held();
    }

    fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    fn poison(&mut self) {
        self.is_poisoned = true;
        self.state.room = 0;
    }

    fn posted(&self) -> u32 {
        self.next.sequence
    }

    fn completed(&self) -> u32 {
        let dropped = self.state.counters.dropped().and_then(|number| self.done_by(number));
        self.oldest.sequence.wrapping_add(dropped.map_or(0, NonZeroU32::get))
    }

    fn release(&mut self, until: Until) -> Option<Released<'_, E>> {
        let has_completed = !matches!(until, Until::End);
        let count = match until {
            Until::Completion(wr_id) => self.done_with(wr_id),
            Until::Dropped => {
                let number = self.state.counters.take_dropped();
                number.and_then(|number| self.done_by(number))
            }
            Until::End => NonZeroU32::new(self.in_ring()),
        };
        let released = self.release_first(count?);
        if has_completed {
            released.note_done();
        }
        Some(released)
    }

    fn enter_sentinel(&mut self) -> Option<u64> {
        // Only the marker of an interrupted drain exceeds the capacity, and it is the last.
        let outstanding = self.in_ring();
        if outstanding == 0 || outstanding > self.state.depth {
            return None;
        }
        // Without a held entry, the last work request is signaled, and its completion is
        // enough.
        if !self.reserve(1) {
            return None;
        }
        let wr_id = self.next.wr_id();
        self.slots[(self.next.sequence & self.mask) as usize].set(word::NONE);
        self.next.sequence = self.next.sequence.wrapping_add(1);
        self.rewind();
        Some(wr_id)
    }
}
