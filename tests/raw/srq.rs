//! Shared receive queues of the `unsafe` path: one queue, several queue pairs, and bookkeeping by
//! the caller.

use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::loopback::{Fabric, Personality};
use proverbs::memory::Raw;
use proverbs::prelude::*;
use proverbs::qp::Max;

use super::{connect, personalities, poll};

profile! { Shared { entry: Raw, receive: SharedRq, max_send_sge: 2 } }
profile! { SharedInSessions { entry: Raw, receive: SharedRq, posting: ExtendedPosting } }

const SLOT: usize = 64;

/// Two queue pairs take receives of one queue. The completions have the caller's wr_ids and the
/// number of the queue pair that took them.
fn two_take_from_one<P>(personality: Personality)
where
    P: Profile<Entry = Raw, Receive = SharedRq, Initiator = Reads, Threads = AnyThread>,
    for<'a> wr::WorkRequest<wr::Send, wr::Sge<'a, 1>>: wr::SendOn<Rc, P>,
{
    let context = Fabric::with(personality).open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let (mut sent, mut received) = (context.create_cq(32).unwrap(), context.create_cq(8).unwrap());
    let mut srq = pd.create_raw_srq::<Rc, Max<2>>(8).unwrap();
    let create = || pd.create_qp::<Rc, P>(&sent, &received, Depth::on_srq(4, &srq)).unwrap();
    let (a, b) = (create(), create());
    // Once, whichever queue pairs share it.
    assert_eq!(received.unbooked(), received.capacity() - 8);
    let (a_num, b_num) = (a.qp_num(), b.qp_num());
    let (mut a, mut b) = (connect(a, gid, b_num), connect(b, gid, a_num));
    let region = pd.register::<RemoteAll>(1024).unwrap();
    region.write_at(0, b"to b, to a").unwrap();
    let piece = |range| wr::Piece::new(&region, range).unwrap();
    let slot = |i: usize| piece(SLOT * (i + 1)..SLOT * (i + 2));
    let mut slots = RecvSlots::<4, 2>::new();
    // SAFETY: the region lives to the end of the test, its bytes are accessed only by atomics, and
    // no more receives are posted than the queue was created for.
    unsafe {
        srq.post_srq_recv_unchecked(wr::Recv::new(wr::Sge::new(u64::MAX, [slot(0)]))).unwrap();
        let two = |i: usize| {
            let (head, rest) =
                (SLOT * (i + 2)..SLOT * (i + 2) + 2, SLOT * (i + 2) + 2..SLOT * (i + 3));
            wr::Recv::new(wr::Sge::new(i as u64, [piece(head), piece(rest)]))
        };
        srq.post_srq_recv_list_unchecked(&mut slots, 2, two).unwrap();
        let full = srq.post_srq_recv_list_unchecked(&mut slots, 5, two).unwrap_err();
        assert_eq!((full.errno, full.bad_wr), (libc::ENOMEM, Some(0)));
        let one = wr::Recv::new(wr::Sge::new(7, [slot(4)]));
        post_srq_recv!(srq, [one, wr::Recv::new(wr::Sge::new(8, []))], unchecked).unwrap();
        a.post_send_unchecked(wr::Send::new(wr::Sge::new(1, [piece(0..4)]))).unwrap();
        a.post_send_unchecked(wr::Send::new(wr::Sge::new(2, [piece(0..4)]))).unwrap();
        a.post_send_unchecked(wr::Send::new(wr::Sge::new(3, [piece(0..4)]))).unwrap();
    }
    assert_eq!(poll(&mut sent, 3), [(1, None), (2, None), (3, None)]);
    assert_eq!(poll(&mut received, 3), [(u64::MAX, Some(4)), (0, Some(4)), (1, Some(4))]);
    // SAFETY: as above.
    unsafe { b.post_send_unchecked(wr::Send::new(wr::Sge::new(4, [piece(6..10)]))) }.unwrap();
    assert_eq!(poll(&mut sent, 1), [(4, None)]);
    let taken: Vec<_> = loop {
        let taken: Vec<_> =
            received.poll().unwrap().map(|wc| (wc.raw_wr_id(), wc.qp_num())).collect();
        if !taken.is_empty() {
            break taken;
        }
    };
    assert_eq!(taken, [(7, a_num)]);
    for (at, text) in [(SLOT, b"to b"), (2 * SLOT, b"to b"), (5 * SLOT, b"to a")] {
        let mut there = [0; 4];
        region.read_at(at, &mut there).unwrap();
        assert_eq!(&there, text, "{personality}");
    }
}

#[test]
fn queue_pairs_share_receives_with_the_callers_wr_ids() {
    for personality in personalities() {
        two_take_from_one::<Shared>(personality);
        two_take_from_one::<SharedInSessions>(personality);
    }
}

/// A queue pair ends at once, whatever is posted to the shared queue. The others continue, and the
/// booked room returns when the completion queue was found empty without either.
#[test]
fn a_queue_pair_ends_beside_raw_receives() {
    for personality in personalities() {
        let context = Fabric::with(personality).open_device();
        let gid = context.query_gid(1, 1).unwrap();
        let pd = context.alloc_pd().unwrap();
        let mut cq: CompletionQueue<Raw> = context.create_cq(64).unwrap();
        let mut srq = pd.create_raw_srq::<Rc, Max<1>>(8).unwrap();
        let region = pd.register::<RemoteAll>(1024).unwrap();
        let sge = |wr_id: u64| {
            let at = SLOT * wr_id as usize;
            wr::Sge::new(wr_id, [wr::Piece::new(&region, at..at + SLOT).unwrap()])
        };
        let connected = || {
            let qp = pd.create_qp::<Rc, Shared>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
            let own = qp.qp_num();
            connect(qp, gid, own)
        };
        let (mut gone, mut stays) = (connected(), connected());
        // SAFETY: the region lives to the end of the test, its bytes are accessed only by atomics,
        // and no more receives are posted than the queue was created for.
        unsafe {
            for wr_id in 1..=4 {
                srq.post_srq_recv_unchecked(wr::Recv::new(sge(wr_id))).unwrap();
            }
            gone.post_send_unchecked(wr::Send::new(sge(10))).unwrap();
        }
        drop(gone);
        assert_eq!(srq.recvs_outstanding(), 0); // the caller counts them
        while cq.poll().unwrap().count() != 0 {}
        // SAFETY: as above.
        unsafe { stays.post_send_unchecked(wr::Send::new(sge(11))) }.unwrap();
        let mut done: Vec<u64> = poll(&mut cq, 2).into_iter().map(|(wr_id, _)| wr_id).collect();
        done.sort_unstable();
        assert!((1..=4).contains(&done[0]) && done[1] == 11, "{personality}: {done:?}");
        let srq = srq.destroy().unwrap_err().into_object(); // `stays` is attached
        drop(stays);
        srq.destroy().unwrap();
        for _ in 0..4 {
            while cq.poll().unwrap().count() != 0 {}
        }
        assert_eq!(cq.unbooked(), cq.capacity(), "{personality}");
    }
}

/// All receives of a raw queue may be posted, so it cannot shrink: Soft-RoCE before Linux 6.1.192
/// would crash.
#[test]
fn a_raw_queue_only_grows() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let mut srq = pd.create_raw_srq::<Ud, Max<1>>(8).unwrap();
    assert_eq!(srq.resize(4).unwrap_err().errno(), Some(libc::EINVAL));
    srq.resize(12).unwrap();
    assert_eq!(srq.query().unwrap().max_wr, 12);
    let error = pd.create_raw_srq::<Rc, Max<1>>(u32::MAX).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
}
