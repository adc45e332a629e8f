//! The numbers by which objects are told apart: where they come from, and why none is mistaken for
//! another.
//!
//! - A **number** of `mint` and `mint_below` is given out once: it is the value that one
//!   read-modify-write found and no other can find, since each leaves a larger one. No order is
//!   asked for: a number says nothing of what else its thread wrote, and threads learn of it
//!   together with what it names.
//! - The **id of a queue** is in the headers of buffers (`counters::mark`), where it may stay as
//!   long as the process runs. So it is never reused: 52 bits last for 140 years at a million a
//!   second.
//! - The **tag of a ring** is in the lower half of the wr_ids of a selectively signaled send queue,
//!   beside a sequence number, where 30 bits are left. It is reused, but not while a wr_id with it
//!   may still be met. The `Books` own it, and two kinds of holders have those: the queue (and its
//!   later lives, as long as room is withheld for this one), and each completion queue that it
//!   completes into. A completion queue drops them once none of their completions can come any
//!   more, or when it is destroyed; and whoever looks at a completion borrows the completion queue.
//!   So when the last `Arc<Books>` is gone, no wr_id with its tag is left, neither in the device
//!   nor in the program. Tags are taken and given back under one lock.

use std::collections::BTreeSet;

use crate::counters::mark;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, global};

/// A number that `next` never gave before. (There are enough: 2^64 last for 500,000 years at a
/// million a second.)
pub(crate) fn mint(next: &AtomicU64) -> u64 {
    next.fetch_add(1, Ordering::Relaxed)
}

/// A number below `end` that `next` never gave before; `None` for good once they are used up.
pub(crate) fn mint_below(next: &AtomicU64, end: u64) -> Option<u64> {
    let more = |number: u64| (number < end).then_some(number + 1);
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
}

global! {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
}

/// An id that no queue had before, not 0; `None` when they are used up.
pub(crate) fn next_id() -> Option<u64> {
    mint_below(&NEXT_ID, mark::IDS)
}

/// One more than the largest tag of a ring.
const TAGS: u32 = 1 << 30;

/// The tags in use, and where to look for the next one.
struct Tags {
    next: u32,
    used: BTreeSet<u32>,
}

impl Tags {
    const fn new() -> Self {
        Tags { next: 1, used: BTreeSet::new() }
    }

    /// A tag that is not in use. Tags are tried in order, so that each rests as long as possible.
    fn take(&mut self) -> Option<u32> {
        let Tags { next, used } = self;
        let tag = (*next..TAGS).chain(1..*next).find(|&tag| used.insert(tag))?;
        *next = tag + 1;
        Some(tag)
    }
}

fn tags() -> MutexGuard<'static, Tags> {
    global! {
        static ALL: Mutex<Tags> = Mutex::new(Tags::new());
    }
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A tag that no other value has. Dropped, it may be reused.
pub(crate) struct RingTag(u32);

impl RingTag {
    /// A tag that is not 0; `None` if all are in use.
    pub(crate) fn new() -> Option<Self> {
        tags().take().map(RingTag)
    }

    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for RingTag {
    fn drop(&mut self) {
        tags().used.remove(&self.0);
    }
}

/// Test only: continues with queue ids from `id` and tags from `tag` on.
#[cfg(test)]
pub(crate) fn begin_at(id: u64, tag: u32) {
    NEXT_ID.fetch_max(id, Ordering::Relaxed);
    tags().next = tag;
}

#[cfg(all(test, feature = "loopback"))] // not in the models, whose locks are loom's
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
    fn tags_come_round_and_skip_those_in_use() {
        let mut tags = Tags::new();
        assert_eq!([tags.take(), tags.take(), tags.take()], [1, 2, 3].map(Some));
        tags.used.remove(&2);
        assert_eq!(tags.take(), Some(4), "not at once the one that was given back");
        tags.used.remove(&4);
        assert_eq!(tags.take(), Some(5), "not even if it was the last");
        tags.next = TAGS - 1;
        assert_eq!([tags.take(), tags.take(), tags.take()], [TAGS - 1, 2, 4].map(Some));
        tags.used.remove(&1);
        tags.used.remove(&(TAGS - 2));
        tags.next = TAGS - 2;
        assert_eq!([tags.take(), tags.take(), tags.take()], [TAGS - 2, 1, 6].map(Some));
    }
}
