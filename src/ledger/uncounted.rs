//! The ledger of a shared receive queue: the entry is the wr_id, and nothing is counted.
//!
//! Its completions may go to several threads, so that a count would need a read-modify-write for
//! each. It takes buffers of one pool only, and each completion queue that receives from it has
//! booked room for all of them.

#![allow(unsafe_code)] // reads the books

use std::marker::PhantomData;

use crate::counters::books::Books;
use crate::counters::mark;
use crate::ledger::{Account, Ledger, entry_in};
use crate::memory::entry::Entry;
use crate::sync::AtomicU64;

#[doc(hidden)]
#[repr(C)] // what each post touches, first
pub struct Uncounted<E> {
    pub(crate) account: Account,
    /// Lists that began and did not end.
    pub(crate) lists: AtomicU64,
    is_poisoned: bool,
    _entries: PhantomData<E>,
}

impl<E: Entry> Ledger<E> for Uncounted<E> {
    const MARKED: bool = true;

    unsafe fn open(books: *const Books, direction: usize, _: u32) -> Self {
        // SAFETY: the caller says that the books live on.
        let account = unsafe { Account::new(books, direction, i32::MAX) };
        Uncounted { account, lists: AtomicU64::new(0), is_poisoned: false, _entries: PhantomData }
    }

    fn look_and_spend(&mut self, _: u32) -> bool {
        !self.is_poisoned
    }

    extern "C" fn room(&mut self) -> u32 {
        if self.is_poisoned { 0 } else { i32::MAX as u32 }
    }

    fn word(&self, _: u32, wr_id: u64) -> usize {
        entry_in(wr_id)
    }

    fn take_back(&mut self, _: u32) {}

    fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    /// Posts test nothing for it: every buffer is strange from now on, so that each is looked at.
    fn poison(&mut self) {
        (self.is_poisoned, self.account.strange) = (true, mark::ANY);
    }

    fn posted(&self) -> u32 {
        0
    }

    fn completed(&self) -> u32 {
        0
    }
}
