//! The part of the books that a queue shares with its completion queues.

#![allow(unsafe_code)] // takes the address of a counter

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ids::{self, RingTag};
use crate::buf::header::mark;

/// The shared part of the books of a queue pair, or of a shared receive queue.
///
/// Each counter of `completed` has one writer, the thread that polls the completion queue of that
/// direction (`&mut CompletionQueue`, which completions borrow and do not leave), so loads and plain stores suffice; no read-modify-write is
/// ever needed. A shared receive queue may complete into several completion queues, and does not
/// use its counter.
#[repr(C, align(64))]
pub struct Books {
    /// Completions polled, and taken apart or dropped: of sends, of receives.
    completed: [Counter; 2],
    /// Work requests posted when the queue was destroyed or reset: of sends, of receives.
    posted_at_end: [AtomicU32; 2],
    /// Attachments to completion queues that were not yet polled empty after the end.
    pending: AtomicU32,
    /// Entries taken back after the end.
    taken: AtomicU32,
    /// Those that were stranded, `taken` and not, by the marks in their headers, and whether they were counted.
    stranded: AtomicU32,
    counted: AtomicU32,
    dead: AtomicU32,
    /// The protection domain, as `Pd` numbers them.
    pub pd: u32,
    /// Unique in the process, never 0, and never used again (see `ids`).
    pub id: u64,
    /// What names the queue in the wr_ids of a ring.
    ring: RingTag,
    /// The longest message, bytes (R3.5), and whether the MTU limits it (UD, R3.6).
    longest: AtomicU32,
    by_mtu: AtomicU32,
    /// The largest buffer of which as many as fit a work request fit a message.
    pub small: AtomicU32,
    /// A shared receive queue's.
    uncounted: bool,
}

/// Completions of one direction of a queue. A wr_id names it where there is no buffer, so it leaves the tag
/// bits free; and each has a cache line of its own, because two threads may poll.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Counter(AtomicU32);

impl Counter {
    /// A completion was taken apart or dropped, on the thread of the direction's one poller.
    #[inline(always)]
    pub fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

/// Index of a direction.
pub(crate) const SEND: usize = 0;
pub(crate) const RECEIVE: usize = 1;

impl Books {
    /// New books with an id of their own; `None` when ids are exhausted.
    pub fn new(pd: u32) -> Option<Arc<Self>> {
        Self::with(pd, false)
    }

    /// As `new`, for a shared receive queue.
    pub fn shared(pd: u32) -> Option<Arc<Self>> {
        Self::with(pd, true)
    }

    fn with(pd: u32, uncounted: bool) -> Option<Arc<Self>> {
        let (id, ring) = (ids::next_id()?, RingTag::new()?);
        Some(Arc::new(Books {
            completed: Default::default(),
            posted_at_end: Default::default(),
            pending: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            stranded: AtomicU32::new(0),
            counted: AtomicU32::new(0),
            dead: AtomicU32::new(0),
            pd,
            id,
            ring,
            longest: AtomicU32::new(u32::MAX),
            by_mtu: AtomicU32::new(0),
            // Until the limit is known every buffer is looked at, so that none is marked in vain. A shared
            // receive queue sends nothing.
            small: AtomicU32::new(if uncounted { u32::MAX } else { 0 }),
            uncounted,
        }))
    }

    /// The queue pair sends messages of at most `longest` bytes, in at most `sges` elements.
    pub fn limit_messages(&self, longest: u32, by_mtu: bool, sges: u32) {
        self.longest.store(longest, Ordering::Relaxed);
        self.by_mtu.store(by_mtu as u32, Ordering::Relaxed);
        self.small.store(longest / sges.max(1), Ordering::Relaxed);
    }

    /// The longest message, bytes, and whether the MTU limits it.
    pub fn longest_message(&self) -> (u32, bool) {
        (self.longest.load(Ordering::Relaxed), self.by_mtu.load(Ordering::Relaxed) == 1)
    }

    /// What the headers of buffers show that were posted in this direction last, and are not in flight.
    pub fn mark(&self, direction: usize) -> u64 {
        mark::of(self.id, direction)
    }

    /// What names the queue in the wr_ids of a ring: not 0, below 2^30, and that of these books alone.
    pub fn ring_tag(&self) -> u32 {
        self.ring.get()
    }

    /// The counter of a direction.
    ///
    /// # Safety
    /// `books` is live.
    #[inline(always)]
    pub(crate) unsafe fn counter(books: *const Self, direction: usize) -> *const Counter {
        // SAFETY: the caller's contract; no reference is made.
        unsafe { &raw const (*books).completed }.cast::<Counter>().wrapping_add(direction)
    }

    /// As if as many completions had been polled.
    #[cfg(test)]
    pub(super) fn begin_at(&self, completed: u32) {
        self.completed.iter().for_each(|counter| counter.0.store(completed, Ordering::Relaxed));
    }

    /// Work requests that are done, wrapping: completions polled and not held any more.
    pub fn completed(&self, direction: usize) -> u32 {
        self.completed[direction & 1].0.load(Ordering::Acquire)
    }

    /// The queue was attached to one more completion queue.
    pub fn attached(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// The queue is gone (or reset): no completion will be added any more.
    pub fn end(&self, posted: [u32; 2]) {
        for (end, posted) in self.posted_at_end.iter().zip(posted) {
            end.store(posted, Ordering::Relaxed);
        }
        self.dead.store(1, Ordering::Release);
    }

    /// Whether `end` was called; what happened before it is then visible.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire) == 1
    }

    /// One completion queue was polled empty after the end.
    pub fn settle(&self) {
        self.pending.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no completion can come any more: what is outstanding now is stranded.
    pub fn is_quiet(&self) -> bool {
        self.is_dead() && self.pending.load(Ordering::Acquire) == 0
    }

    /// `left` entries are stranded and not taken back; known once no completion can come any more. (Until then a
    /// work request without a buffer, which nobody can take back, counts too.)
    pub fn count_stranded(&self, left: u32) {
        self.stranded.store(left + self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
        self.counted.store(1, Ordering::Release);
    }

    /// Whether what is stranded was counted.
    pub fn is_counted(&self) -> bool {
        self.counted.load(Ordering::Acquire) == 1
    }

    /// Entries posted and neither completed nor taken back.
    pub fn outstanding_at_end(&self) -> u32 {
        if self.is_counted() {
            return self.stranded.load(Ordering::Relaxed) - self.taken.load(Ordering::Relaxed);
        }
        if self.uncounted {
            // Several completion queues, so no exact count: only the marks in the headers tell.
            return u32::MAX;
        }
        (0..2)
            .map(|d| self.posted_at_end[d].load(Ordering::Relaxed).wrapping_sub(self.completed(d)))
            .fold(0, u32::wrapping_add)
            .wrapping_sub(self.taken.load(Ordering::Relaxed))
    }
}

/// The queues whose completions can no longer come.
pub(crate) struct Quiet(pub Vec<Arc<Books>>);

impl Quiet {
    /// Whether the queue with this id is one of them.
    pub fn has(&self, id: u64) -> bool {
        self.0.iter().any(|books| books.id == id)
    }

    /// One entry of the queue with this id was taken back.
    pub fn took(&self, id: u64) {
        if let Some(books) = self.0.iter().find(|books| books.id == id) {
            books.taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}
