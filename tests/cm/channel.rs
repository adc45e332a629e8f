//! Ids on an event channel: both ends of a connection in one thread, driven by its descriptor.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use proverbs::cm::*;
use proverbs::{post_send, wr};

use crate::steps::{done, event_of, next_event};
use crate::support::{
    address, end, event_channel, fabric, is_iwarp, is_siw, listener, long, new_id, routed,
};

/// Proves R16.1, R16.12.
#[test]
fn both_ends_on_one_channel_in_one_thread() {
    let channel = event_channel();
    #[cfg(not(miri))]
    assert!(never_blocks(&channel));
    assert!(channel.try_event().unwrap().is_none(), "it does not block");
    let listening = channel.create_id::<Tcp>().unwrap();
    let listening = listening.bind_addr(address(0)).unwrap().listen(1).unwrap();
    let at = listening.local_addr().unwrap();

    let id = channel.create_id::<Tcp>().unwrap();
    let id = id.resolve_addr(at, long()).unwrap();
    // This one polls without waiting.
    let began = Instant::now();
    let event = loop {
        if let Some(event) = channel.try_event().unwrap() {
            break event;
        }
        assert!(began.elapsed() < long(), "no event");
        std::thread::yield_now();
    };
    assert_eq!((event.kind(), event.id()), (EventKind::AddrResolved, id.key()));
    // The event of another id leaves an id pending.
    let other = channel.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
    let Progress::Waiting(other) = other.advance(&event) else { panic!("not its event") };
    let id = done(id.advance(&event));
    // One at a time: addresses and routes are resolved in separate queues.
    let event = event_of(&channel, other.key());
    drop(done(other.advance(&event)));
    let id = id.resolve_route(long()).unwrap();
    let event = event_of(&channel, id.key());
    let id = done(id.advance(&event));

    let (qp, mut active) = end(&id, 2);
    let pending = id.connect(qp, &ConnParam::default()).unwrap();
    let event = event_of(&channel, listening.key());
    assert_eq!(event.kind(), EventKind::ConnectRequest);
    let request = listening.request(event).unwrap();
    let (qp, mut passive) = end(&request.id, 2);
    let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
    // On iWARP the passive side gets its event first, since its answer completes the handshake.
    let event = next_event(&channel);
    let (mut there, mut here) = if event.id() == accepted.id().key() {
        let here = done(accepted.advance(&event));
        let event = event_of(&channel, pending.id().key());
        (done(pending.advance(&event)), here)
    } else {
        let there = done(pending.advance(&event));
        let event = event_of(&channel, accepted.id().key());
        (there, done(accepted.advance(&event)))
    };

    post_send!(there.qp, [wr::Send::inline(b"across")]).unwrap();
    assert_eq!(passive.receive().data(), b"across");
    active.sent();
    post_send!(here.qp, [wr::Send::inline(b"and back")]).unwrap();
    assert_eq!(active.receive().data(), b"and back");
    passive.sent();

    let key = here.id.key();
    let there = there.disconnect().unwrap();
    let event = next_event(&channel);
    assert_eq!(event.kind(), EventKind::Disconnected);
    // siw reports the one end to both sides, in either order.
    let other = if event.id() == key { there.id.key() } else { key };
    assert!(event.id() == key || is_siw() && event.id() == there.id.key());
    let here = here.disconnect().unwrap();
    assert_eq!(event_of(&channel, other).kind(), EventKind::Disconnected);
    active.drain(there.qp);
    passive.drain(here.qp);
}

/// Whether reading a descriptor never blocks: an event that poll(2) reported may be gone when it is
/// read.
#[cfg(not(miri))]
fn never_blocks(fd: &impl AsRawFd) -> bool {
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    let info = std::fs::read_to_string(path).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap() & libc::O_NONBLOCK != 0
}

/// The peer's first message may arrive before its confirmation, and counts as one.
#[test]
fn a_message_counts_as_the_confirmation() {
    if is_iwarp() {
        return; // R24.5: the answer completes the handshake
    }
    let (here, there) = (event_channel(), event_channel());
    let (listening, at) = listener::<Tcp>();
    let id = routed::<Tcp>(at).migrate_to(&there).unwrap();
    let (qp, mut active) = end(&id, 1);
    let pending = id.connect(qp, &ConnParam::default()).unwrap();
    let request = listening.get_request_timeout(long()).unwrap().migrate_to(&here).unwrap();
    let (qp, mut passive) = end(&request.id, 1);
    let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
    let answer = event_of(&there, pending.id().key());
    assert!(here.try_event().unwrap().is_none(), "the peer has not confirmed");
    accepted.id().notify_established().unwrap();
    let event = event_of(&here, accepted.id().key());
    assert_eq!((event.kind(), event.status()), (EventKind::Established, 0));
    let b = done(accepted.advance(&event));
    let error = b.id.notify_established().unwrap_err();
    assert_eq!((error.verb(), error.errno()), ("rdma_notify", Some(libc::EISCONN)));

    let a = done(pending.advance(&answer)).disconnect().unwrap();
    assert_eq!(event_of(&here, b.id.key()).kind(), EventKind::Disconnected);
    passive.drain(b.disconnect().unwrap().qp);
    active.drain(a.qp);
}

/// A forgotten event blocks nothing, ids outlive the handle of their channel, and a dropped request
/// is rejected.
/// Proves R16.12.
#[test]
fn forgotten_and_dropped_objects_block_nothing() {
    let channel = event_channel();
    let listening = channel.create_id::<Tcp>().unwrap();
    let listening = listening.bind_addr(address(0)).unwrap().listen(8).unwrap();
    let at = listening.local_addr().unwrap();

    // A request that is dropped without an answer is reported to the peer.
    let id = routed::<Tcp>(at);
    let (qp, _end) = end(&id, 1);
    let attempt = std::thread::spawn(move || id.connect(qp, &ConnParam::default(), long()));
    drop(event_of(&channel, listening.key()));
    let refused = attempt.join().unwrap().unwrap_err();
    assert!(matches!(refused.error.kind(), proverbs::ErrorKind::Rejected { .. }), "{refused}");

    // A forgotten request leaks its id; the listener can still be destroyed.
    let id = routed::<Tcp>(at);
    let (qp, _end) = end(&id, 1);
    let timeout = Duration::from_millis(200);
    let attempt = std::thread::spawn(move || id.connect(qp, &ConnParam::default(), timeout));
    std::mem::forget(event_of(&channel, listening.key()));
    attempt.join().unwrap().unwrap_err();
    drop(channel);
    listening.destroy().unwrap();

    // A forgotten id and channel: nothing waits for them.
    let channel = event_channel();
    let id = channel.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
    std::mem::forget(id);
    std::mem::forget(channel.wait_timeout(long()).unwrap());
    drop(channel);
}

/// An id moves between channels, and between the modes.
/// Proves R16.21.
#[test]
fn an_id_migrates_with_its_events() {
    let (listening, at) = listener::<Tcp>();
    let (first, second) = (event_channel(), event_channel());
    let id = first.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
    let id = id.migrate_to(&second).unwrap();
    let id = id.migrate_to(&second).unwrap(); // it is already there
    let event = event_of(&second, id.key());
    let id = done(id.advance(&event)).into_synchronous().unwrap();
    let id = id.resolve_route(long()).unwrap();
    assert!(first.try_event().unwrap().is_none());
    // The listener as well.
    let (qp, mut active) = end(&id, 1);
    let listening = listening.migrate_to(&first).unwrap();
    let attempt = std::thread::spawn(move || id.connect(qp, &ConnParam::default(), long()));
    let event = event_of(&first, listening.key());
    let request = listening.request(event).unwrap();
    assert_eq!(request.id.peer_addr().unwrap().ip(), at.ip());
    let request = request.reject(&RejectData::of(b"moved"));
    request.unwrap();
    let refused = attempt.join().unwrap().unwrap_err();
    let NotConnected::Failed { qp, id: _id } = refused.into_object() else { panic!("it was sent") };
    active.drain(qp);
}

/// A migrated id's pending events wake threads that sleep on the channel. (Linux wakes no thread
/// for them.)
#[test]
#[cfg_attr(miri, ignore = "Miri cannot wait on a descriptor")]
fn a_migrated_id_with_events_wakes_sleepers() {
    let (_listening, at) = listener::<Tcp>();
    let (first, second) = (event_channel(), event_channel());
    let id = first.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
    let key = id.key();
    is_readable(&first);
    let (says, who) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn({
        let second = second.clone();
        move || {
            says.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            second.wait_timeout(long()).unwrap()
        }
    });
    until_asleep(&who.recv().unwrap());
    let _id = id.migrate_to(&second).unwrap();
    let event = sleeper.join().unwrap().expect("it slept on");
    assert_eq!((event.id(), event.kind()), (key, EventKind::AddrResolved));
}

/// A pending request is lost when its listener moves. Linux moves the event, but leaves the id for
/// the answer on the old channel. librdmacm cannot query that id, and drops the event; the peer is
/// refused when the old channel or the listener is destroyed. On a fabric it is refused at once.
/// Proves R16.21.
#[test]
#[cfg_attr(miri, ignore = "Miri cannot wait on a descriptor")]
fn a_pending_request_while_its_listener_migrates() {
    let (first, second) = (event_channel(), event_channel());
    let listening = first.create_id::<Tcp>().unwrap();
    let listening = listening.bind_addr(address(0)).unwrap().listen(1).unwrap();
    let id = routed::<Tcp>(listening.local_addr().unwrap());
    let (qp, mut active) = end(&id, 1);
    let attempt = std::thread::spawn(move || id.connect(qp, &ConnParam::default(), long()));
    is_readable(&first);

    let listening = listening.migrate_to(&second).unwrap();
    let patience = if fabric().is_some() { Duration::ZERO } else { Duration::from_millis(500) };
    let event = second.wait_timeout(patience).unwrap();
    assert!(event.is_none(), "{event:?}: by R16.21 it is lost");
    drop((first, listening));
    let refused = attempt.join().unwrap().unwrap_err();
    assert!(matches!(refused.error.kind(), proverbs::ErrorKind::Rejected { .. }), "{refused}");
    let NotConnected::Failed { qp, id: _id } = refused.into_object() else { panic!("it was sent") };
    active.drain(qp);
}

/// Waits until the thread sleeps, using its directory in `/proc`.
fn until_asleep(thread: &Path) {
    let (stat, began) = (Path::new("/proc").join(thread).join("stat"), Instant::now());
    while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
        assert!(began.elapsed() < long(), "the thread does not sleep");
        std::thread::yield_now();
    }
}

/// Waits until the channel has an event, without taking it.
fn is_readable(channel: &EventChannel) {
    let (mut poll, mut events) = (mio::Poll::new().unwrap(), mio::Events::with_capacity(1));
    let fd = channel.as_raw_fd();
    let (token, readable) = (mio::Token(0), mio::Interest::READABLE);
    poll.registry().register(&mut mio::unix::SourceFd(&fd), token, readable).unwrap();
    poll.poll(&mut events, Some(long())).unwrap();
    assert!(!events.is_empty(), "no event");
}

/// Options reach the kernel, which checks their bounds.
#[test]
fn options_are_set() {
    let mut id = new_id::<Tcp>();
    id.set_tos(8).unwrap();
    id.set_reuse_addr(true).unwrap();
    id.set_af_only(true).unwrap();
    id.set_ack_timeout(proverbs::bounded::Timeout::MS_67).unwrap();
    let mut id = new_id::<Tcp>().resolve_addr(address(1), long()).unwrap();
    id.set_tos(8).unwrap();
    id.set_ack_timeout(proverbs::bounded::Timeout::MS_67).unwrap();
}
