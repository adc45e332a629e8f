//! The ledger of a queue whose every work request completes: the entry is the wr_id.

#![allow(unsafe_code)] // reads the counters

use std::marker::PhantomData;

use crate::counters::books::Books;
use crate::ledger::withheld::Withheld;
use crate::ledger::{Account, Ledger, entry_in};
use crate::memory::entry::Entry;
use crate::memory::header::word;
use crate::sync::AtomicU64;

/// The room of a poisoned ledger: what completes does not bring it to 0.
const POISON: i32 = i32::MIN / 2;
/// No queue is as deep (devices have a few thousand entries): so what completes fits beside.
const DEEPEST: u32 = 1 << 29;

/// # Invariants
/// - `room` + work requests outstanding, by what was known at the last look, = `depth`.
/// - `no_buffer` is the word of this direction's counter in `books`.
#[doc(hidden)]
#[repr(C)] // what each post touches, first
pub struct Credits<E> {
    pub(crate) account: Account,
    /// The wr_id of a work request without a buffer: the counter in `books`, as a word.
    pub(crate) no_buffer: usize,
    /// Completions known at the last look, wrapping.
    pub(crate) seen: u32,
    depth: u32,
    direction: u32,
    /// Lists that began and did not end.
    pub(crate) lists: AtomicU64,
    _entries: PhantomData<E>,
}

impl<E: Entry> Credits<E> {
    /// As if as many work requests had been posted and completed.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, count: u32) {
        self.seen = count;
    }
}

impl<E: Entry> Ledger<E> for Credits<E> {
    const MARKED: bool = true;

    unsafe fn open(books: *const Books, direction: usize, depth: u32, withheld: Withheld) -> Self {
        let depth = depth.saturating_sub(withheld.total()).min(DEEPEST);
        // SAFETY: the caller says that the books live on.
        let account = unsafe { Account::new(books, direction, depth as i32, withheld) };
        let counter = account.counter;
        Credits {
            account,
            depth,
            seen: 0,
            direction: direction as u32,
            lists: AtomicU64::new(0),
            no_buffer: word::of(counter.cast_mut(), word::NONE),
            _entries: PhantomData,
        }
    }

    fn look_and_spend(&mut self, n: u32) -> bool {
        let fits = n <= self.room();
        if fits {
            self.account.room -= n as i32;
        }
        fits
    }

    #[cold]
    #[inline(never)]
    extern "C" fn room(&mut self) -> u32 {
        let completed = self.completed();
        let back = self.account.withheld.recover();
        self.account.room += (completed.wrapping_sub(self.seen) + back) as i32;
        self.seen = completed;
        self.depth += back;
        // (What completes of a poisoned queue does not make it one that has room.)
        self.account.room.max(0) as u32
    }

    fn word(&self, _: u32, wr_id: u64) -> usize {
        entry_in(wr_id)
    }

    fn take_back(&mut self, n: u32) {
        self.account.room += n as i32;
    }

    fn poison(&mut self) {
        self.account.is_poisoned = true;
        // The room is gone for good: only a reset, with a new ledger, brings it back.
        self.depth = self.depth.wrapping_add_signed(POISON - self.account.room);
        self.account.room = POISON;
    }

    fn posted(&self) -> u32 {
        self.seen.wrapping_add(self.depth).wrapping_sub(self.account.room as u32)
    }

    fn completed(&self) -> u32 {
        // SAFETY: the books outlive the value.
        unsafe { (*self.account.books).completed(self.direction as usize) }
    }
}
