//! The part of the counters that a queue shares with its completion queues.

// Model: sys/src/counters/loom_tests/queue_counters.rs

use std::sync::{Arc, OnceLock};

use crate::counters::budget::{Budget, Claims};
use crate::counters::ids::RingTag;
use crate::counters::pending::Pending;
use crate::counters::tally::Tally;
use crate::counters::type_tag;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The shared part of the counters of a queue pair or a shared receive queue.
///
/// Each counter of `completed` has one writer, the thread that polls the completion queue of that
/// direction (`&mut CompletionQueue`, which completions borrow). So plain stores suffice, without a
/// read-modify-write. A shared receive queue may complete into several completion queues, and does
/// not use its counter.
pub struct QueueCounters {
    /// Completions that were polled and then consumed or dropped: of sends, of receives.
    completed: [CompletionCounter; 2],
    /// Work requests that had been posted when the queue was destroyed or reset: of sends, of
    /// receives.
    posted_at_end: [AtomicU32; 2],
    /// The owners that can still return completions: the queue, and each of its completion queues.
    pending: Pending,
    /// The last completion of a ring that was dropped instead of passed to `complete`: the number
    /// of its work request, or 0 if there is none.
    dropped: AtomicU64,
    /// The number of a ring's next work request when the ring last looked for room. Only the ring's
    /// owner writes it.
    next: AtomicU64,
    /// The number of the protection domain, as numbered by `Pd`.
    pub pd: u32,
    /// The number of the only pool from which a shared receive queue takes buffers.
    pool: Option<u32>,
    /// Identifies the queue in the wr_ids of a ring, if it has one.
    ring: Option<RingTag>,
    /// The longest message in bytes (R3.5), and whether the MTU limits it (UD, R3.6).
    longest: AtomicU32,
    by_mtu: AtomicBool,
    /// The maximum buffer size with which a full scatter/gather list still fits a message.
    small: AtomicU32,
    /// Whether the device is siw, which has its own reasons to reject requests.
    is_siw: AtomicBool,
    /// Whether safe code leaked a list: its buffers name these counters, but are not counted.
    has_lists: AtomicBool,
    /// Whether each entry of the queue is one or more buffers of pools or arenas, which any thread
    /// may return.
    may_wait: AtomicBool,
    /// Counts for monitoring: of sends, of receives.
    tally: [Tally; 2],
}

/// Counts completions of one direction of a queue.
///
/// A wr_id without a buffer is the address of a counter, so the alignment leaves the bits free that
/// such wr_ids use as tags. Every allocation has this alignment. Two threads may poll, so the other
/// counter is a cache line away.
#[derive(Default)]
#[repr(C, align(16))]
pub struct CompletionCounter {
    completed: AtomicU32,
    /// The entries of a shared budget that the direction has claimed, if its completion queue has
    /// one. It is set before the first post.
    claims: OnceLock<Claims>,
    _apart: [u32; 8],
}

impl CompletionCounter {
    /// Counts one completion, on the only thread that polls this direction. This is its last access
    /// to the counters: another thread may then see that nothing is outstanding, and free them.
    ///
    /// # Safety
    /// `counter` is live at the start of the call.
    #[inline(always)]
    pub unsafe fn count(counter: *const Self) {
        // SAFETY: live at the start of the call. The reference is used only for the load and the
        // store, and not after the store.
        let count = unsafe { &(*counter).completed };
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// The entries of a shared budget that the direction has claimed, if it uses one.
    pub fn claims(&self) -> Option<&Claims> {
        self.claims.get()
    }

    /// The number of counted completions, wrapping. Earlier writes of the counting thread are
    /// visible.
    ///
    /// # Safety
    /// `counter` is live.
    #[inline(always)]
    pub unsafe fn get(counter: *const Self) -> u32 {
        // SAFETY: live (this function's contract). The reference is used only for the load.
        unsafe { &(*counter).completed }.load(Ordering::Acquire)
    }
}

/// The bits of a counter's address. In a wr_id without a buffer, the program's number is above
/// them.
pub const ADDRESS_BITS: u32 = 48;

/// The number of a ring's first work request: more than 0, which means none.
const FIRST: u64 = 1 << 32;

/// The index of a direction.
pub const SEND: usize = 0;
pub const RECEIVE: usize = 1;

impl QueueCounters {
    /// Creates counters. `None` if all tags of rings are in use (or if memory has addresses of more
    /// than 48 bits, which no system returns by default).
    pub fn new(pd: u32) -> Option<Arc<Self>> {
        Self::with(pd, None, Some(RingTag::new()?))
    }

    /// Like `new`, for a queue pair whose sends all complete, so that it does not need a ring's
    /// tag.
    pub fn without_ring(pd: u32) -> Option<Arc<Self>> {
        Self::with(pd, None, None)
    }

    /// Like `new`, for a shared receive queue, which takes buffers of the pool with this number.
    pub fn shared(pd: u32, pool: u32) -> Option<Arc<Self>> {
        Self::with(pd, Some(pool), None)
    }

    fn with(pd: u32, pool: Option<u32>, ring: Option<RingTag>) -> Option<Arc<Self>> {
        let counters = Arc::new(QueueCounters {
            completed: Default::default(),
            posted_at_end: Default::default(),
            pending: Pending::new(),
            dropped: AtomicU64::new(0),
            next: AtomicU64::new(FIRST),
            pd,
            pool,
            ring,
            longest: AtomicU32::new(u32::MAX),
            by_mtu: AtomicBool::new(false),
            // Until the limit is known, every buffer is inspected.
            small: AtomicU32::new(0),
            is_siw: AtomicBool::new(false),
            has_lists: AtomicBool::new(false),
            may_wait: AtomicBool::new(false),
            tally: Default::default(),
        });
        (Arc::as_ptr(&counters).addr() >> ADDRESS_BITS == 0).then_some(counters)
    }

    /// The counter of a direction.
    ///
    /// # Safety
    /// `counters` is live.
    #[inline(always)]
    pub unsafe fn counter(counters: *const Self, direction: usize) -> *const CompletionCounter {
        // SAFETY: the counters are live (this function's contract). No reference is created.
        unsafe { &raw const (*counters).completed }
            .cast::<CompletionCounter>()
            .wrapping_add(direction)
    }

    /// Makes a direction claim entries of a shared budget for its posts. Nothing was posted yet.
    pub fn share(&self, direction: usize, budget: &Arc<Budget>) {
        self.completed[direction].claims.get_or_init(|| Claims::new(budget));
    }

    /// Uses the same budgets as `other`. Nothing was posted yet.
    pub fn share_as(&self, other: &Self) {
        for direction in [SEND, RECEIVE] {
            if let Some(claims) = other.claims(direction) {
                self.share(direction, claims.budget());
            }
        }
    }

    /// Whether they belong to a shared receive queue, which does not count its posts.
    pub fn is_of_srq(&self) -> bool {
        self.pool.is_some()
    }

    /// The entries of a shared budget that a direction has claimed, if it uses one.
    pub fn claims(&self, direction: usize) -> Option<&Claims> {
        self.completed[direction].claims()
    }

    /// Sets the longest message of the queue pair, in bytes, and the maximum number of elements of
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

    /// Records that the device is siw.
    pub fn set_siw(&self) {
        self.is_siw.store(true, Ordering::Relaxed);
    }

    /// Whether the device is siw.
    pub fn is_siw(&self) -> bool {
        self.is_siw.load(Ordering::Relaxed)
    }

    /// The bits of a type tag that a direction of the queue does not accept. For sends it
    /// changes with `limit_messages`.
    pub fn mismatch(&self, direction: usize) -> u64 {
        match (direction, self.pool) {
            (SEND, _) => type_tag::send_mask(self.pd, self.small.load(Ordering::Relaxed)),
            (_, None) => type_tag::receive_mask(self.pd),
            (_, Some(pool)) => type_tag::receive_mask(self.pd) | type_tag::pool_mask(pool),
        }
    }

    /// Whether `counter` is one of these counters. It is only compared, so it does not have to be
    /// live.
    #[inline]
    pub fn has(&self, counter: *const CompletionCounter) -> bool {
        self.completed.iter().any(|own| std::ptr::eq(own, counter))
    }

    /// The number that identifies the queue in the wr_ids of a ring: below 2^29, and unique to
    /// these counters. 0 if the queue does not have one.
    pub fn ring_tag(&self) -> u32 {
        self.ring.as_ref().map_or(0, RingTag::get)
    }

    /// Test only: starts both counters at `completed`.
    #[cfg(any(test, feature = "testing"))]
    pub fn begin_at(&self, completed: u32) {
        self.completed
            .iter()
            .for_each(|counter| counter.completed.store(completed, Ordering::Relaxed));
    }

    /// The number of completions that were polled and then consumed or dropped, wrapping.
    #[inline]
    pub fn completed(&self, direction: usize) -> u32 {
        self.completed[direction & 1].completed.load(Ordering::Acquire)
    }

    /// The counts of a direction for monitoring.
    #[inline]
    pub fn tally(&self, direction: usize) -> &Tally {
        &self.tally[direction & 1]
    }

    /// Like `completed`, also for the sends of a ring, as far as its owner noted them.
    pub fn completed_of_any(&self, direction: usize) -> u32 {
        if direction != SEND || self.ring.is_none() {
            return self.completed(direction);
        }
        let done = self.tally[SEND].done.get() as u32;
        let dropped = self.dropped().map_or(done, |number| (number as u32).wrapping_add(1));
        if (dropped.wrapping_sub(done) as i32) < 0 { done } else { dropped }
    }

    /// Counts one more completion queue that the queue is attached to.
    pub fn attached(&self) {
        self.pending.add();
    }

    /// Records that the queue is destroyed or reset after this many posts. It still has to release
    /// its reference in `pending`.
    #[inline]
    pub fn end(&self, posted: [u32; 2]) {
        for (end, posted) in self.posted_at_end.iter().zip(posted) {
            end.store(posted, Ordering::Relaxed);
        }
    }

    /// Records that safe code leaked a list of the queue, so that the list's buffers are orphaned
    /// too when the queue ends.
    pub fn note_lists(&self) {
        self.has_lists.store(true, Ordering::Relaxed);
    }

    /// Releases one reference in `pending`: the queue, or one of its completion queues, cannot
    /// return its completions any more. Returns whether that was the last reference. The caller
    /// must then return the orphaned buffers.
    #[must_use = "the orphaned buffers must be returned"]
    pub fn end_one(&self) -> bool {
        self.pending.end_one()
    }

    /// Whether no completion can arrive any more.
    pub fn is_quiet(&self) -> bool {
        self.pending.is_over()
    }

    /// The maximum number of orphaned handles of a queue that ended: the posted requests whose
    /// completions were not consumed. Work requests without a buffer count as well. `None` if only
    /// the headers contain it: a shared receive queue has several completion queues, and therefore
    /// no exact count, and the buffers of a list that safe code leaked are not counted.
    fn most_orphaned(&self) -> Option<usize> {
        let left = |d: usize| {
            self.posted_at_end[d].load(Ordering::Relaxed).wrapping_sub(self.completed(d))
        };
        let has_counts = self.pool.is_none() && !self.has_lists();
        has_counts.then(|| left(SEND) as usize + left(RECEIVE) as usize)
    }

    /// Records that orphaned entries of the queue may wait for a search.
    pub fn set_may_wait(&self) {
        self.may_wait.store(true, Ordering::Relaxed);
    }

    /// Whether safe code leaked a list of the queue, which has ended.
    fn has_lists(&self) -> bool {
        self.has_lists.load(Ordering::Relaxed)
    }

    /// The number of a ring's work request with this sequence number. Sequence numbers wrap, and
    /// these numbers do not. The work request is outstanding, or its completion is held. So it is
    /// within twice the depth of `next`, which is far less than 2^31.
    pub fn number_of(&self, sequence: u32) -> u64 {
        let next = self.next.load(Ordering::Acquire);
        let ahead = sequence.wrapping_sub(next as u32) as i32;
        next.wrapping_add_signed(ahead.into())
    }

    /// Records the sequence number of a ring's next work request. The ring posts at most its depth
    /// until it calls this again.
    pub fn note_next(&self, sequence: u32) {
        self.next.store(self.number_of(sequence), Ordering::Release);
    }

    /// Records that the completion of this work request was dropped instead of passed to
    /// `complete`.
    pub fn note_dropped(&self, number: u64) {
        // Keeps the later of the two, which also releases everything that the earlier one would.
        self.dropped.fetch_max(number, Ordering::AcqRel);
    }

    /// The number of the last work request whose completion was dropped after the last
    /// `take_dropped`, if any.
    pub fn dropped(&self) -> Option<u64> {
        let dropped = self.dropped.load(Ordering::Acquire);
        (dropped != 0).then_some(dropped)
    }

    /// Like `dropped`, and clears it.
    pub fn take_dropped(&self) -> Option<u64> {
        // No other thread clears it, so it is still set.
        self.dropped()?;
        Some(self.dropped.swap(0, Ordering::AcqRel))
    }
}

/// The queues whose completions can no longer arrive. Handles that they still own are orphaned.
#[derive(Default)]
pub struct Quiet {
    /// The queues with orphaned handles, sorted by address.
    orphaned: Vec<Arc<QueueCounters>>,
    /// The queues without orphaned handles, for an assertion.
    #[cfg(debug_assertions)]
    over: Vec<Arc<QueueCounters>>,
}

impl Quiet {
    /// The queues without orphaned handles, or none without debug assertions.
    pub fn over(&self) -> &[Arc<QueueCounters>] {
        #[cfg(debug_assertions)]
        return &self.over;
        #[cfg(not(debug_assertions))]
        &[]
    }

    /// The range of addresses of these queues' counters, without the end. If there are several
    /// queues, counters of other queues may also be in the range; if there is one, there are none.
    pub fn span(&self) -> (usize, usize) {
        let at = |counters: Option<&Arc<QueueCounters>>| {
            counters.map(|counters| Arc::as_ptr(counters).addr())
        };
        let end = at(self.orphaned.last()).map_or(0, |last| last + size_of::<QueueCounters>());
        (at(self.orphaned.first()).unwrap_or(usize::MAX), end)
    }

    /// The maximum number of orphaned handles. A search that has found this many has found all.
    pub fn most(&self) -> usize {
        let all = self.orphaned.iter().map(|counters| counters.most_orphaned());
        all.fold(0, |sum, most| most.map_or(usize::MAX, |most| most.saturating_add(sum)))
    }

    /// Whether there are no orphaned handles.
    pub fn is_empty(&self) -> bool {
        self.orphaned.is_empty()
    }

    /// Whether all orphaned handles may wait for a search, and their number is known.
    pub fn may_wait(&self) -> bool {
        let may_wait = |counters: &Arc<QueueCounters>| {
            counters.may_wait.load(Ordering::Relaxed) && counters.most_orphaned().is_some()
        };
        self.orphaned.iter().all(may_wait)
    }

    /// The queues with orphaned handles.
    pub fn into_queues(self) -> Vec<Arc<QueueCounters>> {
        self.orphaned
    }

    /// The number of queues with orphaned handles.
    #[cfg(any(test, feature = "testing"))]
    pub fn len(&self) -> usize {
        self.orphaned.len()
    }

    /// Whether the queue with this counter is one of them and has orphaned handles. (A binary
    /// search, because thousands of queues may have ended at once, and each of their buffers is
    /// checked.)
    pub fn has(&self, counter: *const CompletionCounter) -> bool {
        let behind = self
            .orphaned
            .partition_point(|counters| Arc::as_ptr(counters).addr() <= counter.addr());
        behind.checked_sub(1).is_some_and(|at| self.orphaned[at].has(counter))
    }

    /// The protection domain of all buffers that these queues may own, or `None` if there may be
    /// several. (A list that was leaked during a panic may contain buffers of any domain,
    /// because they were not checked yet.)
    pub fn domain(&self) -> Option<u32> {
        let first = self.orphaned.first()?.pd;
        let is_only = |counters: &Arc<QueueCounters>| counters.pd == first && !counters.has_lists();
        self.orphaned.iter().all(is_only).then_some(first)
    }

    /// Whether one of them may have buffers of this protection domain.
    pub fn is_of(&self, pd: u32) -> bool {
        self.orphaned.iter().any(|counters| counters.pd == pd || counters.has_lists())
    }

    /// Adds a queue with orphaned handles.
    pub fn add(&mut self, counters: Arc<QueueCounters>) {
        let address = Arc::as_ptr(&counters);
        let before = self.orphaned.partition_point(|other| Arc::as_ptr(other) < address);
        self.orphaned.insert(before, counters);
    }

    /// Releases one reference in a queue's `pending` (`QueueCounters::end_one`).
    pub fn end_one(&mut self, counters: &Arc<QueueCounters>) {
        if !counters.end_one() {
            return;
        }
        if counters.most_orphaned() != Some(0) {
            return self.add(counters.clone());
        }
        #[cfg(debug_assertions)]
        self.over.push(counters.clone());
    }
}

impl From<Vec<Arc<QueueCounters>>> for Quiet {
    /// Of queues with orphaned handles, in any order.
    fn from(mut orphaned: Vec<Arc<QueueCounters>>) -> Self {
        orphaned.sort_unstable_by_key(Arc::as_ptr);
        Quiet { orphaned, ..Quiet::default() }
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;

    /// A queue pair in a state without sends has no longest message, and inspects every buffer.
    #[test]
    fn messages_have_no_limit_before_it_is_known() {
        let counters = QueueCounters::new(7).unwrap();
        assert_eq!(counters.longest_message(), (u32::MAX, false));
        let known = type_tag::of(7, 1, 256);
        assert_ne!(known & counters.mismatch(SEND), 0);
        counters.limit_messages(1024, true, 4);
        assert_eq!(counters.longest_message(), (1024, true));
        assert_eq!(known & counters.mismatch(SEND), 0);
        counters.limit_messages(1020, false, 4);
        assert_eq!(counters.longest_message(), (1020, false));
        assert_ne!(known & counters.mismatch(SEND), 0, "four of them are too long");
        // Without a list each buffer is one element.
        counters.limit_messages(256, false, 0);
        assert_eq!(known & counters.mismatch(SEND), 0);
    }

    /// All domains and counters of several queues are found, and no others.
    #[test]
    fn several_queues_are_quiet_at_once() {
        let all = [3, 4, 5].map(|pd| QueueCounters::new(pd).unwrap());
        let [one, two, other] = &all;
        let mut quiet = Quiet::default();
        assert!(quiet.is_empty() && !quiet.has(&raw const one.completed[0]));
        assert_eq!((quiet.domain(), quiet.len()), (None, 0));
        quiet.add(one.clone());
        assert_eq!((quiet.domain(), quiet.len()), (Some(3), 1));
        quiet.add(QueueCounters::new(3).unwrap());
        assert_eq!((quiet.domain(), quiet.len()), (Some(3), 2));
        quiet.add(two.clone());
        assert!(!quiet.is_empty());
        assert_eq!(quiet.domain(), None);
        assert_eq!([3, 4, 5].map(|pd| quiet.is_of(pd)), [true, true, false]);
        let (lowest, highest) = quiet.span();
        for counters in &all {
            for counter in &counters.completed {
                assert_eq!(quiet.has(counter), !Arc::ptr_eq(counters, other));
                let at = std::ptr::from_ref(counter).addr();
                assert!(Arc::ptr_eq(counters, other) || (lowest..highest).contains(&at));
            }
        }
    }

    /// Each of many queues is found, in any order of their ends, with a logarithmic number of
    /// comparisons.
    #[test]
    fn many_queues_are_quiet_at_once() {
        let mut all: Vec<_> = (0..100).map(|_| QueueCounters::new(1).unwrap()).collect();
        all.sort_by_key(|counters| Arc::as_ptr(counters).addr() % 1009);
        let mut quiet = Quiet::default();
        all.iter().step_by(2).for_each(|counters| quiet.add(counters.clone()));
        assert_eq!(quiet.len(), 50);
        assert!(quiet.orphaned.is_sorted_by_key(Arc::as_ptr));
        for (i, counters) in all.iter().enumerate() {
            let found = counters.completed.iter().filter(|&counter| quiet.has(counter)).count();
            assert_eq!(found, if i % 2 == 0 { 2 } else { 0 });
        }
    }

    /// A queue is quiet when the last owner that can return its completions has ended. It is kept
    /// if it has orphaned handles, in either direction.
    #[test]
    fn what_is_orphaned_is_kept_with_the_last_part() {
        for (posted, is_orphaned) in [([0, 0], false), ([1, 0], true), ([0, 1], true)] {
            let (counters, mut quiet) = (QueueCounters::new(1).unwrap(), Quiet::default());
            counters.attached();
            counters.end(posted);
            quiet.end_one(&counters);
            assert!(quiet.is_empty() && !counters.is_quiet(), "{posted:?}");
            quiet.end_one(&counters);
            assert_eq!((!quiet.is_empty(), counters.is_quiet()), (is_orphaned, true), "{posted:?}");
        }
        let (counters, mut quiet) = (QueueCounters::shared(1, 2).unwrap(), Quiet::default());
        quiet.end_one(&counters);
        assert!(!quiet.is_empty(), "only the headers of a shared receive queue are known");
    }

    /// The numbers of a ring's work requests continue when its sequence numbers wrap.
    #[test]
    fn numbers_do_not_wrap() {
        let counters = QueueCounters::new(1).unwrap();
        let mut number = FIRST - 100;
        for _ in 0..20 {
            for ahead in -50..50 {
                let of = number.wrapping_add_signed(ahead);
                assert_eq!(counters.number_of(of as u32), of);
            }
            number += (1 << 30) - 1;
            counters.note_next(number as u32);
        }
        assert!(number > 4 << 32);
    }

    /// The later of two dropped completions is kept.
    #[test]
    fn the_last_dropped_completion_is_noted() {
        let counters = QueueCounters::new(1).unwrap();
        assert_eq!((counters.dropped(), counters.take_dropped()), (None, None));
        let around = FIRST - 1;
        for (first, second, later) in [(1, 2, 2), (2, 1, 2), (around, FIRST, FIRST)] {
            counters.note_dropped(first);
            assert_eq!(counters.dropped(), Some(first));
            counters.note_dropped(second);
            assert_eq!((counters.dropped(), counters.take_dropped()), (Some(later), Some(later)));
            assert_eq!(counters.dropped(), None);
        }
    }
}
