//! The ledger of a queue whose every work request completes: the entry is the wr_id.

#![allow(unsafe_code)] // reads the counters

use std::marker::PhantomData;

use crate::counters::books::{Books, Counter};
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
/// - It is poisoned if `room` is below 0, and below that by more than can ever complete.
/// - `no_buffer` is the word of the account's counter.
#[doc(hidden)]
#[repr(C)] // what each post touches, first
pub struct Credits<E> {
    pub(crate) account: Account,
    /// The wr_id of a work request without a buffer: the counter, as a word.
    pub(crate) no_buffer: usize,
    /// Lists that began and did not end.
    pub(crate) lists: AtomicU64,
    /// Completions known at the last look, wrapping.
    pub(crate) seen: u32,
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

    unsafe fn open(books: *const Books, direction: usize, depth: u32) -> Self {
        // SAFETY: the caller says that the books live on, and nobody else asks what is withheld.
        let account = unsafe {
            let withheld = Counter::withheld(Books::counter(books, direction)).total();
            let depth = depth.saturating_sub(withheld).min(DEEPEST);
            Account::new(books, direction, depth as i32)
        };
        let counter = account.counter;
        Credits {
            account,
            lists: AtomicU64::new(0),
            seen: 0,
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
        // SAFETY: the books outlive the value, and no other ledger looks for room (`open`).
        let back = unsafe { Counter::withheld(self.account.counter) }.recover();
        self.account.room += (completed.wrapping_sub(self.seen) + back) as i32;
        self.seen = completed;
        self.account.depth += back;
        // (What completes of a poisoned queue does not make it one that has room.)
        self.account.room.max(0) as u32
    }

    fn word(&self, _: u32, wr_id: u64) -> usize {
        entry_in(wr_id)
    }

    fn take_back(&mut self, n: u32) {
        self.account.room += n as i32;
    }

    fn is_poisoned(&self) -> bool {
        self.account.room < 0
    }

    fn poison(&mut self) {
        // The room is gone for good: only a reset, with a new ledger, brings it back.
        self.account.depth = self.account.depth.wrapping_add_signed(POISON - self.account.room);
        self.account.room = POISON;
    }

    fn posted(&self) -> u32 {
        self.seen.wrapping_add(self.account.depth).wrapping_sub(self.account.room as u32)
    }

    fn completed(&self) -> u32 {
        // SAFETY: the books outlive the value.
        unsafe { Counter::get(self.account.counter) }
    }
}
