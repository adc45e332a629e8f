//! The numbers that identify objects: where they come from, and why they are unique.
//!
//! - A **number** of `mint` and `mint_below` is returned once: it is the value that one
//!   read-modify-write read and no other can read, because each stores a larger one. No ordering is
//!   needed: a number does not imply anything about other writes of its thread, and other threads
//!   receive it together with the object that it names.
//! - The **number of a pool** is in the type tags of its buffers (`counters::type_tag`). It is
//!   reused, but not while it can still be compared: the pool's `Slab` owns it and outlives its
//!   headers, and the shared receive queue that compares it keeps the pool.
//! - The **tag of a ring** is in the lower half of the wr_ids of a selectively signaled send queue,
//!   where 29 bits are available. The upper half is a sequence number. The tag is reused, but not
//!   while a wr_id with it may still exist. The `QueueCounters` own it, and have three kinds of
//!   owners: the queue (and its later lives, while room is reserved for this one), each completion
//!   queue of the queue, and its detached completions. A completion queue drops them when none of
//!   their completions can arrive any more, or when it is destroyed. Code that reads a completion
//!   borrows the completion queue. So when the last `Arc<QueueCounters>` is dropped, no wr_id with
//!   its tag is left, neither in the device nor in the program.
//!
//! Numbers that are reused are taken and returned under one lock.

// Model: sys/src/counters/loom_tests/ids.rs

use std::collections::BTreeSet;

use crate::counters::type_tag;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, global, lock};

/// A number that `next` never returned before. (2^64 numbers last for 500,000 years at a million
/// per second.)
pub fn mint(next: &AtomicU64) -> u64 {
    next.fetch_add(1, Ordering::Relaxed)
}

/// A number below `end` that `next` never returned before. Returns `None` forever once they are
/// used up.
#[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
pub fn mint_below(next: &AtomicU64, end: u64) -> Option<u64> {
    let more = |number: u64| (number < end).then_some(number + 1);
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
}

/// The numbers below `end` that are in use, and where the search for the next one starts.
struct Numbers {
    next: u32,
    end: u32,
    used: BTreeSet<u32>,
}

impl Numbers {
    const fn below(end: u32) -> Self {
        Numbers { next: 1, end, used: BTreeSet::new() }
    }

    /// Takes a number that is not in use, and not 0. Numbers are tried in order, so that each is
    /// unused as long as possible.
    fn take(&mut self) -> Option<u32> {
        let Numbers { next, end, used } = self;
        // The maximum is known, so a full set is detected without a search.
        if used.len() as u32 == *end - 1 {
            return None;
        }
        let number = (*next..*end).chain(1..*next).find(|&number| used.insert(number))?;
        *next = number + 1;
        Some(number)
    }
}

/// One more than the largest tag of a ring.
const TAGS: u32 = 1 << 29;

fn tags() -> MutexGuard<'static, Numbers> {
    global! {
        static ALL: Mutex<Numbers> = Mutex::new(Numbers::below(TAGS));
    }
    lock(&ALL)
}

fn pool_numbers() -> MutexGuard<'static, Numbers> {
    global! {
        static ALL: Mutex<Numbers> = Mutex::new(Numbers::below(type_tag::POOLS));
    }
    lock(&ALL)
}

/// A tag that no other value has. It may be reused after the drop.
pub struct RingTag(u32);

impl RingTag {
    /// Takes a tag that is not 0. `None` if all are in use.
    pub fn new() -> Option<Self> {
        tags().take().map(RingTag)
    }

    pub fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for RingTag {
    fn drop(&mut self) {
        tags().used.remove(&self.0);
    }
}

/// A number that no other pool has, or `type_tag::NO_POOL`. It may be reused after the drop.
pub struct PoolNumber(u32);

impl PoolNumber {
    /// Takes a number, or `NO_POOL` if all are in use.
    #[allow(clippy::new_without_default)] // it takes a number
    pub fn new() -> Self {
        PoolNumber(pool_numbers().take().unwrap_or(type_tag::NO_POOL))
    }

    pub fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for PoolNumber {
    fn drop(&mut self) {
        pool_numbers().used.remove(&self.0);
    }
}

/// Test only: continues with tags from `tag` on.
#[cfg(any(test, feature = "testing"))]
pub fn begin_at(tag: u32) {
    tags().next = tag;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_given_back_with_its_last_owner() {
        let tag = RingTag::new().unwrap();
        let number = tag.get();
        assert!(tags().used.contains(&number));
        drop(tag);
        assert!(!tags().used.contains(&number));
    }

    #[test]
    fn numbers_come_round_and_skip_those_in_use() {
        let mut numbers = Numbers::below(TAGS);
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [1, 2, 3].map(Some));
        numbers.used.remove(&2);
        assert_eq!(numbers.take(), Some(4), "the returned number is not reused immediately");
        numbers.used.remove(&4);
        assert_eq!(numbers.take(), Some(5), "not even if it was the last");
        numbers.next = TAGS - 1;
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [TAGS - 1, 2, 4].map(Some));
        numbers.used.remove(&1);
        numbers.used.remove(&(TAGS - 2));
        numbers.next = TAGS - 2;
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [TAGS - 2, 1, 6].map(Some));
    }

    #[test]
    fn numbers_are_used_up_and_given_back() {
        let mut numbers = Numbers::below(3);
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [Some(1), Some(2), None]);
        numbers.used.remove(&1);
        assert_eq!([numbers.take(), numbers.take()], [Some(1), None]);
        numbers.used.remove(&2);
        assert_eq!([numbers.take(), numbers.take()], [Some(2), None]);
        // The last one again: the search starts after it.
        numbers.used.remove(&2);
        assert_eq!([numbers.take(), numbers.take()], [Some(2), None]);
        let next = AtomicU64::new(1);
        let minted = [(); 4].map(|()| mint_below(&next, 3));
        assert_eq!(minted, [Some(1), Some(2), None, None]);
    }

    #[test]
    fn a_pool_gives_its_number_back() {
        let number = PoolNumber::new();
        let was = number.get();
        assert!(was != type_tag::NO_POOL && pool_numbers().used.contains(&was));
        drop(number);
        assert!(!pool_numbers().used.contains(&was));
    }
}
