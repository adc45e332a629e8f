//! In-flight accounting when its counters wrap.

use crate::Buf;
use crate::counters::budget::{Budget, Room};
use crate::counters::ids;
use crate::counters::queue_counters::CompletionCounter;
use crate::counters::queue_counters::{RECEIVE, SEND};
use crate::in_flight::credits::Credits;
use crate::in_flight::ring::Ring;
use crate::in_flight::*;
use crate::loopback::Fabric;
use crate::memory::header::{Handle, Word};
use std::sync::Arc;

impl<E: Entry> Credits<E> {
    /// As if this number of work requests had been posted and completed.
    pub(super) fn begin_at(&mut self, count: u32) {
        self.seen = count;
    }
}

impl<E: Entry> Ring<E> {
    /// As if this number of work requests had been posted and completed.
    pub(super) fn begin_at(&mut self, sequence: u32) {
        self.state.claims().inspect(|claims| claims.begin_at(sequence));
        (self.oldest.sequence, self.next.sequence) = (sequence, sequence);
        self.rewind();
    }
}

/// Converts a buffer to its word, without dropping it.
fn word_of(buf: Buf) -> usize {
    std::mem::ManuallyDrop::new(buf).word()
}

const DEPTH: u32 = 5;

fn pool() -> crate::Pool {
    let pd = Fabric::new().open_device().alloc_pd().unwrap();
    pd.create_pool(8, 8).unwrap()
}

/// An in-flight table of sends.
fn open<L: InFlight<Buf>>(counters: &Arc<QueueCounters>) -> L {
    L::open(counters, SEND, (DEPTH, Vec::new()), StaleCredits::default())
}

/// An in-flight table of sends, after an earlier one whose entries may still complete.
fn open_after<L: InFlight<Buf>>(old: &Arc<QueueCounters>, entries: u32) -> L {
    old.attached();
    let mut stale = StaleCredits::default();
    stale.add(old, entries, DEPTH);
    L::open(&QueueCounters::new(1).unwrap(), SEND, (DEPTH, Vec::new()), stale)
}

/// Spends like a post: if there is no room, it reads what has completed and tries again.
fn spend(ring: &mut Ring<Buf>, n: u32) -> bool {
    ring.spend(n) || ring.look_and_spend(n)
}

/// Every sequence number around the wrap, at every fill level. The ring releases what was put in,
/// in order, and only numbers in flight release entries.
#[test]
fn a_ring_whose_sequence_numbers_wrap() {
    let pool = pool();
    let counters = QueueCounters::new(1).unwrap();
    let mut ring: Ring<Buf> = open(&counters);
    ring.begin_at(u32::MAX - 6);
    let mut sent = 0u8;
    let mut released = 0u8;
    for round in 0..20 {
        while ring.has_room(1) {
            let mut buf = pool.take().unwrap();
            buf.copy_from(&[sent]).unwrap();
            let (mut cursor, word) = (ring.cursor(), word_of(buf));
            // SAFETY: it is one work request, and there is room for it.
            unsafe { ring.enter(&mut cursor, 0, Some(word), 0) };
            assert!(spend(&mut ring, 1));
            sent += 1;
        }
        assert!(!spend(&mut ring, 1));
        assert_eq!((ring.room(), ring.posted().wrapping_sub(ring.completed())), (0, DEPTH));
        let (head, tail) = (ring.completed(), ring.posted());
        let id = word::of_ring(counters.ring_tag());
        let wr_id = |id: u32, sequence: u32| (sequence as u64) << 32 | id as u64;
        for wrong in [head.wrapping_sub(1), tail, head.wrapping_add(1 << 31)] {
            assert_eq!(ring.done_with(wr_id(id, wrong)), None, "{wrong:#x} is not in flight");
        }
        let up_to = head.wrapping_add(round % DEPTH);
        for wrong in [id + 4, id.wrapping_sub(4), id & !2, id ^ 1 << 31, 0] {
            assert_eq!(ring.done_with(wr_id(wrong, up_to)), None, "another queue's, or no ring's");
            assert_eq!(ring.done_with(wr_id(wrong, up_to.wrapping_add(1))), None);
        }
        let done = ring.done_with(wr_id(id, up_to)).unwrap();
        for buf in ring.release_first(done) {
            assert_eq!(buf[0], released);
            released += 1;
        }
    }
    assert!(ring.posted() < 100, "it wrapped");
    assert_eq!(ring.release(Until::End).map_or(0, Iterator::count), (sent - released) as usize);
    assert_eq!(pool.available(), 8);
}

/// A work request has the sequence number of one that was posted 2^32 earlier, whose completion was
/// detached. That completion releases nothing when it is redeemed or dropped.
#[test]
fn a_completion_of_2_to_the_32_posts_ago() {
    let pool = pool();
    let counters = QueueCounters::new(1).unwrap();
    let mut ring: Ring<Buf> = open(&counters);
    let post = |ring: &mut Ring<Buf>| {
        let mut cursor = ring.cursor();
        // SAFETY: it is one work request, and there is room for it.
        unsafe { ring.enter(&mut cursor, 0, Some(word_of(pool.take().unwrap())), 0) };
        assert!(spend(ring, 1));
    };
    let mut numbers = Vec::new();
    for round in 0..3u32 {
        let first = ring.completed();
        assert_eq!(first, 0);
        (0..3).for_each(|_| post(&mut ring));
        let number = counters.number_of(first + 1);
        for &old in &numbers {
            assert_eq!(ring.release_by(old).count(), 0, "round {round}");
            counters.note_dropped(old);
            assert!(ring.release(Until::Dropped).is_none(), "round {round}");
        }
        assert_eq!((ring.outstanding(), pool.available()), (3, 5));
        assert_eq!(ring.release_by(number).count(), 2);
        assert_eq!(ring.release_by(number).count(), 0, "redeemed once");
        assert_eq!(ring.release(Until::End).map_or(0, Iterator::count), 1);
        numbers.push(number);
        // Until the next time round.
        (1..=4u32).for_each(|quarter| ring.begin_at(quarter.wrapping_mul(1 << 30)));
    }
    assert_eq!([numbers[1] - numbers[0], numbers[2] - numbers[1]], [1 << 32; 2]);
}

/// No other queue gets the tag of a queue whose completion was detached, even after that queue and
/// its completion queue are gone.
#[test]
fn a_detached_completion_keeps_its_tag() {
    use crate::profile::Selective;
    crate::profile! { Stream { signaling: Selective } }
    let pair = crate::loopback::pair_of::<Stream>().unwrap();
    let crate::loopback::Pair { mut a, b, mut cq, .. } = pair;
    let tag = a.core.counters.ring_tag();
    a.post_send(crate::wr::Send::inline(b"nobody receives it")).unwrap();
    let a = a.to_error().unwrap();
    let completion = loop {
        if let Some(completion) = cq.poll_one().unwrap() {
            break completion.detach().unwrap();
        }
    };
    drop((a, b, cq));
    ids::begin_at(tag);
    let others: Vec<_> = (0..3).map(|_| QueueCounters::new(1).unwrap()).collect();
    assert!(others.iter().all(|counters| counters.ring_tag() != tag));
    drop(completion);
}

/// Room that an earlier in-flight table may still take is returned when that has ended, and only
/// once.
#[test]
fn withheld_room_is_spent_once() {
    let old = QueueCounters::new(1).unwrap();
    let mut credits: Credits<Buf> = open_after(&old, 2);
    assert!(credits.spend(3));
    assert!(!credits.spend(1) && !credits.look_and_spend(1));
    assert_eq!((credits.room(), credits.outstanding()), (0, 3));
    assert!(!old.end_one() && old.end_one(), "the old queue pair has ended");
    assert!(!credits.spend(1) && credits.look_and_spend(1));
    assert_eq!((credits.room(), credits.outstanding()), (1, 4));
    assert!(credits.spend(1) && !credits.spend(1) && !credits.look_and_spend(1));
    assert_eq!((credits.room(), credits.outstanding()), (0, 5));
}

/// The same, if all of it returns at once.
#[test]
fn withheld_room_is_spent_at_once() {
    let old = QueueCounters::new(1).unwrap();
    let mut credits: Credits<Buf> = open_after(&old, 2);
    assert!(credits.spend(DEPTH - 2));
    assert!(!old.end_one() && old.end_one(), "the old queue pair has ended");
    assert!(!credits.spend(2) && credits.look_and_spend(2));
    assert_eq!((credits.room(), credits.outstanding()), (0, DEPTH));
}

/// No credits are lost or invented when the count of completions wraps.
#[test]
fn credits_whose_counters_wrap() {
    let counters = QueueCounters::new(1).unwrap();
    counters.begin_at(u32::MAX - 3);
    let mut credits: Credits<Buf> = open(&counters);
    credits.begin_at(u32::MAX - 3);
    for _ in 0..20 {
        while credits.has_room(1) {
            assert!(credits.spend(1));
        }
        assert_eq!((credits.outstanding(), credits.room()), (DEPTH, 0));
        for left in (1..DEPTH).rev() {
            // SAFETY: the counters are alive.
            let counter = unsafe { QueueCounters::counter(Arc::as_ptr(&counters), SEND) };
            // SAFETY: the counter belongs to the counters, which are alive.
            unsafe { CompletionCounter::count(counter) };
            assert_eq!((credits.outstanding(), credits.room()), (left, DEPTH - left));
        }
    }
}

/// A long-lived completion queue keeps no state of destroyed queues. They leave behind receives of
/// a shared receive queue, which are not counted, and receives without a buffer, which are not
/// taken back.
#[test]
fn a_completion_queue_forgets_what_is_gone() {
    use crate::qp::SharedRq;
    crate::profile! { OnSrq { receive: SharedRq } }
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let (mut cq, mut other) =
        (context.create_cq::<Buf>(40).unwrap(), context.create_cq::<Buf>(40).unwrap());
    let pool = pd.create_pool(4, 8).unwrap();
    let empty = |cq: &mut crate::CompletionQueue| {
        while let Some(completion) = cq.poll_one().unwrap() {
            drop(completion);
        }
    };
    for round in 0..3 {
        let mut srq =
            pd.create_srq::<crate::transport::Rc, Buf, crate::qp::Max<1>, ()>(&pool).unwrap();
        for _ in 0..round {
            srq.post_srq_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
        }
        let make = |cq| {
            pd.create_qp::<crate::transport::Rc, OnSrq>(cq, cq, crate::Depth::on_srq(2, &srq))
                .unwrap()
        };
        drop((make(&cq), make(&other)));
        drop((make(&cq), make(&cq), make(&other)));
        let short = context.create_cq::<Buf>(40).unwrap();
        let on_short = pd.create_qp::<crate::transport::Rc, OnSrq>(
            &short,
            &short,
            crate::Depth::on_srq(2, &srq),
        );
        drop((on_short.unwrap(), short));
        drop(make(&cq));
        let inboxes = srq.core().dependents.inboxes.lock().unwrap().len();
        assert_eq!(inboxes, 2, "those that there are, once each");
        let depth = crate::Depth { send: 2, recv: 2 };
        let qp =
            pd.create_qp::<crate::transport::Rc, crate::DefaultProfile>(&cq, &cq, depth).unwrap();
        let init =
            crate::qp::ConnectedInit { pkey_index: 0, port: 1, access: crate::qp::QpAccess::all() };
        let mut qp = qp.modify(init).unwrap();
        qp.post_recv(crate::wr::Recv::empty()).unwrap();
        qp.post_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
        drop(qp);
        srq.destroy().unwrap();
        empty(&mut cq);
        assert_eq!(pool.available(), 4 - round as usize, "round {round}");
        empty(&mut other);
        assert_eq!(pool.available(), 4, "round {round}");
        assert_eq!((pool.reclaim(&mut cq), pool.reclaim(&mut other)), (0, 0));
        assert_eq!((cq.shared().attachments(), other.shared().attachments()), (0, 0));
        assert_eq!((cq.unbooked(), other.unbooked()), (40, 40));
    }
}

/// A list that extends past the end of the ring. Its entries are released in order, and the entries
/// that it does not overwrite stay.
#[test]
fn a_list_that_goes_beyond_the_end_of_a_ring() {
    let pool = pool();
    let counters = QueueCounters::new(1).unwrap();
    for before_the_end in 0..=3 {
        let mut ring: Ring<Buf> = open(&counters);
        let slots = (DEPTH + 1 + MOST).next_power_of_two();
        ring.begin_at(slots - before_the_end - 1);
        for (sent, n) in [(0, 1), (1, 3)] {
            let mut cursor = ring.cursor();
            for i in 0..n {
                let mut buf = pool.take().unwrap();
                buf.copy_from(&[(sent + i) as u8]).unwrap();
                // SAFETY: there is room for all of them.
                unsafe { ring.enter(&mut cursor, i, Some(word_of(buf)), 0) };
            }
            assert!(spend(&mut ring, n));
        }
        let last = ring.posted().wrapping_sub(1);
        let done = ring
            .done_with((last as u64) << 32 | word::of_ring(counters.ring_tag()) as u64)
            .unwrap();
        let released = ring.release_first(done);
        assert_eq!(released.map(|buf| buf[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
    assert_eq!(pool.available(), 8);
}

/// Takes everything that was released as an array, at every position in the ring. The array fails,
/// and returns everything, if the number of buffers differs.
#[test]
fn what_is_released_as_an_array() {
    let pool = pool();
    let counters = QueueCounters::new(1).unwrap();
    let slots = (DEPTH + 1 + MOST).next_power_of_two();
    for (before_the_end, empty) in [(0, 9), (1, 9), (2, 9), (3, 9), (7, 9), (1, 0), (1, 2), (5, 1)]
    {
        let mut ring: Ring<Buf> = open(&counters);
        ring.begin_at(slots - before_the_end);
        for i in 0..3 {
            // As after a rejected list: the next one starts at its slot.
            ring.take_back(0);
            let word = (i != empty).then(|| {
                let mut buf = pool.take().unwrap();
                buf.copy_from(&[i]).unwrap();
                word_of(buf)
            });
            let mut cursor = ring.cursor();
            // SAFETY: there is room for it.
            unsafe { ring.enter(&mut cursor, 0, word, 0) };
            assert!(spend(&mut ring, 1));
        }
        let last = ring.posted().wrapping_sub(1);
        let done = ring
            .done_with((last as u64) << 32 | word::of_ring(counters.ring_tag()) as u64)
            .unwrap();
        let released = ring.release_first(done);
        let released = released.array::<2>().err().unwrap().array::<4>().err().unwrap();
        match released.array() {
            Ok([a, b, c]) => assert_eq!((empty, [a[0], b[0], c[0]]), (9, [0, 1, 2])),
            Err(released) => {
                assert_ne!(empty, 9, "all have a buffer");
                let left: Vec<u8> = (0..3).filter(|&i| i != empty).collect();
                assert_eq!(released.map(|buf| buf[0]).collect::<Vec<_>>(), left);
            }
        }
        assert_eq!(pool.available(), 8);
    }
}

/// A word without a buffer contains the counter and the program's number, unchanged.
#[test]
fn a_word_without_a_buffer() {
    let counters = QueueCounters::new(1).unwrap();
    // SAFETY: the counters are alive.
    let counter = unsafe { QueueCounters::counter(Arc::as_ptr(&counters), SEND) };
    for id in (0..16).map(|bit| 1 << bit).chain([0, 3, u16::MAX]) {
        let none = word::none((id as u64) << word::ID);
        let word = word::of(counter.cast_mut(), none);
        assert!(word::is_none(word));
        assert_eq!(
            (word::id(word), word::counter::<CompletionCounter>(word).cast_const()),
            (id, counter)
        );
    }
}

/// A list of the most work requests can be emitted behind a full ring, and one more. The ring is
/// not larger than that requires.
#[test]
fn a_ring_has_slots_beyond_its_depth() {
    let counters = QueueCounters::new(1).unwrap();
    for depth in [1, 5, MOST - 1, MOST, MOST + 1, 2 * MOST, 3 * MOST - 1, 3 * MOST] {
        let ring: Ring<Buf> =
            Ring::open(&counters, SEND, (depth, Vec::new()), StaleCredits::default());
        assert!(ring.mask >= depth + MOST && ring.mask / 2 < depth + MOST, "{depth}");
    }
}

/// A poisoned in-flight table has no room, whatever completes, and still counts what is
/// outstanding.
#[test]
fn poisoned_credits_stay_without_room() {
    let counters = QueueCounters::new(1).unwrap();
    let mut credits: Credits<Buf> = open(&counters);
    assert!(credits.spend(3));
    credits.poison();
    for left in (0..3).rev() {
        // SAFETY: the counter belongs to the counters, which are alive.
        unsafe { CompletionCounter::count(QueueCounters::counter(Arc::as_ptr(&counters), SEND)) };
        assert_eq!(
            (credits.spend(1), credits.look_and_spend(1), credits.has_room(1)),
            (false, false, false)
        );
        assert_eq!((credits.room(), credits.outstanding(), credits.posted()), (0, left, 3));
    }
}

/// A queue that is always full finds completions without a separate call.
#[test]
fn credits_return_while_the_queue_is_full() {
    let counters = QueueCounters::new(1).unwrap();
    let mut credits: Credits<Buf> = open(&counters);
    assert!(credits.spend(DEPTH));
    for posted in DEPTH + 1..DEPTH + 20 {
        assert!(!credits.spend(1));
        // SAFETY: the counter belongs to the counters, which are alive.
        unsafe { CompletionCounter::count(QueueCounters::counter(Arc::as_ptr(&counters), SEND)) };
        assert!(!credits.spend(2));
        assert!(credits.spend(1));
        assert_eq!((credits.posted(), credits.outstanding()), (posted, DEPTH));
    }
}

/// The property that queues require: a type tag mismatches every queue outside its domain, and
/// every shared receive queue outside its pool. The same holds for several tags combined with OR,
/// if one of them mismatches.
#[test]
#[cfg_attr(miri, ignore = "many pairs of numbers, and no memory to look at")]
fn marks_stand_out() {
    use crate::counters::type_tag;
    let numbers = |bits: u32| {
        let alternate = 0x5555_5555 & ((1 << bits) - 1);
        let near = (0..bits).flat_map(move |bit| [1 << bit, (1 << bits) - 1 - (1 << bit)]);
        let beyond = [(1 << bits) - 1, 1 << bits, (1 << bits) + 1, u32::MAX, alternate];
        (0..100).chain(near).chain(beyond).collect::<Vec<u32>>()
    };
    const LARGEST: u32 = 1 << 30;
    for mine in numbers(25) {
        for other in numbers(25) {
            let is_known = mine == other && mine < 1 << 25;
            let both = type_tag::of(mine, 7, 64) | type_tag::of(other, 8, 64);
            for type_tag in [type_tag::of(mine, 7, LARGEST), both] {
                assert_eq!(type_tag & type_tag::receive_mask(other) == 0, is_known);
                assert_eq!(type_tag & type_tag::send_mask(other, LARGEST) == 0, is_known);
            }
        }
    }
    for mine in numbers(17) {
        for other in numbers(17) {
            let is_known = mine == other && mine < type_tag::POOLS;
            let both = type_tag::of(3, mine, 64) | type_tag::of(3, other, 64);
            for type_tag in [type_tag::of(3, mine, LARGEST), both] {
                assert_eq!(type_tag & type_tag::pool_mask(other) == 0, is_known);
            }
            assert_ne!(type_tag::of(mine, type_tag::NO_POOL, 8) & type_tag::pool_mask(other), 0);
        }
    }
    for capacity in [1, 255, 256, 257, 4096, 4097, 1 << 16, (1 << 25) + 1, LARGEST, u32::MAX] {
        for small in [0, 255, 256, 300, 4095, 4096, 5000, 1 << 23, LARGEST, u32::MAX] {
            // Sizes between two classes count as the smaller one, so some are inspected needlessly.
            let buf = type_tag::of(5, 6, capacity);
            let is_known = buf & type_tag::send_mask(5, small) == 0;
            assert!(!is_known || capacity <= small, "{capacity} {small}");
            let is_class = [256, 4096, 1 << 23, LARGEST].contains(&small);
            assert!(!is_class || is_known == (capacity <= small), "{capacity} {small}");
            assert_ne!((buf | type_tag::LOOK) & type_tag::send_mask(5, small), 0);
            assert_eq!((buf | type_tag::LOOK) & type_tag::receive_mask(5), 0);
            assert_ne!((buf | type_tag::EMPTY) & type_tag::receive_mask(5), 0);
            assert_ne!(buf & type_tag::ANY, 0);
        }
    }
    assert_ne!(type_tag::of(5, 6, 0) & type_tag::send_mask(5, LARGEST), 0);
}

/// More queue pairs, resets and pools than there are tags and numbers. No two in use are the same,
/// and buffers return as usual.
///
/// Tags of rings are reused, so creates and resets never exhaust them.
#[test]
fn ids_last() {
    use std::collections::BTreeSet;
    let before: Vec<_> = (0..3).map(|_| QueueCounters::new(1).unwrap()).collect();
    ids::begin_at((1 << 29) - 2);
    let wrapped: Vec<_> = (0..4).map(|_| QueueCounters::new(1).unwrap()).collect();
    // The tags wrap around to those of the first ones, which still exist.
    ids::begin_at(before[0].ring_tag());
    let again: Vec<_> = (0..3).map(|_| QueueCounters::new(1).unwrap()).collect();
    let all: Vec<_> = before.iter().chain(&wrapped).chain(&again).collect();
    // No two tags are the same word, including the largest ones.
    let words: BTreeSet<u32> =
        (0..29).flat_map(|bit| [1 << bit, (2 << bit) - 1]).map(word::of_ring).collect();
    assert_eq!(words.len(), 57);
    // None looks like the wr_id of a receive.
    assert!(words.iter().all(|id| id & word::RECEIVE as u32 == 0));
    let tags: BTreeSet<u32> = all.iter().map(|counters| counters.ring_tag()).collect();
    assert_eq!(tags.len(), 10);
    assert!(tags.iter().all(|tag| (1..1 << 29).contains(tag)));

    let ends = crate::loopback::pair().unwrap();
    let (mut cq, pool) = (ends.cq, ends.pool);
    let mut qp = ends.a.reset().unwrap();
    for _ in 0..if cfg!(miri) { 10 } else { 100 } {
        let init =
            crate::qp::ConnectedInit { pkey_index: 0, port: 1, access: crate::qp::QpAccess::all() };
        let mut ready = qp.modify(init).unwrap();
        ready.post_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
        qp = ready.reset().unwrap();
        while cq.poll_one().unwrap().is_some() {}
        assert_eq!(pool.available(), pool.count());
    }
    let other = ends.pd.create_pool(1, 8).unwrap();
    for _ in 0..if cfg!(miri) { 20 } else { 200 } {
        let pool = ends.pd.create_pool(1, 8).unwrap();
        let number = pool.shared().number();
        assert!((1..crate::counters::type_tag::POOLS).contains(&number));
        // The buffers of the pool have it in their type tags, and no others.
        let mismatch = |pool: &crate::Pool| {
            let buf = pool.take().unwrap();
            buf.header().type_tag() & crate::counters::type_tag::pool_mask(number) != 0
        };
        assert!(!mismatch(&pool) && mismatch(&other));
    }
}

/// Queues that take entries of a budget. They take one with each work request that they post, and
/// one more after an unsignaled send of a ring. Their counts may wrap. Stale completions return
/// nothing.
#[test]
fn claims_go_on_where_counts_wrap() {
    let budget = Arc::new(Budget::new(6));
    let counters = QueueCounters::new(1).unwrap();
    counters.share(SEND, &budget);
    let claims = counters.claims(SEND).unwrap();
    let mut ring: Ring<Buf> = open(&counters);
    ring.begin_at(u32::MAX - 5);
    for round in 0..8 {
        let first = ring.posted();
        assert_eq!((ring.room(), budget.free()), (DEPTH.min(6), 6), "round {round}");
        assert!(!ring.spend(1), "no post fits by what is known");
        // Two unsignaled sends, and room for a signaled one.
        for left in [4, 3] {
            assert!(ring.has_room(2) && ring.look_and_spend(1));
            assert_eq!((ring.held(), budget.free()), (1, left));
        }
        assert!(budget.take(3) && !ring.has_room(2) && !ring.look_and_spend(2));
        assert_eq!(ring.why_full(2), PostErrorKind::CqFull { asked: 2, room: 1 });
        assert!(ring.look_and_spend(1));
        assert_eq!((ring.held(), ring.room(), ring.enter_sentinel()), (0, 0, None));
        // It is rejected after all, and posted again.
        ring.take_back(1);
        assert_eq!((ring.held(), ring.outstanding()), (1, 2));
        assert!(ring.look_and_spend(1));
        budget.give(3);
        assert_eq!(claims.count_polled_up_to(first.wrapping_add(2)), 3);
        assert_eq!(claims.count_polled_up_to(first.wrapping_add(1)), 0, "stale");
        assert_eq!(claims.count_polled_up_to(first.wrapping_add(3)), 0, "not posted");
        budget.give(3);
        ring.release(Until::End);
    }

    let counters = QueueCounters::without_ring(1).unwrap();
    counters.share(RECEIVE, &budget);
    counters.begin_at(u32::MAX - 3);
    let claims = counters.claims(RECEIVE).unwrap();
    claims.begin_at(u32::MAX - 3);
    let mut credits: Credits<Buf> =
        Credits::open(&counters, RECEIVE, (DEPTH, Vec::new()), StaleCredits::default());
    credits.begin_at(u32::MAX - 3);
    for round in 0..8 {
        assert_eq!((credits.room(), budget.free()), (DEPTH.min(6), 6), "round {round}");
        assert!(!credits.spend(1) && credits.look_and_spend(3));
        assert!(!credits.look_and_spend(4), "its depth is 5");
        assert_eq!((credits.outstanding(), budget.free()), (3, 3));
        credits.take_back(1);
        assert_eq!((credits.outstanding(), budget.free()), (2, 4));
        for _ in 0..2 {
            assert_eq!(claims.count_polled(), 1);
            // SAFETY: the counters are live.
            unsafe {
                CompletionCounter::count(QueueCounters::counter(Arc::as_ptr(&counters), RECEIVE));
            }
        }
        assert_eq!(claims.count_polled(), 0, "nothing is outstanding");
        budget.give(2);
    }
    // A post with an unknown outcome keeps its entries until the queue ends.
    assert!(credits.look_and_spend(2));
    credits.poison();
    assert_eq!((credits.is_poisoned(), credits.room(), credits.outstanding()), (true, 0, 2));
    assert_eq!(claims.count_polled(), 1);
    budget.give(1);
    claims.end();
    assert_eq!(budget.free(), 6);
}

/// A task that waits for room is woken by the entries that a ring returns after a rejected list.
#[test]
fn entries_that_a_ring_returns_wake_a_task() {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Wake};
    #[derive(Default)]
    struct Woken(AtomicU32);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let budget = Arc::new(Budget::new(3));
    let counters = QueueCounters::new(1).unwrap();
    counters.share(SEND, &budget);
    let claims = counters.claims(SEND).unwrap();
    assert!(claims.claim(3));
    let woken = Arc::new(Woken::default());
    let waker = woken.clone().into();
    let mut task = Context::from_waker(&waker);
    assert!(budget.poll_room(&mut task, 1).is_pending());
    claims.keep_one(1); // one of the three was posted, and one entry is kept
    assert_eq!((budget.free(), woken.0.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(budget.poll_room(&mut task, 1), Poll::Ready(Room::Free));
}

/// Random posts, rejected posts and polls: a ring has at most one entry more than outstanding work
/// requests, and none if nothing is outstanding.
#[test]
fn an_idle_ring_has_no_entries() {
    let budget = Arc::new(Budget::new(6));
    let counters = QueueCounters::new(1).unwrap();
    counters.share(SEND, &budget);
    let claims = counters.claims(SEND).unwrap();
    let mut ring: Ring<Buf> = open(&counters);
    let mut random = 1u32;
    for step in 0..if cfg!(miri) { 200 } else { 5000 } {
        random = random.wrapping_mul(1664525).wrapping_add(1013904223);
        let (kind, n) = (random >> 29, random >> 16 & 3);
        let posted = match kind {
            // An unsignaled list reserves one more.
            0..2 => {
                let _ = ring.has_room(n + 1);
                n != 0 && ring.look_and_spend(n)
            }
            2..4 => n != 0 && ring.look_and_spend(n),
            _ => true,
        };
        match (kind, std::num::NonZeroU32::new(n.min(ring.outstanding()))) {
            _ if !posted => ring.give_back_held(),
            // The device rejects the end of a list.
            (3, _) => ring.take_back(n.div_ceil(2)),
            (4.., Some(count)) => {
                let last = ring.completed().wrapping_add(n.min(ring.outstanding()) - 1);
                budget.give(claims.count_polled_up_to(last) as i32);
                drop(ring.release_first(count));
            }
            _ => {}
        }
        let (booked, left) = (6 - budget.free(), ring.outstanding());
        assert!(left <= booked && booked <= left + (left != 0) as u32, "{step}: {booked}, {left}");
    }
}

/// A list that was posted, dropped or grown leaves no trace. One that was leaked does: its buffers
/// name the queue, so the queue's end has to look for them.
#[test]
fn only_a_leaked_list_is_remembered() {
    use crate::post::SendSlots;
    use crate::wr;
    let crate::loopback::Pair { mut a, b: _b, pd, .. } = crate::loopback::pair().unwrap();
    let region = pd.register::<crate::memory::RemoteWrite>(8).unwrap();
    let write = || wr::RdmaWrite::inline(b"inline", region.remote().write());
    let mut slots = SendSlots::<4>::new();
    let mut list = a.send_list(&mut slots);
    list.push(write()).unwrap();
    list.extend((0..2).filter(|_| true).map(|_| write())).unwrap();
    list.post().unwrap();
    a.send_list(&mut slots).post().unwrap();
    a.send_list(&mut slots).push(write()).unwrap();
    assert!(!a.core.send.in_flight.has_lists());
    std::mem::forget(a.send_list(&mut slots));
    drop(a.send_list(&mut slots));
    assert!(a.core.send.in_flight.has_lists());
}

/// Work from before a reset that has completed takes no entries of a queue pair that ends.
#[test]
fn stale_work_that_completed_is_not_counted_at_the_end() {
    use crate::prelude::*;
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let (mut cq, pool) = (context.create_cq(40).unwrap(), pd.create_pool(2, 8).unwrap());
    let qp = pd.create_qp(&cq, &cq, Depth { send: 2, recv: 2 }).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut qp: QueuePair<Rc, Init> = qp.modify(init).unwrap();
    (0..2).for_each(|_| qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap());
    let qp = qp.reset().unwrap();
    (0..2).for_each(|_| assert!(cq.poll_one().unwrap().is_none()));
    assert_eq!(pool.available(), 2, "they are over");
    qp.destroy().unwrap();
    assert_eq!(cq.unbooked(), cq.capacity());
}
