//! Datagrams: a service is found, messages go in both directions, groups are joined.

use std::net::SocketAddr;
use std::thread;

use proverbs::cm::*;
use proverbs::completion::UdReceived;
use proverbs::loopback::Fabric;
use proverbs::prelude::{Psn, UdInit, UdRtr, UdRts};
use proverbs::qp::QpCreateFlags;
use proverbs::state::Rts;
use proverbs::transport::Ud;
use proverbs::{Buf, DefaultProfile, Depth, ErrorKind, Outcome, QueuePair, profile, wr};

use crate::support::{
    BUFS, End, address, event_channel, fabric, gid_index, group, listener, long, new_id, routed,
};

const DEPTH: Depth = Depth { send: 8, recv: 8 };

profile! { WithId { entry: Buf<u32> } }

fn end<S: HasDevice>(id: &CmId<Udp, S>) -> (QueuePair<Ud, Rts, DefaultProfile>, End) {
    let pd = id.pd().unwrap();
    let cq = id.context().unwrap().create_cq(64).unwrap();
    let pool = pd.create_pool(BUFS, 256).unwrap();
    let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, DEPTH).unwrap();
    for _ in 0..2 {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    (qp, End { cq, pool })
}

fn datagram(end: &mut End) -> UdReceived<Buf> {
    end.until(|outcome| match outcome {
        Outcome::Datagram(received) => Some(received),
        Outcome::Failed(failed) => panic!("{}", failed.error),
        _ => None,
    })
}

/// The answer has the service's queue pair; the client's message leads the service back to the
/// client.
/// Proves R5.13, R5.14.
#[test]
fn a_service_is_found_and_answers() {
    let (listening, at) = listener::<Udp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        assert_eq!(&request.private_data[..4], b"who?");
        assert!(request.peer.is_none());
        let (mut qp, mut end) = end(&request.id);
        let id = request.accept(&qp, &ReplyData::of(b"it is me")).unwrap();
        let message = datagram(&mut end);
        assert_eq!(message.payload(), b"question");
        let port = id.port();
        let vector = message.reply_vector(port, gid_index()).unwrap();
        let ah = id.pd().unwrap().create_ah(vector).unwrap();
        let address_handle = qp.add_address_handle(ah).unwrap();
        let peer = UdPeer { vector, qpn: message.src_qp, qkey: RDMA_UDP_QKEY };
        qp.post_send(wr::Send::inline(b"answer").to(peer.destination(address_handle))).unwrap();
        end.sent();
        qp.destroy().unwrap();
    });
    let id = routed::<Udp>(at);
    let (mut qp, mut end) = end(&id);
    assert_eq!(qp.query().unwrap().sq_psn, 0);
    let pd = id.pd().unwrap();
    let found = id.connect(&LookupData::of(b"who?"), long()).unwrap();
    assert_eq!(&found.private_data[..8], b"it is me");
    assert_eq!(found.peer.qkey, RDMA_UDP_QKEY);
    let ah = pd.create_ah(found.peer.vector).unwrap();
    let address_handle = qp.add_address_handle(ah).unwrap();
    let to = found.peer.destination(address_handle);
    qp.post_send(wr::Send::inline(b"question").to(to)).unwrap();
    let answer = datagram(&mut end);
    assert_eq!(answer.payload(), b"answer");
    assert_eq!(answer.src_qp, found.peer.qpn);
    server.join().unwrap();
}

/// The same with endpoints and `rdma_post_ud_send`.
/// Proves R5.13.
#[test]
fn datagram_endpoints() {
    let (listening, at) = listener::<Udp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        assert_eq!(&request.private_data[..4], b"who?");
        let mut ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
        let pool = ep.reg_msgs::<()>(2, 256).unwrap();
        ep.post_recv((), pool.take().unwrap()).unwrap();
        let mut ep = ep.accept(&ReplyData::of(b"an endpoint")).unwrap();
        match ep.get_recv_comp_timeout(long()).unwrap() {
            Outcome::Datagram(message) => assert_eq!(message.payload(), b"to an endpoint"),
            _ => panic!("no datagram"),
        }
    });
    let ep = routed::<Udp>(at).create_ep::<WithId>(None, DEPTH).unwrap();
    let pool = ep.reg_msgs::<u32>(2, 256).unwrap();
    let (mut ep, peer) = ep.connect(&LookupData::of(b"who?"), long()).unwrap();
    assert!(ep.private_data.starts_with(b"an endpoint"));
    let ah = ep.pd().create_ah(peer.vector).unwrap();
    let address_handle = ep.qp.add_address_handle(ah).unwrap();
    let mut message = pool.take().unwrap();
    message.copy_from(b"to an endpoint").unwrap();
    ep.post_ud_send(7, message, address_handle, peer.qpn).unwrap();
    let Outcome::Sent(sent) = ep.get_send_comp().unwrap() else { panic!("not sent") };
    assert_eq!(sent.entry.map(|buf| *buf.context()), Some(7));
    server.join().unwrap();
}

#[test]
fn a_service_that_rejects_a_lookup() {
    let (listening, at) = listener::<Udp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        request.reject(&ReplyData::of(b"closed")).unwrap();
    });
    let refused = routed::<Udp>(at).connect(&LookupData::none(), long()).unwrap_err();
    let (object, error) = refused.into_parts();
    assert!(matches!(object, NotFound::Failed(_)));
    match error.kind() {
        ErrorKind::Cm { .. } | ErrorKind::Rejected { .. } => {}
        other => panic!("{other:?}"),
    }
    server.join().unwrap();
}

/// A group is joined, a message to it is looped back, and nothing prevents the end.
/// Proves R5.12.
#[test]
fn a_group_is_joined_and_left() {
    let group_address = group(1);
    let id = new_id::<Udp>().bind_addr(address(0)).unwrap();
    let mut id = id.resolve_addr(group_address, long()).unwrap();
    let (mut qp, mut end) = end(&id);
    let group = id.join_multicast(group_address, long()).unwrap();
    group.attach(&mut qp).unwrap();
    let ah = id.pd().unwrap().create_ah(group.peer.vector).unwrap();
    let address_handle = qp.add_address_handle(ah).unwrap();
    let to = group.peer.destination(address_handle);
    qp.post_send(wr::Send::inline(b"to all").to(to)).unwrap();
    end.sent();
    assert!(group.detach(&mut qp).unwrap());
    assert!(!group.detach(&mut qp).unwrap());
    group.attach(&mut qp).unwrap();
    id.leave_multicast(group).unwrap();
    // C refuses to destroy an attached queue pair (R5.12).
    qp.destroy().unwrap();
    // A group that is not left before its id is destroyed.
    id.join_multicast(group_address, long()).unwrap();
    id.destroy().unwrap();
}

/// Without resolving an address. Messages of a member that only sends reach the others.
/// Proves R23.3, R23.4.
#[test]
fn a_group_is_joined_after_only_a_bind() {
    let group_address = "239.77.0.3:7471".parse::<SocketAddr>().unwrap();
    let bound = || new_id::<Udp>().bind_addr(address(0)).unwrap().on_device().unwrap();
    let (mut sender, mut member) = (bound(), bound());
    assert_eq!((sender.device(), sender.port()), (member.device(), member.port()));
    let (mut from, mut sends) = end(&sender);
    let (mut qp, mut receives) = end(&member);
    let out: Group<SendOnlyFullMember> =
        sender.join_multicast(Join::new(group_address), long()).unwrap();
    let group = member.join_multicast(group_address, long()).unwrap();
    assert_eq!((out.gid(), out.peer), (group.gid(), group.peer));
    group.attach(&mut qp).unwrap();

    let ah = sender.pd().unwrap().create_ah(out.peer.vector).unwrap();
    let to = out.peer.destination(from.add_address_handle(ah).unwrap());
    from.post_send(wr::Send::inline(b"from without").to(to)).unwrap();
    sends.sent();
    if fabric().is_some() {
        // Soft-RoCE returns it if the network below it does.
        assert_eq!(datagram(&mut receives).payload(), b"from without");
    }
    assert!(group.detach(&mut qp).unwrap());
    member.leave_multicast(group).unwrap();
    let error = sender.join_multicast(group_address, long()).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EADDRINUSE), "a member of the group");
    let more = sender.join_multicast(Join::<FullMember>::new(group_address), long()).unwrap_err();
    assert_eq!((error.verb(), more.verb()), ("rdma_join_multicast", "rdma_join_multicast_ex"));
    sender.leave_multicast(out).unwrap();

    // The same on a channel, and then the id continues like any bound one.
    let channel = event_channel();
    let mut id = member.migrate_to(&channel).unwrap();
    let mut joining = id.join_multicast(Join::<FullMember>::new(group_address)).unwrap();
    let group = loop {
        match joining.advance(&channel.wait_timeout(long()).unwrap().expect("in time")) {
            Progress::Done(group) => break group,
            Progress::Waiting(waiting) => joining = waiting,
            Progress::Failed(refused) => panic!("{refused}"),
        }
    };
    group.attach(&mut qp).unwrap();
    assert!(group.detach(&mut qp).unwrap());
    id.leave_multicast(group).unwrap();
    drop(qp);
    let at = id.local_addr();
    assert_eq!(id.listen(1).unwrap().local_addr(), at);
}

/// A dropped join is abandoned: the group can be joined again, and left.
#[test]
fn an_abandoned_join_blocks_nothing() {
    let group_address = "239.77.0.5:7471".parse::<SocketAddr>().unwrap();
    let channel = event_channel();
    let id = new_id::<Udp>().bind_addr(address(0)).unwrap().on_device().unwrap();
    let mut id = id.migrate_to(&channel).unwrap();
    drop(id.join_multicast(group_address).unwrap());
    let mut joining = id.join_multicast(group_address).unwrap();
    // An existing membership is kept.
    let error = id.join_multicast(group_address).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EADDRINUSE));
    let group = loop {
        match joining.advance(&channel.wait_timeout(long()).unwrap().expect("in time")) {
            Progress::Done(group) => break group,
            Progress::Waiting(waiting) => joining = waiting,
            Progress::Failed(refused) => panic!("{refused}"),
        }
    };
    let error = id.join_multicast(group_address).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EADDRINUSE));
    id.leave_multicast(group).unwrap();
    drop(id.join_multicast(group_address).unwrap());
    id.destroy().unwrap();
}

/// A lookup is answered with a queue pair on the device of the service.
///
/// Rdma_cm rejects a queue pair of another device, which the kernel would know only by
/// number.
#[test]
fn a_lookup_is_not_answered_with_another_devices_queue_pair() {
    let fabrics = [(); 2].map(|()| Fabric::new());
    let [device, elsewhere] = [&fabrics[0], &fabrics[1]].map(Fabric::open_device);
    let at = SocketAddr::new(fabrics[0].ip_of(&device).unwrap(), 0);
    let listening = CmId::<Udp, _>::on(&fabrics[0]).unwrap().bind_addr(at).unwrap();
    let listening = listening.listen(1).unwrap();
    let id = CmId::<Udp, _>::on(&fabrics[0]).unwrap();
    let id = id.resolve_addr(listening.local_addr().unwrap(), long()).unwrap();
    let channel = EventChannel::on(&fabrics[0]).unwrap();
    let id = id.resolve_route(long()).unwrap().migrate_to(&channel).unwrap();
    let id = id.connect(&LookupData::none()).unwrap();
    let request = listening.get_request_timeout(long()).unwrap();

    let pd = elsewhere.alloc_pd().unwrap();
    let cq = elsewhere.create_cq(64).unwrap();
    let theirs = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, DEPTH).unwrap();
    let init = UdInit { pkey_index: 0, port: 1, qkey: RDMA_UDP_QKEY.into() };
    let theirs = theirs.modify(init).unwrap().modify(UdRtr::default()).unwrap();
    let theirs = theirs.modify(UdRts::new(Psn::try_from(0).unwrap())).unwrap();
    let (request, error) = request.accept(&theirs, &ReplyData::none()).unwrap_err().into_parts();
    assert_eq!((error.verb(), error.errno()), ("rdma_accept", Some(libc::EINVAL)));

    let (mine, _end) = end(&request.id);
    request.accept(&mine, &ReplyData::none()).unwrap();
    let Progress::Done(found) = id.advance(&channel.try_event().unwrap().unwrap()) else {
        panic!("it was answered");
    };
    assert_eq!(found.peer.qpn.get(), mine.qp_num());
}

/// An id that is not bound to a device's address has no device, and can be used as before.
/// Proves R23.4.
#[test]
fn an_address_without_a_device_gives_none() {
    let any = match address(0) {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let id = new_id::<Tcp>().bind_addr(any.parse().unwrap()).unwrap();
    let refused = id.on_device().unwrap_err();
    assert_eq!(refused.error.errno(), Some(libc::ENODEV));
    let text = refused.error.to_string();
    assert!(text.contains("is not the address of one device"), "{text}");
    refused.into_object().listen(1).unwrap();
}

/// With the flag, a queue pair's messages to its group reach only the other members.
/// Proves R23.6.
#[test]
fn multicast_loopback_can_be_blocked() {
    let at = "239.77.0.4:7471".parse::<SocketAddr>().unwrap();
    for block_self_mcast_lb in [false, true] {
        let mut id = new_id::<Udp>().bind_addr(address(0)).unwrap().on_device().unwrap();
        let (pd, mut cq) = (id.pd().unwrap(), id.context().unwrap().create_cq(64).unwrap());
        let pool = pd.create_pool(BUFS, 256).unwrap();
        let flags = QpCreateFlags { block_self_mcast_lb };
        let qp = match pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, DEPTH.flags(flags)) {
            Ok(qp) => qp,
            Err(error) => {
                let lacks = [libc::EOPNOTSUPP, libc::EINVAL].map(Some);
                assert!(lacks.contains(&error.errno()) && block_self_mcast_lb, "{error}");
                assert!(error.to_string().contains("block_self_mcast_lb: true"), "{error}");
                let is_plain = std::env::var_os("PROVERBS_PERSONALITY").is_none();
                assert!(fabric().is_none() || !is_plain, "this device supports it");
                return println!("R23.6: this device does not block multicast loopback");
            }
        };
        let mut qp = id.init_qp(&pd, qp).unwrap();
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        let (mut other, mut there) = end(&id);
        let group = id.join_multicast(at, long()).unwrap();
        group.attach(&mut qp).unwrap();
        group.attach(&mut other).unwrap();
        let ah = pd.create_ah(group.peer.vector).unwrap();
        let to = group.peer.destination(qp.add_address_handle(ah).unwrap());
        qp.post_send(wr::Send::inline(b"to others").to(to)).unwrap();
        if fabric().is_none() {
            return; // the network may loop it back
        }
        assert_eq!(datagram(&mut there).payload(), b"to others");
        let mut heard = 0;
        for completion in cq.poll().unwrap() {
            match completion.outcome() {
                Outcome::Datagram(_) => heard += 1,
                Outcome::Sent(_) => {}
                _ => panic!("neither sent nor received"),
            }
        }
        assert_eq!(heard, u32::from(!block_self_mcast_lb));
    }
}
