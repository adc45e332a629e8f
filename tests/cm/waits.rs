//! Every rdma_cm wait ends in time, whatever the peer, another thread or an earlier call did.

use std::marker::Send as Sendable;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use proverbs::cm::*;
use proverbs::completion::Waker;
use proverbs::events::{Found, WaitFor, wait};
use proverbs::prelude::profile;
use proverbs::qp::SharedRq;
use proverbs::transport::Rc;
use proverbs::{CompletionQueue, Depth, ErrorKind, SharedReceiveQueue, wr};

use crate::support::{
    address, connected, end, event_channel, group, is_iwarp, listener, long, new_id, routed,
};

profile! { OnSrq { receive: SharedRq } }

/// The result of `wait`. A wait that never ends fails the test instead of hanging it.
pub fn ends<R: Sendable + 'static>(what: &str, wait: impl FnOnce() -> R + Sendable + 'static) -> R {
    let (tell, told) = mpsc::channel();
    let waiter = thread::spawn(move || tell.send(wait()).unwrap());
    match told.recv_timeout(5 * long()) {
        Ok(done) => done,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} never ends"),
        Err(_) => std::panic::resume_unwind(waiter.join().unwrap_err()),
    }
}

fn is_time_out(result: Result<(), proverbs::Error>) -> bool {
    matches!(result.unwrap_err().kind(), ErrorKind::TimedOut { .. })
}

/// The documented end, after the program took DISCONNECTED itself. The event arrives once, and the
/// second and third calls remember it. TIMEWAIT_EXIT would take seconds.
/// Proves R16.20.
/// Ends: CmId::wait_disconnected.
#[test]
fn an_end_that_the_program_saw_is_not_waited_for_again() {
    let (mut connection, mut end, server) = connected(|connection, mut end| {
        let mut ended = connection.disconnect().unwrap();
        end.drain(ended.qp);
        ended.id.wait_disconnected(long()).unwrap();
        ended.id.wait_disconnected(Duration::ZERO).unwrap();
        ended.id.destroy().unwrap();
    });
    let began = Instant::now();
    while connection.id.wait_disconnected(Duration::ZERO).is_err() {
        assert!(began.elapsed() < long(), "the peer disconnects");
        thread::yield_now();
    }
    for _ in 0..2 {
        connection.id.wait_disconnected(Duration::ZERO).unwrap();
    }
    let mut ended = connection.disconnect().unwrap();
    ended.id.wait_disconnected(Duration::ZERO).unwrap();
    end.drain(ended.qp);
    ended.id.wait_disconnected(Duration::ZERO).unwrap();
    server.join().unwrap();
}

/// The end of a peer does not flush a shared receive queue. A server that sleeps for messages sees
/// that end in the same sleep.
/// Proves R7.13.
/// Ends: wait.
#[test]
fn an_end_is_noticed_beside_a_shared_receive_queue() {
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        let (pd, context) = (request.id.pd().unwrap(), request.id.context().unwrap());
        let pool = pd.create_pool(4, 64).unwrap();
        let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
        for _ in 0..4 {
            srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
        }
        let mut comp_channel = context.create_comp_channel().unwrap();
        let mut cq: CompletionQueue = context.cq(16).channel(&comp_channel).create().unwrap();
        let depth = Depth::on_srq(2, &srq);
        let qp = request.id.create_qp::<OnSrq>(&pd, &cq, &cq, depth).unwrap();
        let connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
        let channel = event_channel();
        let id = connection.id.migrate_to(&channel).unwrap();
        let (mut messages, mut ended) = (0, false);
        while !ended {
            let sources = [WaitFor::Cqs(&mut comp_channel, &mut [&mut cq]), WaitFor::Cm(&channel)];
            let [completions, event] = wait(sources, Some(long())).unwrap();
            assert!(completions.is_some() || event.is_some(), "nothing came");
            if completions.is_some() {
                messages += cq.poll().unwrap().map(drop).count();
            }
            if let Some(Found::Cm(event)) = event {
                assert_eq!((event.kind(), event.id()), (EventKind::Disconnected, id.key()));
                ended = true;
            }
        }
        messages += cq.poll().unwrap().map(drop).count();
        assert_eq!(messages, 2);
        drop(id.disconnect().unwrap());
        drop(connection.qp);
    });
    let id = routed::<Tcp>(at);
    let (qp, mut own) = end(&id, 0);
    let mut connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
    for _ in 0..2 {
        connection.qp.post_send(wr::Send::inline(b"message")).unwrap();
        own.sent();
    }
    own.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// DISCONNECTED arrives once, here at the program, which took it from a channel. The id remembers
/// it.
#[test]
fn an_end_that_was_taken_from_a_channel_is_not_waited_for_again() {
    let (connection, mut end, server) = connected(|connection, mut end| {
        end.drain(connection.disconnect().unwrap().qp);
    });
    let channel = event_channel();
    let Connection { id, qp, .. } = connection;
    let id = id.migrate_to(&channel).unwrap();
    let event = channel.wait_timeout(long()).unwrap().expect("the peer disconnects");
    assert_eq!((event.kind(), event.id()), (EventKind::Disconnected, id.key()));
    let mut id = id.into_synchronous().unwrap();
    id.wait_disconnected(Duration::ZERO).unwrap();
    let mut id = id.disconnect().unwrap();
    id.wait_disconnected(Duration::ZERO).unwrap();
    end.drain(qp.to_error().unwrap());
    server.join().unwrap();
}

/// A peer that stays: each call uses its own time limit, and no more.
/// Ends: CmId::wait_disconnected.
#[test]
fn a_peer_that_stays_is_a_time_out_each_time() {
    let (tell, told) = mpsc::channel();
    let (connection, mut end, server) = connected(move |connection, _end| {
        told.recv().unwrap();
        drop(connection);
    });
    let waited = ends("wait_disconnected", move || {
        let mut connection = connection;
        let short = Duration::from_millis(50);
        for _ in 0..2 {
            let began = Instant::now();
            assert!(is_time_out(connection.id.wait_disconnected(short)));
            assert!(began.elapsed() >= short);
        }
        connection
    });
    tell.send(()).unwrap();
    let mut ended = waited.disconnect().unwrap();
    end.drain(ended.qp);
    ended.id.wait_disconnected(long()).unwrap();
    server.join().unwrap();
}

/// Another thread destroys the queue pair of a connection whose id waits for the end. The peer
/// stays, so there is a timeout, and then the end.
/// Ends: CmId::wait_disconnected.
#[test]
fn a_queue_pair_is_destroyed_while_the_end_is_waited_for() {
    let (tell, told) = mpsc::channel();
    let (connection, _end, server) = connected(move |connection, mut end| {
        told.recv().unwrap();
        // On iWARP the end of its queue pair ends the connection.
        end.drain(connection.disconnect().unwrap().qp);
    });
    let Connection { qp, mut id, .. } = connection;
    let mut id = ends("wait_disconnected", move || {
        let short = Duration::from_millis(20);
        thread::scope(|scope| {
            let destroyer = scope.spawn(|| qp.destroy().unwrap());
            let waited = id.wait_disconnected(short);
            assert!(is_iwarp() || is_time_out(waited));
            destroyer.join().unwrap();
        });
        id
    });
    tell.send(()).unwrap();
    id.wait_disconnected(long()).unwrap();
    id.disconnect().unwrap().wait_disconnected(long()).unwrap();
    server.join().unwrap();
}

/// Another thread moves an id away, with its event, between this thread's check and its read.
/// Ends: EventChannel::wait, EventChannel::wait_or_woken, EventChannel::wait_timeout.
#[test]
fn a_wait_does_not_sleep_for_an_event_that_another_thread_takes() {
    let (_listening, at) = listener::<Tcp>();
    ends("a poll of an event channel", move || {
        let (here, there) = (event_channel(), event_channel());
        for round in 0..60 {
            let id = here.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
            let both = Barrier::new(2);
            thread::scope(|scope| {
                let mover = scope.spawn(|| {
                    both.wait();
                    // Moved, or gone.
                    if round % 2 == 0 { drop(id.migrate_to(&there).unwrap()) } else { drop(id) }
                });
                both.wait();
                let short = Duration::from_millis(1);
                match round % 5 {
                    0 => drop(here.try_event().unwrap()),
                    1 => drop(here.wait_timeout(short).unwrap()),
                    2 => drop(here.wait_timeout(Duration::ZERO).unwrap()),
                    3 => drop(here.wait_or_woken(&Waker::new().unwrap(), Some(short)).unwrap()),
                    // Without a time limit, the event of another id ends it.
                    _ => {
                        let other = here.create_id::<Tcp>().unwrap();
                        let other = other.resolve_addr(at, long()).unwrap();
                        while here.wait().unwrap().id() != other.key() {}
                    }
                }
                mover.join().unwrap();
            });
        }
        assert!(there.wait_timeout(Duration::ZERO).unwrap().is_none(), "their ids are gone");
    });
}

/// A listening id gets many other events. A call that waits for a request takes only a few of them
/// after its time is over, so a constant stream of events does not keep it. It finds a request
/// behind them.
/// Ends: CmId::get_request, CmId::get_request_timeout.
#[test]
fn a_listener_with_many_other_events() {
    const MANY: usize = 500;
    let (listening, at) = listener::<Tcp>();
    if listening.write_cm_event(0, 0).is_err() && crate::support::fabric().is_none() {
        return println!("R23.5: this device does not support user events");
    }
    ends("a wait for a request", move || {
        for number in 1..MANY {
            listening.write_cm_event(0, number as u64).unwrap();
        }
        for _ in 0..2 {
            let error = listening.get_request_timeout(Duration::ZERO).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::TimedOut { after: Duration::ZERO });
        }
        let channel = event_channel();
        let listening = listening.migrate_to(&channel).unwrap();
        let mut left = 0;
        while let Some(event) = channel.try_event().unwrap() {
            assert_eq!(event.kind(), EventKind::User);
            left += 1;
        }
        assert!((MANY / 2..MANY - 100).contains(&left), "{left} of {MANY} are left");
        for number in 0..MANY {
            listening.write_cm_event(0, number as u64).unwrap();
        }
        let listening = listening.into_synchronous().unwrap();
        let client = thread::spawn(move || {
            let id = routed::<Tcp>(at);
            let (qp, mut active) = end(&id, 1);
            let refused = id.connect(qp, &ConnParam::default(), long()).unwrap_err();
            let NotConnected::Failed { qp, id: _id } = refused.into_object() else {
                panic!("it was sent")
            };
            active.drain(qp);
        });
        // Within the time limit, any number of events is skipped.
        let request = listening.get_request_timeout(long()).unwrap();
        request.reject(&RejectData::of(b"that is all")).unwrap();
        client.join().unwrap();
    });
}

/// Every step with a peer that does not answer, or that is gone.
/// Ends: CmId::connect, CmId::get_request_timeout, EventChannel::wait_timeout, Request::accept.
#[test]
fn steps_without_an_answer_end() {
    ends("a step", || {
        let short = Duration::from_millis(20);
        let (listening, at) = listener::<Tcp>();
        for _ in 0..2 {
            let began = Instant::now();
            let error = listening.get_request_timeout(short).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::TimedOut { after: short });
            assert!(began.elapsed() >= short);
        }
        // A listener that does not answer.
        let id = routed::<Tcp>(at);
        let (qp, mut active) = end(&id, 1);
        let refused = id.connect(qp, &ConnParam::default(), short).unwrap_err();
        assert_eq!(*refused.error.kind(), ErrorKind::TimedOut { after: short });
        let NotConnected::Failed { qp, id: _id } = refused.into_object() else {
            panic!("it was sent")
        };
        active.drain(qp);
        // The peer, which would have to confirm, is gone.
        let request = listening.get_request_timeout(long()).unwrap();
        let (qp, mut passive) = end(&request.id, 1);
        let refused = request.accept(qp, &AcceptParam::default(), short);
        if is_iwarp() {
            // R24.5: its answer completes the handshake, or is an error at once.
            return;
        }
        let refused = refused.unwrap_err();
        let NotAccepted::Failed { qp, id: _id } = refused.into_object() else {
            panic!("it was answered")
        };
        passive.drain(qp);
        // A lookup without an answer.
        let (_listening, at) = listener::<Udp>();
        let refused = routed::<Udp>(at).connect(&LookupData::none(), short).unwrap_err();
        assert_eq!(*refused.error.kind(), ErrorKind::TimedOut { after: short });
        // An event channel whose ids have no events.
        let channel = event_channel();
        let _id = channel.create_id::<Tcp>().unwrap();
        let began = Instant::now();
        assert!(channel.wait_timeout(short).unwrap().is_none());
        assert!(began.elapsed() >= short);
    });
}

/// A completion that does not arrive, from a peer that exists.
/// Ends: Ep::drain_within, Ep::get_recv_comp_timeout, Ep::get_send_comp_timeout.
#[test]
fn completions_of_an_endpoint_are_waited_for_until_the_time_limit() {
    use proverbs::{DefaultProfile, Depth};
    let (listening, at) = listener::<Tcp>();
    let ((tell, told), (accepted, connected)) = (mpsc::channel(), mpsc::channel());
    let server = thread::spawn(move || {
        let request = listening.get_request_timeout(long()).unwrap();
        let depth = Depth { send: 1, recv: 1 };
        let ep = request.create_ep::<DefaultProfile>(None, depth).unwrap();
        let ep = ep.accept(&AcceptParam::default(), long()).unwrap();
        accepted.send(()).unwrap();
        told.recv().unwrap();
        drop(ep);
    });
    ends("a completion of an endpoint", move || {
        let ep = routed::<Tcp>(at).create_ep::<DefaultProfile>(None, Depth { send: 1, recv: 1 });
        let mut ep = ep.unwrap().connect(&ConnParam::default(), long()).unwrap();
        // Both sides have their events before either leaves.
        connected.recv_timeout(long()).unwrap();
        let pool = ep.reg_msgs::<()>(1, 64).unwrap();
        ep.post_recv((), pool.take().unwrap()).unwrap();
        let short = Duration::from_millis(20);
        for _ in 0..2 {
            let began = Instant::now();
            let error = ep.get_send_comp_timeout(short).expect_err("nothing is sent");
            assert_eq!(*error.kind(), ErrorKind::TimedOut { after: short });
            let error = ep.get_recv_comp_timeout(short).expect_err("the peer is silent");
            assert_eq!(*error.kind(), ErrorKind::TimedOut { after: short });
            assert!(began.elapsed() >= 2 * short);
        }
        tell.send(()).unwrap();
        let mut ep = ep.disconnect().unwrap();
        ep.drain_within(long(), |_| ()).unwrap();
        ep.drain_within(Duration::ZERO, |_| ()).unwrap();
        ep.id.wait_disconnected(long()).unwrap();
        assert_eq!(pool.available(), 1);
    });
    server.join().unwrap();
}

/// One group is joined twice. The second join fails, the first continues, and after leaving the
/// group it can be joined again.
/// Proves R5.12.
/// Ends: CmId::join_multicast.
#[test]
fn a_group_is_joined_once() {
    if is_iwarp() {
        return; // R24.2: groups need UD
    }
    let at = group(2);
    let id = new_id::<Udp>().bind_addr(address(0)).unwrap();
    let mut id = id.resolve_addr(at, long()).unwrap();
    let mut joined = id.join_multicast(at, long()).unwrap();
    for same in [at, std::net::SocketAddr::new(at.ip(), 1)] {
        let error = id.join_multicast(same, long()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("rdma_join_multicast: EADDRINUSE: "), "{text}");
        let why = format!("(this id joined {} already: leave it first)", at.ip());
        assert!(text.ends_with(&why), "{text}");
    }
    for _ in 0..2 {
        id.leave_multicast(joined).unwrap();
        joined = id.join_multicast(at, long()).unwrap();
    }
    id.leave_multicast(joined).unwrap();
    id.destroy().unwrap();
}
