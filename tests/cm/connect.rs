//! Connections that come about.

use std::thread;

use proverbs::cm::*;
use proverbs::{Send, post_send};

use crate::support::{LONG, end, listener, routed};

/// One message each way between two threads, then both sides disconnect, and every buffer is at home.
#[test]
#[ignore = "needs an RDMA device"]
fn a_message_each_way_and_an_orderly_end() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        assert_eq!(&request.private_data[..5], b"hello");
        assert_eq!(request.peer.unwrap().retry_count, 6);
        let (qp, mut end) = end(&request.id, 4);
        let private_data = PrivateData::of(b"welcome");
        let param = AcceptParam { private_data, ..Default::default() };
        let mut connection = request.accept(qp, &param, LONG).unwrap();
        assert_eq!(end.receive().data(), b"ping");
        post_send!(connection.qp, [Send::inline(b"pong")]).unwrap();
        end.sent();
        connection.id.wait_disconnected(LONG).unwrap();
        end.drain(connection.disconnect().unwrap().qp);
    });

    let id = routed::<Tcp>(at);
    let (qp, mut end) = end(&id, 4);
    let param = ConnParam { private_data: PrivateData::of(b"hello"), ..Default::default() };
    let mut connection = id.connect(qp, &param, LONG).unwrap();
    assert_eq!(&connection.private_data[..7], b"welcome");
    let mut message = end.pool.take().unwrap();
    message.fill(b"ping");
    post_send!(connection.qp, [Send::new(message)]).unwrap();
    assert_eq!(end.receive().data(), b"pong");
    let mut ended = connection.disconnect().unwrap();
    ended.id.wait_disconnected(LONG).unwrap();
    end.drain(ended.qp);
    ended.id.destroy().unwrap();
    server.join().unwrap();
}
