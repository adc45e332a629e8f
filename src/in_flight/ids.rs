//! The numbers by which queues are told apart: where they come from, and why none is mistaken for another.
//!
//! - The **id of a queue** stands in the headers of buffers (`buf::header::mark`), where it may stay as long as the
//!   process runs. So it is never used again: 52 bits last for 140 years of a million a second.
//! - The **tag of a ring** stands in the lower half of the wr_ids of a selectively signaled send queue, beside a sequence
//!   number, where 30 bits are left. It is used again, but not while a wr_id with it can still be met. Two kinds of holders
//!   have the `Books` that own it: the queue (and its later lives, as long as room is withheld for this one), and each
//!   completion queue that it completes into. A completion queue lets go of them once none of their completions
//!   can come any more, or when it is gone itself; and who looks at a completion holds the completion queue
//!   borrowed. So with the last `Arc<Books>` no wr_id with its tag is left, neither in the device nor in the program's hands.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::buf::header::mark;

/// The next id of a queue.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An id that no queue had before, not 0; `None` when they are used up.
pub(super) fn next_id() -> Option<u64> {
    let more = |id: u64| (id < mark::IDS).then_some(id + 1);
    NEXT_ID.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()
}

/// One more than the largest tag of a ring.
const TAGS: u32 = 1 << 30;

/// The tags that are in use, and where to look for the next one.
struct Tags {
    next: u32,
    used: BTreeSet<u32>,
}

impl Tags {
    const fn new() -> Self {
        Tags { next: 1, used: BTreeSet::new() }
    }

    /// A tag that is not in use: the next one, so that each rests as long as possible.
    fn take(&mut self) -> Option<u32> {
        let Tags { next, used } = self;
        let tag = (*next..TAGS).chain(1..*next).find(|&tag| used.insert(tag))?;
        *next = tag % (TAGS - 1) + 1;
        Some(tag)
    }
}

fn tags() -> MutexGuard<'static, Tags> {
    static ALL: Mutex<Tags> = Mutex::new(Tags::new());
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A tag that no other value has; dropped, it may be given to another.
pub(super) struct RingTag(u32);

impl RingTag {
    /// Not 0; `None` if all are in use.
    pub(super) fn new() -> Option<Self> {
        tags().take().map(RingTag)
    }

    pub(super) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for RingTag {
    fn drop(&mut self) {
        tags().used.remove(&self.0);
    }
}

/// As if as many queues had been made as have ids below `id`, and tags below `tag`.
#[cfg(test)]
pub(super) fn begin_at(id: u64, tag: u32) {
    NEXT_ID.fetch_max(id, Ordering::Relaxed);
    tags().next = tag;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_round_and_skip_those_in_use() {
        let mut tags = Tags::new();
        assert_eq!([tags.take(), tags.take(), tags.take()], [1, 2, 3].map(Some));
        tags.used.remove(&2);
        assert_eq!(tags.take(), Some(4), "not at once the one that was given back");
        tags.next = TAGS - 1;
        assert_eq!([tags.take(), tags.take(), tags.take()], [TAGS - 1, 2, 5].map(Some));
    }
}
