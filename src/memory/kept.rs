//! The slots of an arena that keep their bytes after their buffers were dropped. Each is in the
//! list of its length, for the next buffer of the same length. So the usual take and drop change
//! one list and lock nothing.

// Model: src/memory/loom_tests/arenas.rs

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

#[cfg(all(test, feature = "loopback"))]
mod tests {
    #![allow(unsafe_code)] // handles of slots

    use rand_core::RngCore;
    use rand_pcg::Pcg32;

    use super::*;
    use crate::memory::header::Handle;
    use crate::{Buf, Pool};

    const SLOTS: usize = 80;

    /// The only handles of the slots of a pool, and their indices.
    struct Slots {
        pool: Pool,
        handles: Vec<NonNull<Header>>,
    }

    impl Slots {
        fn new() -> Slots {
            let crate::loopback::Pair { pd, .. } = crate::loopback::pair().unwrap();
            let pool = pd.create_pool(SLOTS, 8).unwrap();
            let handle = |buf: Buf| NonNull::from(std::mem::ManuallyDrop::new(buf).header());
            let handles = (0..SLOTS).map(|_| handle(pool.take().unwrap())).collect();
            Slots { pool, handles }
        }

        fn index(&self, slot: NonNull<Header>) -> usize {
            self.handles.iter().position(|&handle| handle == slot).unwrap()
        }

        /// Enters a slot, if it can be kept.
        fn put(&self, kept: &Kept, slot: usize) -> bool {
            let Some(list) = kept.list(slot) else { return false };
            // SAFETY: `self` has the only handle, and regards it as given up.
            assert!(unsafe { list.put_later(self.handles[slot]) });
            true
        }
    }

    impl Drop for Slots {
        fn drop(&mut self) {
            for &slot in &self.handles {
                // SAFETY: the only handle, because each test takes all slots out of its lists.
                drop(unsafe { Buf::<()>::from_header(slot.as_ptr()) });
            }
            assert_eq!(self.pool.available(), SLOTS);
        }
    }

    /// Only whole lines can be kept, up to 64 KiB and up to the length of the arena.
    #[test]
    fn lengths_that_can_be_kept() {
        for (len, lists) in [(0, 0), (63, 0), (64, 1), (575, 8), (65_536, 1024), (65_600, 1024)] {
            assert_eq!(Kept::new(len, 3).unwrap().lists.len(), lists, "{len}");
        }
        let kept = Kept::new(8 * 64, 3).unwrap();
        assert_eq!(kept.lines.len(), 3);
        for (start, len, lines) in [
            (0, 64, 1),
            (64, 64, 1),
            (640, 128, 2),
            (0, 512, 8),
            (0, 576, 0),
            (32, 64, 0),
            (0, 65, 0),
            (63, 1, 0),
        ] {
            kept.set_bytes(1, start, len);
            assert_eq!(kept.lines[1].load(Ordering::Relaxed), lines, "{len} bytes at {start}");
            assert_eq!(kept.list(1).is_some(), lines != 0);
        }
        assert!([0, 2].iter().all(|&slot| kept.list(slot).is_none()), "without bytes");
    }

    /// A take finds the slot of its length that was kept last, and at most 64 slots are kept.
    #[test]
    fn slots_wait_in_the_list_of_their_length() {
        const LINES: usize = 5;
        for seed in 0..if cfg!(miri) { 2 } else { 50 } {
            println!("seed {seed}");
            let (slots, kept) = (Slots::new(), Kept::new(LINES * 64, SLOTS).unwrap());
            // The slots in each list, and all others.
            let mut model: [Vec<usize>; LINES + 1] = Default::default();
            let mut free: Vec<usize> = (0..SLOTS).collect();
            let mut random = Pcg32::new(seed, 0);
            let mut below = |n: usize| random.next_u32() as usize % n;
            for _ in 0..300 {
                let count: usize = model.iter().map(Vec::len).sum();
                assert_eq!(kept.count.load(Ordering::Relaxed), count as u32);
                assert_eq!(kept.is_full(), count >= 64);
                let lines = 1 + below(LINES);
                match below(16) {
                    0..9 => {
                        let slot = free.swap_remove(below(free.len()));
                        kept.set_bytes(slot, 64 * slot, 64 * lines);
                        let is_kept = slots.put(&kept, slot);
                        assert_eq!(is_kept, count < 64);
                        if is_kept { model[lines].push(slot) } else { free.push(slot) }
                    }
                    9..14 => {
                        let len = 64 * lines - below(64);
                        let slot = kept.take(len).map(|slot| slots.index(slot));
                        assert_eq!(slot, model[lines].pop());
                        free.extend(slot);
                    }
                    14 => {
                        kept.set_bytes(free[0], 0, 64);
                        if kept.list(free[0]).is_some() {
                            kept.undo();
                        }
                    }
                    _ if below(8) == 0 => {
                        let all: Vec<_> = kept.all().map(|slot| slots.index(slot)).collect();
                        let expected = model.iter_mut().flat_map(|list| list.drain(..).rev());
                        assert_eq!(all, expected.collect::<Vec<_>>());
                        free.extend(all);
                    }
                    _ => assert_eq!(kept.take(64 * (LINES + 1)), None, "longer than the arena"),
                }
            }
            let mut left: Vec<_> = kept.close().map(|slot| slots.index(slot)).collect();
            left.sort_unstable();
            let mut expected = model.concat();
            expected.sort_unstable();
            assert_eq!(left, expected);
        }
    }
}
