//! Connections that fail: a typed error in time, and nothing lost.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant};

use proverbs::bounded::ResponderDepth;
use proverbs::cm::*;
use proverbs::prelude::{RemoteRead, WcStatus};
use proverbs::state::Reset;
use proverbs::transport::Rc;
use proverbs::{Buf, Context, ErrorKind, Outcome, Refused, RemoteSlice, post_send, wr};

use crate::support::{End, address, end, is_iwarp, is_siw, listener, long, new_id, routed};

/// Every object of the attempt is returned; returns the error.
fn accounted(refused: Refused<NotConnected>, mut end: End) -> ErrorKind {
    let kind = refused.error.kind().clone();
    match refused.into_object() {
        NotConnected::Failed { id, qp } => {
            end.drain(qp);
            id.destroy().unwrap();
        }
        // iWARP sends the request within the call.
        NotConnected::Unsent { .. } if is_iwarp() => {}
        NotConnected::Unsent { id, qp } => panic!("nothing was sent: {id:?}, {qp:?}"),
    }
    kind
}

/// Proves R16.22.
#[test]
fn a_closed_port_rejects() {
    // The port is in use, so that no other test gets it, but without a listener.
    let taken = new_id::<Tcp>().bind_addr(address(0)).unwrap();
    let id = routed::<Tcp>(taken.local_addr().unwrap());
    let (qp, end) = end(&id, 4);
    let refused = id.connect(qp, &ConnParam::default(), long()).unwrap_err();
    assert!(is_iwarp() || refused.to_string().contains("no program listens"), "{refused}");
    match accounted(refused, end) {
        ErrorKind::Rejected { reason: 8, .. } => {}
        ErrorKind::Os { errno: libc::ECONNREFUSED, .. } if is_iwarp() => {}
        other => panic!("{other:?}"),
    }
}

/// Ends: CmId::resolve_addr.
#[test]
fn a_missing_answer_is_a_time_out() {
    if is_siw() {
        return; // R24.5: it connects by TCP within the call, with TCP's own timeout
    }
    let mut nobody = address(7471);
    nobody.set_ip(match nobody.ip() {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & !0xff | 250).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !0xff | 250).into(),
    });
    let second = Duration::from_secs(1);
    let start = Instant::now();
    let kind = match new_id::<Tcp>().resolve_addr(nobody, second) {
        // On a network without neighbour discovery, only the missing answer shows it.
        Ok(id) => {
            let id = id.resolve_route(second).unwrap();
            let (qp, end) = end(&id, 4);
            accounted(id.connect(qp, &ConnParam::default(), second).unwrap_err(), end)
        }
        Err(refused) => {
            let (id, error) = refused.into_parts();
            assert!(id.device().is_none());
            error.kind().clone()
        }
    };
    assert!(
        matches!(kind, ErrorKind::TimedOut { .. } | ErrorKind::Cm { .. } | ErrorKind::Os { .. }),
        "{kind:?}"
    );
    // Without a timeout, the kernel tries for longer than this.
    assert!(start.elapsed() < long(), "{:?}", start.elapsed());
}

/// Ends: CmId::connect.
#[test]
fn a_silent_listener_is_a_time_out() {
    let (_listening, at) = listener::<Tcp>();
    let id = routed::<Tcp>(at);
    let (qp, end) = end(&id, 4);
    let timeout = Duration::from_millis(300);
    let refused = id.connect(qp, &ConnParam::default(), timeout).unwrap_err();
    assert_eq!(accounted(refused, end), ErrorKind::TimedOut { after: timeout });
}

/// Proves R16.15, R16.22.
#[test]
fn a_rejection_has_its_private_data() {
    let (listening, at) = listener::<Tcp>();
    // The maximum length.
    let mut words = [b'!'; 148];
    words[..9].copy_from_slice(b"not today");
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        request.reject(&RejectData::of(&words)).unwrap();
    });
    let id = routed::<Tcp>(at);
    let (qp, end) = end(&id, 4);
    let refused = id.connect(qp, &ConnParam::default(), long()).unwrap_err();
    match accounted(refused, end) {
        ErrorKind::Rejected { reason, private_data } => {
            assert_eq!(reason, if is_iwarp() { -libc::ECONNRESET } else { 28 });
            assert_eq!(private_data, words);
        }
        other => panic!("{other:?}"),
    }
    server.join().unwrap();
}

/// A queue pair outlives a failed attempt: after a reset it connects with another id.
/// Ends: CmId::connect.
#[test]
fn a_queue_pair_retries_with_another_id() {
    if is_iwarp() {
        // R24.6: it cannot return to RESET. `conformance::iwarp` checks the error.
        return;
    }
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        listening.get_request().unwrap().reject(&RejectData::none()).unwrap();
        let request = listening.get_request().unwrap();
        let (qp, mut end) = end(&request.id, 1);
        let connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
        let mut ended = connection.disconnect().unwrap();
        ended.id.wait_disconnected(long()).unwrap();
        end.drain(ended.qp);
    });
    let id = routed::<Tcp>(at);
    let (qp, mut end) = end(&id, 2);
    let refused = id.connect(qp, &ConnParam::default(), long()).unwrap_err();
    let (NotConnected::Failed { mut qp, id: _id }, _) = refused.into_parts() else {
        panic!("it was sent")
    };
    qp.drain(&mut end.cq, |_| {}).unwrap();
    let qp: proverbs::QueuePair<Rc, Reset> = qp.reset().unwrap();
    let id = routed::<Tcp>(at);
    let qp = id.init_qp(&id.pd().unwrap(), qp).unwrap();
    let mut connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
    connection.id.wait_disconnected(long()).unwrap();
    end.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// The id and the queue pair must be on the same device.
/// Proves R16.5.
#[test]
fn a_queue_pair_of_another_device_is_refused() {
    let (_listening, at) = listener::<Tcp>();
    let id = routed::<Tcp>(at);
    let other = proverbs::loopback::Fabric::new().open_device();
    let (pd, cq) = (other.alloc_pd().unwrap(), other.create_cq::<Buf>(16).unwrap());
    let depth = proverbs::Depth { send: 1, recv: 1 };
    let error = id.create_qp::<proverbs::DefaultProfile>(&pd, &cq, &cq, depth).unwrap_err();
    assert!(error.to_string().contains("while the id is on"), "{error}");
    // Nor of another device of this machine.
    for device in proverbs::device::devices().unwrap_or_default() {
        let name = device.name;
        let Some(other) = Context::open(&name).ok().filter(|_| id.device() != Some(&*name)) else {
            continue;
        };
        let (pd, cq) = (other.alloc_pd().unwrap(), other.create_cq::<Buf>(16).unwrap());
        let error = id.create_qp::<proverbs::DefaultProfile>(&pd, &cq, &cq, depth).unwrap_err();
        assert!(error.to_string().contains("while the id is on"), "{error}");
    }
    let qp = pd.create_qp::<Rc, proverbs::DefaultProfile>(&cq, &cq, depth).unwrap();
    let refused = id.init_qp(&pd, qp).unwrap_err();
    assert!(refused.error.to_string().contains("while the id is on"), "{refused}");

    // Nor can a queue pair move to another domain.
    drop(id.pd().unwrap()); // closes and reopens it, unless others use the device
    let own = id.pd().unwrap();
    let own_too = id.pd().unwrap();
    let device = id.context().unwrap();
    let cq = device.create_cq::<Buf>(16).unwrap();
    let qp = own.create_qp::<Rc, proverbs::DefaultProfile>(&cq, &cq, depth).unwrap();
    let refused = id.init_qp(&device.alloc_pd().unwrap(), qp).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::PdMismatch { .. }), "{refused}");
    // All calls for the id's domain return the same one.
    id.init_qp(&own_too, refused.into_object()).unwrap();
}

/// Depths that the device does not support: the call is rejected and everything is unchanged.
#[test]
fn a_call_that_is_rejected_at_once_can_be_retried() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        let (qp, mut end) = end(&request.id, 1);
        let connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
        end.drain(connection.disconnect().unwrap().qp);
    });
    // An id cannot be bound to an address that this machine does not have.
    let foreign = "192.0.2.1:0".parse().unwrap();
    let refused = new_id::<Tcp>().bind_addr(foreign).unwrap_err();
    assert_eq!(refused.error.verb(), "rdma_bind_addr");
    let id = refused.into_object().bind_addr(address(0)).unwrap();
    assert!(id.device().is_some());
    let id = id.resolve_addr(at, long()).unwrap().resolve_route(long()).unwrap();
    let (qp, mut end) = end(&id, 1);
    let mut connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
    connection.id.wait_disconnected(long()).unwrap();
    end.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// Kernel targets serve no READs. Whichever side connects, the connection works; the peer refuses a
/// READ, which completes.
#[test]
fn a_peer_that_serves_no_reads_accepts_messages() {
    if is_iwarp() {
        return; // R24.6: siw reports its queue sizes, and a fabric refuses the connection
    }
    let none = ResponderDepth::new(0).unwrap();
    let serving = |serves| {
        let (listening, at) = listener::<Tcp>();
        let server = thread::spawn(move || {
            let request = listening.get_request_timeout(long()).unwrap();
            let asked = request.peer.unwrap();
            let (qp, mut end) = end(&request.id, 2);
            let param = AcceptParam { responder_resources: serves, ..Default::default() };
            let mut connection = request.accept(qp, &param, long()).unwrap();
            assert_eq!(end.receive().data(), b"hello");
            if asked.initiator_depth == 0 {
                read_in_vain(&mut connection, &mut end);
            } else {
                connection.id.wait_disconnected(long()).unwrap();
            }
            end.drain(connection.disconnect().unwrap().qp);
        });
        (at, server)
    };
    for (asks, serves) in [(ResponderDepth::ONE, none), (none, ResponderDepth::ONE)] {
        let (at, server) = serving(serves);
        let id = routed::<Tcp>(at);
        let (qp, mut active) = end(&id, 2);
        let param = ConnParam { responder_resources: asks, ..Default::default() };
        let mut connection = id.connect(qp, &param, long()).unwrap();
        assert_eq!(connection.peer.initiator_depth, serves.get().min(1));
        post_send!(connection.qp, [wr::Send::inline(b"hello")]).unwrap();
        active.sent();
        if serves == none {
            read_in_vain(&mut connection, &mut active);
        } else {
            connection.id.wait_disconnected(long()).unwrap();
        }
        active.drain(connection.disconnect().unwrap().qp);
        server.join().unwrap();
    }
}

/// A READ at an arbitrary address, which the peer refuses before checking it.
fn read_in_vain(connection: &mut Connection, end: &mut End) {
    let far = RemoteSlice::<RemoteRead>::from_parts(0x1000, 8, 0x1234);
    let into = end.pool.take().unwrap();
    connection.qp.post_send(wr::RdmaRead::new(into, far.read())).unwrap();
    let status = end.until(|outcome| match outcome {
        Outcome::Failed(failed) => Some(failed.error.status),
        _ => None,
    });
    assert_eq!(status, WcStatus::RemInvReq);
}

/// A request whose timeout has passed.
/// Ends: CmId::get_request_timeout.
#[test]
fn no_request_within_the_time_limit() {
    let (listening, _) = listener::<Tcp>();
    let timeout = Duration::from_millis(50);
    let error = listening.get_request_timeout(timeout).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TimedOut { after: timeout });
}

/// A full backlog drops requests, and their clients retry: on Linux after seconds.
#[test]
fn a_full_backlog_rejects_no_client() {
    if is_iwarp() {
        return; // it refuses
    }
    const CLIENTS: usize = 3;
    let listening = new_id::<Tcp>().bind_addr(address(0)).unwrap().listen(1).unwrap();
    let at = listening.local_addr().unwrap();
    let clients = [(); CLIENTS].map(|()| {
        thread::spawn(move || {
            let id = routed::<Tcp>(at);
            let (qp, end) = end(&id, 1);
            let connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
            drop((connection, end));
        })
    });
    for _ in 0..CLIENTS {
        let request = listening.get_request_timeout(long()).unwrap();
        let (qp, end) = end(&request.id, 1);
        // The client may leave at once.
        drop(request.accept(qp, &AcceptParam::default(), long()));
        drop(end);
    }
    for client in clients {
        client.join().unwrap();
    }
}
