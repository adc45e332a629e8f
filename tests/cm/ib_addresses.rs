//! Native InfiniBand addresses (AF_IB): on a fabric that supports them, and the errors of others.

use std::thread;

use proverbs::cm::*;
use proverbs::device::Gid;
use proverbs::ext::af_ib::IbAddr;
use proverbs::loopback::{Fabric, Personality, World};
use proverbs::{Context, DefaultProfile, Depth, Outcome, wr};

use crate::support::long;

const DEPTH: Depth = Depth { send: 4, recv: 4 };

fn infiniband() -> (Fabric, Context, Gid) {
    let personality = std::env::var("PROVERBS_PERSONALITY");
    let personality = personality.map_or(Personality::Plain, |name| name.parse().unwrap());
    let fabric = Fabric::with(World::infiniband().personality(personality));
    let device = fabric.open_device();
    let gid = device.query_gid(1, 0).unwrap();
    (fabric, device, gid)
}

fn id<PS: PortSpace>(fabric: &Fabric) -> CmId<PS, Created> {
    CmId::on(fabric).unwrap()
}

/// Proves R23.8.
#[test]
fn ids_connect_without_an_ip_address() {
    let (fabric, _device, gid) = infiniband();
    let listening = id::<Tcp>(&fabric).bind_ib_addr(IbAddr::new(gid, 0)).unwrap();
    let listening = listening.listen(8).unwrap();
    let at = listening.local_ib_addr().unwrap();
    assert_eq!((at.gid, at.pkey, listening.local_addr()), (gid, 0xffff, None));
    assert!(at.port != 0 && listening.peer_ib_addr().is_none());
    assert!(listening.device().is_some());
    let server = thread::spawn(move || {
        let request = listening.get_request_timeout(long()).unwrap();
        let from = (request.id.local_ib_addr(), request.id.peer_ib_addr().unwrap());
        assert_eq!((from.0, from.1.gid), (Some(at), gid));
        let mut ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
        let pool = ep.reg_msgs::<()>(1, 64).unwrap();
        ep.post_recv((), pool.take().unwrap()).unwrap();
        let mut ep = ep.accept(&AcceptParam::default(), long()).unwrap();
        match ep.get_recv_comp_timeout(long()).unwrap() {
            Outcome::Received(got) => assert_eq!(got.entry.unwrap()[..], *b"hello"),
            _ => panic!("no message"),
        }
        ep.id.wait_disconnected(long()).unwrap();
    });
    let id = id::<Tcp>(&fabric).resolve_ib_addr(at, long()).unwrap();
    assert_eq!((id.peer_ib_addr(), id.peer_addr()), (Some(at), None));
    let own = id.local_ib_addr().unwrap();
    assert_eq!(own.gid, gid);
    assert!(own.port != 0 && own.port != at.port);
    let id = id.resolve_route(long()).unwrap();
    let ep = id.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
    let mut ep = ep.connect(&ConnParam::default(), long()).unwrap();
    ep.qp.post_send(wr::Send::inline(b"hello")).unwrap();
    assert!(matches!(ep.get_send_comp_timeout(long()).unwrap(), Outcome::Sent(_)));
    let ended = ep.disconnect().unwrap();
    server.join().unwrap();
    drop(ended);
}

/// Proves R23.8.
#[test]
fn a_service_is_found_without_an_ip_address() {
    let (fabric, _device, gid) = infiniband();
    let there = EventChannel::on(&fabric).unwrap();
    let listening = there.create_id::<Udp>().unwrap().bind_ib_addr(IbAddr::new(gid, 9)).unwrap();
    let listening = listening.listen(8).unwrap();
    let here = EventChannel::on(&fabric).unwrap();
    let next = || here.wait_timeout(long()).unwrap().expect("an event, in time");
    let asking = here.create_id::<Udp>().unwrap().resolve_ib_addr(IbAddr::new(gid, 9), long());
    let Progress::Done(id) = asking.unwrap().advance(&next()) else { panic!("the address") };
    let Progress::Done(id) = id.resolve_route(long()).unwrap().advance(&next()) else {
        panic!("the route")
    };
    let id = id.connect(&LookupData::none()).unwrap();
    let event = there.wait_timeout(long()).unwrap().expect("a request, in time");
    let service = listening.request(event).unwrap().create_ep::<DefaultProfile>(None, DEPTH);
    let service = service.unwrap();
    let number = service.qp.qp_num();
    let _service = service.accept(&ReplyData::none()).unwrap();
    let Progress::Done(found) = id.advance(&next()) else { panic!("the service") };
    assert_eq!(found.peer.qpn.get(), number);
}

/// Proves R23.8.
#[test]
fn address_families_are_separate() {
    let (fabric, device, gid) = infiniband();
    let ip = fabric.ip_of(&device).unwrap();
    let bound = |port| id::<Tcp>(&fabric).bind_ib_addr(IbAddr::new(gid, port));
    let listening = bound(7).unwrap().listen(1).unwrap();
    let refused = bound(7).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::EADDRINUSE));
    let text = format!("GID {gid}, P_Key 0xffff, port 7");
    assert!(refused.to_string().contains(&text), "{refused}");
    // The same number is a separate port in the other family, also for datagrams.
    let by_ip = id::<Tcp>(&fabric).bind_addr((ip, 7).into()).unwrap().listen(1).unwrap();
    id::<Udp>(&fabric).bind_ib_addr(IbAddr::new(gid, 7)).unwrap();
    drop(listening);
    // A bound id resolves addresses of its family.
    let by_any = id::<Tcp>(&fabric).bind_addr("[::]:0".parse().unwrap()).unwrap();
    let bound = id::<Tcp>(&fabric).bind_ib_addr(IbAddr::new(gid, 9)).unwrap();
    let text = format!("bound to {}; ", IbAddr::new(gid, 9));
    let refused = bound.resolve_addr("[::1]:7".parse().unwrap(), long()).unwrap_err();
    assert!(refused.to_string().contains(&text), "{refused}");
    let refused = by_any.resolve_ib_addr(IbAddr::new(gid, 7), long()).unwrap_err();
    assert!(refused.to_string().contains("bound to [::]:"), "{refused}");
    assert_eq!(refused.error.errno(), Some(libc::EINVAL));
    let route = |id: CmId<Tcp, AddrResolved>| id.resolve_route(long()).unwrap();
    let ask = |id: CmId<Tcp, RouteResolved>| {
        let ep = id.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
        ep.connect(&ConnParam::default(), long()).map(drop).map_err(|refused| refused.error)
    };
    let by_gid = route(id::<Tcp>(&fabric).resolve_ib_addr(IbAddr::new(gid, 7), long()).unwrap());
    let error = ask(by_gid).unwrap_err();
    assert!(matches!(error.kind(), proverbs::ErrorKind::Rejected { .. }), "{error}");
    drop(by_ip);
    // An id that listens on any address of its family.
    let any = id::<Tcp>(&fabric).bind_ib_addr(IbAddr::new(Gid::default(), 8)).unwrap();
    let any = any.listen(1).unwrap();
    let id = route(id::<Tcp>(&fabric).resolve_ib_addr(IbAddr::new(gid, 8), long()).unwrap());
    let there = thread::spawn(move || any.get_request_timeout(long()).unwrap().id.peer_ib_addr());
    assert!(ask(id).is_err(), "dropping the request rejects it");
    assert_eq!(there.join().unwrap().map(|from| from.gid), Some(gid));
}

/// Proves R23.8.
#[test]
fn a_fabric_without_such_addresses_has_no_device_for_them() {
    let (infiniband, _device, gid) = infiniband();
    let other = IbAddr { pkey: 0x8001, ..IbAddr::new(gid, 1) };
    let refused = id::<Tcp>(&infiniband).bind_ib_addr(other).unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::ENODEV), "another partition");
    for world in [World::ipv4(), World::ipv6(), World::iwarp()] {
        let fabric = Fabric::with(world);
        let device = fabric.open_device();
        let at = IbAddr::new(device.query_gid(1, 0).unwrap(), 1);
        let refused = id::<Tcp>(&fabric).bind_ib_addr(at).unwrap_err();
        assert_eq!(refused.error.errno(), Some(libc::ENODEV), "{refused}");
        let error = refused.into_object().resolve_ib_addr(at, long()).unwrap_err().error;
        assert_eq!((error.verb(), error.errno()), ("rdma_resolve_addr", Some(libc::ENODEV)));
    }
}
