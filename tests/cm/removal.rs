//! A device that is taken away while calls wait on it: each is told, and told again.
//!
//! On a real device it ends what else uses that, so it runs where `PROVERBS_MAY_REMOVE` names a
//! Soft-RoCE device that may go, by itself: `cargo xtask test interop` does so last.

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
#[test]
fn who_waits_on_a_device_that_goes_is_told() {
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
    // Neither end goes before both were told: the other would hear of that instead.
    let (told, other_told) = (mpsc::channel(), mpsc::channel());
    let (server_told, told_server) = (told.0, other_told.1);
    let (mut connection, mut active, server) =
        connected_at(here, move |mut connection, mut end| {
            server_told.send(end_of_a_removed(&mut connection.id)).unwrap();
            told_server.recv_timeout(long()).unwrap();
            leave(&mut end, connection.qp.to_error());
        });
    // Nobody answers it.
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
    // It returns when nobody uses the device any more.
    let remover = thread::spawn(move || match fabric() {
        Some((fabric, devices)) => assert!(fabric.remove_device(&devices[1])),
        None => {
            Command::new("rdma").args(["link", "delete", &name.unwrap()]).status().unwrap();
        }
    });
    // Several threads wait for requests of one id; the event comes once, and all are told.
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
    assert!(told.1.recv_timeout(long()).unwrap() | is_told, "no end was told that the device goes");
    // The documented end works all the same.
    let qp = connection.disconnect().unwrap().qp;
    leave(&mut active, Ok::<_, Refused<QueuePair<Rc, Rts>>>(qp));
    attempt.join().unwrap();
    server.join().unwrap();
    drop((listening, routed_id, mute, request, remover));
}

/// Drains the queue pair of a connection that ended; where the kernel (7.3) answers nothing more of
/// a device that goes, the queue pair is dropped. Every buffer comes home either way.
fn leave(end: &mut End, qp: Result<QueuePair<Rc, state::Err>, Refused<QueuePair<Rc, Rts>>>) {
    let is_gone = |error: &proverbs::Error| error.errno() == Some(libc::EIO);
    match qp {
        Ok(mut qp) => match qp.drain(&mut end.cq, |drained| drop(drained)) {
            Ok(()) => {
                qp.destroy().unwrap();
                assert_eq!(end.pool.available(), BUFS, "every buffer is at home");
            }
            Err(error) => assert!(is_gone(&error), "{error}"),
        },
        Err(refused) => assert!(is_gone(&refused.error), "{refused}"),
    }
    let start = Instant::now();
    while end.pool.available() != BUFS {
        drop(end.cq.poll().unwrap());
        assert!(start.elapsed() < long(), "{} of {BUFS} buffers are at home", end.pool.available());
    }
}

/// Waits for the end of a connection whose device goes, twice. Whether the device was the reason:
/// the kernel takes one id after the other away, and may tell the second of the first one's end.
fn end_of_a_removed(id: &mut CmId<Tcp, Established>) -> bool {
    let [first, second] = [(); 2].map(|()| {
        let began = Instant::now();
        let end = id.wait_disconnected(long());
        assert!(began.elapsed() < long());
        end.map_err(|error| assert!(is_removal(error.kind()), "{error}"))
    });
    assert_eq!(first, second, "what was told is told again");
    first.is_err()
}
