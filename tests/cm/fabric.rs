//! Tests that need a loopback fabric: several devices, links that fail on request, and every world.

use std::net::SocketAddr;
use std::time::Duration;

use proverbs::bounded::{
    MinRnrTimer, ReadDepth, ResponderDepth, RetryCount, RnrRetries, RnrRetry, Timeout,
};
use proverbs::cm::*;
use proverbs::loopback::{Fabric, Personality, World};
use proverbs::state::Init;
use proverbs::transport::Rc;
use proverbs::{Buf, Context, DefaultProfile, Depth, ErrorKind, Outcome, QueuePair, post_send, wr};

use crate::steps::done;
use crate::support::{End, end, long};

/// The address of a device, with any port.
pub fn of(fabric: &Fabric, device: &Context) -> SocketAddr {
    SocketAddr::new(fabric.ip_of(device).unwrap(), 0)
}

/// The next event, which must be of this kind and already there.
pub fn next(channel: &EventChannel, kind: EventKind) -> Event {
    let event = channel.try_event().unwrap().expect("an event is there when the call returns");
    assert_eq!(event.kind(), kind);
    event
}

pub type Side = (Connection<DefaultProfile, OnChannel>, End);

/// A connection from one device to another, made in one thread.
pub fn connected(fabric: &Fabric, from: &Context, to: &Context) -> (EventChannel, [Side; 2]) {
    let channel = EventChannel::on(fabric).unwrap();
    let (id, request, _) = asked(fabric, &channel, from, to);
    let (pending, active) = id;
    let (qp, passive) = end(&request.id, 2);
    let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
    let there = done(pending.advance(&next(&channel, EventKind::ConnectResponse)));
    let here = done(accepted.advance(&next(&channel, EventKind::Established)));
    (channel, [(there, active), (here, passive)])
}

pub type Listener = CmId<Tcp, Listening, OnChannel>;

/// A request that waits for an answer.
pub fn asked(
    fabric: &Fabric,
    channel: &EventChannel,
    from: &Context,
    to: &Context,
) -> ((Pending, End), Request<Tcp, OnChannel>, Listener) {
    asked_with(fabric, channel, [from, to], &ConnParam::default(), |_| {})
}

/// A request with these parameters, for a queue pair prepared by `ready`.
pub fn asked_with(
    fabric: &Fabric,
    channel: &EventChannel,
    [from, to]: [&Context; 2],
    param: &ConnParam,
    ready: impl FnOnce(&mut QueuePair<Rc, Init>),
) -> ((Pending, End), Request<Tcp, OnChannel>, Listener) {
    let listening = channel.create_id::<Tcp>().unwrap().bind_addr(of(fabric, to)).unwrap();
    let listening = listening.listen(1).unwrap();
    let id = routed(fabric, channel, from, listening.local_addr().unwrap());
    assert_eq!((id.device(), listening.device()), (Some(&*from.name()), Some(&*to.name())));
    let (mut qp, active) = end(&id, 2);
    ready(&mut qp);
    let pending = id.connect(qp, param).unwrap();
    let request = listening.request(next(channel, EventKind::ConnectRequest)).unwrap();
    ((pending, active), request, listening)
}

pub fn routed<PS: PortSpace>(
    fabric: &Fabric,
    channel: &EventChannel,
    from: &Context,
    to: SocketAddr,
) -> CmId<PS, RouteResolved, OnChannel> {
    let id = channel.create_id::<PS>().unwrap().bind_addr(of(fabric, from)).unwrap();
    let id = id.resolve_addr(to, long()).unwrap();
    let id =
        done(id.advance(&next(channel, EventKind::AddrResolved))).resolve_route(long()).unwrap();
    done(id.advance(&next(channel, EventKind::RouteResolved)))
}

/// In every world, between two devices, without a thread and without waiting.
#[test]
fn two_devices_in_every_world() {
    for world in [World::ipv4(), World::ipv6(), World::infiniband()] {
        for personality in [Personality::Plain, Personality::Mlx5, Personality::worst(7)] {
            let fabric = Fabric::with(world.personality(personality));
            let (one, two) = (fabric.open_device(), fabric.open_device());
            let (channel, [(mut there, mut active), (mut here, mut passive)]) =
                connected(&fabric, &one, &two);
            post_send!(there.qp, [wr::Send::inline(b"across")]).unwrap();
            assert_eq!(passive.receive().data(), b"across");
            active.sent();
            post_send!(here.qp, [wr::Send::inline(b"and back")]).unwrap();
            assert_eq!(active.receive().data(), b"and back");
            passive.sent();
            let there = there.disconnect().unwrap();
            drop(next(&channel, EventKind::Disconnected));
            let here = here.disconnect().unwrap();
            drop(next(&channel, EventKind::Disconnected));
            active.drain(there.qp);
            passive.drain(here.qp);
        }
    }
}

/// A silent device does not answer, and waits for it time out at once.
#[test]
fn waits_for_a_silent_device_end_at_once() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let timed_out = ErrorKind::Cm { event: "RDMA_CM_EVENT_UNREACHABLE", status: -libc::ETIMEDOUT };

    // Silenced before the request arrives.
    let ((pending, _active), _request, listening) = asked(&fabric, &channel, &one, &two);
    let at = listening.local_addr().unwrap();
    let id = routed(&fabric, &channel, &one, at);
    let (qp, mut unheard) = end(&id, 1);
    assert!(fabric.silence_device(&two, true));
    let lost = id.connect(qp, &ConnParam::default()).unwrap();
    let Progress::Failed(refused) = lost.advance(&next(&channel, EventKind::Unreachable)) else {
        panic!("no peer received it");
    };
    assert_eq!(*refused.error.kind(), timed_out);
    let NotConnected::Failed { qp, id: _id } = refused.into_object() else { panic!("it was sent") };
    unheard.drain(qp);
    // Nor does it receive that its peer gives up.
    drop(pending);
    assert!(channel.try_event().unwrap().is_none());

    // Accepted, and silenced before the answer arrives.
    fabric.silence_device(&two, false);
    let ((pending, _active), request, _listening) = asked(&fabric, &channel, &one, &two);
    let (qp, mut passive) = end(&request.id, 1);
    fabric.silence_device(&one, true);
    let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
    let Progress::Failed(refused) = accepted.advance(&next(&channel, EventKind::Unreachable))
    else {
        panic!("the peer does not confirm");
    };
    assert_eq!(*refused.error.kind(), timed_out);
    let NotAccepted::Failed { qp, id: _id } = refused.into_object() else { panic!("answered") };
    passive.drain(qp);
    assert!(channel.try_event().unwrap().is_none(), "{:?} hears nothing", pending.id());

    // Silenced while resolving a route, and an address.
    fabric.silence_device(&one, false);
    let id = channel.create_id::<Tcp>().unwrap().bind_addr(of(&fabric, &one)).unwrap();
    let id = id.resolve_addr(at, long()).unwrap();
    let id = done(id.advance(&next(&channel, EventKind::AddrResolved)));
    fabric.silence_device(&two, true);
    let id = id.resolve_route(long()).unwrap();
    let Progress::Failed(refused) = id.advance(&next(&channel, EventKind::RouteError)) else {
        panic!("no route");
    };
    assert!(matches!(refused.error.kind(), ErrorKind::Cm { status: -110, .. }), "{refused}");
    let id = channel.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
    let Progress::Failed(refused) = id.advance(&next(&channel, EventKind::AddrError)) else {
        panic!("no answer");
    };
    assert!(refused.into_object().device().is_none());

    // Connected: a disconnection that is never confirmed ends as well.
    fabric.silence_device(&two, false);
    let (channel, [(there, _active), (here, _passive)]) = connected(&fabric, &one, &two);
    fabric.silence_device(&one, true);
    let there = there.disconnect().unwrap();
    let event = next(&channel, EventKind::Disconnected);
    assert_eq!(event.id(), there.id.key());
    drop(next(&channel, EventKind::TimewaitExit));
    assert!(channel.try_event().unwrap().is_none(), "{here:?} is not notified");
}

/// The peer of a removed device sees the end of its connection.
#[test]
fn the_peer_of_a_removed_device_sees_a_disconnect() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let (channel, [(there, mut active), (here, mut passive)]) = connected(&fabric, &one, &two);
    assert!(fabric.remove_device(&two));
    assert!(!fabric.remove_device(&two), "it is gone");
    assert_eq!(next(&channel, EventKind::DeviceRemoval).id(), here.id.key());
    assert_eq!(next(&channel, EventKind::Disconnected).id(), there.id.key());
    let there = there.disconnect().unwrap();
    active.drain(there.qp);
    passive.drain(here.disconnect().unwrap().qp);
    assert_eq!(next(&channel, EventKind::TimewaitExit).id(), there.id.key());
    assert!(channel.try_event().unwrap().is_none());
    let id = channel.create_id::<Tcp>().unwrap();
    let refused = id.bind_addr(of(&fabric, &two)).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::ENODEV));
    let id = refused.into_object().resolve_addr(of(&fabric, &two), long()).unwrap();
    drop(next(&channel, EventKind::AddrError));
    drop(id);
}

/// The backlog limits the pending requests; a dropped listener rejects them.
#[test]
fn requests_that_are_not_taken() {
    let fabric = Fabric::new();
    let device = fabric.open_device();
    let (here, there) = (EventChannel::on(&fabric).unwrap(), EventChannel::on(&fabric).unwrap());
    let at = of(&fabric, &device);
    let listening = here.create_id::<Tcp>().unwrap().bind_addr(at).unwrap().listen(2).unwrap();
    let at = listening.local_addr().unwrap();
    let mut attempts = Vec::new();
    for _ in 0..3 {
        let id = routed(&fabric, &there, &device, at);
        let (qp, end) = end(&id, 1);
        attempts.push((id.connect(qp, &ConnParam::default()).unwrap(), end));
    }
    // As on Linux, a full backlog drops the third request, which is sent again when there is room.
    assert!(there.try_event().unwrap().is_none());
    let (first, _) = attempts.remove(0);
    drop(first);
    let request = listening.request(next(&here, EventKind::ConnectRequest)).unwrap();
    drop(listening);
    // The second was pending; the third is sent again when there is no listener.
    for ((asked, _), reason) in attempts.iter().zip([28, 8]) {
        let refused = next(&there, EventKind::Rejected);
        assert_eq!((refused.id(), refused.status()), (asked.id().key(), reason));
    }
    // As on Linux, a request that was not answered gets no event from its peer.
    assert!(here.try_event().unwrap().is_none());
    assert_eq!(request.reject(&RejectData::none()).unwrap_err().error.errno(), Some(libc::EINVAL));
    assert!(there.try_event().unwrap().is_none());
}

/// Every one of many clients is served, however small the backlog is; and a client that times out
/// leaves nothing behind.
#[test]
fn requests_that_find_a_full_backlog_arrive_later() {
    let fabric = Fabric::new();
    let device = fabric.open_device();
    let (here, there) = (EventChannel::on(&fabric).unwrap(), EventChannel::on(&fabric).unwrap());
    let at = of(&fabric, &device);
    let listening = here.create_id::<Tcp>().unwrap().bind_addr(at).unwrap().listen(1).unwrap();
    let at = listening.local_addr().unwrap();
    let mut attempts: Vec<_> = (0..6)
        .map(|_| {
            let id = routed(&fabric, &there, &device, at);
            let (qp, end) = end(&id, 1);
            (id.connect(qp, &ConnParam::default()).unwrap(), end)
        })
        .collect();
    attempts.remove(3); // gives up
    for (pending, _) in attempts {
        let request = listening.request(next(&here, EventKind::ConnectRequest)).unwrap();
        let (qp, _end) = end(&request.id, 1);
        let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
        let connection = done(pending.advance(&next(&there, EventKind::ConnectResponse)));
        drop((accepted, connection));
        while there.try_event().unwrap().is_some() {}
    }
    while let Some(event) = here.try_event().unwrap() {
        assert_ne!(event.kind(), EventKind::ConnectRequest, "none is left");
    }
    // A request without a listener is refused.
    let ask = || {
        let id = routed(&fabric, &there, &device, at);
        let (qp, end) = end(&id, 1);
        (id.connect(qp, &ConnParam::default()).unwrap(), end)
    };
    let (waiting, dropped) = (ask(), ask());
    drop(listening);
    let reasons = [(); 2].map(|()| {
        let event = next(&there, EventKind::Rejected);
        (event.id(), event.status())
    });
    assert_eq!(reasons, [(waiting.0.id().key(), 28), (dropped.0.id().key(), 8)]);
}

/// Each port is used once, except by ids that share it on purpose; only one of them listens.
#[test]
fn a_port_is_used_once() {
    let fabric = Fabric::new();
    let (_one, _two) = (fabric.open_device(), fabric.open_device());
    let id = || CmId::<Tcp, _>::on(&fabric).unwrap();
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let taken = |id: CmId<Tcp, Created>, text: &str| {
        id.bind_addr(at(text)).map(drop).unwrap_err().error.errno().unwrap()
    };
    let first = id().bind_addr(at("10.0.0.1:7471")).unwrap();
    assert_eq!(taken(id(), "10.0.0.1:7471"), libc::EADDRINUSE);
    assert_eq!(taken(id(), "0.0.0.0:7471"), libc::EADDRNOTAVAIL);
    assert_eq!(taken(id(), "10.0.0.9:7471"), libc::EADDRNOTAVAIL);
    drop(id().bind_addr(at("10.0.0.2:7471")).unwrap());
    drop(CmId::<Udp, _>::on(&fabric).unwrap().bind_addr(at("10.0.0.1:7471")).unwrap());
    drop(first);
    let sharing = || {
        let mut id = id();
        id.set_reuse_addr(true).unwrap();
        id.bind_addr(at("10.0.0.1:7471")).unwrap()
    };
    let (one, two) = (sharing(), sharing());
    let refused = one.listen(1).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EADDRINUSE));
    drop(two);
    refused.into_object().listen(1).unwrap();
    // The unspecified address of this family, and of both.
    let any = id().bind_addr(at("0.0.0.0:1")).unwrap().listen(1).unwrap();
    assert_eq!((any.device(), any.local_addr()), (None, Some(at("0.0.0.0:1"))));
    let listen_on_any = |text| {
        let mut id = id();
        id.set_af_only(true).unwrap();
        id.bind_addr(at(text)).unwrap().listen(1).unwrap()
    };
    let _both = ["[::]:2", "0.0.0.0:2"].map(listen_on_any);
}

/// A peer that does not use this crate may grant more than was requested.
#[test]
fn an_answer_that_grants_too_much_is_limited() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let ((pending, _active), mut request, _listening) = asked(&fabric, &channel, &one, &two);
    let most = PeerParam { initiator_depth: 9, responder_resources: 9, ..PeerParam::default() };
    request.peer = Some(most);
    let (qp, _passive) = end(&request.id, 1);
    let param = AcceptParam {
        initiator_depth: ReadDepth::new(5).unwrap(),
        responder_resources: ResponderDepth::new(6).unwrap(),
        ..AcceptParam::default()
    };
    let accepted = request.accept(qp, &param).unwrap();
    let there = done(pending.advance(&next(&channel, EventKind::ConnectResponse)));
    assert_eq!((there.peer.initiator_depth, there.peer.responder_resources), (6, 5));
    let there = there.qp.query().unwrap();
    assert_eq!((there.max_rd_atomic, there.max_dest_rd_atomic), (1, 1));
    done(accepted.advance(&next(&channel, EventKind::Established)));
}

/// Two connections at once on one channel: each step ignores the other one's events, and each
/// listening id returns the other's request.
#[test]
fn a_step_ignores_foreign_events() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let [listening, other] = [(); 2].map(|()| {
        let id = channel.create_id::<Tcp>().unwrap().bind_addr(of(&fabric, &two)).unwrap();
        id.listen(1).unwrap()
    });
    let [a, b] = [&listening, &other].map(|there| {
        let id = channel.create_id::<Tcp>().unwrap().bind_addr(of(&fabric, &one)).unwrap();
        let id = id.resolve_addr(there.local_addr().unwrap(), long()).unwrap();
        done(id.advance(&next(&channel, EventKind::AddrResolved)))
    });
    let [a, b] = [a, b].map(|id| id.resolve_route(long()).unwrap());
    let (first, second) =
        (next(&channel, EventKind::RouteResolved), next(&channel, EventKind::RouteResolved));
    let Progress::Waiting(a) = a.advance(&second) else { panic!("the route of another id") };
    let (a, b) = (done(a.advance(&first)), done(b.advance(&second)));
    let [(a, _a), (b, _b)] = [a, b].map(|id| {
        let (qp, end) = end(&id, 1);
        (id.connect(qp, &ConnParam::default()).unwrap(), end)
    });
    let request = |of: &Listener, not: &Listener| {
        let event = not.request(next(&channel, EventKind::ConnectRequest)).unwrap_err();
        let request = of.request(event).unwrap();
        let (qp, end) = end(&request.id, 1);
        (request.accept(qp, &AcceptParam::default()).unwrap(), end)
    };
    let ((c, _c), (d, _d)) = (request(&listening, &other), request(&other, &listening));
    let answers = [(); 2].map(|()| next(&channel, EventKind::ConnectResponse));
    let Progress::Waiting(a) = a.advance(&answers[1]) else { panic!("the answer to another id") };
    let _both = (done(a.advance(&answers[0])), done(b.advance(&answers[1])));
    let events = [(); 2].map(|()| next(&channel, EventKind::Established));
    let Progress::Waiting(c) = c.advance(&events[1]) else { panic!("another one is confirmed") };
    let _both = (done(c.advance(&events[0])), done(d.advance(&events[1])));
}

/// The same for lookups; and a service whose device is removed is returned with its request.
#[test]
fn a_lookup_ignores_foreign_answers() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let at = |device| of(&fabric, device);
    let listening = channel.create_id::<Udp>().unwrap().bind_addr(at(&two)).unwrap();
    let listening = listening.listen(8).unwrap();
    let there = listening.local_addr().unwrap();
    let [a, b] = [b"a", b"b"].map(|name| {
        let id = channel.create_id::<Udp>().unwrap().bind_addr(at(&one)).unwrap();
        let id = id.resolve_addr(there, long()).unwrap();
        let id = done(id.advance(&next(&channel, EventKind::AddrResolved)));
        let id = done(
            id.resolve_route(long()).unwrap().advance(&next(&channel, EventKind::RouteResolved)),
        );
        (id, name)
    });
    let [a, b] = [a, b].map(|(id, name)| id.connect(&LookupData::of(name)).unwrap());
    let requests = [(); 2].map(|()| {
        let request = listening.request(next(&channel, EventKind::ConnectRequest)).unwrap();
        request.create_ep::<DefaultProfile>(None, Depth { send: 1, recv: 1 }).unwrap()
    });
    let [first, second] = requests;
    let number = first.qp.qp_num();
    let _first = first.accept(&ReplyData::none()).unwrap();
    let answer = next(&channel, EventKind::Established);
    let Progress::Waiting(_b) = b.advance(&answer) else { panic!("the answer to another id") };
    assert_eq!(done(a.advance(&answer)).peer.qpn.get(), number);

    assert!(fabric.remove_device(&two));
    let refused = second.accept(&ReplyData::none()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::ENXIO));
    assert!(refused.into_object().private_data.starts_with(b"b\0"));
}

/// The room of a test pair matches its documentation.
#[test]
fn a_pair_has_the_documented_room() {
    let ConnectedPair { cq, pool, mut a, mut b, .. } = loopback_pair().unwrap();
    assert_eq!(cq.capacity(), 64);
    assert_eq!((pool.available(), pool.take().unwrap().capacity()), (16, 256));
    for qp in [&mut a.qp, &mut b.qp] {
        assert_eq!(qp.depth(), Depth { send: 8, recv: 8 });
        assert_eq!((qp.send_room(), qp.recv_room()), (8, 8));
    }
    assert!(!a.id.is_disconnected().unwrap() && !b.id.is_disconnected().unwrap());
    let mut a = a.disconnect().unwrap();
    assert!(!a.id.is_disconnected().unwrap() && b.id.is_disconnected().unwrap());
    b.disconnect().unwrap();
    assert!(a.id.is_disconnected().unwrap());
}

/// The error for an address without a device has the address and lists the devices' addresses.
#[test]
fn an_address_that_is_rejected_is_named() {
    let fabric = Fabric::new();
    let _device = fabric.open_device();
    let refused = |text: &str| {
        let id = CmId::<Tcp, _>::on(&fabric).unwrap();
        id.bind_addr(text.parse().unwrap()).unwrap_err().error.to_string()
    };
    let words = refused("10.0.0.9:1");
    assert!(words.contains("(10.0.0.9:1: no network interface of this machine"), "{words}");
    let id = CmId::<Tcp, _>::on(&fabric).unwrap();
    let id = id.resolve_addr("127.0.0.1:1".parse().unwrap(), long()).unwrap();
    let words = id.resolve_route(long()).unwrap_err().error.to_string();
    assert!(words.contains("(127.0.0.1:1: no RDMA device has it; use"), "{words}");
    let _taken = CmId::<Tcp, _>::on(&fabric).unwrap().bind_addr("10.0.0.1:1".parse().unwrap());
    let words = refused("10.0.0.1:1");
    assert!(words.ends_with("(10.0.0.1:1)"), "{words}");
}

/// A side's initiator depth is the minimum of its own request and the other's responder depth,
/// wherever the answer carries it.
#[test]
fn both_sides_get_the_minimum_depths() {
    let depth = |depth| ReadDepth::new(depth).unwrap();
    let serves = |depth| ResponderDepth::new(depth).unwrap();
    let timer = |code| MinRnrTimer::new(code).unwrap();
    let rnr_retries = |times| RnrRetry::Times(RnrRetries::new(times).unwrap());
    for world in [World::ipv4(), World::iwarp()] {
        let fabric = Fabric::with(world);
        let (one, two) = (fabric.open_device(), fabric.open_device());
        let channel = EventChannel::on(&fabric).unwrap();
        let asks = |initiator_depth, responder_resources| ConnParam {
            initiator_depth: depth(initiator_depth),
            responder_resources: serves(responder_resources),
            min_rnr_timer: timer(13),
            retry_count: RetryCount::new(3).unwrap(),
            rnr_retry_count: rnr_retries(2),
            ack_timeout: Timeout::exponent(16),
            ..ConnParam::default()
        };
        let answers = |initiator_depth, responder_resources| AcceptParam {
            initiator_depth: depth(initiator_depth),
            responder_resources: serves(responder_resources),
            min_rnr_timer: timer(20),
            retry_count: RetryCount::new(2).unwrap(),
            rnr_retry_count: rnr_retries(1),
            ..AcceptParam::default()
        };
        let both = [&one, &two];
        // The passive side requests more than the other one, in both depths.
        let ((pending, _active), request, _listening) =
            asked_with(&fabric, &channel, both, &asks(2, 1), |_| {});
        let depths = |peer: PeerParam| (peer.initiator_depth, peer.responder_resources);
        assert_eq!(depths(request.peer.unwrap()), (1, 2));
        let (qp, _passive) = end(&request.id, 2);
        let accepted = request.accept(qp, &answers(3, 4)).unwrap();
        let (there, here) = if world == World::iwarp() {
            let here = done(accepted.advance(&next(&channel, EventKind::Established)));
            (done(pending.advance(&next(&channel, EventKind::Established))), here)
        } else {
            let there = done(pending.advance(&next(&channel, EventKind::ConnectResponse)));
            (there, done(accepted.advance(&next(&channel, EventKind::Established))))
        };
        assert_eq!((depths(there.peer), depths(here.peer)), ((2, 1), (1, 2)));
        assert!(!there.peer.srq && !here.peer.srq, "each has a receive queue of its own");
        let (there, here) = (there.qp.query().unwrap(), here.qp.query().unwrap());
        assert_eq!((there.max_rd_atomic, there.max_dest_rd_atomic), (2, 1));
        assert_eq!((here.max_rd_atomic, here.max_dest_rd_atomic), (1, 2));
        if world != World::iwarp() {
            let timers = [there, here].map(|attr| attr.min_rnr_timer.unwrap());
            assert_eq!(timers, [timer(13), timer(20)]);
            assert_ne!(there.timeout, here.timeout);
            assert_eq!(there.timeout, Timeout::exponent(16));
            // Neither side retries more often than it asked for, whatever the other side sent.
            let retries = [there, here].map(|attr| (attr.retry_cnt.unwrap().get(), attr.rnr_retry));
            assert_eq!(retries, [(3, Some(rnr_retries(1))), (2, Some(rnr_retries(1)))]);
        }

        // A request of a side that serves no reads.
        let ((_pending, _active), request, _listening) =
            asked_with(&fabric, &channel, both, &asks(1, 0), |_| {});
        let (qp, _passive) = end(&request.id, 2);
        match request.accept(qp, &answers(1, 1)) {
            Ok(_) => assert_ne!(world, World::iwarp()),
            Err(refused) => {
                assert_eq!(world, World::iwarp(), "{refused}");
                assert!(matches!(refused.error.kind(), ErrorKind::Limit { .. }), "{refused}");
                assert!(matches!(refused.into_object(), NotAccepted::Unanswered { .. }));
            }
        }
        while channel.try_event().unwrap().is_some() {}

        // An answer of a side that serves no reads.
        let ((pending, mut active), request, _listening) =
            asked_with(&fabric, &channel, both, &asks(1, 1), |_| {});
        let (qp, _passive) = end(&request.id, 2);
        let accepted = request.accept(qp, &answers(1, 0)).unwrap();
        if world == World::iwarp() {
            done(accepted.advance(&next(&channel, EventKind::Established)));
        }
        let answer = channel.try_event().unwrap().unwrap();
        let qp = if world == World::iwarp() {
            let Progress::Failed(refused) = pending.advance(&answer) else {
                panic!("it serves none")
            };
            assert!(matches!(refused.error.kind(), ErrorKind::Limit { .. }), "{}", refused.error);
            let NotConnected::Failed { qp, id: _id } = refused.into_object() else {
                panic!("asked")
            };
            qp
        } else {
            let connection = done(pending.advance(&answer));
            assert_eq!(connection.peer.initiator_depth, 0, "it serves none");
            assert_eq!(connection.qp.query().unwrap().max_rd_atomic, 1);
            connection.disconnect().unwrap().qp
        };
        active.drain(qp);
    }
}

/// A datagram to a group reaches its members on every device, and only them.
#[test]
fn a_group_has_members_on_every_device() {
    for world in [World::ipv4(), World::ipv6(), World::infiniband()] {
        let fabric = Fabric::with(world);
        let group = if world == World::ipv6() { "[ff0e::77]:1" } else { "239.77.0.1:1" };
        let group: SocketAddr = group.parse().unwrap();
        let mut members: Vec<_> = (0..3)
            .map(|_| {
                let device = fabric.open_device();
                let id = CmId::<Udp, _>::on(&fabric).unwrap();
                let id = id.bind_addr(of(&fabric, &device)).unwrap();
                let mut id = id.resolve_addr(group, long()).unwrap();
                let pd = id.pd().unwrap();
                let cq = id.context().unwrap().create_cq::<Buf>(16).unwrap();
                let pool = pd.create_pool(2, 128).unwrap();
                let depth = Depth { send: 2, recv: 2 };
                let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth).unwrap();
                qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
                let joined = id.join_multicast(group, Duration::ZERO).unwrap();
                (device, id, pd, cq, pool, qp, joined)
            })
            .collect();
        for member in [0, 1] {
            let (.., qp, joined) = &mut members[member];
            joined.attach(qp).unwrap();
        }
        let (device, _, pd, _, _, qp, joined) = &mut members[0];
        let own = device.query_gid(1, 0).unwrap();
        let refused = qp.attach_mcast(own, joined.peer.vector.dlid).unwrap_err();
        assert_eq!(refused.errno(), Some(libc::EINVAL), "{own} is not a group");
        let ah = pd.create_ah(joined.peer.vector).unwrap();
        let to = joined.peer.destination(qp.add_address_handle(ah).unwrap());
        qp.post_send(wr::Send::inline(b"to all").to(to)).unwrap();
        let mut came = Vec::new();
        for (number, (.., cq, _, _, _)) in members.iter_mut().enumerate() {
            for completion in cq.poll().unwrap() {
                match completion.outcome() {
                    Outcome::Datagram(message) => {
                        assert_eq!(message.payload(), b"to all");
                        came.push(number);
                    }
                    Outcome::Sent(_) => assert_eq!(number, 0),
                    _ => panic!("neither sent nor received"),
                }
            }
        }
        assert_eq!(came, [0, 1], "the sender is a member");
        // A silent device cannot join.
        let (device, id, .., joined) = members.remove(2);
        let mut id = id;
        id.leave_multicast(joined).unwrap();
        fabric.silence_device(&device, true);
        let error = id.join_multicast(group, long()).unwrap_err();
        assert!(error.to_string().contains("RDMA_CM_EVENT_MULTICAST_ERROR"), "{error}");
    }
}

/// As on Linux (`cma.c`, `rdma_join_multicast`).
#[test]
fn iwarp_has_no_groups() {
    let fabric = Fabric::with(World::iwarp());
    let device = fabric.open_device();
    let id = CmId::<Udp, _>::on(&fabric).unwrap().bind_addr(of(&fabric, &device)).unwrap();
    let mut id = id.on_device().unwrap();
    let at: SocketAddr = "239.77.0.1:1".parse().unwrap();
    for error in [
        id.join_multicast(at, long()).unwrap_err(),
        id.join_multicast(Join::<SendOnlyFullMember>::new(at), long()).unwrap_err(),
    ] {
        assert_eq!(error.errno(), Some(libc::ENOSYS), "{error}");
        assert!(error.to_string().contains("iWARP has no multicast groups"), "{error}");
    }
}

/// The answer to a join is found in time behind any number of other events.
#[test]
fn a_group_is_joined_behind_many_events() {
    let fabric = Fabric::new();
    let device = fabric.open_device();
    let id = CmId::<Udp, _>::on(&fabric).unwrap().bind_addr(of(&fabric, &device)).unwrap();
    let mut id = id.on_device().unwrap();
    let group: SocketAddr = "239.77.0.1:1".parse().unwrap();
    let say_much = |id: &CmId<Udp, BoundToDevice>| {
        (0..200).for_each(|number| id.write_cm_event(0, number).unwrap());
    };
    say_much(&id);
    let joined = id.join_multicast(group, long()).unwrap();
    id.leave_multicast(joined).unwrap();
    say_much(&id);
    id.join_multicast(Join::<FullMember>::new(group), long()).unwrap();
}

/// librdmacm frees a group even if the kernel does not leave it, and would look up its events in
/// freed memory. So once leaving fails, no event of the id is taken any more.
///
/// Events of a group are acknowledged before librdmacm frees a group that the kernel does
/// not leave.
#[test]
fn an_id_that_cannot_leave_a_group_is_dropped_with_its_events() {
    let fabric = Fabric::new();
    let device = fabric.open_device();
    let channel = EventChannel::on(&fabric).unwrap();
    let id = channel.create_id::<Udp>().unwrap().bind_addr(of(&fabric, &device)).unwrap();
    let mut id = id.on_device().unwrap();
    let [one, two] = ["239.77.0.1:1", "239.77.0.2:1"].map(|at| at.parse::<SocketAddr>().unwrap());
    let joining: Joining = id.join_multicast(one).unwrap();
    let group = done(joining.advance(&next(&channel, EventKind::MulticastJoin)));
    let waits = id.join_multicast(two).unwrap();
    assert!(fabric.remove_device(&device));

    assert_eq!(id.leave_multicast(group).unwrap_err().errno(), Some(libc::ENXIO));
    assert!(channel.try_event().unwrap().is_none());
    let errno = |error: proverbs::Error| error.errno();
    assert_eq!(id.join_multicast(two).map_err(errno).err(), Some(Some(libc::ENXIO)));
    assert_eq!(id.context().map_err(errno).err(), Some(Some(libc::ENXIO)));
    assert_eq!(id.write_cm_event(0, 1).map_err(errno), Err(Some(libc::ENXIO)));
    let id = id.migrate_to(&EventChannel::on(&fabric).unwrap()).unwrap_err().into_object();
    id.destroy().unwrap();
    drop(waits);
}

/// Objects of one fabric cannot move to another.
#[test]
fn an_id_does_not_move_to_another_fabric() {
    let (fabric, other) = (Fabric::new(), Fabric::new());
    let (device, foreign) = (fabric.open_device(), other.open_device());
    let id = CmId::<Tcp, _>::on(&fabric).unwrap().bind_addr(of(&fabric, &device)).unwrap();
    let refused = id.migrate_to(&EventChannel::on(&other).unwrap()).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EINVAL));
    let id = refused.into_object().migrate_to(&EventChannel::on(&fabric).unwrap()).unwrap();
    assert_eq!(fabric.ip_of(&foreign), None);
    assert!(!fabric.remove_device(&foreign) && !fabric.silence_device(&foreign, true));
    // The device stays open while an id uses it.
    let device = device.destroy().unwrap_err().into_object();
    drop(id);
    device.destroy().unwrap();
}

/// Lookups by device name, and by number.
#[test]
fn lookups_by_name_and_number() {
    let fabric = Fabric::new();
    let _device = fabric.open_device();
    let found = AddrInfo::<Tcp>::look_up_on(&fabric, "loop0", "7471").unwrap();
    assert_eq!((found.len(), found[0].peer), (1, "10.0.0.1:7471".parse().unwrap()));
    for (node, service) in [("loop1", "1"), ("loop", "1"), ("loop0", "http"), ("nowhere", "1")] {
        let error = AddrInfo::<Tcp>::look_up_on(&fabric, node, service).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotFound(_)), "{error}");
    }
    // On a system without rdma_cm, an errno reports that. (Miri cannot call it.)
    if !cfg!(miri) {
        if let Err(error) = AddrInfo::<Tcp>::look_up("127.0.0.1", "7471") {
            assert!(error.errno().is_some(), "{error}");
        }
    }
    let any = PassiveInfo::<Udp>::look_up_on(&fabric, None, "0").unwrap();
    let listening = any[0].listen(1).unwrap();
    assert!(listening.local_addr().unwrap().ip().is_unspecified());
}
