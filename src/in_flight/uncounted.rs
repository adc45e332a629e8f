//! The in-flight table of a shared receive queue: the entry is the wr_id, and there is no count.
//!
//! Several threads may poll its completions, so a count would need a read-modify-write for each
//! completion. The shared receive queue takes buffers of one pool only, and each completion queue
//! of its queue pairs has reserved room for all of them.

#![allow(unsafe_code)] // enters entries

use std::marker::PhantomData;
use std::sync::Arc;

use crate::counters::queue_counters::QueueCounters;
use crate::counters::type_tag;
use crate::in_flight::stale::StaleCredits;
use crate::in_flight::{InFlight, QueueState, Room, entry_in, state};
use crate::memory::entry::Entry;
use crate::memory::header::word;

#[doc(hidden)]
#[repr(C)] // the fields that each post accesses come first
pub struct Uncounted<E> {
    pub(crate) state: QueueState,
    is_poisoned: bool,
    _entries: PhantomData<E>,
}

impl<E: Entry> InFlight<E> for Uncounted<E> {
    const MARKED: bool = true;
    type Cursor = ();
    state!();

    fn open(counters: &Arc<QueueCounters>, direction: usize, _: Room, stale: StaleCredits) -> Self {
        let state = QueueState::new(counters, direction, i32::MAX, stale);
        Uncounted { state, is_poisoned: false, _entries: PhantomData }
    }

    #[inline(always)]
    fn cursor(&self) {}

    #[inline(always)]
    fn advance((): &mut ()) {}

    #[inline(always)]
    unsafe fn enter(&mut self, (): &mut (), _: u32, word: Option<usize>, _: u64) -> u64 {
        // A receive without a buffer is never posted (`Kind::NEEDS_BUFFERS`), so it needs no wr_id.
        word.unwrap_or(word::NONE) as u64
    }

    #[inline(always)]
    fn spend(&mut self, _: u32) -> bool {
        true
    }

    fn look_and_spend(&mut self, _: u32) -> bool {
        !self.is_poisoned
    }

    fn own_room(&mut self) -> u32 {
        if self.is_poisoned { 0 } else { i32::MAX as u32 }
    }

    fn word(&self, _: u32, wr_id: u64) -> usize {
        entry_in(wr_id as usize)
    }

    fn take_back(&mut self, _: u32) {}

    fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    /// Posts do not test for poison. Instead, every buffer mismatches from now on, so each is
    /// inspected.
    fn poison(&mut self) {
        (self.is_poisoned, self.state.mismatch) = (true, type_tag::ANY);
    }

    fn posted(&self) -> u32 {
        0
    }

    fn completed(&self) -> u32 {
        0
    }
}
