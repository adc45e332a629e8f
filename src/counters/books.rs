//! The part of the books that a queue shares with its completion queues.

#![allow(unsafe_code)] // counters by their addresses

use std::sync::Arc;

use crate::counters::ids::RingTag;
use crate::counters::mark;
use crate::counters::pending::Pending;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The shared part of the books of a queue pair, or of a shared receive queue.
///
/// Each counter of `completed` has one writer, the thread that polls the completion queue of that
/// direction (`&mut CompletionQueue`, which completions borrow). So loads and plain stores suffice;
/// no read-modify-write is needed. A shared receive queue may complete into several completion
/// queues, and does not use its counter.
pub struct Books {
    /// Completions that were polled and then taken apart or dropped: of sends, of receives.
    completed: [Counter; 2],
    /// Work requests posted when the queue was destroyed or reset: of sends, of receives.
    posted_at_end: [AtomicU32; 2],
    /// Who can still bring completions: the queue, and each of its completion queues.
    pending: Pending,
    /// The last completion of a ring that was dropped instead of given to `complete`: its sequence
    /// number, and in the upper half whether there is one.
    dropped: AtomicU64,
    /// The protection domain, as `Pd` numbers them.
    pub pd: u32,
    /// The number of the only pool that a shared receive queue takes buffers of.
    pool: Option<u32>,
    /// Names the queue in the wr_ids of a ring, if it has one.
    ring: Option<RingTag>,
    /// The longest message in bytes (R3.5), and whether the MTU limits it (UD, R3.6).
    longest: AtomicU32,
    by_mtu: AtomicBool,
    /// The size of buffers of which a full scatter/gather list still fits a message.
    small: AtomicU32,
    /// Whether the device is siw, whose refusals have reasons of their own.
    is_siw: AtomicBool,
    /// Whether safe code forgot a list: its buffers name these books, and nothing counts them.
    has_lists: AtomicBool,
}

/// Counts completions of one direction of a queue.
///
/// A wr_id without a buffer is the address of a counter, so the alignment leaves the bits free that
/// such wr_ids use as tags. It is one that every allocation has. Two threads may poll, so the other
/// counter is a cache line away.
#[derive(Default)]
#[repr(C, align(16))]
pub(crate) struct Counter {
    completed: AtomicU32,
    _apart: [u32; 15],
}

impl Counter {
    /// Counts one completion, on the thread of the direction's only poller. This is its last access
    /// to the books: another thread may then see that nothing is outstanding, and free them.
    ///
    /// # Safety
    /// `counter` is live when the call begins.
    #[inline(always)]
    pub unsafe fn count(counter: *const Self) {
        // SAFETY: live when the call begins. The reference is used for the load and the store only,
        // and not after the store.
        let count = unsafe { &(*counter).completed };
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// The completions that were counted, wrapping; what their thread did before is visible.
    ///
    /// # Safety
    /// `counter` is live.
    #[inline(always)]
    pub unsafe fn get(counter: *const Self) -> u32 {
        // SAFETY: live (this function's contract), and the reference is used for the load only.
        unsafe { &(*counter).completed }.load(Ordering::Acquire)
    }
}

/// The bits of a counter's address: in a wr_id without a buffer, a number of the program's is
/// above.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// The index of a direction.
pub(crate) const SEND: usize = 0;
pub(crate) const RECEIVE: usize = 1;

impl Books {
    /// New books; `None` when all tags of rings are in use (or if memory has addresses of more than
    /// 48 bits, which no system gives out unasked).
    pub fn new(pd: u32) -> Option<Arc<Self>> {
        Self::with(pd, None, Some(RingTag::new()?))
    }

    /// Like `new`, for a queue pair whose sends all complete, so that no wr_id has a ring's tag.
    pub fn without_ring(pd: u32) -> Option<Arc<Self>> {
        Self::with(pd, None, None)
    }

    /// Like `new`, for a shared receive queue, which takes buffers of the pool with this number.
    pub fn shared(pd: u32, pool: u32) -> Option<Arc<Self>> {
        Self::with(pd, Some(pool), None)
    }

    fn with(pd: u32, pool: Option<u32>, ring: Option<RingTag>) -> Option<Arc<Self>> {
        let books = Arc::new(Books {
            completed: Default::default(),
            posted_at_end: Default::default(),
            pending: Pending::new(),
            dropped: AtomicU64::new(0),
            pd,
            pool,
            ring,
            longest: AtomicU32::new(u32::MAX),
            by_mtu: AtomicBool::new(false),
            // Until the limit is known every buffer is looked at.
            small: AtomicU32::new(0),
            is_siw: AtomicBool::new(false),
            has_lists: AtomicBool::new(false),
        });
        (Arc::as_ptr(&books).addr() >> ADDRESS_BITS == 0).then_some(books)
    }

    /// The counter of a direction.
    ///
    /// # Safety
    /// `books` is live.
    #[inline(always)]
    pub(crate) unsafe fn counter(books: *const Self, direction: usize) -> *const Counter {
        // SAFETY: the books are live (this function's contract). No reference is made.
        unsafe { &raw const (*books).completed }.cast::<Counter>().wrapping_add(direction)
    }

    /// Sets the longest message of the queue pair, in bytes, and the greatest number of elements of
    /// a send.
    pub fn limit_messages(&self, longest: u32, by_mtu: bool, sges: u32) {
        self.longest.store(longest, Ordering::Relaxed);
        self.by_mtu.store(by_mtu, Ordering::Relaxed);
        self.small.store(longest / sges.max(1), Ordering::Relaxed);
    }

    /// The longest message in bytes, and whether the MTU limits it.
    pub fn longest_message(&self) -> (u32, bool) {
        (self.longest.load(Ordering::Relaxed), self.by_mtu.load(Ordering::Relaxed))
    }

    /// Says that the device is siw.
    pub fn set_siw(&self) {
        self.is_siw.store(true, Ordering::Relaxed);
    }

    /// Whether the device is siw.
    pub fn is_siw(&self) -> bool {
        self.is_siw.load(Ordering::Relaxed)
    }

    /// What is strange in the mark of a buffer to a direction of the queue (`mark`). For sends it
    /// changes with `limit_messages`.
    pub fn strange(&self, direction: usize) -> u64 {
        match (direction, self.pool) {
            (SEND, _) => mark::strange_to_sends(self.pd, self.small.load(Ordering::Relaxed)),
            (_, None) => mark::strange_to_receives(self.pd),
            (_, Some(pool)) => mark::strange_to_receives(self.pd) | mark::strange_to_pool(pool),
        }
    }

    /// Whether `counter` is one of these books'. It is only compared, so it need not be live.
    #[inline]
    pub(crate) fn has(&self, counter: *const Counter) -> bool {
        self.completed.iter().any(|own| std::ptr::eq(own, counter))
    }

    /// The number that names the queue in the wr_ids of a ring: below 2^29, and unique to these
    /// books; 0 if the queue has none.
    pub fn ring_tag(&self) -> u32 {
        self.ring.as_ref().map_or(0, RingTag::get)
    }

    /// Test only: starts both counters at `completed`.
    #[cfg(test)]
    pub(crate) fn begin_at(&self, completed: u32) {
        self.completed
            .iter()
            .for_each(|counter| counter.completed.store(completed, Ordering::Relaxed));
    }

    /// The number of completions that were polled and are not held any more, wrapping.
    #[inline]
    pub fn completed(&self, direction: usize) -> u32 {
        self.completed[direction & 1].completed.load(Ordering::Acquire)
    }

    /// Notes one more completion queue that the queue is attached to.
    pub fn attached(&self) {
        self.pending.add();
    }

    /// The queue is destroyed or reset after this many posts. It still has to give back its part of
    /// `pending`.
    #[inline]
    pub fn end(&self, posted: [u32; 2]) {
        for (end, posted) in self.posted_at_end.iter().zip(posted) {
            end.store(posted, Ordering::Relaxed);
        }
    }

    /// Safe code forgot lists of the queue, which ends now. What they hold is stranded, too.
    pub fn note_lists(&self) {
        self.has_lists.store(true, Ordering::Relaxed);
    }

    /// Gives back one part of `pending`: nothing can complete any more by the queue, or by one of
    /// its completion queues. Returns whether that was the last part; then the caller has to send
    /// home what is stranded.
    #[must_use = "what is stranded is to be sent home"]
    pub fn end_one(&self) -> bool {
        self.pending.end_one()
    }

    /// Whether no completion can come any more.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_over()
    }

    /// The most handles that are stranded, of a queue that ended: as many as were posted and whose
    /// completions were not taken apart. Work requests without a buffer count as well. `None` if
    /// only the marks in the headers tell: a shared receive queue has several completion queues,
    /// and so no exact count, and what was in a list that safe code forgot is not counted.
    fn most_stranded(&self) -> Option<usize> {
        let left = |d: usize| {
            self.posted_at_end[d].load(Ordering::Relaxed).wrapping_sub(self.completed(d))
        };
        let has_counts = self.pool.is_none() && !self.has_lists();
        has_counts.then(|| left(SEND) as usize + left(RECEIVE) as usize)
    }

    /// Whether safe code forgot lists of the queue, which ended.
    fn has_lists(&self) -> bool {
        self.has_lists.load(Ordering::Relaxed)
    }

    /// Notes that a completion of the ring was dropped instead of given to `complete`.
    #[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
    pub fn note_dropped(&self, sequence: u32) {
        const IS_ONE: u64 = 1 << 32;
        let later = |known: u64| {
            let is_later = known == 0 || (sequence.wrapping_sub(known as u32) as i32) > 0;
            is_later.then_some(IS_ONE | sequence as u64)
        };
        // The later of the two counts: it releases what the other would, too. (A refused update
        // means that it was known.)
        let _ = self.dropped.fetch_update(Ordering::AcqRel, Ordering::Relaxed, later);
    }

    /// The sequence number of the last dropped completion since the last `take_dropped`, if there
    /// was one.
    pub fn dropped(&self) -> Option<u32> {
        let dropped = self.dropped.load(Ordering::Acquire);
        (dropped != 0).then_some(dropped as u32)
    }

    /// Like `dropped`, and clears it.
    pub fn take_dropped(&self) -> Option<u32> {
        // No other thread takes it, so it is still there.
        self.dropped()?;
        Some(self.dropped.swap(0, Ordering::AcqRel) as u32)
    }
}

/// The queues whose completions can no longer come. Handles that are with them are stranded.
#[derive(Default)]
pub(crate) struct Quiet {
    /// Those with something stranded, in the order of their addresses.
    stranded: Vec<Arc<Books>>,
    /// Those with nothing stranded, for an assertion.
    #[cfg(debug_assertions)]
    pub over: Vec<Arc<Books>>,
}

impl Quiet {
    /// Where the counters of these queues are: from the first address to before the second. Those
    /// of others are there too if there are several queues; if there is one, nothing else is.
    pub fn span(&self) -> (usize, usize) {
        let at = |books: Option<&Arc<Books>>| books.map(|books| Arc::as_ptr(books).addr());
        let end = at(self.stranded.last()).map_or(0, |last| last + size_of::<Books>());
        (at(self.stranded.first()).unwrap_or(usize::MAX), end)
    }

    /// The most handles that are stranded with them; a search that found as many has found all.
    pub fn most(&self) -> usize {
        let all = self.stranded.iter().map(|books| books.most_stranded());
        all.fold(0, |sum, most| most.map_or(usize::MAX, |most| most.saturating_add(sum)))
    }

    /// Whether nothing is stranded.
    pub fn is_empty(&self) -> bool {
        self.stranded.is_empty()
    }

    /// How many queues with something stranded they are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.stranded.len()
    }

    /// Whether the queue with this counter is one of them, with something stranded. (Of thousands
    /// that ended at once, and each buffer that they had, not all are compared.)
    pub fn has(&self, counter: *const Counter) -> bool {
        let behind =
            self.stranded.partition_point(|books| Arc::as_ptr(books).addr() <= counter.addr());
        behind.checked_sub(1).is_some_and(|at| self.stranded[at].has(counter))
    }

    /// The protection domain of which alone they may have buffers; `None` if there may be several.
    /// (In a list that was forgotten amid a panic may be buffers of any that nobody looked at yet.)
    pub fn domain(&self) -> Option<u32> {
        let first = self.stranded.first()?.pd;
        let is_only = |books: &Arc<Books>| books.pd == first && !books.has_lists();
        self.stranded.iter().all(is_only).then_some(first)
    }

    /// Whether one of them may have buffers of this protection domain.
    pub fn is_of(&self, pd: u32) -> bool {
        self.stranded.iter().any(|books| books.pd == pd || books.has_lists())
    }

    /// Adds a queue with something stranded.
    pub fn add(&mut self, books: Arc<Books>) {
        let address = Arc::as_ptr(&books);
        let before = self.stranded.partition_point(|other| Arc::as_ptr(other) < address);
        self.stranded.insert(before, books);
    }

    /// Gives back one part of a queue's `pending` (`Books::end_one`).
    pub fn end_one(&mut self, books: &Arc<Books>) {
        if !books.end_one() {
            return;
        }
        if books.most_stranded() != Some(0) {
            return self.add(books.clone());
        }
        #[cfg(debug_assertions)]
        self.over.push(books.clone());
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;

    /// A queue pair that is in no state to send has no longest message, and looks at every buffer.
    #[test]
    fn messages_have_no_limit_before_it_is_known() {
        let books = Books::new(7).unwrap();
        assert_eq!(books.longest_message(), (u32::MAX, false));
        let known = mark::of(7, 1, 256);
        assert_ne!(known & books.strange(SEND), 0);
        books.limit_messages(1024, true, 4);
        assert_eq!(books.longest_message(), (1024, true));
        assert_eq!(known & books.strange(SEND), 0);
        books.limit_messages(1020, false, 4);
        assert_eq!(books.longest_message(), (1020, false));
        assert_ne!(known & books.strange(SEND), 0, "four of them are too long");
        // Without a list each is one element.
        books.limit_messages(256, false, 0);
        assert_eq!(known & books.strange(SEND), 0);
    }

    /// Each domain and counter of several queues is found, and no other.
    #[test]
    fn several_queues_are_quiet_at_once() {
        let all = [3, 4, 5].map(|pd| Books::new(pd).unwrap());
        let [one, two, other] = &all;
        let mut quiet = Quiet::default();
        assert!(quiet.is_empty() && !quiet.has(&raw const one.completed[0]));
        assert_eq!((quiet.domain(), quiet.len()), (None, 0));
        quiet.add(one.clone());
        assert_eq!((quiet.domain(), quiet.len()), (Some(3), 1));
        quiet.add(Books::new(3).unwrap());
        assert_eq!((quiet.domain(), quiet.len()), (Some(3), 2));
        quiet.add(two.clone());
        assert!(!quiet.is_empty());
        assert_eq!(quiet.domain(), None);
        assert_eq!([3, 4, 5].map(|pd| quiet.is_of(pd)), [true, true, false]);
        let (lowest, highest) = quiet.span();
        for books in &all {
            for counter in &books.completed {
                assert_eq!(quiet.has(counter), !Arc::ptr_eq(books, other));
                let at = std::ptr::from_ref(counter).addr();
                assert!(Arc::ptr_eq(books, other) || (lowest..highest).contains(&at));
            }
        }
    }

    /// Each of many is found, in whatever order they ended, with no more comparisons than it takes
    /// to find a place in an order.
    #[test]
    fn many_queues_are_quiet_at_once() {
        let mut all: Vec<_> = (0..100).map(|_| Books::new(1).unwrap()).collect();
        all.sort_by_key(|books| Arc::as_ptr(books).addr() % 1009);
        let mut quiet = Quiet::default();
        all.iter().step_by(2).for_each(|books| quiet.add(books.clone()));
        assert_eq!(quiet.len(), 50);
        assert!(quiet.stranded.is_sorted_by_key(Arc::as_ptr));
        for (i, books) in all.iter().enumerate() {
            let found = books.completed.iter().filter(|&counter| quiet.has(counter)).count();
            assert_eq!(found, if i % 2 == 0 { 2 } else { 0 });
        }
    }

    /// A queue is quiet when the last of those is over that can bring completions, and is kept if
    /// something of it is stranded, in either direction.
    #[test]
    fn what_is_stranded_is_kept_with_the_last_part() {
        for (posted, is_stranded) in [([0, 0], false), ([1, 0], true), ([0, 1], true)] {
            let (books, mut quiet) = (Books::new(1).unwrap(), Quiet::default());
            books.attached();
            books.end(posted);
            quiet.end_one(&books);
            assert!(quiet.is_empty() && !books.is_quiet(), "{posted:?}");
            quiet.end_one(&books);
            assert_eq!((!quiet.is_empty(), books.is_quiet()), (is_stranded, true), "{posted:?}");
        }
        let (books, mut quiet) = (Books::shared(1, 2).unwrap(), Quiet::default());
        quiet.end_one(&books);
        assert!(!quiet.is_empty(), "of a shared receive queue only the headers tell");
    }

    /// The later of two dropped completions stays, also where their numbers wrap.
    #[test]
    fn the_last_dropped_completion_is_noted() {
        let books = Books::new(1).unwrap();
        assert_eq!((books.dropped(), books.take_dropped()), (None, None));
        for (first, second, later) in [(0, 1, 1), (1, 0, 1), (u32::MAX, 0, 0), (0, u32::MAX, 0)] {
            books.note_dropped(first);
            assert_eq!(books.dropped(), Some(first));
            books.note_dropped(second);
            assert_eq!((books.dropped(), books.take_dropped()), (Some(later), Some(later)));
            assert_eq!(books.dropped(), None);
        }
    }
}
