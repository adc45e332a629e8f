//! The slots of an arena whose buffers were dropped, and which keep their bytes: each is in the
//! list of its length, for the next buffer of the same length. So the usual take and drop change
//! one list and lock nothing.

use std::collections::TryReserveError;
use std::ptr::NonNull;

use crate::cold::reserve;
use crate::memory::free_list::FreeList;
use crate::memory::header::Header;
use crate::memory::ranges::ALIGN;
use crate::sync::{AtomicU32, Ordering};

/// The longest kept bytes, in lines: 64 KiB.
const LONGEST: usize = 1024;
/// About the maximum number of kept slots. It bounds the cost of freeing the bytes of all of them.
const MOST: u32 = 64;

pub struct Kept {
    // Invariant: the slots in a list have no handle, and their bytes are that number of lines.
    /// The slots with 1, 2, 3 .. lines.
    lists: Vec<FreeList>,
    /// At least the number of slots in `lists`. It is larger while slots are entered and taken.
    count: AtomicU32,
    /// The lines of each slot's bytes, or 0 if they cannot be kept. The holder of the handle reads
    /// it. It is written while the slot has no handle, or under the lock of the arena's blocks by
    /// the holder of the handle.
    lines: Vec<AtomicU32>,
}

/// The number of lines that `len` bytes need.
#[inline(always)]
pub fn lines(len: usize) -> usize {
    len.div_ceil(ALIGN).max(1)
}

impl Kept {
    /// Lists for the `count` slots of an arena of `len` bytes.
    pub fn new(len: usize, count: usize) -> Result<Self, TryReserveError> {
        let longest = (len / ALIGN).min(LONGEST);
        let (mut lists, mut lines) = (reserve(longest)?, reserve(count)?);
        lists.resize_with(longest, FreeList::new);
        lines.resize_with(count, || AtomicU32::new(0));
        Ok(Kept { lists, count: AtomicU32::new(0), lines })
    }

    /// Records the bytes of a slot, which start at `start` in the region.
    pub fn set_bytes(&self, slot: usize, start: usize, len: usize) {
        let is_whole = (start | len) % ALIGN == 0 && lines(len) <= self.lists.len();
        let lines = if is_whole { lines(len) as u32 } else { 0 };
        self.lines[slot].store(lines, Ordering::Relaxed);
    }

    /// Takes a slot whose bytes have as many lines as `len` bytes need. Returns `None` if there is
    /// none, or if another thread interferes. Must not be called after `close`.
    #[inline(always)]
    pub fn take(&self, len: usize) -> Option<NonNull<Header>> {
        let slot = self.lists.get(lines(len) - 1)?.take()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    /// The list for the slot with this index, which has a handle. Returns `None` if its bytes
    /// cannot be kept, or if enough slots are kept. The caller enters the slot, or calls `undo`.
    #[inline(always)]
    pub fn list(&self, slot: usize) -> Option<&FreeList> {
        let lines = self.lines[slot].load(Ordering::Relaxed) as usize;
        let list = self.lists.get(lines.wrapping_sub(1))?;
        if self.is_full() {
            return None;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(list)
    }

    /// Whether enough slots are kept.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= MOST
    }

    /// Records that a slot was not entered.
    pub fn undo(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes all slots. Must not be called after `close`.
    pub fn all(&self) -> impl Iterator<Item = NonNull<Header>> {
        let mut lists = self.lists.iter().peekable();
        std::iter::from_fn(move || {
            while self.count.load(Ordering::Relaxed) != 0 {
                if let Some(slot) = lists.peek()?.take_later(|| None) {
                    self.count.fetch_sub(1, Ordering::Relaxed);
                    return Some(slot);
                }
                lists.next();
            }
            None
        })
    }

    /// Closes all lists and returns the slots that were there.
    pub fn close(&self) -> impl Iterator<Item = NonNull<Header>> {
        self.lists.iter().flat_map(FreeList::close)
    }
}
