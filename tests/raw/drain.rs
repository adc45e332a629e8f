//! Draining without bookkeeping: every wr_id comes back, and then the queue pair has nothing
//! outstanding.

use std::time::Duration;

use proverbs::ErrorKind;
use proverbs::device::Provider;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::xrc::{XrcRtr, XrcRts, XrcdFile};
use proverbs::loopback::{Fabric, Fault, Personality, Script, World};
use proverbs::memory::Raw;
use proverbs::post::RecvSlots;
use proverbs::prelude::*;
use proverbs::qp::Max;

use super::{connect, personalities};

profile! { Own { entry: Raw, signaling: Selective } }
profile! { OwnInSessions { entry: Raw, signaling: Selective, posting: ExtendedPosting } }
profile! { Shared { entry: Raw, receive: SharedRq } }
profile! { Plain { entry: Raw } }
profile! { Initiating { entry: Raw, receive: NoRq } }
profile! {
    Spread { entry: Raw, posting: ExtendedPosting<Srd>, initiator: NoReads, max_inline: 0 }
}

const MARKERS: [u64; 2] = [u64::MAX, u64::MAX - 1];
const TIME: Duration = Duration::from_secs(5);

/// Only the marker's completion covers the unsignaled sends; it is not passed on.
fn own<P>()
where
    P: Profile<Entry = Raw, Receive = OwnRq, Initiator = Reads, Threads = AnyThread>,
    for<'a> wr::WorkRequest<wr::RdmaWrite, wr::Sge<'a, 1>>: wr::SendOn<Rc, P>,
    for<'a> wr::Recv<wr::Sge<'a, 1>>: wr::RecvOn<P>,
{
    for personality in personalities() {
        let context = Fabric::with(personality).open_device();
        let gid = context.query_gid(1, 1).unwrap();
        let pd = context.alloc_pd().unwrap();
        let (mut sent, mut received) =
            (context.create_cq(16).unwrap(), context.create_cq(16).unwrap());
        let qp = pd.create_qp::<Rc, P>(&sent, &received, Depth { send: 4, recv: 4 }).unwrap();
        let number = qp.qp_num();
        let mut qp = connect(qp, gid, number);
        let region = pd.register::<RemoteAll>(64).unwrap();
        let sge = |wr_id| wr::Sge::new(wr_id, [wr::Piece::new(&region, 0..8).unwrap()]);
        let to = region.remote().slice(32, 8).unwrap().write();
        // SAFETY: the region lives to the end of the test, its bytes are accessed only by atomics,
        // and the completion queues have room.
        unsafe {
            for wr_id in 0..3 {
                qp.post_recv_unchecked(wr::Recv::new(sge(wr_id))).unwrap();
                qp.post_send_unchecked(wr::RdmaWrite::new(sge(wr_id + 10), to)).unwrap();
            }
        }
        let mut qp = qp.to_error().unwrap();
        let mut other: CompletionQueue<Raw> = context.create_cq(4).unwrap();
        let mut found = Vec::new();
        // SAFETY: three receives of four are outstanding, with other wr_ids.
        unsafe {
            let error = qp.drain_unchecked(&mut other, MARKERS, TIME, |_| {}).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL));
            qp.drain_unchecked(&mut sent, MARKERS, TIME, |it| found.push(it.raw_wr_id())).unwrap();
            // Flushed sends complete, signaled or not.
            assert!(found.iter().all(|wr_id| (10..13).contains(wr_id)), "{personality}: {found:?}");
            found.clear();
            qp.drain_unchecked(&mut received, MARKERS, TIME, |it| found.push(it.raw_wr_id()))
                .unwrap();
        }
        assert_eq!(found, [0, 1, 2], "{personality}");
        drop(qp);
    }
}

#[test]
fn a_drain_returns_every_wr_id() {
    own::<Own>();
    own::<OwnInSessions>();
}

/// Completions from before the error are in the completion queue, and are passed on.
#[test]
fn a_drain_returns_receives_of_a_shared_queue() {
    for personality in personalities() {
        let context = Fabric::with(personality).open_device();
        let gid = context.query_gid(1, 1).unwrap();
        let pd = context.alloc_pd().unwrap();
        let mut cq: CompletionQueue<Raw> = context.create_cq(32).unwrap();
        let mut srq = pd.create_raw_srq::<Rc, Max<1>>(8).unwrap();
        let qp = pd.create_qp::<Rc, Shared>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
        let number = qp.qp_num();
        let mut qp = connect(qp, gid, number);
        // SAFETY: they name no memory, and the completion queue has room.
        unsafe {
            for wr_id in 0..4 {
                srq.post_srq_recv_unchecked(wr::Recv::new(wr::Sge::new(wr_id, []))).unwrap();
            }
            for wr_id in 10..12 {
                qp.post_send_unchecked(wr::Send::new(wr::Sge::new(wr_id, []))).unwrap();
            }
        }
        while qp.query().unwrap().state != Some(proverbs::state::QpState::Rts) {}
        let mut qp = qp.to_error().unwrap();
        let mut found = Vec::new();
        // SAFETY: the completion queue has room for a marker.
        unsafe { qp.drain_unchecked(&mut cq, MARKERS, TIME, |it| found.push(it.raw_wr_id())) }
            .unwrap();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 10, 11], "{personality}");
    }
}

/// A drain that waits: beside a queue pair that completes work all the time, on a device that broke
/// (until its time is over), and again when it is done.
/// Ends: QueuePair::drain_unchecked.
#[test]
fn a_drain_passes_on_foreign_completions() {
    let context = Fabric::new().open_device();
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut cq: CompletionQueue<Raw> = context.create_cq(64).unwrap();
    let create = || pd.create_qp::<Rc, Own>(&cq, &cq, Depth { send: 4, recv: 8 }).unwrap();
    let (ends, stays) = (create(), create());
    let (ends_num, stays_num) = (ends.qp_num(), stays.qp_num());
    let (mut ends, mut stays) = (connect(ends, gid, ends_num), connect(stays, gid, stays_num));
    let nothing = |wr_id| wr::Sge::new(wr_id, []);
    // SAFETY: they name no memory, and the completion queue has room.
    unsafe {
        ends.post_recv_unchecked(wr::Recv::new(nothing(1))).unwrap();
        stays.post_recv_unchecked(wr::Recv::new(nothing(2))).unwrap();
        stays.post_send_unchecked(wr::Send::new(nothing(MARKERS[0])).signaled()).unwrap();
    }
    let mut ends = ends.to_error().unwrap();
    let (mut own, mut others) = (Vec::new(), 0);
    for _ in 0..2 {
        let found = |it: Completion<'_, Raw>| match it.qp_num() == ends_num {
            true => own.push(it.raw_wr_id()),
            false => {
                others += 1;
                // One more, while there is room.
                if others < 8 {
                    // SAFETY: as above.
                    unsafe {
                        stays.post_recv_unchecked(wr::Recv::new(nothing(2))).unwrap();
                        let send = wr::Send::new(nothing(MARKERS[0])).signaled();
                        let _ = stays.post_send_unchecked(send);
                    }
                }
            }
        };
        // SAFETY: at most one receive is outstanding, and its wr_id is small.
        unsafe { ends.drain_unchecked(&mut cq, MARKERS, TIME, found) }.unwrap();
        assert_eq!(own, [1]);
    }
    assert!(others >= 2); // whose wr_id is like a marker's, but with another number
}

/// A queue pair that is connected to itself, with `recv` receives, and its completion queue.
fn to_itself(context: &Context, recv: u32) -> (CompletionQueue<Raw>, QueuePair<Rc, Rts, Own>) {
    let gid = context.query_gid(1, 1).unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(64).unwrap();
    let qp = pd.create_qp::<Rc, Own>(&cq, &cq, Depth { send: 4, recv }).unwrap();
    let number = qp.qp_num();
    let qp = connect(qp, gid, number);
    (cq, qp)
}

/// Ends: QueuePair::drain_unchecked.
#[test]
fn a_drain_on_a_broken_device_ends() {
    let fabric = Fabric::new();
    let context = fabric.open_device();
    let (mut cq, qp) = to_itself(&context, 4);
    let mut qp = qp.to_error().unwrap();
    assert!(fabric.break_device(&context));
    for _ in 0..2 {
        let time = Duration::from_millis(20);
        // SAFETY: nothing is outstanding.
        let error = unsafe { qp.drain_unchecked(&mut cq, MARKERS, time, |_| {}) }.unwrap_err();
        assert_eq!(error.errno(), Some(libc::ETIMEDOUT), "{error}");
    }
}

/// siw flushes no marker, and completions of SRD are in no order: the call fails at once, and posts
/// nothing.
/// Proves R24.7, R27.3.
#[test]
fn a_drain_by_markers_is_refused_where_they_say_nothing() {
    let siw = Fabric::with(World::ipv4().provider(Provider::Siw)).open_device();
    let gid = siw.query_gid(1, 1).unwrap();
    let (pd, mut cq) = (siw.alloc_pd().unwrap(), siw.create_cq(16).unwrap());
    let qp = pd.create_qp::<Rc, Plain>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let number = qp.qp_num();
    let mut qp = connect(qp, gid, number).to_error().unwrap();
    // SAFETY: nothing is outstanding.
    let error = unsafe { qp.drain_unchecked(&mut cq, MARKERS, Duration::MAX, |_| {}) }.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("siw, which does not flush"), "{error}");

    let efa = Fabric::with(World::efa()).open_device();
    let (pd, mut cq) = (efa.alloc_pd().unwrap(), efa.create_cq(16).unwrap());
    let qp = pd.create_qp::<Srd, Spread>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let init = UdInit { pkey_index: 0, port: 1, qkey: Qkey::new(7).unwrap().into() };
    let mut qp = qp.modify(init).unwrap().to_error().unwrap();
    // SAFETY: nothing is outstanding.
    let error = unsafe { qp.drain_unchecked(&mut cq, MARKERS, Duration::MAX, |_| {}) }.unwrap_err();
    assert!(error.to_string().contains("completions are not ordered"), "{error}");
    // Neither posted a marker.
    assert_eq!((cq.poll().unwrap().count(), error.errno()), (0, Some(libc::EOPNOTSUPP)));
}

/// A marker of UD needs an address handle, and so did each send before it.
#[test]
fn a_drain_of_datagrams() {
    for personality in personalities() {
        let context = Fabric::with(personality).open_device();
        let gid = context.query_gid(1, 1).unwrap();
        let (pd, mut cq) = (context.alloc_pd().unwrap(), context.create_cq(32).unwrap());
        let qp = pd.create_qp::<Ud, Own>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
        let qkey = Qkey::new(7).unwrap();
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() }).unwrap();
        let qp = qp.modify(UdRtr::default()).unwrap();
        let mut qp = qp.modify(UdRts { sq_psn: Psn::new(0).unwrap(), qkey: None }).unwrap();
        for sends in [false, true] {
            let mut expected = vec![1, 2];
            // SAFETY: they name no memory, and the completion queue has room.
            unsafe {
                for wr_id in 1..3 {
                    qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(wr_id, []))).unwrap();
                }
                if sends {
                    let ah = pd.create_ah(AddressVector::roce(1, gid, 1)).unwrap();
                    let address_handle = qp.add_address_handle(ah).unwrap();
                    // To a queue pair that does not exist.
                    let to = wr::Destination { address_handle, qpn: Qpn::new(9).unwrap(), qkey };
                    for wr_id in 10..12 {
                        let send = wr::Send::new(wr::Sge::new(wr_id, [])).to(to).signaled();
                        qp.post_send_unchecked(send).unwrap();
                        expected.push(wr_id);
                    }
                }
            }
            let mut dead = qp.to_error().unwrap();
            let mut found = Vec::new();
            // SAFETY: two receives of four are outstanding, with other wr_ids.
            unsafe {
                dead.drain_unchecked(&mut cq, MARKERS, TIME, |it| found.push(it.raw_wr_id()))
            }
            .unwrap();
            found.sort_unstable();
            assert_eq!(found, expected, "{personality}");
            let init = UdInit { pkey_index: 0, port: 1, qkey: qkey.into() };
            qp = dead
                .reset()
                .unwrap()
                .modify(init)
                .unwrap()
                .modify(UdRtr::default())
                .unwrap()
                .modify(UdRts { sq_psn: Psn::new(0).unwrap(), qkey: None })
                .unwrap();
        }
        drop(qp);
    }
}

/// An initiator has no receives: one marker is enough.
#[test]
fn a_drain_of_an_initiator() {
    for personality in personalities().into_iter().filter(|&one| one != Personality::Rxe) {
        let context = Fabric::with(personality).open_device();
        let gid = context.query_gid(1, 1).unwrap();
        let can = context.abilities().unwrap().can::<Xrc>().unwrap();
        let domain = context.open_xrcd(&can, XrcdFile::Private).unwrap();
        let pd = context.alloc_pd().unwrap();
        let (mut cq, theirs) = (context.create_cq(16).unwrap(), context.create_cq(8).unwrap());
        let pool: Pool = pd.create_pool(4, 64).unwrap();
        let srq: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &pool, &theirs).unwrap();
        let qp = pd.create_xrc_initiator::<Initiating>(&can, &cq, 4).unwrap();
        let psn = Psn::new(0).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        // To a target that does not exist: the sends stay.
        let rtr = XrcRtr::new(AddressVector::roce(1, gid, 1), Qpn::new(9).unwrap(), psn);
        let rts = XrcRts::new(psn, ReadDepth::ONE);
        let mut qp = qp.modify(init).unwrap().modify(rtr).unwrap().modify(rts).unwrap();
        for wr_id in 0..3 {
            let send = wr::Send::new(wr::Sge::new(wr_id, [])).to_srq(srq.number());
            // SAFETY: it names no memory, and the completion queue has room.
            unsafe { qp.post_send_unchecked(send) }.unwrap();
        }
        let mut qp = qp.to_error().unwrap();
        let mut found = Vec::new();
        // SAFETY: the completion queue has room for a marker.
        unsafe { qp.drain_unchecked(&mut cq, MARKERS, TIME, |it| found.push(it.raw_wr_id())) }
            .unwrap();
        assert_eq!(found, [0, 1, 2], "{personality}");
    }
}

/// A device may flush late. The drain polls until then, and reports an error only after its time.
/// Ends: QueuePair::drain_unchecked.
#[test]
fn a_drain_waits_until_the_device_flushes() {
    for runs in [0, 1, 7, 40] {
        let fabric = Fabric::new();
        fabric.inject(Script::seeded(0).with(Fault::FlushLate { runs }.always()));
        let context = fabric.open_device();
        let (mut cq, mut qp) = to_itself(&context, 4);
        // SAFETY: it names no memory, and the completion queue has room.
        unsafe { qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(1, []))) }.unwrap();
        let (mut qp, mut found) = (qp.to_error().unwrap(), Vec::new());
        // SAFETY: one receive of four is outstanding, with another wr_id.
        unsafe { qp.drain_unchecked(&mut cq, MARKERS, TIME, |it| found.push(it.raw_wr_id())) }
            .unwrap();
        assert_eq!((found, fabric.injected().flush_late), (vec![1], 1), "{runs} runs");
    }
}

/// A list of receives is posted in order. If there are fewer slots, nothing is posted.
#[test]
fn a_list_of_receives_is_posted_whole() {
    let context = Fabric::new().open_device();
    let (mut cq, mut qp) = to_itself(&context, 8);
    let (mut slots, mut found) = (RecvSlots::<3>::new(), Vec::new());
    let recv = |i| wr::Recv::new(wr::Sge::new(i as u64, []));
    // SAFETY: they name no memory, and queue and completion queue have room.
    unsafe {
        let full = qp.post_recv_list_unchecked(&mut slots, 4, recv).unwrap_err();
        assert_eq!((full.errno, full.bad_wr), (libc::ENOMEM, Some(0)));
        qp.post_recv_list_unchecked(&mut slots, 3, recv).unwrap();
        qp.post_recv_list_unchecked(&mut slots, 0, recv).unwrap();
        let mut qp = qp.to_error().unwrap();
        qp.drain_unchecked(&mut cq, MARKERS, TIME, |it| found.push(it.raw_wr_id())).unwrap();
    }
    assert_eq!(found, [0, 1, 2]);
}
