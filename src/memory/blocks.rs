//! The blocks of an arena: the bytes of each slot, and the free bytes.

use std::collections::TryReserveError;

use crate::cold::reserve;
use crate::memory::ranges::{ALIGN, Ranges};

/// The longest buffer: the largest multiple of 64 below 2^31.
pub const LONGEST: usize = (1 << 31) - ALIGN;

pub struct Blocks {
    // Invariants:
    // - Each slot that has a handle, or whose handle was dropped and not yet processed, has one
    //   block that is taken in `ranges`.
    // - `spare` contains the slots without a block. It has room for all slots.
    pub ranges: Ranges,
    /// The block of each slot.
    of_slot: Vec<u32>,
    spare: Vec<u32>,
    /// The arena has no handles left. `Slab` counts buffers that are dropped from now on.
    pub is_closed: bool,
}

/// A buffer's bytes, as an offset in the region and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub start: usize,
    pub len: u32,
}

impl Blocks {
    /// Creates the blocks of `len` bytes, at least 1, for `count` slots.
    pub fn new(len: usize, count: usize) -> Result<Self, TryReserveError> {
        let mut of_slot = reserve(count)?;
        of_slot.resize(count, 0);
        let mut spare = reserve(count)?;
        spare.extend((0..count as u32).rev());
        let ranges = Ranges::new(len, count as u32)?;
        Ok(Blocks { ranges, of_slot, spare, is_closed: false })
    }

    /// The bytes of a slot's buffer before narrowing.
    pub fn whole(&self, slot: usize) -> Bytes {
        let (start, len) = self.ranges.range(self.of_slot[slot]);
        Bytes { start, len: len as u32 }
    }

    /// Takes a block of at least `len` bytes for a slot without one, and returns the slot.
    pub fn take(&mut self, len: usize) -> Option<usize> {
        let slot = *self.spare.last()? as usize;
        self.of_slot[slot] = self.ranges.take(len)?;
        self.spare.pop();
        Some(slot)
    }

    /// Moves the bytes of `slot` that start at `at` to another slot. Neither part is empty.
    pub fn split(&mut self, slot: usize, at: usize) -> Option<usize> {
        let other = self.spare.pop()? as usize;
        self.of_slot[other] = self.ranges.split(self.of_slot[slot], at);
        Some(other)
    }

    /// Appends the bytes of `next` to `slot` if they are adjacent. Then `next` has no block.
    pub fn join(&mut self, slot: usize, next: usize) -> bool {
        let is_next = self.ranges.join(self.of_slot[slot], self.of_slot[next]);
        if is_next {
            self.spare.push(next as u32);
        }
        is_next
    }

    /// Frees the bytes of a slot whose handle was dropped.
    pub fn give(&mut self, slot: usize) {
        self.ranges.give(self.of_slot[slot]);
        self.spare.push(slot as u32);
    }

    /// The number of slots without a block.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }
}
