//! rdma_cm on tokio: every step is awaited, and no event of a channel is lost.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context as Task, Poll, Waker};
use std::thread;
use std::time::Duration;

use proverbs::cm::*;
use proverbs::device::{DeviceEvent, SrqEvent};
use proverbs::loopback::Fabric;
use proverbs::prelude::profile;
use proverbs::qp::SharedRq;
use proverbs::transport::Rc;
use proverbs::{
    CompletionQueue, DefaultProfile, Depth, ErrorKind, SharedReceiveQueue, post_send, wr,
};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{BUFS, End, address, connected, end, event_channel, fabric, long};

profile! { OnSrq { receive: SharedRq } }

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(long(), future).await.expect("in time") })
}

/// Polls a future once, and drops it.
fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Task::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn channel() -> AsyncEventChannel {
    event_channel().into_async().unwrap()
}

fn listener(channel: &AsyncEventChannel) -> (CmId<Tcp, Listening, OnChannel>, SocketAddr) {
    let id = channel.get_ref().create_id::<Tcp>().unwrap();
    let listening = id.bind_addr(address(0)).unwrap().listen(8).unwrap();
    let at = listening.local_addr().unwrap();
    (listening, at)
}

async fn routed(
    channel: &mut AsyncEventChannel,
    at: SocketAddr,
) -> CmId<Tcp, RouteResolved, OnChannel> {
    let id = channel.get_ref().create_id::<Tcp>().unwrap();
    let id = channel.finish(id.resolve_addr(at, long()).unwrap()).await.unwrap();
    channel.finish(id.resolve_route(long()).unwrap()).await.unwrap()
}

type Connected = Connection<DefaultProfile, OnChannel>;

async fn asked(channel: &mut AsyncEventChannel, at: SocketAddr) -> (Connected, End) {
    let id = routed(channel, at).await;
    let (qp, end) = end(&id, 2);
    let pending = id.connect(qp, &ConnParam::default()).unwrap();
    (channel.finish(pending).await.unwrap(), end)
}

/// Several clients, each with a channel; the listener takes requests while others are being
/// answered.
#[test]
fn tasks_connect_concurrently() {
    run(async {
        let mut listener_channel = channel();
        let (listening, at) = listener(&listener_channel);
        let client = |number: u8| async move {
            let mut channel = channel();
            let (mut connection, mut end) = asked(&mut channel, at).await;
            post_send!(connection.qp, [wr::Send::inline(&[number])]).unwrap();
            end.sent();
            // The server has seen it, and ends first. If an end follows closely, a kernel may
            // report only the end and not the confirmation.
            channel.disconnected(&connection.id).await.unwrap();
            let ended = connection.disconnect().unwrap();
            end.drain(ended.qp);
        };
        let server = async {
            let mut sum = 0;
            for _ in 0..3 {
                let request = listener_channel.request(&listening).await.unwrap();
                let mut own = channel();
                let request = request.migrate_to(own.get_ref()).unwrap();
                let (qp, mut end) = end(&request.id, 2);
                let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
                let connection = own.finish(accepted).await.unwrap();
                // On iWARP the client may not have run since it was answered.
                let began = std::time::Instant::now();
                sum += loop {
                    if let Some(received) = end.look() {
                        break received.data()[0];
                    }
                    assert!(began.elapsed() < long(), "no message");
                    tokio::task::yield_now().await;
                };
                let ended = connection.disconnect().unwrap();
                end.drain(ended.qp);
            }
            sum
        };
        let (sum, ..) = tokio::join!(server, client(1), client(2), client(4));
        assert_eq!(sum, 7);
    });
}

/// Events of other ids are kept, in order, until they are requested.
#[test]
fn events_of_other_ids_are_kept() {
    run(async {
        let mut channel = channel();
        let (listening, at) = listener(&channel);
        let clone = channel.get_ref().clone();
        let create = || clone.create_id::<Tcp>().unwrap();
        let first = create().resolve_addr(at, long()).unwrap();
        let second = create().resolve_addr(at, long()).unwrap();
        let third = create().resolve_addr(at, long()).unwrap();
        let third_key = third.key();
        // The second finds its own event after the first one's.
        let second = channel.finish(second).await.unwrap();
        let first = channel.finish(first).await.unwrap();
        let event = channel.next().await.unwrap();
        assert_eq!((event.id(), event.kind()), (third_key, EventKind::AddrResolved));
        drop((third, second));

        // A request that arrived while another event was awaited.
        let id = channel.finish(first.resolve_route(long()).unwrap()).await.unwrap();
        let (qp, mut active) = end(&id, 0);
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        let other = create().resolve_addr(at, long()).unwrap();
        drop(channel.finish(other).await.unwrap());
        let request = channel.request(&listening).await.unwrap();
        request.reject(&RejectData::of(b"no")).unwrap();
        let refused = channel.finish(pending).await.unwrap_err();
        let ErrorKind::Rejected { private_data, .. } = refused.error.kind() else {
            panic!("{refused}");
        };
        assert!(private_data.starts_with(b"no"));
        let NotConnected::Failed { qp, .. } = refused.into_object() else { panic!("it was sent") };
        active.drain(qp);
    });
}

/// Two ids listen on one channel. Each takes its own requests; those for the other id are kept.
#[test]
fn requests_to_other_ids_are_kept() {
    run(async {
        let (mut here, mut there) = (channel(), channel());
        let (first, at_first) = listener(&here);
        let (second, at_second) = listener(&here);
        let mut asking = Vec::new();
        for (number, at) in [(1, at_first), (2, at_second), (4, at_second)] {
            let id = routed(&mut there, at).await;
            let (qp, end) = end(&id, 0);
            let private_data = PrivateData::of(&[number]);
            let param = ConnParam { private_data, ..Default::default() };
            asking.push((id.connect(qp, &param).unwrap(), end));
        }
        let mut of = async |listening| here.request(listening).await.unwrap().private_data[0];
        let of_second = of(&second).await + of(&second).await;
        assert_eq!((of_second, of(&first).await), (2 + 4, 1));
        assert!(once(here.request(&second)).is_none(), "each request is taken once");
    });
}

/// A dropped wait takes no event with it; an abandoned attempt returns its buffers.
#[test]
fn a_dropped_future_loses_no_event() {
    run(async {
        let mut here = channel();
        let (listening, at) = listener(&here);
        assert!(once(here.request(&listening)).is_none());
        assert!(once(here.next()).is_none());

        let mut there = channel();
        let id = routed(&mut there, at).await;
        let (qp, End { mut cq, pool }) = end(&id, 2);
        assert_eq!(pool.available(), BUFS - 2);
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        assert!(once(there.finish(pending)).is_none(), "no peer answers");
        while pool.available() < BUFS {
            cq.poll().unwrap().for_each(drop);
        }

        // The request is there, though its peer is gone by now.
        let request = here.request(&listening).await.unwrap();
        assert_eq!(request.id.local_addr(), Some(at));
    });
}

/// Completes after this many turns of the runtime.
async fn yields(turns: u32) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Other tasks get a turn between two foreign events. Otherwise a timeout would never fire beside
/// a neighbour that receives events without a pause.
///
/// A task that takes other tasks' events yields, so a timeout around it fires.
/// Ends: AsyncEventChannel::disconnected, AsyncEventChannel::finish, AsyncEventChannel::request.
#[test]
fn foreign_events_do_not_starve_other_tasks() {
    let (tell, told) = mpsc::channel();
    let (connection, mut active, server) = connected(move |connection, mut passive| {
        told.recv_timeout(long()).unwrap();
        passive.drain(connection.disconnect().unwrap().qp);
    });
    let ended = run(async {
        let mut here = channel();
        let connection = connection.migrate_to(here.get_ref()).unwrap();
        let neighbour = here.get_ref().create_id::<Tcp>().unwrap();
        if neighbour.write_cm_event(0, 0).is_err() && fabric().is_none() {
            println!("R23.5: this device does not support user events");
            return connection;
        }
        let (listening, _at) = listener(&here);
        let (_mute, at) = crate::support::listener::<Tcp>();
        let id = routed(&mut here, at).await;
        let (qp, _end) = end(&id, 0);
        let mut pending = Some(id.connect(qp, &ConnParam::default()).unwrap());
        for way in 0..3 {
            for number in 0..5 {
                neighbour.write_cm_event(way, number).unwrap();
            }
            // The runtime sees that there are events.
            yields(100).await;
            let mut turns = 0;
            {
                let wait = async {
                    match way {
                        0 => drop(here.request(&listening).await),
                        1 => drop(here.disconnected(&connection.id).await),
                        _ => drop(here.finish(pending.take().unwrap()).await),
                    }
                };
                let mut wait = pin!(wait);
                let counted = std::future::poll_fn(|task| {
                    turns += 1;
                    wait.as_mut().poll(task)
                });
                let others = tokio::spawn(yields(200));
                tokio::select! {
                    () = counted => panic!("{way}: no peer asks, answers or leaves"),
                    ended = others => ended.unwrap(),
                }
            }
            assert!((5..15).contains(&turns), "{way}: {turns} turns for 5 events");
        }
        // All are there, in order.
        let told = (0..3).flat_map(|way| (0..5).map(move |number| (way, Some(number))));
        for told in std::iter::once((0, Some(0))).chain(told) {
            let event = here.next().await.unwrap();
            assert_eq!((event.status(), event.user_arg()), told);
        }
        connection
    });
    tell.send(()).unwrap();
    active.drain(ended.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// Nor does a program's own loop starve them, if each event that it takes is followed by another.
///
/// A loop over ready events yields, so a timeout around it fires.
/// Ends: AsyncEventChannel::next.
#[test]
fn a_loop_of_events_does_not_starve_other_tasks() {
    run(async {
        let mut here = channel();
        let neighbour = here.get_ref().create_id::<Tcp>().unwrap();
        if neighbour.write_cm_event(0, 0).is_err() && fabric().is_none() {
            return println!("R23.5: this device does not support user events");
        }
        let mut taken = 0;
        let endless = async {
            while here.next().await.unwrap().kind() == EventKind::User {
                taken += 1;
                assert!(taken < 1000, "other tasks get no turn");
                neighbour.write_cm_event(0, taken).unwrap();
            }
        };
        let others = tokio::spawn(yields(5));
        tokio::select! {
            () = endless => panic!("there are no other events"),
            ended = others => ended.unwrap(),
        }
        // No event is lost with the future.
        assert_eq!(here.next().await.unwrap().user_arg(), Some(taken));
    });
}

/// A device of a fabric is removed while tasks wait for events of its ids: each task gets an error,
/// and so does each later call.
/// Ends: AsyncEventChannel::disconnected, AsyncEventChannel::finish, AsyncEventChannel::next,
/// AsyncEventChannel::request.
#[test]
fn waits_on_a_removed_device_end() {
    let is_removal = |error: &proverbs::Error| matches!(error.kind(), ErrorKind::Cm { .. });
    for way in 0..4 {
        run(async {
            let fabric = Fabric::new();
            let (goes, stays) = (fabric.open_device(), fabric.open_device());
            let (events, [(there, _active), (_here, _passive)]) =
                crate::fabric::connected(&fabric, &goes, &stays);
            let mut channel = events.into_async().unwrap();
            let at = |device| SocketAddr::new(fabric.ip_of(device).unwrap(), 0);
            let bound = |device| {
                let id = channel.get_ref().create_id::<Tcp>().unwrap();
                id.bind_addr(at(device)).unwrap().listen(8).unwrap()
            };
            let (listening, mute) = (bound(&goes), bound(&stays));
            let id = channel.get_ref().create_id::<Tcp>().unwrap().bind_addr(at(&goes)).unwrap();
            let id = id.resolve_addr(mute.local_addr().unwrap(), long()).unwrap();
            let id = channel.finish(id).await.unwrap();
            let id = channel.finish(id.resolve_route(long()).unwrap()).await.unwrap();
            let (qp, _end) = end(&id, 0);
            let pending = id.connect(qp, &ConnParam::default()).unwrap();
            let goes = async {
                yields(3).await;
                assert!(fabric.remove_device(&goes));
            };
            let wait = async {
                match way {
                    0 => {
                        for _ in 0..3 {
                            let refused = channel.request(&listening).await.unwrap_err();
                            assert!(is_removal(&refused), "{refused}");
                        }
                    }
                    1 => {
                        for _ in 0..3 {
                            let ended = channel.disconnected(&there.id).await.unwrap_err();
                            assert!(is_removal(&ended), "{ended}");
                        }
                    }
                    2 => {
                        let refused = channel.finish(pending).await.unwrap_err();
                        assert!(is_removal(&refused.error), "{refused}");
                        let refused = channel.finish(there).await.unwrap_err();
                        assert!(is_removal(&refused.error), "{refused}");
                    }
                    _ => loop {
                        let event = channel.next().await.unwrap();
                        if event.id() == there.id.key() {
                            break assert_eq!(event.kind(), EventKind::DeviceRemoval);
                        }
                    },
                }
            };
            tokio::join!(wait, goes);
        });
    }
}

/// An event that was taken from a channel and kept does not move with its id, so a pending step
/// must be finished first.
#[test]
fn a_kept_event_stays_when_its_id_moves() {
    if fabric().is_none() {
        return; // the kernel answers in any order
    }
    run(async {
        let (mut first, mut second) = (channel(), channel());
        let (_listening, at) = crate::support::listener::<Tcp>();
        let create = |channel: &AsyncEventChannel| channel.get_ref().create_id::<Tcp>().unwrap();
        let moves = create(&first).resolve_addr(at, long()).unwrap();
        let other = create(&first).resolve_addr(at, long()).unwrap();
        drop(first.finish(other).await.unwrap()); // its event comes later
        let moves = moves.migrate_to(second.get_ref()).unwrap();
        assert!(timeout(Duration::from_millis(10), second.finish(moves)).await.is_err());
    });
}

/// A timeout ends the wait for a silent peer, repeatedly.
/// Ends: AsyncEventChannel::disconnected, AsyncEventChannel::finish, AsyncEventChannel::next,
/// AsyncEventChannel::request.
#[test]
fn an_awaited_wait_ends_in_time() {
    let (tell, told) = mpsc::channel();
    let (connection, mut active, server) = connected(move |connection, mut passive| {
        told.recv_timeout(long()).unwrap();
        passive.drain(connection.disconnect().unwrap().qp);
    });
    let connection = run(async {
        let mut here = channel();
        let connection = connection.migrate_to(here.get_ref()).unwrap();
        let (listening, _at) = listener(&here);
        let (_mute, at) = crate::support::listener::<Tcp>();
        let short = Duration::from_millis(10);
        for _ in 0..2 {
            assert!(timeout(short, here.next()).await.is_err(), "nothing is said");
            assert!(timeout(short, here.request(&listening)).await.is_err(), "no peer asks");
            assert!(timeout(short, here.disconnected(&connection.id)).await.is_err(), "it stays");
            let id = routed(&mut here, at).await;
            let (qp, End { mut cq, pool }) = end(&id, 2);
            let pending = id.connect(qp, &ConnParam::default()).unwrap();
            assert!(timeout(short, here.finish(pending)).await.is_err(), "no peer answers");
            while pool.available() < BUFS {
                cq.poll().unwrap().for_each(drop);
            }
        }
        connection
    });
    tell.send(()).unwrap();
    active.drain(connection.disconnect().unwrap().qp);
    server.join().unwrap();
}

/// DISCONNECTED arrives once, here at a call on the id before the id was on a channel. Awaiting the
/// end there still returns.
///
/// The end of a connection that an earlier call saw also ends an await on its channel.
/// Ends: AsyncEventChannel::finish.
#[test]
fn an_end_that_was_seen_is_not_awaited_again() {
    let (mut connection, mut active, server) = connected(|connection, mut passive| {
        passive.drain(connection.disconnect().unwrap().qp);
    });
    connection.id.wait_disconnected(long()).unwrap();
    run(async {
        let mut channel = channel();
        let connection = connection.migrate_to(channel.get_ref()).unwrap();
        let ended = channel.finish(connection).await.unwrap();
        active.drain(ended.qp);
        channel.finish(ended.id).await.unwrap().destroy().unwrap();
    });
    server.join().unwrap();

    // The same for an endpoint.
    let (listening, at) = crate::support::listener::<Tcp>();
    let depth = proverbs::Depth { send: 1, recv: 1 };
    let server = thread::spawn(move || {
        let request = listening.get_request_timeout(long()).unwrap();
        let ep = request.create_ep::<DefaultProfile>(None, depth).unwrap();
        let mut ep = ep.accept(&AcceptParam::default(), long()).unwrap();
        ep.id.wait_disconnected(long()).unwrap();
        run(async {
            let mut channel = channel();
            let ep = ep.migrate_to(channel.get_ref()).unwrap();
            drop(channel.finish(ep).await.unwrap());
        });
    });
    let ep = crate::support::routed::<Tcp>(at).create_ep::<DefaultProfile>(None, depth).unwrap();
    let ep = ep.connect(&ConnParam::default(), long()).unwrap();
    let _ep = ep.disconnect().unwrap();
    server.join().unwrap();
}

/// Another thread takes events of the channel, and drops ids with their events, between this task's
/// check and its read.
/// Ends: AsyncEventChannel::disconnected, AsyncEventChannel::finish, AsyncEventChannel::next,
/// AsyncEventChannel::request.
#[test]
fn a_wait_does_not_sleep_for_events_that_another_thread_takes() {
    crate::waits::ends("an awaited wait", || {
        let (tell, told) = mpsc::channel();
        let (connection, mut active, server) = connected(move |connection, mut passive| {
            told.recv_timeout(long()).unwrap();
            passive.drain(connection.disconnect().unwrap().qp);
        });
        let connection = run(async {
            let mut here = channel();
            let connection = connection.migrate_to(here.get_ref()).unwrap();
            let (listening, _at) = listener(&here);
            for round in 0..20 {
                let (_mute, at) = crate::support::listener::<Tcp>();
                let id = routed(&mut here, at).await;
                let (qp, _end) = end(&id, 0);
                let pending = id.connect(qp, &ConnParam::default()).unwrap();
                let clone = here.get_ref().clone();
                let id = clone.create_id::<Tcp>().unwrap().resolve_addr(at, long()).unwrap();
                let taker = thread::spawn(move || {
                    drop(clone.try_event().unwrap());
                    drop(id);
                });
                let wait = async {
                    match round % 4 {
                        0 => drop(here.request(&listening).await),
                        1 => drop(here.disconnected(&connection.id).await),
                        2 => drop(here.finish(pending).await),
                        // Perhaps a kept event; its own event, or none.
                        _ => loop {
                            assert!(here.next().await.unwrap().kind() == EventKind::AddrResolved);
                        },
                    }
                };
                let wait = timeout(Duration::from_millis(2), wait).await;
                assert!(wait.is_err(), "no peer asks, answers or leaves");
                taker.join().unwrap();
            }
            connection
        });
        tell.send(()).unwrap();
        active.drain(connection.disconnect().unwrap().qp);
        server.join().unwrap();
    });
}

/// Endpoints can be awaited like connections, and so can their completion channels.
/// Proves R23.7.
#[test]
fn an_endpoint_is_awaited() {
    run(async {
        let (mut here, mut there) = (channel(), channel());
        let (listening, at) = listener(&there);
        let depth = proverbs::Depth { send: 4, recv: 4 };
        let ep = routed(&mut here, at).await.create_ep::<DefaultProfile>(None, depth).unwrap();
        let asking = ep.connect(&ConnParam::default()).unwrap();
        let request = there.request(&listening).await.unwrap();
        let mut ep = request.create_ep::<DefaultProfile>(None, depth).unwrap();
        let pool = ep.reg_msgs::<()>(1, 64).unwrap();
        ep.post_recv((), pool.take().unwrap()).unwrap();
        let answering = ep.accept(&AcceptParam::default()).unwrap();
        let (client, server) = tokio::join!(here.finish(asking), there.finish(answering));
        let (mut client, server) = (client.unwrap(), server.unwrap());
        let EpParts { recv: (mut cq, channel), qp, id, .. } = server.into_parts();
        let mut awaits = channel.into_async().unwrap();
        let message = async {
            let completions = awaits.wait(&mut cq).await.unwrap();
            completions.map(|completion| completion.byte_len()).collect::<Vec<_>>()
        };
        post_send!(client.qp, [wr::Send::inline(b"hello")]).unwrap();
        assert_eq!(message.await, [Some(5)]);
        let _client = client.disconnect().unwrap();
        there.disconnected(&id).await.unwrap();
        drop(qp);
    });
}

/// On tokio, one `select!` waits for messages, for the end of the connection, for asynchronous
/// events and for a wake of another thread. So a server with a shared receive queue, which the end
/// does not flush, notices the end. A dropped wait has taken nothing.
/// Proves R7.13.
/// Ends: AsyncCompletionChannel::wait, AsyncDeviceEvents::next, AsyncEventChannel::next.
#[test]
fn one_select_finds_what_each_source_has() {
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        run(async {
            let mut channel = channel();
            let (listening, at) = listener(&channel);
            tell.send(at).unwrap();
            let request = channel.request(&listening).await.unwrap();
            let (pd, context) = (request.id.pd().unwrap(), request.id.context().unwrap());
            let pool = pd.create_pool(4, 64).unwrap();
            let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&pool).unwrap();
            for _ in 0..4 {
                srq.post_srq_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
            }
            srq.arm_limit(3).unwrap();
            let mut events = context.events().unwrap().into_async().unwrap();
            let mut messages = context.create_comp_channel().unwrap().into_async().unwrap();
            let cq = context.cq(16).channel(messages.get_ref());
            let mut cq: CompletionQueue = cq.create().unwrap();
            let depth = Depth::on_srq(2, &srq);
            let qp = request.id.create_qp::<OnSrq>(&pd, &cq, &cq, depth).unwrap();
            let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
            let connection = channel.finish(accepted).await.unwrap();
            let wake = Arc::new(Notify::new());
            let waker = thread::spawn({
                let wake = wake.clone();
                move || wake.notify_one()
            });
            let (mut taken, mut limits, mut wakes, mut has_ended) = (0, 0, 0, false);
            while (taken, limits, wakes, has_ended) != (2, 1, 1, true) {
                tokio::select! {
                    completions = messages.wait(&mut cq) => {
                        taken += completions.unwrap().map(drop).count();
                    }
                    event = events.next() => {
                        let reached = SrqEvent::LimitReached;
                        let reached = DeviceEvent::Srq { srq: srq.id(), event: reached };
                        limits += u32::from(event.unwrap() == reached);
                    }
                    event = channel.next() => {
                        let event = event.unwrap();
                        if event.kind() == EventKind::Disconnected {
                            assert_eq!(event.id(), connection.id.key());
                            has_ended = true;
                        }
                    }
                    () = wake.notified() => wakes += 1,
                }
            }
            waker.join().unwrap();
            drop(connection);
        });
    });
    let at = told.recv_timeout(long()).unwrap();
    run(async {
        let mut channel = channel();
        let (mut connection, mut own) = asked(&mut channel, at).await;
        for _ in 0..2 {
            connection.qp.post_send(wr::Send::inline(b"message")).unwrap();
            own.sent();
        }
        own.drain(connection.disconnect().unwrap().qp);
    });
    server.join().unwrap();
}

/// An event that the program wrote stays in the channel when the id of its connection finishes,
/// even if the end was found before.
#[test]
fn the_end_of_a_connection_takes_no_other_event() {
    run(async {
        let ConnectedPair { fabric, a, b, .. } = loopback_pair().unwrap();
        let mut channel = EventChannel::on(&fabric).unwrap().into_async().unwrap();
        let a = a.migrate_to(channel.get_ref()).unwrap();
        a.id.write_cm_event(0, 7).unwrap();
        let _b = b.disconnect().unwrap();
        channel.disconnected(&a.id).await.unwrap();
        let _ended = channel.finish(a).await.unwrap();
        assert_eq!(channel.next().await.unwrap().user_arg(), Some(7));
    });
}
