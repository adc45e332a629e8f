//! What an arena knows of its slots: which bytes each has, and which bytes nobody has.
//!
//! A buffer that is dropped enters its slot into the list of its `Slots`, as a pool's does. The
//! next that is taken looks there first, and gives the bytes back to `Ranges`.

use std::collections::TryReserveError;

use crate::cold::reserve;
use crate::memory::ranges::Ranges;
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// # Invariants
/// - The blocks of slots that have a handle, or whose handle was dropped and not yet seen, are
///   taken in `book`, one each, and `wholes` has their bytes.
pub struct Cuts {
    /// For each slot: what its buffer is when it is not narrowed.
    wholes: Box<[Whole]>,
    book: Mutex<Book>,
}

/// The bytes of a buffer. They change while one thread has the buffer, and whoever has it later
/// got it from that thread; so they need no order of their own.
struct Whole {
    start: AtomicU64,
    len: AtomicU32,
}

/// # Invariants
/// `spare` are the slots that have no block. It has room for all slots.
pub struct Book {
    pub ranges: Ranges,
    /// The block of each slot.
    blocks: Box<[u32]>,
    spare: Vec<u32>,
    /// The arena has no handle any more: what is dropped now, `Slots` counts.
    pub is_closed: bool,
}

/// A buffer's bytes, as an offset in the region and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub start: usize,
    pub len: u32,
}

impl Cuts {
    /// For `len` bytes, not 0, and `count` slots.
    pub fn new(len: usize, count: usize) -> Result<Self, TryReserveError> {
        let mut blocks = reserve(count)?;
        blocks.resize(count, 0);
        let mut spare = reserve(count)?;
        spare.extend((0..count as u32).rev());
        let mut wholes = reserve(count)?;
        wholes.resize_with(count, || Whole { start: AtomicU64::new(0), len: AtomicU32::new(0) });
        let ranges = Ranges::new(len, count as u32)?;
        let book = Book { ranges, blocks: blocks.into(), spare, is_closed: false };
        Ok(Cuts { wholes: wholes.into(), book: Mutex::new(book) })
    }

    /// The bytes of a slot's buffer, for its holder.
    pub fn whole(&self, slot: usize) -> Bytes {
        let Whole { start, len } = &self.wholes[slot];
        Bytes { start: start.load(Ordering::Relaxed) as usize, len: len.load(Ordering::Relaxed) }
    }

    fn set_whole(&self, slot: u32, (start, len): (usize, usize)) {
        let whole = &self.wholes[slot as usize];
        whole.start.store(start as u64, Ordering::Relaxed);
        whole.len.store(len as u32, Ordering::Relaxed);
    }

    /// The book, after what was dropped since was given back. `dropped` is asked for these slots
    /// under the lock, unless the arena has no handle any more.
    pub fn book_now<I: Iterator<Item = u32>>(
        &self,
        dropped: impl FnOnce() -> I,
    ) -> MutexGuard<'_, Book> {
        let mut book = self.book();
        if !book.is_closed {
            for slot in dropped() {
                book.give(slot);
            }
        }
        book
    }

    /// The arena's last handle is gone: returns how many slots have no bytes, after those of
    /// `dropped`, which are the last that come here.
    pub fn close<I: Iterator<Item = u32>>(&self, dropped: impl FnOnce() -> I) -> usize {
        let mut book = self.book_now(dropped);
        book.is_closed = true;
        book.spare()
    }

    /// Takes a slot with at least `len` bytes, and says how many it is to have.
    pub fn take(&self, book: &mut Book, len: usize) -> Option<u32> {
        let slot = *book.spare.last()?;
        let block = book.ranges.take(len)?;
        book.spare.pop();
        book.blocks[slot as usize] = block;
        self.set_whole(slot, book.ranges.range(block));
        Some(slot)
    }

    /// Gives the bytes of a slot from `at` on, neither none nor all, to another slot. `None` if all
    /// slots have some.
    pub fn split(&self, book: &mut Book, slot: u32, at: usize) -> Option<u32> {
        let other = book.spare.pop()?;
        let block = book.blocks[slot as usize];
        let rest = book.ranges.split(block, at);
        book.blocks[other as usize] = rest;
        self.set_whole(slot, book.ranges.range(block));
        self.set_whole(other, book.ranges.range(rest));
        Some(other)
    }

    /// Gives the bytes of the slot `next`, whose handle is given up, to the slot with those before
    /// them. False, and nothing changes, if `slot` is not that one.
    pub fn join(&self, book: &mut Book, slot: u32, next: u32) -> bool {
        let (block, behind) = (book.blocks[slot as usize], book.blocks[next as usize]);
        let is_next = book.ranges.join(block, behind);
        if is_next {
            self.set_whole(slot, book.ranges.range(block));
            book.spare.push(next);
        }
        is_next
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

impl Book {
    /// Takes back the bytes of a slot that has no handle any more.
    fn give(&mut self, slot: u32) {
        self.ranges.give(self.blocks[slot as usize]);
        self.spare.push(slot);
    }

    /// The number of slots that have no bytes.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }
}
