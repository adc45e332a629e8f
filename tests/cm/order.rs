//! Events in unusual orders of calls, on a fabric: none is lost, and none follows the last one.

use std::net::SocketAddr;
use std::time::Duration;

use proverbs::cm::*;
use proverbs::loopback::{Fabric, World};

use crate::fabric::{asked, connected, next, of, routed};
use crate::steps::done;
use crate::support::{end, long};

/// A request that a full backlog dropped arrives although another id of the channel leaves a group
/// in the meantime.
#[test]
fn a_dropped_request_arrives_after_a_group_was_left() {
    let fabric = Fabric::new();
    let device = fabric.open_device();
    let [channel, clients] = [(); 2].map(|()| EventChannel::on(&fabric).unwrap());
    let at = of(&fabric, &device);
    let listening = channel.create_id::<Tcp>().unwrap().bind_addr(at).unwrap().listen(1).unwrap();
    let member = channel.create_id::<Udp>().unwrap().bind_addr(at).unwrap();
    let mut member = member.on_device().unwrap();
    let group = "239.77.0.1:7471".parse::<SocketAddr>().unwrap();
    let joining = member.join_multicast(group).unwrap();
    let group = done(joining.advance(&next(&channel, EventKind::MulticastJoin)));
    let _clients = [(); 2].map(|()| {
        let id = routed::<Tcp>(&fabric, &clients, &device, listening.local_addr().unwrap());
        let (qp, end) = end(&id, 1);
        (id.connect(qp, &ConnParam::default()).unwrap(), end)
    });
    let _first = listening.request(next(&channel, EventKind::ConnectRequest)).unwrap();
    member.leave_multicast(group).unwrap();
    let _second = listening.request(next(&channel, EventKind::ConnectRequest)).unwrap();
}

/// Also if the id had not confirmed yet that its peer disconnected.
#[test]
fn no_event_follows_a_removal() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let (channel, [(there, _active), (here, _passive)]) = connected(&fabric, &one, &two);
    let there = there.disconnect().unwrap();
    drop(next(&channel, EventKind::Disconnected));
    assert!(fabric.remove_device(&two));
    assert_eq!(next(&channel, EventKind::DeviceRemoval).id(), here.id.key());
    for kind in [EventKind::Disconnected, EventKind::TimewaitExit] {
        assert_eq!(next(&channel, kind).id(), there.id.key());
    }
    assert!(channel.try_event().unwrap().is_none());
}

/// A peer that gave up while it was not heard confirms later, as Linux does for a connection that
/// it no longer has (`cm.c`, `cm_dreq_handler`).
#[test]
fn a_peer_that_has_ended_confirms() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let (channel, [(there, _active), (here, _passive)]) = connected(&fabric, &one, &two);
    fabric.silence_device(&one, true);
    let there = there.disconnect().unwrap();
    for kind in [EventKind::Disconnected, EventKind::TimewaitExit] {
        assert_eq!(next(&channel, kind).id(), there.id.key());
    }
    fabric.silence_device(&one, false);
    let here = here.disconnect().unwrap();
    assert_eq!(next(&channel, EventKind::Disconnected).id(), here.id.key());
}

/// A side disconnects before its peer has confirmed. The peer connects, and receives the end.
#[test]
fn an_early_end_reaches_a_peer_that_confirms_late() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let ((pending, _active), request, _listening) = asked(&fabric, &channel, &one, &two);
    let (qp, _passive) = end(&request.id, 2);
    let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
    let answer = next(&channel, EventKind::ConnectResponse);
    accepted.id().notify_established().unwrap();
    let here = done(accepted.advance(&next(&channel, EventKind::Established)));
    let here = here.disconnect().unwrap();
    let there = done(pending.advance(&answer));
    assert_eq!(next(&channel, EventKind::Disconnected).id(), there.id.key());
    let _there = there.disconnect().unwrap();
    assert_eq!(next(&channel, EventKind::Disconnected).id(), here.id.key());
}

/// As on Linux (`cma.c`, `cma_iw_handler`), whichever side leaves.
#[test]
fn iwarp_has_no_timewait() {
    let fabric = Fabric::with(World::iwarp());
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let channel = EventChannel::on(&fabric).unwrap();
    let listening = channel.create_id::<Tcp>().unwrap().bind_addr(of(&fabric, &two)).unwrap();
    let listening = listening.listen(1).unwrap();
    let id = routed::<Tcp>(&fabric, &channel, &one, listening.local_addr().unwrap());
    let (qp, _active) = end(&id, 1);
    let pending = id.connect(qp, &ConnParam::default()).unwrap();
    let request = listening.request(next(&channel, EventKind::ConnectRequest)).unwrap();
    let (qp, _passive) = end(&request.id, 1);
    let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
    let here = done(accepted.advance(&next(&channel, EventKind::Established)));
    let there = done(pending.advance(&next(&channel, EventKind::Established)));
    let _here = here.disconnect().unwrap();
    drop(next(&channel, EventKind::Disconnected));
    let _there = there.disconnect().unwrap();
    drop(next(&channel, EventKind::Disconnected));
    assert!(channel.try_event().unwrap().is_none());
}

/// As on Linux (`ucma.c`, `max_backlog`). A lookup that finds it full is refused.
#[test]
#[cfg_attr(miri, ignore = "a thousand ids")]
fn a_backlog_has_a_maximum() {
    let fabric = Fabric::new();
    let device = fabric.open_device();
    let [channel, clients] = [(); 2].map(|()| EventChannel::on(&fabric).unwrap());
    let listening = channel.create_id::<Udp>().unwrap().bind_addr(of(&fabric, &device)).unwrap();
    let listening = listening.listen(5000).unwrap();
    let look_up = || {
        let id = routed::<Udp>(&fabric, &clients, &device, listening.local_addr().unwrap());
        id.connect(&LookupData::none()).unwrap()
    };
    let _pending: Vec<_> = (0..1024).map(|_| look_up()).collect();
    assert!(clients.try_event().unwrap().is_none());
    let _refused = look_up();
    drop(next(&clients, EventKind::Unreachable));
}

/// As on Linux (`cma.c`, `resolve_prepare_src`).
#[test]
fn a_bound_id_resolves_only_addresses_of_its_family() {
    let fabric = Fabric::new();
    let _device = fabric.open_device();
    for (bound, to) in [
        ("10.0.0.1:0", "[::ffff:10.0.0.1]:7471"),
        ("0.0.0.0:0", "[::1]:7471"),
        ("[::]:0", "10.0.0.1:7471"),
    ] {
        let id = CmId::<Tcp, _>::on(&fabric).unwrap().bind_addr(bound.parse().unwrap()).unwrap();
        let refused = id.resolve_addr(to.parse().unwrap(), Duration::ZERO).unwrap_err();
        assert_eq!(refused.error.errno(), Some(libc::EINVAL), "{bound}, {to}");
        let (id, error) = refused.into_parts();
        let says = format!("{to}: the id is bound to {}; ", id.local_addr().unwrap());
        assert!(error.to_string().contains(&says), "{error}");
        assert!(id.local_addr().is_some() && id.peer_addr().is_none());
        if bound != "10.0.0.1:0" {
            continue;
        }
        id.resolve_addr("10.0.0.1:7471".parse().unwrap(), long()).unwrap();
    }
}

/// Without an address of a family, the machine has no route to another one (`addr.c`,
/// `addr6_resolve`). No interface has a mapped address (`rdma_find_ndev_for_src_ip_rcu`).
#[test]
fn a_fabric_has_addresses_of_one_family() {
    let group = ["239.77.0.1:5", "[ff02::1]:5"];
    for (world, own, [same, other]) in [
        (World::ipv4(), "10.0.0.1:7", group),
        (World::iwarp(), "10.0.0.1:7", group),
        (World::infiniband(), "10.0.0.1:7", group),
        (World::ipv6(), "[fd00::1]:7", [group[1], group[0]]),
    ] {
        let fabric = Fabric::with(world);
        let _device = fabric.open_device();
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let id = || CmId::<Tcp, _>::on(&fabric).unwrap();
        for to in [own, same] {
            let id = id().resolve_addr(at(to), long()).unwrap();
            assert_eq!(id.local_addr().map(|own| own.ip()), Some(at(own).ip()), "{to}");
        }
        for to in [other, "[::ffff:10.0.0.1]:7", "[::ffff:239.77.0.1]:5"] {
            let refused = id().resolve_addr(at(to), long()).unwrap_err();
            assert_eq!(refused.error.errno(), Some(libc::ENETUNREACH), "{refused}");
            assert_eq!(refused.into_object().local_addr(), None);
        }
        let refused = id().bind_addr(at("[::ffff:10.0.0.1]:7")).unwrap_err();
        assert_eq!(refused.error.errno(), Some(libc::EADDRNOTAVAIL), "{refused}");
    }
}
