//! The books where their counters wrap.

use super::handles::Handles;
use super::ring::{Ring, id_of};
use super::*;
use crate::Buf;
use crate::loopback::Fabric;

const DEPTH: u32 = 5;

fn pool() -> crate::Pool {
    let pd = Fabric::new().open_device().alloc_pd().unwrap();
    pd.create_pool(8, 8).unwrap()
}

/// Every sequence number around the wrap, at every fill: what the ring releases is what was put in, in order, and
/// nothing but numbers in flight releases anything.
#[test]
fn a_ring_whose_sequence_numbers_wrap() {
    let pool = pool();
    let books = Books::new(1).unwrap();
    // SAFETY: the books are dropped after the ring.
    let mut ring: Ring<Buf> = unsafe { SendBooks::new(Arc::as_ptr(&books), DEPTH) };
    ring.begin_at(u32::MAX - 6);
    let mut sent = 0u8;
    let mut released = 0u8;
    for round in 0..20 {
        while ring.reserve(1) {
            let mut buf = pool.take().unwrap();
            buf.fill(&[sent]);
            ring.enter(0, crate::entry::Entry::into_word(buf));
            assert!(ring.spend(1));
            sent += 1;
        }
        assert!(!ring.spend(1));
        ring.unspend(1);
        assert_eq!((ring.room(), ring.posted().wrapping_sub(ring.completed())), (0, DEPTH));
        let (head, tail) = (ring.completed(), ring.posted());
        let id = id_of(&books);
        let wr_id = |id: u32, sequence: u32| (sequence as u64) << 32 | id as u64;
        for wrong in [head.wrapping_sub(1), tail, head.wrapping_add(1 << 31)] {
            assert!(!ring.owns(wr_id(id, wrong)), "{wrong:#x} is not in flight");
        }
        let up_to = head.wrapping_add(round % DEPTH);
        assert!(!ring.owns(wr_id(id + 4, up_to)), "another queue's");
        assert!(!ring.owns(wr_id(id & !2, up_to)), "no ring's");
        assert!(ring.owns(wr_id(id, up_to)));
        for buf in ring.release(wr_id(id, up_to)) {
            assert_eq!(buf[0], released);
            released += 1;
        }
    }
    assert!(ring.posted() < 100, "it wrapped");
    assert_eq!(ring.release_all().len(), (sent - released) as usize);
    assert_eq!(pool.available(), 8);
}

/// Credits are neither lost nor invented where the count of completions wraps.
#[test]
fn credits_whose_counters_wrap() {
    let books = Books::new(1).unwrap();
    books.begin_at(u32::MAX - 3);
    // SAFETY: the books are dropped after the credits.
    let mut credits: Handles<Buf> =
        unsafe { Handles::with_direction(Arc::as_ptr(&books), DEPTH, books::SEND) };
    credits.begin_at(u32::MAX - 3);
    for _ in 0..20 {
        while credits.has_room(1) {
            assert!(credits.spend(1));
        }
        assert_eq!((credits.outstanding(), credits.free()), (DEPTH, 0));
        for left in (1..DEPTH).rev() {
            // SAFETY: the books are live.
            let counter = unsafe { Books::counter(Arc::as_ptr(&books), books::SEND) };
            // SAFETY: as above.
            unsafe { (*counter).count() };
            assert_eq!((credits.outstanding(), credits.free()), (left, DEPTH - left));
        }
    }
}

/// A completion queue that lives long keeps nothing of the queues that are gone, whatever they left: a shared receive
/// queue's receives, which nobody counts, and receives without a buffer, which nobody takes back.
#[test]
fn a_completion_queue_forgets_what_is_gone() {
    use crate::SharedRq;
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
        let mut srq = pd.create_srq::<crate::Rc, Buf, crate::Max<1>, ()>(&pool).unwrap();
        for _ in 0..round {
            srq.post_srq_recv(crate::Recv::new(pool.take().unwrap())).unwrap();
        }
        let make = |cq| pd.create_qp_on_srq::<crate::Rc, OnSrq, _>(cq, cq, &srq, 2).unwrap();
        drop((make(&cq), make(&other)));
        let depth = crate::Depth { send: 2, recv: 2 };
        let qp = pd.create_qp::<crate::Rc, crate::DefaultProfile>(&cq, &cq, depth).unwrap();
        let init = crate::ConnectedInit { pkey_index: 0, port: 1, access: crate::QpAccess::all() };
        let mut qp = qp.modify(init).unwrap();
        qp.post_recv(crate::Recv::empty()).unwrap();
        qp.post_recv(crate::Recv::new(pool.take().unwrap())).unwrap();
        drop(qp);
        srq.destroy().unwrap();
        empty(&mut cq);
        let stranded = (round + 1) as usize;
        empty(&mut other);
        assert_eq!((pool.reclaim(&mut cq), pool.available()), (stranded, 4), "round {round}");
        assert_eq!((pool.reclaim(&mut cq), pool.reclaim(&mut other)), (0, 0));
        assert_eq!((cq.shared().attachments(), other.shared().attachments()), (0, 0));
        assert_eq!((cq.unbooked(), other.unbooked()), (40, 40));
    }
}
