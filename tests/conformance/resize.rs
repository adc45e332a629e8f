//! Completion queues and shared receive queues that change their size, and the vectors of
//! completion queues.

use proverbs::completion::{CompletionChannel, Direction};
use proverbs::device::CompVector;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::srq::SrqAttr;

use crate::support::*;

const ENOMEM: i32 = 12;
const DEPTH: Depth = Depth { send: 1, recv: 8 };
/// The entries that one queue pair of this depth books: sends, a drain, receives.
const BOOKED: u32 = 10;

/// A queue pair in ERR, with `n` flushed receives.
fn flushed(pd: &ProtectionDomain, cq: &CompletionQueue, pool: &Pool, n: usize) -> Failing {
    let depth = Depth { send: 1, recv: n as u32 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(cq, cq, depth).unwrap();
    let mut qp = <Rc as Bring<DefaultProfile>>::init(qp, &Wish::new());
    for _ in 0..n {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    qp.to_error().unwrap()
}

type Failing = QueuePair<Rc, proverbs::state::Err>;

#[test]
fn a_completion_queue_grows_for_another_queue_pair() {
    fails_on!(Siw, "R18.17");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq = dev.ctx.create_cq(BOOKED).unwrap();
    let create = |cq: &CompletionQueue| pd.create_qp::<Rc, DefaultProfile>(cq, cq, DEPTH);
    // Devices may grant more than requested.
    let mut all: Vec<_> = (0..cq.unbooked() / BOOKED).map(|_| create(&cq).unwrap()).collect();
    let error = create(&cq).unwrap_err();
    let (booked, free) = (cq.capacity() - cq.unbooked(), cq.unbooked());
    let enough = booked + BOOKED;
    assert_eq!(*error.kind(), ErrorKind::CqTooSmall { asked: BOOKED, free, enough });
    cq.resize(enough).unwrap();
    assert!(cq.capacity() >= enough);
    all.push(create(&cq).unwrap());
    assert_eq!(cq.capacity() - cq.unbooked(), BOOKED * all.len() as u32);
}

/// Proves R14.7.
#[test]
fn a_completion_queue_does_not_shrink_below_its_bookings() {
    fails_on!(Siw, "R18.17");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq = dev.ctx.create_cq::<Buf>(64).unwrap();
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, DEPTH).unwrap();
    let before = cq.capacity();
    let error = cq.resize(BOOKED - 1).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Booked { asked: 9, booked: 10 });
    let text = "ibv_resize_cq: cqe 9 is less than the 10 entries that queues have booked (destroy \
                queue pairs, then poll: that frees their entries)";
    assert_eq!(error.to_string(), text);
    assert_eq!((cq.capacity(), cq.unbooked()), (before, before - BOOKED));
    cq.resize(BOOKED).unwrap();
    assert!((BOOKED..64).contains(&cq.capacity()), "{cq:?}");
    assert_eq!(cq.unbooked(), cq.capacity() - BOOKED);
    let max = dev.ctx.query_device().unwrap().max_cqe;
    let error = cq.resize(max + 1).unwrap_err();
    assert_eq!(
        *error.kind(),
        ErrorKind::Limit { what: "cqe", asked: max as u64 + 1, max: max.into() }
    );
    assert_eq!(error.verb(), "ibv_resize_cq");
    drop(qp);
    cq.resize(1).unwrap();
    assert!(cq.capacity() >= 1 && cq.unbooked() == cq.capacity());
    assert!(cq.resize(0).is_err(), "the queue has a completion");
}

/// Proves R14.7.
#[test]
fn a_resized_queue_keeps_its_completions() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 16).unwrap();
    let mut cq = dev.ctx.create_cq(64).unwrap();
    let qp = flushed(&pd, &cq, &pool, 8);
    cq.resize(1000).unwrap();
    assert!(cq.capacity() >= 1000);
    cq.resize(BOOKED).unwrap();
    for done in poll(&dev, &mut cq, 8) {
        assert!(done.flushed(Direction::Receive).is_some());
    }
    drop(qp);
    assert_eq!((poll_empty(&mut cq), pool.available()), (0, 8));
}

/// As many completions are polled as the smaller queue holds, while an earlier one is still in it.
///
/// A completion queue that shrank keeps room while a completion of a destroyed queue
/// pair is left.
/// Proves R14.7.
#[test]
fn orphaned_buffers_wait_for_completions_of_the_larger_queue() {
    fails_on!(Iwarp, "R24.5");
    for grows in [false, true] {
        orphaned_in_a_larger_queue(grows);
    }
}

/// The queue was large from the beginning, or grew.
fn orphaned_in_a_larger_queue(grows: bool) {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(97, 16).unwrap();
    let mut cq = dev.ctx.create_cq(if grows { 20 } else { 200 }).unwrap();
    if grows {
        cq.resize(200).unwrap();
    }
    let first = flushed(&pd, &cq, &pool, 96);
    let second = flushed(&pd, &cq, &pool, 1);
    drop(second);
    for done in poll(&dev, &mut cq, 96) {
        assert!(done.flushed(Direction::Receive).is_some());
    }
    // Nothing is outstanding, so its room returns at once.
    drop(first);
    cq.resize(cq.capacity() - cq.unbooked()).unwrap();
    let held = match cq.poll_one().unwrap().map(Completion::outcome) {
        Some(Outcome::Failed(failed)) => failed.entry,
        None => None,
        Some(_) => panic!("a flushed receive"),
    };
    assert_eq!(
        held.is_some(),
        dev.takes_completions_along().map_or(held.is_some(), |along| !along)
    );
    assert_eq!(pool.available(), 97 - held.iter().count(), "one owner each");
    drop(held);
    assert_eq!((poll_empty(&mut cq), pool.available()), (0, 97));
}

/// Proves R9.13.
#[test]
fn queues_are_spread_over_the_completion_vectors() {
    let (dev, other) = (Device::open(), Device::open());
    let channel: CompletionChannel = dev.ctx.create_comp_channel().unwrap();
    let vectors = dev.ctx.comp_vectors();
    assert!(!vectors.is_empty());
    for (n, vector) in vectors.iter().enumerate() {
        assert_eq!(vector.index() as usize, n);
        let cq: CompletionQueue = dev.ctx.cq(4).channel(&channel).vector(vector).create().unwrap();
        cq.destroy().unwrap();
    }
    let foreign: &CompVector = &other.ctx.comp_vectors()[0];
    let error = dev.ctx.cq(4).channel(&channel).vector(foreign).create::<Buf>().unwrap_err();
    let text = "ibv_create_cq: the completion vector and the completion queue belong to different contexts: create both from one";
    assert_eq!(error.to_string(), text);
    let lane = dev.ctx.alloc_pd().unwrap().alloc_lane().unwrap();
    let error = lane.cq(4).channel(&channel).vector(foreign).create::<Buf>().unwrap_err();
    assert_eq!(error.to_string(), text);
    // A vector keeps nothing open.
    other.ctx.destroy().unwrap();
}

/// Proves R18.21.
#[test]
fn a_shared_receive_queue_shrinks_and_grows_again() {
    fails_on!(Siw, "R18.17");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(30, 16).unwrap();
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    let SrqAttr { max_wr: before, .. } = srq.query().unwrap();
    srq.resize(3).unwrap();
    let SrqAttr { max_wr: small, .. } = srq.query().unwrap();
    assert!((3..before).contains(&small), "{small} of {before}");
    let mut posted = 0;
    let error = loop {
        match srq.post_srq_recv(wr::Recv::new(poisoned(&pool))) {
            Ok(()) => posted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((posted, error.kind()), (small, PostErrorKind::Refused { errno: ENOMEM }));
    assert_eq!(error.into_rejected().map(untouched).count(), 1);
    // The rule does not depend on the granted size: Soft-RoCE has one less than a power of two.
    for fewer in [posted - 1, 1] {
        let error = srq.resize(fewer).unwrap_err();
        let why = format!("(max_wr {fewer}, {posted} receives outstanding)");
        assert!(said(&error).contains(&format!("EINVAL: Invalid argument {why}")), "{error}");
    }
    srq.resize(posted).unwrap(); // as many as are posted
    srq.resize(30).unwrap();
    assert_eq!(srq.recvs_outstanding(), posted as usize);
    while let Some(buf) = pool.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    assert_eq!(srq.recvs_outstanding(), 30);
    let max = dev.ctx.query_device().unwrap().max_srq_wr;
    let error = srq.resize(max + 1).unwrap_err();
    assert_eq!(
        *error.kind(),
        ErrorKind::Limit { what: "max_wr", asked: max as u64 + 1, max: max.into() }
    );
}
