//! The in-flight table of a send queue with selective signaling: a ring of entries.
//!
//! The wr_id is a sequence number and the tag of the counters (see `counters::ids`); a completion
//! releases every entry up to its own, since the send queues of IB and RoCE complete in order
//! (R10.7).

#![allow(unsafe_code)] // owns entries as words

use std::cell::Cell;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;

use crate::black_box::black_box_word;
use crate::cold::cold_path;
use crate::counters::queue_counters::QueueCounters;
use crate::in_flight::released::Released;
use crate::in_flight::stale::StaleCredits;
use crate::in_flight::{InFlight, MOST, QueueState, Until, entry_in, state};
use crate::memory::entry::Entry;
use crate::memory::header::word;

/// What names a work request: the halves of its wr_id.
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
    /// Both at once.
    #[inline(always)]
    fn wr_id(&self) -> u64 {
        const { assert!(size_of::<Self>() == size_of::<u64>()) };
        // SAFETY: two halves of a `u64`, in its order and aligned as it is, without padding.
        unsafe { ptr::from_ref(self).cast::<u64>().read() }
    }
}

#[repr(C)]
pub struct Ring<E: Entry> {
    // Invariants:
    // - Both names have the tag of the counters. Slots `oldest..next` (sequence numbers, wrapping,
    //   masked) hold the words of the entries that the device owns, or say that there is no buffer.
    // - There are `mask + 1` slots, a power of two, and at least `depth + 1 + MOST`, and as many
    //   behind them. Those from `at` on may hold words of entries that are being posted: side by
    //   side, so a list may go beyond the end of the ring, and `look_and_spend` moves what did to
    //   where it belongs. A list that turns out not to fit overwrites nothing.
    // - `at` is the slot of `next`, or one past the last where that is the first one.
    // - If the ring has claims, `room` is 0. What it has claimed is `next`, and what it holds. It
    //   holds an entry if the last work request is not signaled, so that one that is always fits.
    // - Otherwise `room` is no more than the state's `depth - (next - oldest)` (what completes is
    //   added when it is needed), and than slots from `at` to the end of the ring. (A drain's
    //   sentinel goes beyond `depth`.)
    pub(crate) next: Name,
    oldest: Name,
    pub(crate) at: *const Cell<usize>,
    pub(crate) state: QueueState,
    pub(super) mask: u32,
    /// Cells, because cursors write through them too. (A `Box` that moves would make `at` invalid.)
    pub(super) slots: Vec<Cell<usize>>,
    is_poisoned: bool,
    _entries: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// How many work requests fit.
    fn free(&self) -> u32 {
        if self.is_poisoned { 0 } else { self.state.depth.saturating_sub(self.in_ring()) }
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

    /// Sees how many fit without looking again: none, if each post claims its entries.
    fn measure(&mut self) {
        let is_known = self.state.claims().is_none();
        let fits = self.free().min(self.mask + 1 - self.index());
        self.state.room = if is_known { fits as i32 } else { 0 };
    }

    /// Claims what is lacking of `n` entries, if the ring takes entries as it posts.
    fn reserve(&self, n: u32) -> bool {
        self.state.claim(n.saturating_sub(self.held()))
    }

    /// How many work requests are done by a completion that was dropped.
    fn done_by_dropped(&self, sequence: Option<u32>) -> Option<NonZeroU32> {
        // If it was completed since, by itself or by a later one, it is in range no more.
        self.done_with(Name { sequence: sequence?, id: self.oldest.id }.wr_id())
    }

    /// Releases what completions released that were dropped, and drops it.
    fn give_back_dropped(&mut self) {
        if let Some(released) = self.release(Until::Dropped) {
            // An entry that takes its pool along runs code of the user's, which may panic; a post
            // does not unwind, and the others go back all the same.
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
    pub(crate) fn begin_at(&mut self, sequence: u32) {
        self.state.claims().inspect(|claims| claims.begin_at(sequence));
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
        // They leave the in-flight table before anybody runs code with one.
        let at = self.oldest.sequence;
        self.oldest.sequence = at.wrapping_add(count.get());
        Released::new(self, at, count.get())
    }
}

impl<E: Entry> InFlight<E> for Ring<E> {
    const MARKED: bool = false;
    /// The slot, and its wr_id.
    type Cursor = (*const Cell<usize>, u64);
    state!();

    fn open(
        counters: &Arc<QueueCounters>,
        direction: usize,
        depth: u32,
        stale: StaleCredits,
    ) -> Self {
        let len = (depth + 1 + MOST).next_power_of_two();
        let slots = vec![Cell::new(word::NONE); 2 * len as usize];
        let first = Name { id: word::of_ring(counters.ring_tag()), sequence: 0 };
        let cap = depth.saturating_sub(stale.total());
        let mut ring = Ring {
            next: first,
            oldest: first,
            at: slots.as_ptr(),
            state: QueueState::new(counters, direction, cap as i32, stale),
            mask: len - 1,
            slots,
            is_poisoned: false,
            _entries: PhantomData,
        };
        ring.measure();
        ring
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
        // SAFETY: the ring has as many slots from any one on as a list has work requests (the
        // caller's word for it), and nobody else has them.
        unsafe { (*slot.add(i as usize)).set(word) };
        if i != 0 {
            // One after the other, by a constant that all share: else each is the first one's and
            // a large constant of its own (1 instruction a work request).
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
        #[cfg(all(test, feature = "loopback"))]
        crate::cold_calls::note();
        let own = self.own_room();
        if n <= own && !self.reserve(n) { 0 } else { own }
    }

    fn held(&self) -> u32 {
        self.state.claims().map_or(0, |claims| claims.claimed().wrapping_sub(self.next.sequence))
    }

    fn give_back_held(&mut self) {
        // (Whether the last work request is signaled is not known here.)
        let kept = (self.in_ring() != 0) as u32;
        let more = self.held().saturating_sub(kept);
        if let (Some(claims), 1..) = (self.state.claims(), more) {
            claims.give_back(more);
        }
    }

    fn word(&self, i: u32, _: u64) -> usize {
        entry_in(self.slots[(self.index() + i) as usize].get())
    }

    fn take_back(&mut self, n: u32) {
        self.next.sequence = self.next.sequence.wrapping_sub(n);
        self.rewind();
        self.beyond(n).for_each(|(ring, list)| list.set(ring.get()));
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
        let dropped = self.done_by_dropped(self.state.counters.dropped());
        self.oldest.sequence.wrapping_add(dropped.map_or(0, NonZeroU32::get))
    }

    fn release(&mut self, until: Until) -> Option<Released<'_, E>> {
        let count = match until {
            Until::Completion(wr_id) => self.done_with(wr_id),
            Until::Dropped => {
                let sequence = self.state.counters.take_dropped();
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
        if outstanding == 0 || outstanding > self.state.depth {
            return None;
        }
        // Without an entry the last work request is signaled, so its completion tells.
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
