//! Divides a range of bytes into blocks of any length, and merges freed blocks.
//!
//! Segregated fits with boundary tags, which are stored out of line: each block knows its
//! neighbours by address, and free blocks are in lists by size. A class covers one eighth of a
//! power of two, so a block from a higher class than the requested size always fits. Freed blocks
//! are merged with free neighbours at once, so no two free blocks are adjacent.
//!
//! Nothing is allocated after `new`.

use std::collections::TryReserveError;

use crate::cold::reserve;

/// Blocks that are taken start at multiples of this number of bytes: a cache line.
pub const ALIGN: usize = 64;

/// No block.
const NONE: u32 = u32::MAX;

/// Eight classes for each power of two that a 64-bit number of lines can have.
const CLASSES: usize = 512;

/// A part of the range, taken or free.
#[derive(Clone, Copy)]
struct Block {
    start: usize,
    len: usize,
    /// The neighbours by address.
    before: u32,
    after: u32,
    /// The neighbours in the list of a class.
    previous: u32,
    next: u32,
    is_free: bool,
}

pub struct Ranges {
    // Invariants:
    // - The blocks that are linked by `after`, starting with the one at 0, cover the range without
    //   gaps. None of them is empty, and no two adjacent ones are free.
    // - A free block that contains an aligned line is in the list of its class; no other block is
    //   in a list.
    // - `unused` contains the indices without a block. There are enough: see `new`.
    blocks: Box<[Block]>,
    unused: Vec<u32>,
    /// The first free block of each class.
    first: Box<[u32; CLASSES]>,
    /// A bit for each class, set if its list is not empty.
    filled: [u64; CLASSES / 64],
    /// The number of bytes in free blocks.
    free: usize,
}

/// The class of blocks with `lines` aligned lines, at least one.
fn class(lines: usize) -> usize {
    match lines.ilog2() {
        0..3 => lines,
        power => (power as usize - 2) * 8 + (lines >> (power - 3)) % 8,
    }
}

impl Block {
    /// The first aligned byte at or after its start.
    fn aligned(&self) -> usize {
        self.start.next_multiple_of(ALIGN)
    }

    /// The number of aligned lines in it.
    fn lines(&self) -> usize {
        (self.start + self.len).saturating_sub(self.aligned()) / ALIGN
    }
}

impl Ranges {
    /// A free range of `len` bytes, not 0, from which at most `most` blocks are taken at a time.
    pub fn new(len: usize, most: u32) -> Result<Self, TryReserveError> {
        // As no two free blocks are adjacent, there is at most one more free block than taken
        // blocks.
        let count = 2 * most + 1;
        let (before, after, previous, next) = (NONE, NONE, NONE, NONE);
        let whole = Block { start: 0, len, before, after, previous, next, is_free: true };
        let mut blocks = reserve(count as usize)?;
        blocks.resize(count as usize, whole);
        let mut unused = reserve(count as usize)?;
        unused.extend((1..count).rev());
        let mut ranges = Ranges {
            blocks: blocks.into(),
            unused,
            first: Box::new([NONE; CLASSES]),
            filled: [0; CLASSES / 64],
            free: len,
        };
        ranges.enter(0);
        Ok(ranges)
    }

    /// Takes a block of at least `len` bytes, rounded up to lines, at an aligned address. `None` if
    /// no free block contains enough aligned lines.
    pub fn take(&mut self, len: usize) -> Option<u32> {
        let lines = len.div_ceil(ALIGN).max(1);
        let mut block = self.find(lines)?;
        self.leave(block);
        let Block { start, .. } = self.blocks[block as usize];
        let lead = self.blocks[block as usize].aligned() - start;
        if lead != 0 {
            // The part before the first aligned byte is shorter than a line, so it is in no list.
            block = self.cut(block, lead);
        }
        if self.blocks[block as usize].len > lines * ALIGN {
            let rest = self.cut(block, lines * ALIGN);
            self.enter(rest);
        }
        let taken = &mut self.blocks[block as usize];
        taken.is_free = false;
        self.free -= taken.len;
        Some(block)
    }

    /// Frees a taken block.
    pub fn give(&mut self, block: u32) {
        let Block { before, after, len, is_free, .. } = self.blocks[block as usize];
        debug_assert!(!is_free, "a block is freed once");
        self.free += len;
        self.blocks[block as usize].is_free = true;
        if self.is_free(after) {
            self.leave(after);
            self.merge(block);
        }
        let mut whole = block;
        if self.is_free(before) {
            self.leave(before);
            self.merge(before);
            whole = before;
        }
        self.enter(whole);
    }

    /// Cuts a taken block at `at` bytes, more than 0 and less than its length. Returns the block
    /// behind, which is taken as well.
    pub fn split(&mut self, block: u32, at: usize) -> u32 {
        self.cut(block, at)
    }

    /// Joins a taken block with the taken block behind it. Returns false if `next` is not that
    /// block.
    pub fn join(&mut self, block: u32, next: u32) -> bool {
        let is_next = self.blocks[block as usize].after == next;
        if is_next {
            self.merge(block);
        }
        is_next
    }

    /// The start and length of a block.
    pub fn range(&self, block: u32) -> (usize, usize) {
        let Block { start, len, .. } = self.blocks[block as usize];
        (start, len)
    }

    /// The total number of free bytes.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The length of the longest block that can be taken.
    pub fn longest(&self) -> usize {
        let top = self.filled.iter().enumerate().rev().find(|(_, bits)| **bits != 0);
        let Some((i, bits)) = top else { return 0 };
        let class = i * 64 + bits.ilog2() as usize;
        let lines = self.list(class).map(|block| self.blocks[block as usize].lines()).max();
        lines.unwrap_or(0) * ALIGN
    }

    /// A free block of at least `lines` aligned lines. Blocks of the class may be too short; blocks
    /// of higher classes are not. The whole class is searched only if there is no other block.
    fn find(&self, lines: usize) -> Option<u32> {
        let fits = |&block: &u32| self.blocks[block as usize].lines() >= lines;
        let class = class(lines);
        let first = Some(self.first[class]).filter(|&first| first != NONE);
        first.filter(fits).or_else(|| self.above(class)).or_else(|| self.list(class).find(fits))
    }

    /// The first block of the lowest class above this one that is not empty.
    fn above(&self, class: usize) -> Option<u32> {
        let from = class + 1;
        let mut bits = self.filled.get(from / 64)? & u64::MAX << (from % 64);
        let mut word = from / 64;
        while bits == 0 {
            word += 1;
            bits = *self.filled.get(word)?;
        }
        Some(self.first[word * 64 + bits.trailing_zeros() as usize])
    }

    /// The free blocks of a class.
    fn list(&self, class: usize) -> impl Iterator<Item = u32> {
        let mut at = self.first[class];
        std::iter::from_fn(move || {
            let block = at;
            at = self.blocks.get(block as usize)?.next; // `NONE` is beyond the end
            Some(block)
        })
    }

    fn is_free(&self, block: u32) -> bool {
        block != NONE && self.blocks[block as usize].is_free
    }

    /// Cuts a block that is in no list, and returns the block behind, which is in no list either.
    fn cut(&mut self, block: u32, at: usize) -> u32 {
        let front = &mut self.blocks[block as usize];
        debug_assert!(0 < at && at < front.len);
        let rest = self.unused.pop().expect("there is an index for every possible block");
        let back = Block { start: front.start + at, len: front.len - at, before: block, ..*front };
        (front.len, front.after) = (at, rest);
        self.blocks[rest as usize] = back;
        if back.after != NONE {
            self.blocks[back.after as usize].before = rest;
        }
        rest
    }

    /// Merges a block with the one behind it. Both are in no list.
    fn merge(&mut self, block: u32) {
        let gone = self.blocks[block as usize].after;
        let Block { len, after, .. } = self.blocks[gone as usize];
        let whole = &mut self.blocks[block as usize];
        whole.len += len;
        whole.after = after;
        if after != NONE {
            self.blocks[after as usize].before = block;
        }
        self.unused.push(gone);
    }

    /// Enters a free block into the list of its class, if it has an aligned line.
    fn enter(&mut self, block: u32) {
        let lines = self.blocks[block as usize].lines();
        if lines == 0 {
            return;
        }
        let class = class(lines);
        let next = self.first[class];
        if next != NONE {
            self.blocks[next as usize].previous = block;
        }
        let entered = &mut self.blocks[block as usize];
        (entered.previous, entered.next) = (NONE, next);
        self.first[class] = block;
        self.filled[class / 64] |= 1 << (class % 64);
    }

    /// Removes a free block from the list of its class, if it is in one.
    fn leave(&mut self, block: u32) {
        let left = self.blocks[block as usize];
        let lines = left.lines();
        if lines == 0 {
            return;
        }
        if left.next != NONE {
            self.blocks[left.next as usize].previous = left.previous;
        }
        if left.previous != NONE {
            self.blocks[left.previous as usize].next = left.next;
            return;
        }
        let class = class(lines);
        self.first[class] = left.next;
        if left.next == NONE {
            self.filled[class / 64] &= !(1 << (class % 64));
        }
    }
}

#[cfg(all(test, feature = "loopback"))] // random numbers from a seed
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    impl Ranges {
        /// Checks the invariants, and returns the free blocks.
        fn check(&self) -> Vec<(usize, usize)> {
            let (mut at, mut end, mut before) = (0, 0, NONE);
            let (mut free, mut listed, mut count) = (Vec::new(), 0, 0);
            while at != NONE {
                let block = self.blocks[at as usize];
                assert_eq!((block.start, block.before), (end, before));
                assert!(block.len != 0 && !(block.is_free && self.is_free(before)));
                if block.is_free {
                    free.push((block.start, block.len));
                    listed += (block.lines() != 0) as usize;
                }
                end += block.len;
                (before, at) = (at, block.after);
                count += 1;
            }
            assert_eq!(count + self.unused.len(), self.blocks.len());
            assert_eq!(free.iter().map(|free| free.1).sum::<usize>(), self.free);
            for class in 0..CLASSES {
                let is_filled = self.filled[class / 64] >> (class % 64) & 1 != 0;
                assert_eq!(is_filled, self.first[class] != NONE);
                for block in self.list(class) {
                    let block = self.blocks[block as usize];
                    assert!(block.is_free && super::class(block.lines()) == class);
                    listed -= 1;
                }
            }
            assert_eq!(listed, 0);
            free
        }
    }

    #[test]
    fn longer_blocks_are_in_no_lower_class() {
        assert_eq!([1, 7, 8, 15, 16, 17, 18, 1 << 24].map(class), [1, 7, 8, 15, 16, 16, 17, 176]);
        assert!((1..100_000).all(|lines| class(lines) <= class(lines + 1)));
        assert!(class(usize::MAX) < CLASSES);
    }

    /// There is at most one more free block than taken ones. Here every block is in use.
    #[test]
    fn as_many_blocks_as_there_can_be() {
        let mut ranges = Ranges::new(1024, 2).unwrap();
        let one = ranges.take(64).unwrap();
        let rest = ranges.split(one, 10);
        ranges.give(rest);
        let two = ranges.take(64).unwrap();
        ranges.give(one);
        let rest = ranges.split(two, 10);
        ranges.give(rest);
        let three = ranges.take(128).unwrap();
        assert_eq!(ranges.check(), [(0, 64), (74, 54), (256, 768)]);
        assert!(ranges.unused.is_empty());
        ranges.give(two);
        ranges.give(three);
        assert_eq!(ranges.check(), [(0, 1024)]);
    }

    /// The longest of several blocks in one list, in any order.
    #[test]
    fn the_longest_of_a_class() {
        for order in [[33, 32], [32, 33]] {
            assert_eq!(class(32), class(33));
            let mut ranges = Ranges::new(80 * ALIGN, 8).unwrap();
            let [one, _, two, _] =
                [order[0], 1, order[1], 14].map(|lines| ranges.take(lines * ALIGN).unwrap());
            ranges.give(one);
            ranges.give(two);
            assert_eq!(ranges.check().len(), 2);
            assert_eq!(ranges.longest(), 33 * ALIGN);
        }
    }

    /// Random takes, splits, joins and frees, compared with a list of the bytes of each holder.
    /// Proves R18.32.
    #[test]
    fn blocks_are_disjoint_and_come_back() {
        for seed in 0..if cfg!(miri) { 2 } else { 60 } {
            println!("seed {seed}");
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut below = move |bound: usize| random.next_u64() as usize % bound;
            let (len, most) = ([640, 1 << 12, 1 << 16][below(3)], [1, 5, 40][below(3)]);
            let mut ranges = Ranges::new(len, most).unwrap();
            let mut taken: Vec<u32> = Vec::new();
            for _ in 0..if cfg!(miri) { 60 } else { 600 } {
                let any = below(taken.len().max(1));
                match below(8) {
                    0..4 if taken.len() < most as usize => {
                        let most = [100, 1000, len + 100][below(3)];
                        let asked = below(most);
                        let lines = asked.div_ceil(ALIGN).max(1);
                        let fits = |&(start, len): &(usize, usize)| {
                            start + len >= start.next_multiple_of(ALIGN) + lines * ALIGN
                        };
                        let has_room = ranges.check().iter().any(fits);
                        assert_eq!(lines * ALIGN <= ranges.longest(), has_room);
                        assert_eq!(
                            ranges.longest() % ALIGN,
                            0,
                            "a block starts and ends at a line"
                        );
                        let block = ranges.take(asked);
                        assert_eq!(block.is_some(), has_room, "{asked}");
                        if let Some(block) = block {
                            let (start, len) = ranges.range(block);
                            assert_eq!((start % ALIGN, len), (0, lines * ALIGN));
                            taken.push(block);
                        }
                    }
                    4 if !taken.is_empty() && taken.len() < most as usize => {
                        let (start, len) = ranges.range(taken[any]);
                        if len > 1 {
                            let at = 1 + below(len - 1);
                            let rest = ranges.split(taken[any], at);
                            assert_eq!(ranges.range(taken[any]), (start, at));
                            assert_eq!(ranges.range(rest), (start + at, len - at));
                            taken.push(rest);
                        }
                    }
                    5 if taken.len() > 1 => {
                        let other = taken[below(taken.len())];
                        let [(start, len), (next, more)] =
                            [taken[any], other].map(|block| ranges.range(block));
                        let is_next = start + len == next;
                        assert_eq!(ranges.join(taken[any], other), is_next);
                        if is_next {
                            assert_eq!(ranges.range(taken[any]), (start, len + more));
                            taken.retain(|&block| block != other);
                        }
                    }
                    6.. if !taken.is_empty() => ranges.give(taken.swap_remove(any)),
                    _ => {}
                }
                let mut all = ranges.check();
                all.extend(taken.iter().map(|&block| ranges.range(block)));
                all.sort();
                let end = all.iter().fold(0, |end, &(start, len)| {
                    assert_eq!(start, end, "no gap, and nothing twice");
                    start + len
                });
                assert_eq!(end, len);
            }
            taken.into_iter().for_each(|block| ranges.give(block));
            assert_eq!(ranges.check(), [(0, len)]);
        }
    }
}
