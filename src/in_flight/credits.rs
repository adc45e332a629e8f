//! The in-flight table of a queue on which every work request completes: the entry is the wr_id.

// No model: only the owner of one queue changes the count, and reads it when the queue ends. It is
// atomic for how it is compiled; no other thread reads it.

#![allow(unsafe_code)] // reads the counters

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::cold::cold_path;
use crate::counters::queue_counters::{CompletionCounter, QueueCounters};
use crate::in_flight::stale::StaleCredits;
use crate::in_flight::{InFlight, QueueState, Room, entry_in, state};
use crate::memory::entry::Entry;
use crate::memory::header::word;

/// The room of a poisoned in-flight table. Completions cannot raise it to 0.
const POISON: i32 = i32::MIN / 2;
/// No queue is this deep (devices support a few thousand entries), so completions fit in the rest.
const DEEPEST: u32 = 1 << 28;
/// Subtracted from room and depth if the queue takes an entry of a shared budget with each work
/// request. Then no post seems to fit, so each post takes the cold path.
const HIDDEN: i32 = i32::MIN / 4;

#[doc(hidden)]
#[repr(C)] // the fields that each post accesses come first
pub struct Credits<E> {
    // Invariants:
    // - `room` + outstanding work requests, as known when the counter was last read, = `depth`.
    //   Both are lower by `HIDDEN` if the queue has claims.
    // - It is poisoned if `room` is so far below `HIDDEN` that completions cannot raise it to that.
    // - `no_buffer` is the word of the state's counter.
    pub(crate) state: QueueState,
    /// The wr_id of a work request without a buffer: the counter as a word.
    pub(crate) no_buffer: usize,
    /// The number of completions when the counter was last read, wrapping.
    pub(crate) seen: u32,
    _entries: PhantomData<E>,
}

impl<E: Entry> InFlight<E> for Credits<E> {
    const MARKED: bool = true;
    type Cursor = ();
    state!();

    fn open(
        counters: &Arc<QueueCounters>,
        direction: usize,
        (depth, _): Room,
        stale: StaleCredits,
    ) -> Self {
        let depth = depth.saturating_sub(stale.total()).min(DEEPEST);
        let hidden = if counters.claims(direction).is_some() { HIDDEN } else { 0 };
        let state = QueueState::new(counters, direction, depth as i32 + hidden, stale);
        let no_buffer = word::of(state.counter.cast_mut(), word::NONE);
        Credits { state, no_buffer, seen: 0, _entries: PhantomData }
    }

    #[inline(always)]
    fn cursor(&self) {}

    #[inline(always)]
    fn advance((): &mut ()) {}

    #[inline(always)]
    unsafe fn enter(&mut self, (): &mut (), _: u32, word: Option<usize>, id: u64) -> u64 {
        // The upper bits of the counter's address are 0 (`QueueCounters`).
        word.map_or(self.no_buffer as u64 + id, |word| word as u64)
    }

    #[inline(always)]
    fn spend(&mut self, n: u32) -> bool {
        let state = &mut self.state;
        state.room -= n as i32;
        // (The sign is a flag of the subtraction. Comparing first would take another instruction.)
        if state.room >= 0 {
            return true;
        }
        cold_path();
        // A queue that is always full gets here with each post, so reading the counter is not left
        // to cold code. SAFETY: the counter belongs to the state's counters (invariant).
        let completed = unsafe { CompletionCounter::get(state.counter) };
        let more = completed.wrapping_sub(self.seen);
        // Added to both. The atomic prevents LLVM from noticing that one sum equals `completed`,
        // which it would keep in a register (1 instruction). SAFETY: it is an aligned field that is
        // borrowed mutably.
        let seen = unsafe { AtomicU32::from_ptr(&raw mut self.seen) };
        seen.store(seen.load(Relaxed).wrapping_add(more), Relaxed);
        state.room += more as i32;
        if state.room >= 0 {
            return true;
        }
        cold_path();
        state.room += n as i32;
        false
    }

    fn look_and_spend(&mut self, n: u32) -> bool {
        let fits = n <= self.own_room() && self.state.claim(n);
        if fits {
            self.state.room -= n as i32;
        }
        fits
    }

    fn own_room(&mut self) -> u32 {
        let completed = self.completed();
        let back = self.state.stale.recover();
        self.state.room += (completed.wrapping_sub(self.seen) + back) as i32;
        self.seen = completed;
        self.state.depth += back;
        let hidden = if self.state.claims().is_some() { HIDDEN } else { 0 };
        // (Completions on a poisoned queue do not give it room.)
        if self.is_poisoned() { 0 } else { (self.state.room - hidden).max(0) as u32 }
    }

    fn word(&self, _: u32, wr_id: u64) -> usize {
        entry_in(wr_id as usize)
    }

    fn take_back(&mut self, n: u32) {
        self.state.room += n as i32;
        self.state.claims().inspect(|claims| claims.give_back(n));
    }

    fn is_poisoned(&self) -> bool {
        self.state.room < HIDDEN
    }

    fn poison(&mut self) {
        // The room is gone for good. Only a reset, with a new in-flight table, restores it.
        self.state.depth = self.state.depth.wrapping_add_signed(POISON - self.state.room);
        self.state.room = POISON;
    }

    fn posted(&self) -> u32 {
        self.seen.wrapping_add(self.state.depth).wrapping_sub(self.state.room as u32)
    }

    fn completed(&self) -> u32 {
        // SAFETY: the counter belongs to the state's counters (invariant).
        unsafe { CompletionCounter::get(self.state.counter) }
    }
}
