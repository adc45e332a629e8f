//! A device is removed while calls wait on it: each call gets an error, and so does each later one.
//!
//! On a real device this ends everything else that uses it, so it runs only where
//! `PROVERBS_MAY_REMOVE` names a Soft-RoCE device, and by itself: `cargo xtask test interop` does
//! so last.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use proverbs::cm::*;
use proverbs::state::{self, Rts};
use proverbs::transport::Rc;
use proverbs::{ErrorKind, QueuePair, Refused};

use crate::support::{
    BUFS, End, address, connected_at, end, event_channel, fabric, listener_at, long, routed,
};

fn is_removal(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Cm { event: "RDMA_CM_EVENT_DEVICE_REMOVAL", .. })
}

/// Proves R16.20.
/// Ends: CmId::connect, CmId::get_request_timeout, CmId::wait_disconnected,
/// EventChannel::wait_timeout.
#[test]
fn waits_on_a_removed_device_end() {
    let here = match fabric() {
        // The second device, so that others keep the first.
        Some((fabric, devices)) => SocketAddr::new(fabric.ip_of(&devices[1]).unwrap(), 0),
        None => address(0),
    };
    let name = std::env::var("PROVERBS_MAY_REMOVE");
    if fabric().is_none() && name.is_err() {
        return eprintln!("not run: PROVERBS_MAY_REMOVE names no device");
    }
    let (listening, at) = listener_at::<Tcp>(here);
    let channel = event_channel();
    let routed_id = routed::<Tcp>(at).migrate_to(&channel).unwrap();
    // Neither end leaves before both have the event: otherwise the other one would see a
    // disconnection instead.
    let (told, other_told) = (mpsc::channel(), mpsc::channel());
    let (server_told, told_server) = (told.0, other_told.1);
    let (mut connection, mut active, server) =
        connected_at(here, move |mut connection, mut end| {
            server_told.send(end_of_a_removed(&mut connection.id)).unwrap();
            told_server.recv_timeout(long()).unwrap();
            leave(&mut end, connection.qp.to_error());
        });
    // It never answers.
    let (mute, at) = listener_at::<Tcp>(here);
    let id = routed::<Tcp>(at);
    let (qp, mut unanswered) = end(&id, 1);
    let attempt = thread::spawn(move || {
        let refused = id.connect(qp, &ConnParam::default(), long()).unwrap_err();
        assert!(is_removal(refused.error.kind()), "{refused}");
        let NotConnected::Failed { qp, id: _id } = refused.into_object() else {
            panic!("it was sent")
        };
        leave(&mut unanswered, Ok::<_, Refused<QueuePair<Rc, Rts>>>(qp));
    });
    let request = mute.get_request_timeout(long()).unwrap();
    // It returns when the device has no more users.
    let remover = thread::spawn(move || match fabric() {
        Some((fabric, devices)) => assert!(fabric.remove_device(&devices[1])),
        None => {
            Command::new("rdma").args(["link", "delete", &name.unwrap()]).status().unwrap();
        }
    });
    // Several threads wait for requests of one id; the event arrives once, and all waits end.
    let is_told = || {
        for _ in 0..2 {
            let began = Instant::now();
            let error = listening.get_request_timeout(long()).unwrap_err();
            assert!(is_removal(error.kind()), "{error}");
            assert!(began.elapsed() < long());
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(is_told);
        }
    });
    let event = channel.wait_timeout(long()).unwrap().expect("an event");
    assert_eq!((event.kind(), event.id()), (EventKind::DeviceRemoval, routed_id.key()));
    assert!(channel.wait_timeout(Duration::from_millis(10)).unwrap().is_none());
    let is_told = end_of_a_removed(&mut connection.id);
    other_told.0.send(()).unwrap();
    assert!(told.1.recv_timeout(long()).unwrap() | is_told, "neither end saw the device removal");
    // The documented way to disconnect still works.
    let qp = connection.disconnect().unwrap().qp;
    leave(&mut active, Ok::<_, Refused<QueuePair<Rc, Rts>>>(qp));
    attempt.join().unwrap();
    server.join().unwrap();
    drop((listening, routed_id, mute, request, remover));
}

/// Drains the queue pair of a connection that ended. A kernel (7.3) may no longer answer for a
/// removed device; the queue pair is then dropped. Every buffer returns either way.
fn leave(end: &mut End, qp: Result<QueuePair<Rc, state::Err>, Refused<QueuePair<Rc, Rts>>>) {
    let is_gone = |error: &proverbs::Error| error.errno() == Some(libc::EIO);
    match qp {
        Ok(mut qp) => match qp.drain(&mut end.cq, |drained| drop(drained)) {
            Ok(()) => {
                qp.destroy().unwrap();
                assert_eq!(end.pool.available(), BUFS, "every buffer has returned");
            }
            Err(error) => assert!(is_gone(&error), "{error}"),
        },
        Err(refused) => assert!(is_gone(&refused.error), "{refused}"),
    }
    let start = Instant::now();
    while end.pool.available() != BUFS {
        end.cq.poll().unwrap().for_each(drop);
        assert!(
            start.elapsed() < long(),
            "{} of {BUFS} buffers have returned",
            end.pool.available()
        );
    }
}

/// Waits for the end of a connection whose device is removed, twice. Returns whether removal was
/// the reason: the kernel removes one id after the other, and may report the first one's end to the
/// second.
fn end_of_a_removed(id: &mut CmId<Tcp, Established>) -> bool {
    let [first, second] = [(); 2].map(|()| {
        let began = Instant::now();
        let end = id.wait_disconnected(long());
        assert!(began.elapsed() < long());
        end.map_err(|error| assert!(is_removal(error.kind()), "{error}"))
    });
    assert_eq!(first, second, "a second wait has the same result");
    first.is_err()
}
