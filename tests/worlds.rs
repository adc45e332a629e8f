//! Worlds that no machine at hand has: InfiniBand, IPv6, devices that grant other limits than
//! requested, that refuse to destroy, and that break. (The conformance suite runs on InfiniBand and
//! on IPv6 too.)
#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "conformance/support/mod.rs"]
mod support;

use std::time::Duration;

use proverbs::bounded::ServiceLevel;
use proverbs::completion::UdReceived;
use proverbs::device::{DeviceEvent, Gid, GlobalRoute, PortEvent};
use proverbs::endpoint;
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::persistence::{Flushable, Persistent};
use proverbs::ext::xrc::XrcdFile;
use proverbs::loopback::{Capacity, Fabric, Fault, Grants, Personality, Script, World};
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::{Max, QpCreateFlags};
use support::*;

fn device(world: World) -> (Fabric, Device) {
    let fabric = Fabric::with(world.personality(Device::personality()));
    let dev = Device::loopback(&fabric);
    (fabric, dev)
}

/// A datagram from `a` to `b` with this address vector, as it arrives.
fn datagram(p: &mut Pair<Ud>, way: AddressVector) -> UdReceived<Buf> {
    let ah = p.pd.create_ah(way).unwrap();
    let address_handle = p.a.add_address_handle(ah).unwrap();
    let (qpn, qkey) = (Qpn::new(p.b.qp_num()).unwrap(), Qkey::new(QKEY).unwrap());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"hello").to(wr::Destination { address_handle, qpn, qkey }))
        .unwrap();
    poll(&p.dev, &mut p.ca, 1);
    poll(&p.dev, &mut p.cb, 1).remove(0).datagram()
}

#[test]
fn an_infiniband_datagram_without_a_grh_is_answered_by_lid() {
    let mut p = Pair::<Ud>::on(device(World::infiniband()).1, &Wish::new());
    let lid = p.dev.ctx.query_port(1).unwrap().lid;
    let message = datagram(&mut p, AddressVector::infiniband(1, lid));
    assert_eq!((message.payload(), message.byte_len), (&b"hello"[..], 45));
    assert_eq!(message.grh(), None);
    let back = message.reply_vector(1, 0).unwrap();
    assert_eq!(back, AddressVector::infiniband(1, lid));
    drop(message);
    assert_eq!(datagram(&mut p, back).payload(), b"hello");
}

#[test]
fn an_infiniband_datagram_has_a_grh_if_requested() {
    let mut p = Pair::<Ud>::on(device(World::infiniband()).1, &Wish::new());
    let (lid, gid) = (p.dev.ctx.query_port(1).unwrap().lid, p.dev.gid());
    let global = Some(GlobalRoute::new(gid, 0));
    let way = AddressVector { global, ..AddressVector::infiniband(1, lid) };
    let message = datagram(&mut p, way);
    let grh = message.grh().unwrap();
    assert_eq!((grh.source(), grh.destination()), (Some(gid), Some(gid)));
    assert_eq!(gid.0[..8], [0xfe, 0x80, 0, 0, 0, 0, 0, 0], "the subnet's prefix");
    assert_eq!(message.reply_vector(1, 0).unwrap().dlid, lid);
}

#[test]
fn a_lid_leads_to_one_device() {
    let (fabric, dev) = device(World::infiniband());
    let other = fabric.open_device();
    let mut p = Pair::<Ud>::on(dev, &Wish::new());
    let lids = [&p.dev.ctx, &other].map(|context| context.query_port(1).unwrap().lid);
    assert_eq!(lids, [1, 2]);
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    let ah = p.pd.create_ah(AddressVector::infiniband(1, 2)).unwrap();
    let elsewhere = wr::Destination { address_handle: p.a.add_address_handle(ah).unwrap(), ..to };
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::inline(b"lost").to(elsewhere)).unwrap();
    p.a.post_send(wr::Send::inline(b"here").to(to)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).datagram().payload(), b"here");
    for (lid, why) in [(0, "no LID"), (0xc000, "a multicast group's")] {
        assert!(p.pd.create_ah(AddressVector::infiniband(1, lid)).is_err(), "{why}");
    }
}

#[test]
fn a_datagram_follows_an_ipv6_grh() {
    let mut p = Pair::<Ud>::on(device(World::ipv6()).1, &Wish::new());
    let gid = p.dev.gid();
    assert_eq!(gid.to_string(), "fd00::1");
    let way = p.dev.vector();
    let message = datagram(&mut p, way);
    let grh = message.grh().unwrap();
    assert_eq!((grh.source(), grh.destination(), grh.0[0] >> 4), (Some(gid), Some(gid), 6));
    assert_eq!(message.reply_vector(1, 1), Some(way));
}

#[test]
fn a_port_of_any_rate() {
    let rate = |width, speed| {
        let port = device(World::ipv4().port_rate(width, speed)).1.ctx.query_port(1).unwrap();
        (port.lanes, port.lane_speed)
    };
    assert_eq!(rate(1, 1), (Some(1), Some(25)));
    assert_eq!(rate(16, 128), (Some(2), Some(1000)));
    assert_eq!(rate(3, 255), (None, None), "of an unknown link");
}

profile! { Wide { max_send_sge: 2, max_recv_sge: 2, max_inline: 64, entry: BufList } }

#[test]
fn a_device_that_grants_more_grants_at_least_the_request() {
    let (_, dev) = device(World::ipv4().grants(Grants::More));
    let wish = Wish { depth: Depth { send: 2, recv: 2 }, cqe: 5, ..Wish::new() };
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 64).unwrap();
    let cq = dev.ctx.create_cq::<BufList>(20).unwrap();
    assert_eq!(cq.capacity(), 31);
    let mut qp = pd.create_qp::<Rc, Wide>(&cq, &cq, wish.depth).unwrap();
    assert!(qp.send_room() >= 2 && qp.recv_room() >= 2);
    let srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&pool).unwrap();
    assert!(srq.query().unwrap().max_wr >= 8);
    drop((qp, srq));
    let mut p = Pair::<Rc>::on(dev, &Wish::new());
    for i in 0..3 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(wr::Send::new(filled(&p.pool, &[i]))).unwrap();
        poll(&p.dev, &mut p.ca, 1);
        assert_eq!(poll(&p.dev, &mut p.cb, 1).remove(0).received().data(), [i]);
    }
}

profile! { WideDirect { max_send_sge: 2, max_recv_sge: 2, max_inline: 64, entry: BufList, posting: ExtendedPosting } }

/// A device that grants less than requested is an error, whichever limit it is.
///
/// `create_srq` compares the granted with the requested sizes.
/// Proves R2.11.
#[test]
fn a_device_that_grants_less_is_detected() {
    for limit in
        [Capacity::SendWr, Capacity::RecvWr, Capacity::SendSge, Capacity::RecvSge, Capacity::Inline]
    {
        let (_, dev) = device(World::ipv4().grants(Grants::LessOf(limit)));
        let pd = dev.ctx.alloc_pd().unwrap();
        let cq = dev.ctx.create_cq::<BufList>(60).unwrap();
        let refused = pd.create_qp::<Rc, Wide>(&cq, &cq, Depth { send: 4, recv: 4 });
        assert!(refused.is_err(), "{limit:?}");
        let extended = pd.create_qp::<Rc, WideDirect>(&cq, &cq, Depth { send: 4, recv: 4 });
        assert!(extended.is_err(), "{limit:?}");
        // And the half-made object is gone.
        assert_eq!(cq.unbooked(), 60);
        cq.destroy().unwrap();
    }
    for limit in [Capacity::SrqWr, Capacity::SrqSge] {
        let (_, dev) = device(World::ipv4().grants(Grants::LessOf(limit)));
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(4, 64).unwrap();
        let refused = pd.create_srq::<Rc, BufList, Max<2>, ()>(&pool).map(drop).unwrap_err();
        let (asked, max) = if limit == Capacity::SrqWr { (4, 3) } else { (2, 1) };
        let text = format!("{asked} exceeds {max}");
        assert!(refused.to_string().ends_with(&text), "{refused}");
        // Another verb creates one for XRC.
        if let Some(can) = dev.ctx.abilities().unwrap().can::<Xrc>() {
            let domain = dev.ctx.open_xrcd(&can, XrcdFile::Private).unwrap();
            let cq = dev.ctx.create_cq::<BufList>(16).unwrap();
            let refused = domain.create_srq::<BufList, Max<2>, (), _>(&pd, &pool, &cq);
            let refused = refused.map(drop).unwrap_err().to_string();
            assert!(refused.ends_with(&text), "{refused}");
            assert_eq!(cq.unbooked(), cq.capacity());
            domain.close().unwrap();
        }
        pool.destroy().unwrap();
        pd.destroy().unwrap();
    }
    // The granted room is booked, not the requested room.
    let (_, dev) = device(World::ipv4().grants(Grants::LessOf(Capacity::Cqe)));
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq = dev.ctx.create_cq::<BufList>(9).unwrap();
    assert_eq!(cq.capacity(), 8);
    assert!(cq.resize(20).unwrap_err().to_string().ends_with("20 exceeds 19"));
    assert_eq!((cq.capacity(), cq.unbooked()), (19, 19));
    cq.resize(9).unwrap_err();
    assert!(pd.create_qp::<Rc, Wide>(&cq, &cq, Depth { send: 4, recv: 4 }).is_err());
}

#[test]
fn an_object_that_cannot_be_destroyed_is_destroyed_later() {
    let (fabric, dev) = device(World::ipv4());
    let p = Pair::<Rc>::on(dev, &Wish::new());
    let Pair { a, b, ca, cb, pool, pd, dev } = p;
    let busy = || fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    busy();
    let a = a.destroy().unwrap_err().into_object();
    assert!(a.query().is_ok());
    a.destroy().unwrap();
    b.destroy().unwrap();
    busy();
    let ca = ca.destroy().unwrap_err().into_object();
    ca.destroy().unwrap();
    cb.destroy().unwrap();
    busy();
    let pool = pool.destroy().unwrap_err().into_object();
    pool.destroy().unwrap();
    busy();
    let pd = pd.destroy().unwrap_err().into_object();
    pd.destroy().unwrap();
    busy();
    let ctx = dev.ctx.destroy().unwrap_err().into_object();
    ctx.destroy().unwrap();
    assert_eq!(fabric.injected().busy, 5);
}

/// If a dropped object cannot be destroyed it still exists: its buffers stay with the device, and
/// so does its memory.
#[test]
fn a_dropped_object_that_cannot_be_destroyed_stays_whole() {
    let (fabric, dev) = device(World::ipv4());
    let Pair { a, mut b, ca, mut cb, pool, pd, dev } = Pair::<Rc>::on(dev, &Wish::new());
    b.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
    fabric.inject(Script::default().with(Fault::Busy.always().on_qp(b.qp_num())));
    drop(b);
    assert!(fabric.injected().busy > 0);
    let mut a = a;
    a.post_send(wr::Send::new(filled(&pool, b"still there"))).unwrap();
    let mut ca = ca;
    poll(&dev, &mut ca, 1);
    // It was received, into memory that has no other owner.
    assert_eq!(pool.available(), 39);
    assert_eq!(poll(&dev, &mut cb, 1).remove(0).received().data(), b"still there");
    drop((a, ca, cb, pool, pd));
    assert!(dev.ctx.destroy().is_err(), "the queue pair exists forever");
}

#[test]
fn a_device_that_breaks() {
    let (fabric, dev) = device(World::ipv4());
    let stranger = Fabric::new().open_device();
    let mut p = Pair::<Rc>::on(dev, &Wish::new());
    let mut events = p.dev.ctx.events().unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    assert!(fabric.break_device(&p.dev.ctx));
    assert!(!fabric.break_device(&p.dev.ctx), "it is broken");
    assert!(!fabric.break_device(&stranger), "of another fabric");
    let millisecond = Duration::from_millis(1);
    assert_eq!(events.wait_timeout(millisecond).unwrap(), Some(DeviceEvent::DeviceFatal));
    // It accepts posts, and does nothing.
    p.a.post_send(wr::Send::new(filled(&p.pool, b"x"))).unwrap();
    for _ in 0..300 {
        assert!(p.ca.poll_one().unwrap().is_none() && p.cb.poll_one().unwrap().is_none());
    }
    let eio = |error: &proverbs::Error| matches!(error.kind(), ErrorKind::Os { errno: 5, .. });
    assert!(p.a.query().is_err_and(|error| eio(&error)));
    assert!(p.dev.ctx.alloc_pd().is_err_and(|error| eio(&error)));
    assert!(p.dev.ctx.create_cq::<Buf>(4).is_err());
    let a = p.a.to_error().unwrap_err().into_object();
    // Its buffers return with its queues.
    drop((a, p.b));
    drop((p.ca, p.cb));
    assert_eq!(p.pool.available(), 40);
    p.pool.destroy().unwrap();
    p.pd.destroy().unwrap();
}

#[test]
fn port_events_and_unknown_events() {
    let (fabric, dev) = device(World::ipv4());
    let mut events = dev.ctx.events().unwrap();
    for number in [18, 99, 10] {
        assert!(fabric.raise(&dev.ctx, number));
    }
    let port = |event| Some(DeviceEvent::Port { port: 1, event });
    assert_eq!(events.try_next().unwrap(), port(PortEvent::GidChange));
    assert_eq!(events.try_next().unwrap(), Some(DeviceEvent::Other(99)));
    assert_eq!(events.try_next().unwrap(), port(PortEvent::Error));
    assert_eq!(events.try_next().unwrap(), None);
    for number in [0, 1, 15] {
        assert!(!fabric.raise(&dev.ctx, number), "{number} is about an object");
    }
}

/// A removed address handle is destroyed at once if nothing names it, and retried later if that
/// fails.
#[test]
fn an_address_handle_that_cannot_be_destroyed() {
    let (fabric, dev) = device(World::ipv4());
    let mut p = Pair::<Ud>::on(dev, &Wish::new());
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    fabric.inject(Script::default().with(Fault::Busy.always()));
    assert!(p.a.remove_address_handle(to.address_handle));
    assert_eq!(fabric.injected().busy, 1, "the removal itself destroys it");
}

/// Outstanding datagrams name address handles, which stay as long as a queue pair that cannot be
/// destroyed.
#[test]
fn address_handles_of_a_kept_queue_pair_stay() {
    let (fabric, dev) = device(World::ipv4());
    let mut p = Pair::<Ud>::on(dev, &Wish::new());
    let to = p.a.way_to(&p.dev, &p.pd, p.b.qp_num());
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, b"on its way")).to(to)).unwrap();
    let script = Script::default().with(Fault::Busy.always().on_qp(p.a.qp_num()));
    fabric.inject(script);
    drop(p.a);
    assert!(fabric.injected().busy > 0);
    let message = poll(&p.dev, &mut p.cb, 1).remove(0).datagram();
    assert_eq!(message.payload(), b"on its way");
}

/// InfiniBand needs no GID: two sides connect by their LIDs.
#[test]
fn two_sides_connect_by_lid() {
    use endpoint::*;
    let (fabric, dev) = device(World::infiniband());
    let there = Device::loopback(&fabric);
    let side = |dev: &Device| {
        let pd = dev.ctx.alloc_pd().unwrap();
        let cq = dev.ctx.create_cq::<Buf>(20).unwrap();
        let depth = Depth { send: 4, recv: 4 };
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let connector = RcConnector::new(Rc::init(qp, &Wish::new()), None).unwrap();
        let lid = dev.ctx.query_port(1).unwrap().lid;
        let mine = connector.endpoint().clone();
        assert_eq!((mine.gid(), mine.lid()), (Gid::default(), lid));
        let way = mine.address(&dev.ctx, 1, None).unwrap();
        assert_eq!(way, AddressVector::infiniband(1, lid));
        // A GID index is of no use for a peer that sent no GID.
        assert_eq!(mine.address(&dev.ctx, 1, Some(0)).unwrap(), way);
        let nobody = mine.clone().with_lid(0).address(&dev.ctx, 1, None).unwrap_err();
        assert!(nobody.to_string().contains("neither a GID nor a LID"), "{nobody}");
        (connector, cq, pd.create_pool(4, 64).unwrap())
    };
    let ((a, mut ca, pool), (b, mut cb, pool_b)) = (side(&dev), side(&there));
    let (mine, theirs) = (a.endpoint().clone(), b.endpoint().clone());
    let (mut a, mut b) = (a.connect_to(&theirs).unwrap(), b.connect_to(&mine).unwrap());
    b.post_recv(wr::Recv::new(poisoned(&pool_b))).unwrap();
    a.post_send(wr::Send::new(filled(&pool, b"by LID"))).unwrap();
    poll(&dev, &mut ca, 1);
    assert_eq!(poll(&dev, &mut cb, 1).remove(0).received().data(), b"by LID");
    // On Ethernet a GID is always needed.
    let (_, dev) = device(World::ipv4());
    let error = mine.address(&dev.ctx, 1, None).unwrap_err();
    assert!(error.to_string().contains("RoCE needs a GID index"), "{error}");
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq::<Buf>(20).unwrap();
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let refused = RcConnector::new(Rc::init(qp, &Wish::new()), None).unwrap_err();
    assert!(refused.error.to_string().contains("needs a GID index"), "{}", refused.error);
}

/// On a broken device the port cannot be queried, and its MTU is unknown. Its constant attributes
/// are known, so the device itself rejects the posts.
#[test]
fn a_port_that_does_not_answer_permits_no_send() {
    let (fabric, dev) = device(World::ipv4());
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq::<Buf>(40).unwrap();
    let depth = Depth { send: 4, recv: 4 };
    let rc = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let ud = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth).unwrap();
    let (own, wish) = (rc.qp_num(), Wish::new());
    let rc = <Rc as Bring<DefaultProfile>>::init(rc, &wish);
    let rc = <Rc as Bring<DefaultProfile>>::rtr(rc, &dev, own, &wish);
    let ud = <Ud as Bring<DefaultProfile>>::init(ud, &wish);
    let ud = <Ud as Bring<DefaultProfile>>::rtr(ud, &dev, own, &wish);
    assert!(fabric.break_device(&dev.ctx));
    let psn = Psn::new(wish.psn).unwrap();
    let refused = ud.modify(UdRts { sq_psn: psn, qkey: None }).map(drop).unwrap_err();
    assert_eq!(refused.error.verb(), "ibv_query_port");
    let refused = rc.modify(RcRts::new(psn, ReadDepth::ONE)).map(drop).unwrap_err();
    assert_eq!(refused.error.verb(), "ibv_modify_qp");
}

profile! { Inline600 { max_inline: 600 } }

/// A length that cannot be a message cannot be a queue pair's inline capacity either.
#[test]
fn a_port_of_short_messages() {
    let wish = Wish { size: 1024, ..Wish::new() };
    let make = |world: World| {
        let (_, dev) = device(world);
        let pd = dev.ctx.alloc_pd().unwrap();
        let cq = dev.ctx.create_cq::<Buf>(20).unwrap();
        let depth = Depth { send: 4, recv: 4 };
        let rc = pd.create_qp::<Rc, Inline600>(&cq, &cq, depth).unwrap();
        let ud = pd.create_qp::<Ud, Inline600>(&cq, &cq, depth).unwrap();
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
        let rc = rc.modify(init).map(drop).map_err(|refused| refused.error);
        let qkey = Qkey::new(QKEY).unwrap().into();
        let init = UdInit { pkey_index: 0, port: 1, qkey };
        let ud = ud.modify(init).map(drop).map_err(|refused| refused.error);
        (rc, ud)
    };
    let (rc, ud) = make(World::ipv4().messages(Mtu::Bytes512, 600));
    rc.unwrap();
    assert!(ud.unwrap_err().to_string().ends_with("600 exceeds 512"));
    let (rc, ud) = make(World::ipv4().messages(Mtu::Bytes1024, 599));
    ud.unwrap();
    assert!(rc.unwrap_err().to_string().ends_with("600 exceeds 599"));
    // A port that reports no length limits nothing; one with a length of one byte does.
    assert!(make(World::ipv4().messages(Mtu::Bytes1024, 0)).0.is_ok());
    assert!(make(World::ipv4().messages(Mtu::Bytes1024, 1)).0.is_err());

    let dev = device(World::ipv4().messages(Mtu::Bytes1024, 100)).1;
    let mut p = Pair::<Rc>::on(dev, &wish);
    for len in [100, 101] {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let result = p.a.post_send(wr::Send::new(filled(&p.pool, &numbered(1, len))));
        let kind = result.map_err(|error| error.kind());
        let long = PostErrorKind::ExceedsMessage { asked: 101, max: 100 };
        assert_eq!(kind, if len == 100 { Ok(()) } else { Err(long) });
    }
    let mut p = Pair::<Rc>::on(device(World::ipv4().messages(Mtu::Bytes1024, 0)).1, &wish);
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.a.post_send(wr::Send::new(filled(&p.pool, &numbered(1, 1000)))).unwrap();
    poll(&p.dev, &mut p.ca, 1);
    holds(poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap(), &numbered(1, 1000));
}

/// An object that cannot be destroyed is returned unchanged.
#[test]
fn all_other_objects_that_cannot_be_destroyed() {
    let (fabric, dev) = device(World::ipv4());
    let pd = dev.ctx.alloc_pd().unwrap();
    let busy = || fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    let ah = pd.create_ah(dev.vector()).unwrap();
    busy();
    let refused = ah.destroy().unwrap_err();
    assert_eq!((refused.error.verb(), refused.error.errno()), ("ibv_destroy_ah", Some(16)));
    refused.into_object().destroy().unwrap();
    let region = pd.register::<RemoteRead>(64).unwrap();
    busy();
    let region = region.destroy().unwrap_err().into_object();
    region.write_at(0, b"still").unwrap();
    region.destroy().unwrap();
    let pool = pd.create_pool(2, 64).unwrap();
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
    srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    busy();
    let mut srq = srq.destroy().unwrap_err().into_object();
    srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    assert_eq!((srq.recvs_outstanding(), pool.available()), (2, 0));
    srq.destroy().unwrap();
    assert_eq!(pool.available(), 2);
    let channel = dev.ctx.create_comp_channel().unwrap();
    busy();
    let channel = channel.destroy().unwrap_err().into_object();
    channel.destroy().unwrap();
    pool.destroy().unwrap();
    pd.destroy().unwrap();
    dev.ctx.destroy().unwrap();
    assert_eq!(fabric.injected().busy, 4);
}

/// A service level is transferred, and the reply has it too.
#[test]
fn a_service_level() {
    let mut p = Pair::<Ud>::on(device(World::infiniband()).1, &Wish::new());
    let sl = ServiceLevel::new(5).unwrap();
    let way = AddressVector { sl, ..p.dev.vector() };
    let message = datagram(&mut p, way);
    assert_eq!(message.reply_vector(1, 0), Some(way));
}

profile! { RingOnSrq { signaling: Selective, receive: SharedRq } }

/// A queue pair waits for its completion queue to be empty, and then cannot be destroyed: the
/// device may use its sends forever.
#[test]
fn a_deferred_queue_pair_that_cannot_be_destroyed_stays_whole() {
    let (fabric, dev) = device(World::ipv4());
    let pd = dev.ctx.alloc_pd().unwrap();
    let (pool, feed) = (pd.create_pool(4, 64).unwrap(), pd.create_pool(2, 64).unwrap());
    let mut cq = dev.ctx.create_cq::<Buf>(40).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&feed).unwrap();
    srq.post_srq_recv(wr::Recv::new(feed.take().unwrap())).unwrap();
    let qp = pd.create_qp::<Rc, RingOnSrq>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    let mut qp = Rc::up(qp, &dev, 0xfffff0, &Wish::new());
    let _ = qp.post_send_unsignaled(wr::Send::new(filled(&pool, b"nobody"))).unwrap();
    fabric.inject(Script::default().with(Fault::Busy.always()));
    drop(qp);
    for _ in 0..4 {
        poll_empty(&mut cq);
    }
    assert_eq!(pool.available(), 3);
}

profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }
profile! { Publishing { posting: ExtendedPosting<ext::persistence::AtomicWrite> } }
profile! { Both { posting: ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)> } }

/// iWARP has neither FLUSH nor ATOMIC_WRITE.
#[test]
fn persistence_is_refused_by_a_device_without_it() {
    let (_, dev) = device(World::iwarp());
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq::<Buf>(40).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let refused = [
        pd.create_qp::<Rc, Flushing>(&cq, &cq, depth).map(drop),
        pd.create_qp::<Rc, Publishing>(&cq, &cq, depth).map(drop),
        pd.create_qp::<Rc, Both>(&cq, &cq, depth).map(drop),
    ];
    let lacks = ["FLUSH", "ATOMIC_WRITE", "FLUSH and ATOMIC_WRITE"];
    for (refused, lacks) in refused.into_iter().zip(lacks) {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(&format!("extended posting with {lacks}")), "{text}");
        assert!(text.contains(&format!("has no {lacks}: ")), "{text}");
    }
    let global = pd.register::<Flushable<RemoteWrite>>(64).unwrap_err().to_string();
    assert!(global.contains("has no FLUSH_GLOBAL: "), "{global}");
    let persistent = pd.register::<Persistent<RemoteWrite>>(64).unwrap_err().to_string();
    assert!(persistent.contains("FLUSH_GLOBAL | FLUSH_PERSISTENT"), "{persistent}");
    pd.register::<RemoteWrite>(64).unwrap();
}

profile! { Wider { max_send_sge: 129, entry: BufList } }

/// The limit of 128 elements applies only to extended posting; otherwise the device has its own.
#[test]
fn the_device_limits_elements_of_an_ordinary_queue_pair() {
    let (_, dev) = device(World::ipv4());
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq = dev.ctx.create_cq::<BufList>(40).unwrap();
    let refused = pd.create_qp::<Rc, Wider>(&cq, &cq, Depth { send: 2, recv: 2 });
    let text = refused.map(drop).unwrap_err().to_string();
    assert!(!text.contains("extended posting") && text.contains("129"), "{text}");
}

/// With the flag, a queue pair's messages to its group reach only the other members (R23.6).
#[test]
fn multicast_loopback_can_be_blocked() {
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 0x0e, 7);
    let group = Gid(group);
    for block_self_mcast_lb in [false, true] {
        let (_, dev) = device(World::ipv4());
        let pd = dev.ctx.alloc_pd().unwrap();
        let pool = pd.create_pool(4, 256).unwrap();
        let (wish, depth) = (Wish::new(), Depth { send: 2, recv: 2 });
        let mut ends: Vec<_> = (0..2)
            .map(|_| {
                let cq = dev.ctx.create_cq::<Buf>(8).unwrap();
                let flags = QpCreateFlags { block_self_mcast_lb };
                let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth.flags(flags));
                (qp.map(|qp| <Ud as Bring<DefaultProfile>>::up(qp, &dev, 0, &wish)), cq)
            })
            .collect();
        if ends[0].0.is_err() {
            assert!(block_self_mcast_lb && Device::personality() == Personality::Rxe);
            return;
        }
        for (qp, _) in &mut ends {
            let qp = qp.as_mut().unwrap();
            qp.attach_mcast(group, 0).unwrap();
            qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        }
        let [(Ok(this), own), (_, others)] = &mut ends[..] else { unreachable!() };
        let ah = pd.create_ah(AddressVector::roce(1, group, dev.gid_index)).unwrap();
        let address_handle = this.add_address_handle(ah).unwrap();
        let (qpn, qkey) = (Qpn::MAX, Qkey::new(QKEY).unwrap());
        this.post_send(wr::Send::inline(b"to others").to(wr::Destination {
            address_handle,
            qpn,
            qkey,
        }))
        .unwrap();
        assert_eq!(poll(&dev, others, 1).remove(0).datagram().payload(), b"to others");
        let heard = poll(&dev, own, 1 + usize::from(!block_self_mcast_lb));
        assert_eq!(heard.len() - 1, usize::from(!block_self_mcast_lb));
        assert_eq!(poll_empty(own), 0);
    }
}
