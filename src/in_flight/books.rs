//! The part of the books that a queue shares with its completion queues.

#![allow(unsafe_code)] // takes the address of a counter

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::ids::{self, RingTag};
use super::pending::Pending;
use crate::buf::header::{mark, word};

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
    /// Who has not yet said that nothing can complete any more: the queue, and each completion queue.
    pending: Pending,
    /// The last completion of a ring that was dropped and not given to `complete`: its sequence number, and above it
    /// whether there is one.
    dropped: AtomicU64,
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
    /// A completion was taken apart or dropped, on the thread of the direction's one poller. That is the last that it
    /// does with the books: another thread may see that nothing is outstanding, and let go of them.
    ///
    /// # Safety
    /// `counter` is live when this begins.
    #[inline(always)]
    pub unsafe fn count(counter: *const Self) {
        // SAFETY: the caller's contract; no reference outlives the store.
        let count = unsafe { &(*counter).0 };
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
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
            pending: Pending::new(),
            dropped: AtomicU64::new(0),
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

    /// The lower half of the wr_ids of a ring: what names the books there, and the tags that no handle has.
    pub fn ring_id(&self) -> u32 {
        self.ring_tag() << 2 | (word::RING | word::NONE) as u32
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
        self.pending.add();
    }

    /// The queue is gone (or reset): so much was posted. It still has to give back its part of `pending`.
    pub fn end(&self, posted: [u32; 2]) {
        for (end, posted) in self.posted_at_end.iter().zip(posted) {
            end.store(posted, Ordering::Relaxed);
        }
    }

    /// The queue, or one of its completion queues, says that nothing can complete any more. Whether it is the
    /// last of them to say so, and something is stranded: then the caller has to send it home.
    #[must_use = "what is stranded is to be sent home"]
    pub fn end_one(&self) -> bool {
        self.pending.end_one() && self.has_stranded()
    }

    /// Whether no completion can come any more.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_over()
    }

    /// Whether something was posted of which no completion was taken apart.
    fn has_stranded(&self) -> bool {
        // A shared receive queue has several completion queues, so no exact count: only the marks in the headers tell.
        let left = |d: usize| {
            self.posted_at_end[d].load(Ordering::Relaxed).wrapping_sub(self.completed(d))
        };
        self.uncounted || left(SEND) != 0 || left(RECEIVE) != 0
    }

    /// A completion of the ring was dropped, and nobody will give it to `complete`.
    pub fn note_dropped(&self, sequence: u32) {
        const IS_ONE: u64 = 1 << 32;
        let later = |known: u64| {
            let is_later = known == 0 || (sequence.wrapping_sub(known as u32) as i32) > 0;
            is_later.then_some(IS_ONE | sequence as u64)
        };
        // Whichever is the later: it speaks for the other, too. (A refusal says that it is known already.)
        let _ = self.dropped.fetch_update(Ordering::AcqRel, Ordering::Relaxed, later);
    }

    /// The sequence number of the last completion that was dropped, if one was since the last `take_dropped`.
    pub fn dropped(&self) -> Option<u32> {
        let dropped = self.dropped.load(Ordering::Acquire);
        (dropped != 0).then_some(dropped as u32)
    }

    /// As `dropped`, once.
    pub fn take_dropped(&self) -> Option<u32> {
        self.dropped()?;
        let dropped = self.dropped.swap(0, Ordering::AcqRel);
        (dropped != 0).then_some(dropped as u32)
    }
}

/// The queues whose completions can no longer come, and what is with them is stranded.
#[derive(Default)]
pub(crate) struct Quiet(pub Vec<Arc<Books>>);

impl Quiet {
    /// Whether the queue with this id is one of them.
    pub fn has(&self, id: u64) -> bool {
        self.0.iter().any(|books| books.id == id)
    }

    /// Takes part in the end of a queue (`Books::end_one`).
    pub fn end_one(&mut self, books: Arc<Books>) {
        if books.end_one() {
            self.0.push(books);
        }
    }
}
