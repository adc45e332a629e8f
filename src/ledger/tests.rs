//! The books where their counters wrap.

use crate::Buf;
use crate::counters::books::Counter;
use crate::counters::books::SEND;
use crate::counters::ids;
use crate::ledger::credits::Credits;
use crate::ledger::ring::Ring;
use crate::ledger::*;
use crate::loopback::Fabric;
use std::sync::Arc;

const DEPTH: u32 = 5;

fn pool() -> crate::Pool {
    let pd = Fabric::new().open_device().alloc_pd().unwrap();
    pd.create_pool(8, 8).unwrap()
}

/// A ledger of sends.
fn open<L: Ledger<Buf>>(books: &Arc<Books>) -> L {
    // SAFETY: each test drops its books after the ledgers.
    unsafe { L::open(Arc::as_ptr(books), SEND, DEPTH, Withheld::default()) }
}

/// Spends as a post does: what does not fit at once may fit after a look.
fn spend(ring: &mut Ring<Buf>, n: u32) -> bool {
    ring.spend(n) || ring.look_and_spend(n)
}

/// Every sequence number around the wrap, at every fill: what the ring releases is what was put in,
/// in order, and nothing but numbers in flight releases anything.
#[test]
fn a_ring_whose_sequence_numbers_wrap() {
    let pool = pool();
    let books = Books::new(1).unwrap();
    let mut ring: Ring<Buf> = open(&books);
    ring.begin_at(u32::MAX - 6);
    let mut sent = 0u8;
    let mut released = 0u8;
    for round in 0..20 {
        while ring.has_room(1) {
            let mut buf = pool.take().unwrap();
            buf.copy_from(&[sent]).unwrap();
            let (cursor, word) = (ring.cursor(), crate::memory::entry::Entry::into_word(buf));
            // SAFETY: one work request, and there is room for it.
            unsafe { ring.enter(&cursor, 0, word) };
            assert!(spend(&mut ring, 1));
            sent += 1;
        }
        assert!(!spend(&mut ring, 1));
        assert_eq!((ring.room(), ring.posted().wrapping_sub(ring.completed())), (0, DEPTH));
        let (head, tail) = (ring.completed(), ring.posted());
        let id = books.ring_id();
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

/// Credits are neither lost nor invented where the count of completions wraps.
#[test]
fn credits_whose_counters_wrap() {
    let books = Books::new(1).unwrap();
    books.begin_at(u32::MAX - 3);
    let mut credits: Credits<Buf> = open(&books);
    credits.begin_at(u32::MAX - 3);
    for _ in 0..20 {
        while credits.has_room(1) {
            assert!(credits.spend(1));
        }
        assert_eq!((credits.outstanding(), credits.room()), (DEPTH, 0));
        for left in (1..DEPTH).rev() {
            // SAFETY: the books are live.
            let counter = unsafe { Books::counter(Arc::as_ptr(&books), SEND) };
            // SAFETY: the counter is in the books, which are live.
            unsafe { Counter::count(counter) };
            assert_eq!((credits.outstanding(), credits.room()), (left, DEPTH - left));
        }
    }
}

/// A completion queue that lives long keeps nothing of the queues that are gone, whatever they
/// left: a shared receive queue's receives, which nobody counts, and receives without a buffer,
/// which nobody takes back.
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
        let make =
            |cq| pd.create_qp_on_srq::<crate::transport::Rc, OnSrq, _>(cq, cq, &srq, 2).unwrap();
        drop((make(&cq), make(&other)));
        drop((make(&cq), make(&cq), make(&other)));
        let short = context.create_cq::<Buf>(40).unwrap();
        let on_short =
            pd.create_qp_on_srq::<crate::transport::Rc, OnSrq, _>(&short, &short, &srq, 2);
        drop((on_short.unwrap(), short));
        drop(make(&cq));
        assert_eq!(srq.core().ends.inboxes(), 2, "those that there are, once each");
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

/// A list that goes beyond the end of the ring: its entries are released in order, and those that
/// it did not touch stay.
#[test]
fn a_list_that_goes_beyond_the_end_of_a_ring() {
    let pool = pool();
    let books = Books::new(1).unwrap();
    for before_the_end in 0..=3 {
        let mut ring: Ring<Buf> = open(&books);
        let slots = (DEPTH + 1 + MOST).next_power_of_two();
        ring.begin_at(slots - before_the_end - 1);
        for (sent, n) in [(0, 1), (1, 3)] {
            let cursor = ring.cursor();
            for i in 0..n {
                let mut buf = pool.take().unwrap();
                buf.copy_from(&[(sent + i) as u8]).unwrap();
                // SAFETY: there is room for all of them.
                unsafe { ring.enter(&cursor, i, crate::memory::entry::Entry::into_word(buf)) };
            }
            assert!(spend(&mut ring, n));
        }
        let last = ring.posted().wrapping_sub(1);
        let done = ring.done_with((last as u64) << 32 | books.ring_id() as u64).unwrap();
        let released = ring.release_first(done);
        assert_eq!(released.map(|buf| buf[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
    assert_eq!(pool.available(), 8);
}

/// What a list that compares once relies on: or-ed to a queue's mark, nothing but the mark itself
/// gives the mark.
#[test]
#[cfg_attr(miri, ignore = "half a million pairs of numbers, and no memory to look at")]
fn marks_stand_out() {
    use crate::counters::mark;
    let alternate = 0x5555_5555_5555 | 1 << 50;
    let near = (0..52).flat_map(|bit| [1 << bit, mark::IDS - 1 - (1 << bit), alternate ^ 1 << bit]);
    let mut ids: Vec<u64> = (1..200).chain(near).chain([mark::IDS - 1, alternate]).collect();
    ids.sort_unstable();
    ids.dedup();
    let all: Vec<u64> = ids.iter().flat_map(|&id| [0, 1].map(|d| mark::of(id, d))).collect();
    for (i, &one) in all.iter().enumerate() {
        assert_eq!(mark::id(one | mark::IN_FLIGHT | mark::LOOK), ids[i / 2]);
        for said in [mark::IN_FLIGHT, mark::LOOK, mark::NOBODY] {
            assert_ne!(one | said, one);
        }
        for &other in &all {
            assert_eq!(one | other == one, one == other, "{one:#x} {other:#x}");
            assert_ne!(one | other, mark::NEVER);
        }
    }
}

/// More queue pairs and resets than a process could once make: each has an id of its own and a
/// ring's tag that no other has that is there, and buffers come home as ever.
#[test]
fn ids_last() {
    use std::collections::BTreeSet;
    let before: Vec<_> = (0..3).map(|_| Books::new(1).unwrap()).collect();
    ids::begin_at((1 << 29) - 3, (1 << 30) - 2);
    let wrapped: Vec<_> = (0..4).map(|_| Books::new(1).unwrap()).collect();
    // The tags come round to those of the first ones again, which are there.
    ids::begin_at(0, before[0].ring_tag());
    let again: Vec<_> = (0..3).map(|_| Books::new(1).unwrap()).collect();
    let all: Vec<_> = before.iter().chain(&wrapped).chain(&again).collect();
    let names: BTreeSet<u64> = all.iter().map(|books| books.id).collect();
    let tags: BTreeSet<u32> = all.iter().map(|books| books.ring_tag()).collect();
    assert_eq!((names.len(), tags.len()), (10, 10));
    assert!(wrapped.iter().all(|books| books.id >= (1 << 29) - 3), "beyond the bits of before");
    assert!(tags.iter().all(|tag| (1..1 << 30).contains(tag)));

    let ends = crate::loopback::pair().unwrap();
    let (mut cq, pool) = (ends.cq, ends.pool);
    let mut qp = ends.a.reset().unwrap().0;
    let mut lives = BTreeSet::new();
    for _ in 0..100 {
        let init =
            crate::qp::ConnectedInit { pkey_index: 0, port: 1, access: crate::qp::QpAccess::all() };
        let mut ready = qp.modify(init).unwrap();
        assert!(lives.insert(ready.core.books.id), "an id that it had before");
        ready.post_recv(crate::wr::Recv::new(pool.take().unwrap())).unwrap();
        qp = ready.reset().unwrap().0;
        while cq.poll_one().unwrap().is_some() {}
        assert_eq!(pool.available(), pool.count());
    }
}
