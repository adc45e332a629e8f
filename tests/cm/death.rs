//! Peers that exit during each step: they drop everything, and the other side is notified.

use std::thread;

use proverbs::cm::*;
use proverbs::{ErrorKind, Outcome, post_send, wr};

use crate::support::{connected, end, event_channel, is_iwarp, is_siw, listener, long, routed};

/// The active side exits when the passive one is ready to accept.
#[test]
fn a_client_exits_before_the_answer() {
    let (listening, at) = listener::<Tcp>();
    let channel = event_channel();
    let id = routed::<Tcp>(at).migrate_to(&channel).unwrap();
    let (qp, mut active) = end(&id, 2);
    let pending = id.connect(qp, &ConnParam::default()).unwrap();
    let request = listening.get_request().unwrap();
    let (passive_qp, mut passive) = end(&request.id, 2);

    let NotConnected::Failed { id, qp } = pending.cancel() else { panic!("it was sent") };
    id.destroy().unwrap();
    active.drain(qp);

    let refused = match request.accept(passive_qp, &AcceptParam::default(), long()) {
        // R24.7: the answer was sent before the end of the client arrived.
        Ok(mut connection) if is_siw() => {
            connection.id.wait_disconnected(long()).unwrap();
            return passive.drain(connection.disconnect().unwrap().qp);
        }
        accepted => accepted.unwrap_err(),
    };
    match refused.into_object() {
        NotAccepted::Failed { id, qp } => {
            passive.drain(qp);
            id.destroy().unwrap();
        }
        NotAccepted::Unanswered { .. } => panic!("the peer served reads"),
    }
}

/// The passive side exits with the request unanswered.
#[test]
fn a_server_exits_before_its_answer() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || drop((listening.get_request().unwrap(), listening)));
    let id = routed::<Tcp>(at);
    let (qp, mut active) = end(&id, 2);
    let refused = id.connect(qp, &ConnParam::default(), long()).unwrap_err();
    assert!(matches!(refused.error.kind(), ErrorKind::Rejected { .. }), "{refused}");
    let NotConnected::Failed { qp, id: _id } = refused.into_object() else { panic!("it was sent") };
    active.drain(qp);
    server.join().unwrap();
}

/// The listening id is dropped with a request that was not taken.
#[test]
fn a_listener_is_dropped_with_a_request_in_its_queue() {
    let (listening, at) = listener::<Tcp>();
    let id = routed::<Tcp>(at);
    let (qp, mut active) = end(&id, 2);
    let attempt = thread::spawn(move || id.connect(qp, &ConnParam::default(), long()));
    // The descriptor of the channel would report the request; dropping at any time is fine.
    drop(listening);
    let refused = attempt.join().unwrap().unwrap_err();
    match (refused.error.errno(), refused.into_object()) {
        (None, NotConnected::Failed { qp, id: _id }) => active.drain(qp),
        // R24.7: it was faster than the attempt.
        (Some(libc::ECONNREFUSED | libc::ECONNRESET), _) if is_iwarp() => {}
        (errno, object) => panic!("{errno:?}, {object:?}"),
    }
}

/// A connected peer drops everything while sends are posted here: they fail or are flushed, and all
/// buffers return.
/// Proves R16.20.
#[test]
fn a_connected_peer_exits_while_sends_are_posted() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        let (qp, end) = end(&request.id, 2);
        let connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
        drop((connection, end));
    });
    let id = routed::<Tcp>(at);
    let (qp, mut active) = end(&id, 2);
    let connected = id.connect(qp, &ConnParam::default(), long());
    if is_siw() && connected.is_err() {
        return server.join().unwrap(); // R24.7: the peer's end was faster than its answer
    }
    let mut connection = connected.unwrap();
    for _ in 0..4 {
        let mut message = active.pool.take().unwrap();
        message.copy_from(b"into the void").unwrap();
        post_send!(connection.qp, [wr::Send::new(message)]).unwrap();
    }
    server.join().unwrap();
    connection.id.wait_disconnected(long()).unwrap();
    let ended = connection.disconnect().unwrap();
    if is_iwarp() {
        ended.qp.destroy().unwrap(); // R24.7: it flushed nothing that was posted late
    } else {
        active.drain(ended.qp);
    }
}

/// On iWARP, a queue pair that enters ERR or is destroyed ends its connection at once, because TCP
/// closes: both ids are disconnected, and the peer's receives are flushed, without another message.
/// Proves R24.7.
#[test]
fn the_end_of_a_queue_pair_on_iwarp_ends_its_peer() {
    if !is_iwarp() {
        return; // the peer notices only that nothing answers
    }
    for destroys in [false, true] {
        let (connection, mut active, server) = connected(|mut connection, mut passive| {
            connection.id.wait_disconnected(long()).unwrap();
            // `end` posted a receive.
            passive.until(|outcome| matches!(outcome, Outcome::Failed(_)).then_some(()));
            passive.drain(connection.disconnect().unwrap().qp);
        });
        let Connection { qp, mut id, .. } = connection;
        let left = if destroys { qp.destroy().map(|()| None) } else { qp.to_error().map(Some) };
        id.wait_disconnected(long()).unwrap();
        server.join().unwrap();
        if let Some(qp) = left.unwrap() {
            active.drain(qp);
        }
    }
}

/// Whether the queue pair or the id is dropped first, the peer is notified and the buffers return.
/// Proves R16.19, R16.20, R24.7.
#[test]
fn an_id_and_its_queue_pair_are_dropped_in_any_order() {
    for id_first in [true, false] {
        let (listening, at) = listener::<Tcp>();
        let server = thread::spawn(move || {
            let request = listening.get_request().unwrap();
            let (qp, mut end) = end(&request.id, 2);
            let mut connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
            post_send!(connection.qp, [wr::Send::inline(b"connected")]).unwrap();
            connection.id.wait_disconnected(long()).unwrap();
            end.drain(connection.disconnect().unwrap().qp);
        });
        let id = routed::<Tcp>(at);
        let (qp, mut active) = end(&id, 2);
        let Connection { mut qp, id, .. } = id.connect(qp, &ConnParam::default(), long()).unwrap();
        // Otherwise the other side's `accept` may find that this one left.
        assert_eq!(active.receive().data(), b"connected");
        if id_first {
            drop(id);
            // The peer is gone, but the queue pair is not notified.
            post_send!(qp, [wr::Send::inline(b"late")]).unwrap();
            active.until(|outcome| {
                matches!(outcome, Outcome::Sent(_) | Outcome::Failed(_)).then_some(())
            });
            if is_iwarp() {
                // R24.7: buffers posted after the end return with the queue pair.
                qp.destroy().unwrap();
            } else {
                active.drain(qp.to_error().unwrap());
            }
        } else {
            qp.destroy().unwrap();
            id.disconnect().unwrap().wait_disconnected(long()).unwrap();
        }
        server.join().unwrap();
    }
}
