//! Shared receive queues.

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::Max;
use proverbs::rules;
use proverbs::transport::Transport;

use crate::support::*;

profile! { Shared { receive: SharedRq } }

/// A sender, and a queue pair that receives from `srq`.
struct Link<T: Transport> {
    from: QueuePair<T, Rts>,
    to: QueuePair<T, Rts, Shared>,
}

/// The objects that links share.
struct Base {
    dev: Device,
    pd: ProtectionDomain,
    pool: Pool,
    sends: CompletionQueue,
    receives: CompletionQueue,
}

impl Base {
    fn new() -> Base {
        let dev = Device::open();
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(6, 128).unwrap();
        let sends = dev.ctx.create_cq(60).unwrap();
        let receives = dev.ctx.create_cq(60).unwrap();
        Base { dev, pd, pool, sends, receives }
    }

    fn link<T>(&self, srq: &SharedReceiveQueue<T>) -> Link<T>
    where
        T: Bring<Shared> + Bring<DefaultProfile> + rules::SharesReceives,
    {
        let wish = Wish::new();
        let depth = Depth { send: 8, recv: 0 };
        let from = self.pd.create_qp::<T, DefaultProfile>(&self.sends, &self.sends, depth).unwrap();
        let to = self.pd.create_qp::<T, Shared>(&self.sends, &self.receives, Depth::on_srq(4, srq));
        let to = to.unwrap();
        let (from, to) = T::connect((from, &self.pd), (to, &self.pd), &self.dev, &wish);
        Link { from, to }
    }
}

/// Proves R7.2, R7.17.
#[test]
fn two_rc_queue_pairs_receive_from_one() {
    fails_on!(Iwarp, "R24.4");
    let mut base = Base::new();
    let mut srq: SharedReceiveQueue<Rc> = base.pd.create_srq(&base.pool).unwrap();
    let mut links = [base.link(&srq), base.link(&srq)];
    let source = base.pd.create_pool(4, 128).unwrap();
    for round in 0..3u8 {
        let recv = || wr::Recv::new(poisoned(&base.pool));
        srq.post_srq_recv(recv()).unwrap();
        post_srq_recv!(srq, [recv(), recv(), recv()]).unwrap();
        for (i, link) in (0..).zip(&mut links) {
            link.from.post_send(wr::Send::new(filled(&source, &[i, 0, round]))).unwrap();
            link.from.post_send(wr::SendWithImm::new(filled(&source, &[i, 1, round]), 9)).unwrap();
        }
        poll(&base.dev, &mut base.sends, 4);
        let mut got = poll(&base.dev, &mut base.receives, 4).into_iter().map(Done::received);
        let mut got: Vec<_> = got.by_ref().map(|g| (g.qp_num, g.data().to_vec())).collect();
        // There is no order across queue pairs (R7.17), but within each.
        got.sort_by_key(|(qp, _)| *qp != links[0].to.qp_num());
        let expected = [[0, 0], [0, 1], [1, 0], [1, 1]].map(|[i, n]| vec![i, n, round]);
        assert_eq!(got.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), expected);
        assert_eq!(got[2].0, links[1].to.qp_num());
    }
    assert_eq!(base.pool.available(), 6);
}

#[test]
fn a_write_with_immediate_consumes_one() {
    fails_on!(Iwarp, "R24.4");
    let mut base = Base::new();
    let mut srq: SharedReceiveQueue<Rc> = base.pd.create_srq(&base.pool).unwrap();
    let mut link = base.link(&srq);
    let region = base.pd.register::<RemoteWrite>(8).unwrap();
    srq.post_srq_recv(wr::Recv::new(poisoned(&base.pool))).unwrap();
    link.from
        .post_send(wr::RdmaWriteWithImm::inline(b"12345678", region.remote().write(), 4))
        .unwrap();
    let got = poll(&base.dev, &mut base.receives, 1).remove(0).received();
    assert_eq!((got.imm_data, got.byte_len), (Some(4), 8));
    untouched(got.entry.unwrap());
    poll(&base.dev, &mut base.sends, 1);
}

/// Proves R5.8.
#[test]
fn ud_receives_keep_their_grh() {
    fails_on!(Iwarp, "R24.2");
    let mut base = Base::new();
    let mut srq: SharedReceiveQueue<Ud> = base.pd.create_srq(&base.pool).unwrap();
    let mut link = base.link(&srq);
    let to = link.from.way_to(&base.dev, &base.pd, link.to.qp_num());
    srq.post_srq_recv(wr::Recv::new(poisoned(&base.pool))).unwrap();
    link.from.post_send(wr::SendWithImm::inline(b"datagram", 3).to(to)).unwrap();
    let got = poll(&base.dev, &mut base.receives, 1).remove(0).datagram();
    assert_eq!((got.payload(), got.imm_data), (&b"datagram"[..], Some(3)));
    assert_eq!((got.src_qp.get(), got.qp_num), (link.from.qp_num(), link.to.qp_num()));
    assert_eq!(got.grh().unwrap().source(), Some(base.dev.gid()));
    assert_eq!(got.reply_vector(1, base.dev.gid_index), Some(base.dev.vector()));
    poll(&base.dev, &mut base.sends, 1);
}

#[test]
fn receives_may_be_lists() {
    profile! { SharedLists { receive: SharedRq, entry: BufList } }
    profile! { Lists { entry: BufList } }
    let Base { dev, pd, pool, .. } = Base::new();
    let (mut ca, mut cb) = (dev.ctx.create_cq(60).unwrap(), dev.ctx.create_cq(60).unwrap());
    let tiny = pd.create_pool(6, 8).unwrap();
    let mut srq: SharedReceiveQueue<Rc, BufList, Max<3>> = pd.create_srq(&tiny).unwrap();
    let a = pd.create_qp::<Rc, Lists>(&ca, &ca, Depth { send: 4, recv: 4 }).unwrap();
    let b = pd.create_qp::<Rc, SharedLists>(&cb, &cb, Depth::on_srq(4, &srq)).unwrap();
    let (mut a, _b) = Rc::connect((a, &pd), (b, &pd), &dev, &Wish::new());
    srq.post_srq_recv(wr::Recv::new([(); 3].map(|()| poisoned(&tiny)))).unwrap();
    let list: BufList = (0..3).map(|_| poisoned(&tiny)).collect();
    srq.post_srq_recv(wr::Recv::new(list)).unwrap();
    let message = numbered(1, 20);
    for _ in 0..2 {
        a.post_send(wr::Send::new(filled(&pool, &message))).unwrap();
    }
    for got in poll(&dev, &mut cb, 2) {
        let list = got.received().entry.unwrap();
        assert_eq!(list.segments().collect::<Vec<_>>().concat(), message);
    }
    poll(&dev, &mut ca, 2);
}

/// Proves R7.5.
#[test]
fn a_buffer_of_another_pool_is_rejected() {
    let base = Base::new();
    let mut srq: SharedReceiveQueue<Rc, BufList> = base.pd.create_srq(&base.pool).unwrap();
    let foreign = base.pd.create_pool(2, 128).unwrap();
    let error = srq.post_srq_recv(wr::Recv::new(filled(&foreign, b"foreign"))).unwrap_err();
    assert_eq!((error.kind(), error.accepted()), (PostErrorKind::ForeignPool, 0));
    let text = "ibv_post_srq_recv: work request 0: a buffer belongs to a pool that the shared receive queue \
                does not use (take one of the pool that the queue was created with)";
    assert_eq!(error.to_string(), text);
    drop(error);
    let ours = filled(&base.pool, b"ours");
    let error =
        post_srq_recv!(srq, [wr::Recv::new(ours), wr::Recv::new(filled(&foreign, b"foreign"))]);
    let lists: Vec<BufList> = error.unwrap_err().into_rejected().collect();
    let back: Vec<_> = lists.iter().flat_map(|list| list.segments()).collect();
    assert_eq!(back, [&b"ours"[..], b"foreign"]);
    drop(lists);
    let error = srq.post_srq_recv(wr::Recv::new(BufList::new())).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::NoBuffer);
    let other = base.dev.ctx.alloc_pd().unwrap();
    let elsewhere = other.create_pool(1, 8).unwrap();
    let error = srq.post_srq_recv(wr::Recv::new(elsewhere.take().unwrap())).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ForeignPool);
    drop(error);
    assert_eq!((foreign.available(), elsewhere.available(), base.pool.available()), (2, 1, 6));
    // Whichever of the two pools was first.
    let mut other: SharedReceiveQueue<Rc> = base.pd.create_srq(&foreign).unwrap();
    other.post_srq_recv(wr::Recv::new(filled(&foreign, b"ours"))).unwrap();
    let error = other.post_srq_recv(wr::Recv::new(filled(&base.pool, b"foreign"))).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::ForeignPool);
}

/// Proves R7.4.
#[test]
fn domains_must_agree() {
    let base = Base::new();
    let other = base.dev.ctx.alloc_pd().unwrap();
    let error = other.create_srq::<Rc, Buf, Max<1>, ()>(&base.pool).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::PdMismatch { .. }), "{error}");
    assert_eq!(error.verb(), "ibv_create_srq");
    let srq: SharedReceiveQueue<Rc> = base.pd.create_srq(&base.pool).unwrap();
    let error = other.create_qp::<Rc, Shared>(&base.sends, &base.receives, Depth::on_srq(4, &srq));
    assert!(matches!(error.unwrap_err().kind(), ErrorKind::PdMismatch { .. }));
}

/// Proves R7.7, R7.8.
#[test]
fn a_shared_receive_queue_outlives_its_queue_pairs_and_keeps_its_receives() {
    let mut base = Base::new();
    let mut srq: SharedReceiveQueue<Rc> = base.pd.create_srq(&base.pool).unwrap();
    let Link { from, to } = base.link(&srq);
    for _ in 0..3 {
        srq.post_srq_recv(wr::Recv::new(poisoned(&base.pool))).unwrap();
    }
    // R7.7: no flush.
    let refused = srq.destroy().unwrap_err();
    let text = "ibv_destroy_srq: EBUSY: Device or resource busy (queue pairs are \
                attached to it: destroy them first)";
    assert_eq!(said(&refused), text);
    let srq = refused.into_object();
    let mut to = to.to_error().unwrap();
    to.drain(&mut base.receives, |_| panic!("nothing is outstanding")).unwrap();
    drop((from, to));
    assert_eq!(poll_empty(&mut base.receives), 0);
    assert_eq!(base.pool.available(), 3);
    // Another queue pair takes them.
    let mut link = base.link(&srq);
    link.from.post_send(wr::Send::inline(b"next")).unwrap();
    assert_eq!(poll(&base.dev, &mut base.receives, 1).remove(0).received().data(), b"next");
    poll(&base.dev, &mut base.sends, 1);
    drop(link);
    // Receives that are still posted when it is destroyed return once the completion queue was
    // empty.
    srq.destroy().unwrap();
    assert_eq!(base.pool.available(), 4);
    assert_eq!(poll_empty(&mut base.receives), 0);
    assert_eq!(base.pool.available(), 6, "home by themselves");
    assert_eq!(base.pool.reclaim(&mut base.receives), 0);
}

/// The completion queue has been polled empty since the queue pairs ended, and is still notified
/// when the shared queue ends.
#[test]
fn receives_return_when_the_shared_receive_queue_ends_last() {
    let mut base = Base::new();
    let mut srq: SharedReceiveQueue<Rc> = base.pd.create_srq(&base.pool).unwrap();
    let link = base.link(&srq);
    srq.post_srq_recv(wr::Recv::new(poisoned(&base.pool))).unwrap();
    drop(link);
    assert_eq!((poll_empty(&mut base.receives), poll_empty(&mut base.sends)), (0, 0));
    srq.destroy().unwrap();
    assert_eq!(base.pool.reclaim(&mut base.receives), 0, "not polled empty since");
    assert_eq!(poll_empty(&mut base.receives), 0);
    assert_eq!((base.pool.reclaim(&mut base.receives), base.pool.available()), (0, 6));
}

/// Proves R7.6.
#[test]
fn a_shared_receive_queue_reports_its_attributes_and_takes_a_limit() {
    fails_on!(Siw, "R18.17");
    let base = Base::new();
    let mut srq: SharedReceiveQueue<Ud> = base.pd.create_srq(&base.pool).unwrap();
    let attr = srq.query().unwrap();
    let granted = by_rule!(base.dev, "R7.5", loopback: 6, rxe: 7);
    assert_eq!((attr.max_wr, attr.max_sge, attr.srq_limit), (granted, 1, 0));
    srq.arm_limit(2).unwrap();
    assert_eq!(srq.query().unwrap().srq_limit, 2);
    srq.arm_limit(0).unwrap();
    assert_eq!(srq.query().unwrap().srq_limit, 0);
    let error = srq.arm_limit(1000).unwrap_err();
    let text = "ibv_modify_srq: EINVAL: Invalid argument (srq_limit 1000)";
    assert_eq!(said(&error), text);
}

/// Completions in a completion queue are discarded first when it is dropped. Their buffers are not
/// lost with a queue pair that was dropped before, whose completions some devices remove.
#[test]
fn a_completion_queue_is_dropped_with_received_messages() {
    let base = Base::new();
    let mut srq: SharedReceiveQueue<Rc> = base.pd.create_srq(&base.pool).unwrap();
    let Link { mut from, to } = base.link(&srq);
    let source = base.pd.create_pool(2, 128).unwrap();
    for _ in 0..4 {
        srq.post_srq_recv(wr::Recv::new(poisoned(&base.pool))).unwrap();
    }
    for byte in 0..2 {
        from.post_send(wr::Send::new(filled(&source, &[byte]))).unwrap();
    }
    let Base { dev, pool, mut sends, receives, .. } = base;
    poll(&dev, &mut sends, 2);
    assert_eq!((srq.recvs_outstanding(), pool.available()), (4, 2));
    drop(to);
    drop(receives);
    assert_eq!((srq.recvs_outstanding(), pool.available()), (2, 4));
    drop(from);
    srq.destroy().unwrap();
}
