//! Connections that succeed.

use std::net::SocketAddr;
use std::thread;

use proverbs::Error;
use proverbs::bounded::{ReadDepth, RetryCount};
use proverbs::cm::*;
use proverbs::loopback::{Fabric, World};
use proverbs::prelude::*;
use proverbs::state::QpState;

use crate::steps::{done, next_event};
use crate::support::{End, end, is_iwarp, is_siw, listener, long, routed};

/// One message in each direction between two threads; then both sides disconnect, and every buffer
/// has returned.
/// Proves R7.12, R16.1, R16.13.
#[test]
fn a_message_each_way_and_an_orderly_end() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        assert_eq!(&request.private_data[..5], b"hello");
        assert_eq!(request.peer.unwrap().retry_count, if is_iwarp() { 0 } else { 6 });
        let (qp, mut end) = end(&request.id, 4);
        let private_data = PrivateData::of(b"welcome");
        let param = AcceptParam { private_data, ..Default::default() };
        let mut connection = request.accept(qp, &param, long()).unwrap();
        assert_eq!(end.receive().data(), b"ping");
        assert!(!connection.id.is_disconnected().unwrap());
        // Not waited for: the client may be gone before its device acknowledged this.
        post_send!(connection.qp, [wr::Send::inline(b"pong")]).unwrap();
        connection.id.wait_disconnected(long()).unwrap();
        assert!(connection.id.is_disconnected().unwrap());
        end.drain(connection.disconnect().unwrap().qp);
    });

    let id = routed::<Tcp>(at);
    let (qp, mut end) = end(&id, 4);
    let param = ConnParam { private_data: PrivateData::of(b"hello"), ..Default::default() };
    let mut connection = id.connect(qp, &param, long()).unwrap();
    assert_eq!(&connection.private_data[..7], b"welcome");
    let mut message = end.pool.take().unwrap();
    message.copy_from(b"ping").unwrap();
    post_send!(connection.qp, [wr::Send::new(message)]).unwrap();
    assert_eq!(end.receive().data(), b"pong");
    let mut ended = connection.disconnect().unwrap();
    ended.id.wait_disconnected(long()).unwrap();
    end.drain(ended.qp);
    ended.id.destroy().unwrap();
    server.join().unwrap();
}

/// One thread accepts connections, and another polls the completion queue of all of them.
/// Proves R17.1.
#[test]
fn connections_are_accepted_while_another_thread_polls() {
    let (listening, at) = listener::<Tcp>();
    let (to_poller, ends) = std::sync::mpsc::channel::<End>();
    let poller = thread::spawn(move || {
        let mut end = ends.recv().unwrap();
        [(); 2].map(|()| end.receive().data()[0])
    });
    let acceptor = thread::spawn(move || {
        let mut known = None;
        [(); 2].map(|()| {
            let request = listening.get_request().unwrap();
            let (pd, context) = (request.id.pd().unwrap(), request.id.context().unwrap());
            let (handle, pool) = known.get_or_insert_with(|| {
                let cq: CompletionQueue = context.create_cq(64).unwrap();
                let (handle, pool) = (cq.handle(), pd.create_pool(2, 64).unwrap());
                to_poller.send(End { cq, pool: pool.clone() }).unwrap();
                (handle, pool)
            });
            let depth = Depth { send: 8, recv: 8 };
            let mut qp = request.id.create_qp(&pd, handle, handle, depth).unwrap();
            qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
            request.accept(qp, &AcceptParam::default(), long()).unwrap()
        })
    });
    let clients = [1u8, 2].map(|number| {
        let id = routed::<Tcp>(at);
        let (qp, mut end) = end(&id, 0);
        let mut connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
        connection.qp.post_send(wr::Send::inline(&[number])).unwrap();
        end.sent();
        connection
    });
    assert_eq!(poller.join().unwrap(), [1, 2]);
    let accepted: [Connection<DefaultProfile>; 2] = acceptor.join().unwrap();
    drop((clients, accepted));
}

/// Two clients at once on one listening id, whose requests are taken by two threads.
/// Ends: CmId::get_request.
#[test]
fn two_clients_at_once_on_one_listening_id() {
    let (listening, at) = listener::<Tcp>();
    let start = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let request = listening.get_request().unwrap();
                let (qp, mut end) = end(&request.id, 1);
                let private_data = PrivateData::new(&request.private_data[..1]).unwrap();
                let param = AcceptParam { private_data, ..Default::default() };
                let mut connection = request.accept(qp, &param, long()).unwrap();
                let message = end.receive();
                assert_eq!(message.data(), &connection.private_data[..1]);
                drop(message);
                post_send!(connection.qp, [wr::Send::inline(b"seen")]).unwrap();
                connection.id.wait_disconnected(long()).unwrap();
                end.drain(connection.disconnect().unwrap().qp);
            });
        }
        for name in *b"ab" {
            let start = &start;
            scope.spawn(move || {
                let id = routed::<Tcp>(at);
                let (qp, mut end) = end(&id, 1);
                let param =
                    ConnParam { private_data: PrivateData::of(&[name]), ..Default::default() };
                start.wait();
                let mut connection = id.connect(qp, &param, long()).unwrap();
                assert_eq!(connection.private_data[0], name, "each has its own peer");
                post_send!(connection.qp, [wr::Send::inline(&[name])]).unwrap();
                assert_eq!(end.receive().data(), b"seen");
                let mut ended = connection.disconnect().unwrap();
                ended.id.wait_disconnected(long()).unwrap();
                end.drain(ended.qp);
            });
        }
    });
}

/// The retry count of a C peer is 7, which means "forever" on Soft-RoCE; this side uses its own
/// count.
/// Proves R16.16, R16.19.
#[test]
fn the_peers_parameters_do_not_make_retries_endless() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        assert_eq!(request.peer.unwrap().retry_count, if is_iwarp() { 0 } else { 7 });
        assert_eq!(request.peer.unwrap().responder_resources, 3);
        let (qp, mut end) = end(&request.id, 1);
        let connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
        let attr = connection.qp.query().unwrap();
        // The minimum of both sides' requests and limits. (siw reports the sizes of its queues.)
        if !is_siw() {
            assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic), (1, 1));
        }
        if !is_iwarp() {
            assert_eq!(attr.retry_cnt, Some(RetryCount::SIX));
        }
        let mut ended = connection.disconnect().unwrap();
        ended.id.wait_disconnected(long()).unwrap();
        end.drain(ended.qp);
    });
    let id = routed::<Tcp>(at);
    let (qp, mut end) = end(&id, 1);
    let param = ConnParam {
        retry_count: RetryCount::MAX,
        initiator_depth: ReadDepth::new(3).unwrap(),
        ..Default::default()
    };
    let mut connection = id.connect(qp, &param, long()).unwrap();
    if !is_siw() {
        let attr = connection.qp.query().unwrap();
        assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic), (1, 1));
        let state = if is_iwarp() { QpState::Reset } else { QpState::Rts }; // R24.16
        assert_eq!(attr.state, Some(state));
    }
    connection.id.wait_disconnected(long()).unwrap();
    end.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// The kernel identifies a queue pair by its number, which another device may also use. The queue
/// pair stays unchanged, and its owner gets it back with the id.
///
/// Rdma_cm rejects a queue pair of another device, which the kernel would know only by
/// number.
#[test]
fn a_queue_pair_of_another_device_is_not_connected() {
    for world in [World::ipv4(), World::iwarp()] {
        let fabrics = [(); 2].map(|()| Fabric::with(world));
        let [device, elsewhere] = [&fabrics[0], &fabrics[1]].map(Fabric::open_device);
        assert_eq!(device.name(), elsewhere.name());
        let of = |i: usize, device| SocketAddr::new(fabrics[i].ip_of(device).unwrap(), 0);
        let there = CmId::<Tcp, _>::on(&fabrics[1]).unwrap().bind_addr(of(1, &elsewhere)).unwrap();
        let there = there.on_device().unwrap();
        let theirs = || end(&there, 0).0;
        let is_refused = |verb, error: Error| {
            assert_eq!((error.verb(), error.errno()), (verb, Some(libc::EINVAL)), "{error}");
        };

        let channel = EventChannel::on(&fabrics[0]).unwrap();
        let create = || channel.create_id::<Tcp>().unwrap();
        let listening = create().bind_addr(of(0, &device)).unwrap().listen(1).unwrap();
        let id = create().resolve_addr(listening.local_addr().unwrap(), long()).unwrap();
        let id = done(id.advance(&next_event(&channel))).resolve_route(long()).unwrap();
        let id = done(id.advance(&next_event(&channel)));
        let (object, error) = id.connect(theirs(), &ConnParam::default()).unwrap_err().into_parts();
        is_refused("rdma_connect", error);
        let NotConnected::Unsent { id, qp: _qp } = object else { panic!("nothing was sent") };
        let (qp, _active) = end(&id, 0);
        let pending = id.connect(qp, &ConnParam::default()).unwrap();

        let request = listening.request(next_event(&channel)).unwrap();
        let refused = request.accept(theirs(), &AcceptParam::default()).unwrap_err();
        let (object, error) = refused.into_parts();
        is_refused("rdma_accept", error);
        let NotAccepted::Unanswered { request, qp } = object else { panic!("unanswered") };
        let state = if world == World::iwarp() { QpState::Reset } else { QpState::Init }; // R24.16
        assert_eq!(qp.query().unwrap().state, Some(state));
        let (qp, _passive) = end(&request.id, 0);
        let _accepted = request.accept(qp, &AcceptParam::default()).unwrap();
        // On iWARP the other side gets its event first.
        let mut told = std::iter::repeat_with(|| next_event(&channel));
        let event = told.find(|event| event.id() == pending.id().key()).unwrap();
        drop(done(pending.advance(&event)));
    }
}
