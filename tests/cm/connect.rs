//! Connections that come about.

use std::thread;

use proverbs::bounded::{ReadDepth, RetryCount};
use proverbs::cm::*;
use proverbs::{post_send, wr};

use crate::support::{LONG, end, is_iwarp, is_siw, listener, routed};

/// One message each way between two threads, then both sides disconnect, and every buffer is at
/// home.
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
        let mut connection = request.accept(qp, &param, LONG).unwrap();
        assert_eq!(end.receive().data(), b"ping");
        // Not waited for: the client may be gone before its device acknowledged this.
        post_send!(connection.qp, [wr::Send::inline(b"pong")]).unwrap();
        connection.id.wait_disconnected(LONG).unwrap();
        end.drain(connection.disconnect().unwrap().qp);
    });

    let id = routed::<Tcp>(at);
    let (qp, mut end) = end(&id, 4);
    let param = ConnParam { private_data: PrivateData::of(b"hello"), ..Default::default() };
    let mut connection = id.connect(qp, &param, LONG).unwrap();
    assert_eq!(&connection.private_data[..7], b"welcome");
    let mut message = end.pool.take().unwrap();
    message.copy_from(b"ping").unwrap();
    post_send!(connection.qp, [wr::Send::new(message)]).unwrap();
    assert_eq!(end.receive().data(), b"pong");
    let mut ended = connection.disconnect().unwrap();
    ended.id.wait_disconnected(LONG).unwrap();
    end.drain(ended.qp);
    ended.id.destroy().unwrap();
    server.join().unwrap();
}

/// Two clients at once on one listening id, whose requests two threads take.
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
                let mut connection = request.accept(qp, &param, LONG).unwrap();
                let message = end.receive();
                assert_eq!(message.data(), &connection.private_data[..1]);
                drop(message);
                post_send!(connection.qp, [wr::Send::inline(b"seen")]).unwrap();
                connection.id.wait_disconnected(LONG).unwrap();
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
                let mut connection = id.connect(qp, &param, LONG).unwrap();
                assert_eq!(connection.private_data[0], name, "each has its own peer");
                post_send!(connection.qp, [wr::Send::inline(&[name])]).unwrap();
                assert_eq!(end.receive().data(), b"seen");
                let mut ended = connection.disconnect().unwrap();
                ended.id.wait_disconnected(LONG).unwrap();
                end.drain(ended.qp);
            });
        }
    });
}

/// The retry count of a C peer is seven, "for ever" on Soft-RoCE; this side keeps to its own.
#[test]
fn what_the_peer_asks_for_does_not_make_retries_endless() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        assert_eq!(request.peer.unwrap().retry_count, if is_iwarp() { 0 } else { 7 });
        assert_eq!(request.peer.unwrap().responder_resources, 3);
        let (qp, mut end) = end(&request.id, 1);
        let connection = request.accept(qp, &AcceptParam::default(), LONG).unwrap();
        let attr = connection.qp.query().unwrap();
        // The least of what either side wants and can. (siw tells what it has room for.)
        if !is_siw() {
            assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic), (1, 1));
        }
        if !is_iwarp() {
            assert_eq!(attr.retry_cnt, Some(RetryCount::SIX));
        }
        let mut ended = connection.disconnect().unwrap();
        ended.id.wait_disconnected(LONG).unwrap();
        end.drain(ended.qp);
    });
    let id = routed::<Tcp>(at);
    let (qp, mut end) = end(&id, 1);
    let param = ConnParam {
        retry_count: RetryCount::MAX,
        initiator_depth: ReadDepth::new(3).unwrap(),
        ..Default::default()
    };
    let mut connection = id.connect(qp, &param, LONG).unwrap();
    if !is_siw() {
        let attr = connection.qp.query().unwrap();
        assert_eq!((attr.max_rd_atomic, attr.max_dest_rd_atomic), (1, 1));
        assert_eq!(attr.state, Some(proverbs::state::QpState::Rts));
    }
    connection.id.wait_disconnected(LONG).unwrap();
    end.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}
