//! The end of a connection as a step on a channel.

use std::time::Instant;

use proverbs::cm::*;
use proverbs::loopback::Fabric;
use proverbs::{Error, ErrorKind, Refused};

use crate::fabric;
use crate::support::{connected, event_channel, long};

/// The result of a step, given the events of the channel.
fn finish<D, W, F>(
    channel: &EventChannel,
    mut waiting: W,
    advance: impl Fn(W, &Event) -> Progress<D, W, F>,
) -> Result<D, Refused<F>> {
    let end = Instant::now() + long();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = channel.wait_timeout(left).unwrap().expect("in time");
        match advance(waiting, &event) {
            Progress::Done(done) => return Ok(done),
            Progress::Waiting(still) => waiting = still,
            Progress::Failed(refused) => return Err(refused),
        }
    }
}

/// Both sides move to a channel on which their end is a step, one of the connection, one after it.
/// Proves R23.2.
#[test]
fn the_end_is_a_step_on_either_side() {
    let (connection, mut active, server) = connected(|connection, mut passive| {
        passive.sent(); // its message is there, and not flushed
        let ended = connection.disconnect().unwrap();
        passive.drain(ended.qp);
        let channel = event_channel();
        let id = ended.id.migrate_to(&channel).unwrap();
        finish(&channel, id, CmId::<Tcp, Disconnected, _>::advance).unwrap().destroy().unwrap();
    });
    let channel = event_channel();
    let connection = connection.migrate_to(&channel).unwrap();
    let ended = finish(&channel, connection, Connection::advance).unwrap();
    active.drain(ended.qp);
    server.join().unwrap();
}

/// To a channel and back, and the calls still wait as before.
#[test]
fn a_connection_moves_to_a_channel_and_back() {
    let (connection, mut active, server) = connected(|connection, mut passive| {
        passive.sent();
        passive.drain(connection.disconnect().unwrap().qp);
    });
    let connection = connection.migrate_to(&event_channel()).unwrap();
    let mut connection = connection.into_synchronous().unwrap();
    connection.id.wait_disconnected(long()).unwrap();
    active.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// A connection ignores events of others; removal of its device returns it.
/// Proves R23.2.
#[test]
fn a_connection_ignores_other_events() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let (channel, [(a, mut there), (b, mut here)]) = fabric::connected(&fabric, &one, &two);
    let (others, [(c, _there), (d, _here)]) = fabric::connected(&fabric, &one, &two);
    let c = c.disconnect().unwrap();
    let Progress::Waiting(a) = a.advance(&fabric::next(&others, EventKind::Disconnected)) else {
        panic!("the end of another connection");
    };
    // It also ignores its own events that are not the end.
    a.id.write_cm_event(0, 1).unwrap();
    let Progress::Waiting(a) = a.advance(&fabric::next(&channel, EventKind::User)) else {
        panic!("it stands");
    };
    c.id.write_cm_event(0, 1).unwrap();
    let Progress::Waiting(c) = c.id.advance(&fabric::next(&others, EventKind::User)) else {
        panic!("the peer has not confirmed");
    };
    drop(d);
    let event = fabric::next(&others, EventKind::Disconnected);
    a.id.write_cm_event(0, 2).unwrap();
    let Progress::Waiting(c) = c.advance(&fabric::next(&channel, EventKind::User)) else {
        panic!("an event of another connection");
    };
    let Progress::Done(_) = c.advance(&event) else { panic!("its end") };

    assert!(fabric.remove_device(&one));
    let removal = fabric::next(&channel, EventKind::DeviceRemoval);
    let Progress::Waiting(b) = b.advance(&removal) else { panic!("the peer's device") };
    let Progress::Failed(refused) = a.advance(&removal) else { panic!("its device is gone") };
    assert!(matches!(refused.error.kind(), ErrorKind::Cm { status: 0, .. }), "{}", refused.error);
    there.drain(refused.into_object().qp.to_error().unwrap());
    // The peer sees a disconnection.
    let event = fabric::next(&channel, EventKind::Disconnected);
    let Progress::Done(ended) = b.advance(&event) else { panic!("the peer left") };
    here.drain(ended.qp);
}

/// A broken connection stays broken. After `disconnect` neither a call nor a step on a channel
/// waits for a confirmation, which may never come.
#[test]
fn a_broken_connection_waits_for_no_confirmation() {
    let ConnectedPair { fabric, mut a, b, .. } = loopback_pair().unwrap();
    assert!(fabric.raise_cm(&a.id, EventKind::Unreachable, -110));
    let is_broken = |error: Error| {
        let broken = ErrorKind::Cm { event: "RDMA_CM_EVENT_UNREACHABLE", status: -110 };
        assert_eq!(error.kind(), &broken, "{error}");
    };
    is_broken(a.id.wait_disconnected(long()).unwrap_err());
    let mut id = a.disconnect().unwrap().id;
    is_broken(id.wait_disconnected(long()).unwrap_err());
    let channel = EventChannel::on(&fabric).unwrap();
    let id = id.migrate_to(&channel).unwrap();
    id.write_cm_event(0, 1).unwrap();
    let Progress::Failed(refused) = id.advance(&fabric::next(&channel, EventKind::User)) else {
        panic!("the call waits for the peer")
    };
    let (spent, error) = refused.into_parts();
    is_broken(error);
    spent.destroy().unwrap();
    drop(b);
}

/// A peer may still disconnect in order after the connection broke. Messages sent in between did
/// not arrive, so every call reports the reason of the break.
#[test]
fn a_broken_connection_that_the_peer_leaves_stays_broken() {
    let ConnectedPair { fabric, a, b, .. } = loopback_pair().unwrap();
    let channel = EventChannel::on(&fabric).unwrap();
    let a = a.migrate_to(&channel).unwrap();
    assert!(fabric.raise_cm(&a.id, EventKind::Unreachable, -110));
    drop(b);
    for kind in [EventKind::Unreachable, EventKind::Disconnected] {
        assert_eq!(channel.try_event().unwrap().unwrap().kind(), kind);
    }
    let mut a = a.into_synchronous().unwrap();
    let broken = ErrorKind::Cm { event: "RDMA_CM_EVENT_UNREACHABLE", status: -110 };
    assert_eq!(a.id.wait_disconnected(long()).unwrap_err().kind(), &broken);
    let mut ended = a.disconnect().unwrap();
    assert_eq!(ended.id.wait_disconnected(long()).unwrap_err().kind(), &broken);
}

/// Device removal is reported even behind an end that was not polled yet.
#[test]
fn device_removal_is_reported_after_the_end() {
    let fabric = Fabric::new();
    let (one, two) = (fabric.open_device(), fabric.open_device());
    let (channel, [(a, _there), (b, _here)]) = fabric::connected(&fabric, &one, &two);
    let (others, [(c, _there), (d, _here)]) = fabric::connected(&fabric, &one, &two);
    let _a = a.disconnect().unwrap();
    assert_eq!(fabric::next(&channel, EventKind::Disconnected).id(), b.id.key());
    let d = d.disconnect().unwrap();
    drop(c);
    assert_eq!(fabric::next(&others, EventKind::Disconnected).id(), d.id.key());
    drop(fabric::next(&others, EventKind::TimewaitExit));
    assert!(fabric.remove_device(&two));
    let Progress::Failed(_) = b.advance(&fabric::next(&channel, EventKind::DeviceRemoval)) else {
        panic!("its device is gone");
    };
    let Progress::Failed(_) = d.id.advance(&fabric::next(&others, EventKind::DeviceRemoval)) else {
        panic!("its device is gone");
    };
}

/// A user event wakes a thread that waits on the channel.
/// Proves R23.5.
#[test]
fn a_user_event_wakes_sleepers() {
    let channel = event_channel();
    let id = channel.create_id::<Tcp>().unwrap();
    let told = |status, arg| {
        let event = channel.wait_timeout(long()).unwrap().expect("in time");
        assert_eq!((event.id(), event.kind()), (id.key(), EventKind::User));
        assert_eq!((event.status(), event.user_arg()), (status, Some(arg)));
        assert!(event.private_data().is_empty() && event.peer_param().is_none());
    };
    match id.write_cm_event(-7, u64::MAX) {
        Err(error) if crate::support::fabric().is_none() => {
            // Libraries before rdma-core 60 lack it, and so do kernels of that time.
            let lacks = [libc::ENOSYS, libc::EINVAL, libc::EOPNOTSUPP];
            assert!(lacks.map(Some).contains(&error.errno()), "{error}");
            return println!("R23.5: this device does not support user events: {error}");
        }
        written => written.unwrap(),
    }
    told(-7, u64::MAX);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| told(0, 1));
        id.write_cm_event(0, 1).unwrap();
        waits.join().unwrap();
    });
}
