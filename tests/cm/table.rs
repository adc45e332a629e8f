//! Each rdma_cm event in each state of an id, and how waiting calls and futures handle it.
//!
//! The expectations are written out, independently of the table in `src/cm/table.rs`. A fabric
//! raises the events, so this runs only on the loopback.

use std::net::SocketAddr;
use std::time::Duration;

use proverbs::cm::*;
use proverbs::loopback::Fabric;
use proverbs::{Context, Error, ErrorKind};

use crate::support::{end, long};

const STATUS: i32 = -libc::ETIMEDOUT;

/// The effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Done,
    Failed,
    Waits,
}
use Seen::{Done, Failed, Waits};

/// The events that a fabric raises, and their effects in each state: resolving an address,
/// resolving a route, connecting, looking up, accepting, established, disconnected by this side.
///
/// A step that would succeed gets a nonzero status here, so it fails; `DONE` has the other cases.
const TABLE: [(EventKind, [Seen; 7]); 15] = {
    use EventKind::*;
    [
        (AddrResolved, [Failed, Waits, Waits, Waits, Waits, Waits, Waits]),
        (AddrError, [Failed, Waits, Waits, Failed, Waits, Waits, Waits]),
        (RouteResolved, [Waits, Failed, Waits, Waits, Waits, Waits, Waits]),
        (RouteError, [Waits, Failed, Waits, Waits, Waits, Waits, Waits]),
        (ConnectResponse, [Waits, Waits, Failed, Waits, Waits, Waits, Waits]),
        (ConnectError, [Waits, Waits, Failed, Failed, Failed, Failed, Failed]),
        (Unreachable, [Waits, Failed, Failed, Failed, Failed, Failed, Failed]),
        (Rejected, [Waits, Waits, Failed, Failed, Failed, Failed, Failed]),
        (Established, [Waits, Waits, Waits, Failed, Failed, Waits, Waits]),
        (Disconnected, [Waits, Waits, Failed, Waits, Failed, Done, Done]),
        (DeviceRemoval, [Failed, Failed, Failed, Failed, Failed, Failed, Failed]),
        (AddrChange, [Waits, Waits, Waits, Waits, Waits, Waits, Waits]),
        (TimewaitExit, [Waits, Waits, Failed, Waits, Failed, Done, Done]),
        (Unknown(77), [Waits, Waits, Waits, Waits, Waits, Waits, Waits]),
        (Unknown(u32::MAX), [Waits, Waits, Waits, Waits, Waits, Waits, Waits]),
    ]
};

/// A separate fabric, so that a raised event does not disturb another test.
struct World {
    fabric: Fabric,
    _device: Context,
    channel: EventChannel,
    at: SocketAddr,
}

impl World {
    fn new() -> World {
        let fabric = Fabric::new();
        let device = fabric.open_device();
        let channel = EventChannel::on(&fabric).unwrap();
        let at = SocketAddr::new(fabric.ip_of(&device).unwrap(), 7471);
        World { fabric, _device: device, channel, at }
    }

    fn listening<PS: PortSpace>(&self) -> CmId<PS, Listening> {
        CmId::<PS, _>::on(&self.fabric).unwrap().bind_addr(self.at).unwrap().listen(8).unwrap()
    }

    fn created<PS: PortSpace>(&self) -> CmId<PS, Created, OnChannel> {
        self.channel.create_id::<PS>().unwrap()
    }

    fn routed<PS: PortSpace>(&self) -> CmId<PS, RouteResolved> {
        let id = CmId::<PS, _>::on(&self.fabric).unwrap();
        id.resolve_addr(self.at, long()).unwrap().resolve_route(long()).unwrap()
    }

    /// Takes the events that arrived by themselves.
    fn quiet(&self) {
        while self.channel.try_event().unwrap().is_some() {}
    }

    fn raise<PS: PortSpace, S: CmState, M: Mode>(&self, id: &CmId<PS, S, M>, kind: EventKind) {
        assert!(self.fabric.raise_cm(id, kind, STATUS), "{kind:?}");
    }

    fn event(&self) -> Event {
        self.channel.try_event().unwrap().expect("it was raised")
    }
}

fn seen<D, W, F>(step: Progress<D, W, F>, kind: EventKind) -> Seen {
    match step {
        Progress::Done(_) => Done,
        Progress::Waiting(_) => Waits,
        Progress::Failed(refused) => failed(&refused.error, kind),
    }
}

/// The error names the event.
fn failed(error: &Error, kind: EventKind) -> Seen {
    match error.kind() {
        ErrorKind::Cm { event, status } => {
            assert_eq!((*event, *status), (kind.name(), STATUS), "{error}");
        }
        ErrorKind::Rejected { reason, .. } => {
            assert_eq!((kind, *reason), (EventKind::Rejected, STATUS));
        }
        other => panic!("{other:?}"),
    }
    Failed
}

/// A call that waits briefly.
fn waited<T>(result: Result<T, Error>, kind: EventKind) -> Seen {
    match result {
        Ok(_) => Done,
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut { .. }) => Waits,
        Err(error) => failed(&error, kind),
    }
}

const MOMENT: Duration = Duration::from_millis(1);

#[test]
fn each_event_in_each_state() {
    for (kind, row) in TABLE {
        let [addr, route, connect, look_up, ..] = row;
        let w = World::new();
        let id = w.created::<Tcp>().resolve_addr(w.at, long()).unwrap();
        w.quiet();
        w.raise(&id, kind);
        assert_eq!(seen(id.advance(&w.event()), kind), addr, "{kind:?}, resolve_addr");

        let id = w.created::<Tcp>().resolve_addr(w.at, long()).unwrap();
        let Progress::Done(id) = id.advance(&w.event()) else { panic!("resolved") };
        let id = id.resolve_route(long()).unwrap();
        w.quiet();
        w.raise(&id, kind);
        assert_eq!(seen(id.advance(&w.event()), kind), route, "{kind:?}, resolve_route");

        let _listening = w.listening::<Tcp>();
        let id = w.routed::<Tcp>().migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&id, 1);
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        w.raise(pending.id(), kind);
        assert_eq!(seen(pending.advance(&w.event()), kind), connect, "{kind:?}, connect");

        let _service = w.listening::<Udp>();
        let id = w.routed::<Udp>().migrate_to(&w.channel).unwrap();
        let id = id.connect(&LookupData::none()).unwrap();
        w.raise(&id, kind);
        assert_eq!(seen(id.advance(&w.event()), kind), look_up, "{kind:?}, look-up");
    }
    for (kind, row) in TABLE {
        let [.., accept, _, _] = row;
        let w = World::new();
        let listening = w.listening::<Tcp>();
        let id = w.routed::<Tcp>().migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&id, 1);
        let _pending = id.connect(qp, &ConnParam::default()).unwrap();
        let request = listening.get_request_timeout(long()).unwrap();
        let request = request.migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&request.id, 1);
        let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
        w.quiet();
        w.raise(accepted.id(), kind);
        assert_eq!(seen(accepted.advance(&w.event()), kind), accept, "{kind:?}, accept");
    }
    for (kind, row) in TABLE {
        let [.., end, confirmation] = row;
        // A call that waits; a connection that advances; the same after this side disconnected.
        let ConnectedPair { fabric, mut a, b: _b, .. } = loopback_pair().unwrap();
        assert!(fabric.raise_cm(&a.id, kind, STATUS));
        assert_eq!(waited(a.id.wait_disconnected(MOMENT), kind), end, "{kind:?}, wait");
        assert_eq!(waited(a.id.wait_disconnected(MOMENT), kind), end, "{kind:?}, wait again");

        let ConnectedPair { fabric, a, b: _b, .. } = loopback_pair().unwrap();
        let channel = EventChannel::on(&fabric).unwrap();
        let a = a.migrate_to(&channel).unwrap();
        assert!(fabric.raise_cm(&a.id, kind, STATUS));
        let event = channel.try_event().unwrap().unwrap();
        assert_eq!(seen(a.advance(&event), kind), end, "{kind:?}, Connection::advance");

        let ConnectedPair { fabric, a, b: _b, .. } = loopback_pair().unwrap();
        let mut ended = a.disconnect().unwrap();
        assert!(fabric.raise_cm(&ended.id, kind, STATUS));
        let waited = waited(ended.id.wait_disconnected(MOMENT), kind);
        assert_eq!(waited, confirmation, "{kind:?}, after disconnect");

        let ConnectedPair { fabric, a, b: _b, .. } = loopback_pair().unwrap();
        let a = a.migrate_to(&channel_of(&fabric)).unwrap();
        let channel = channel_of(&fabric);
        let id = a.disconnect().unwrap().id.migrate_to(&channel).unwrap();
        assert!(fabric.raise_cm(&id, kind, STATUS));
        let event = channel.try_event().unwrap().unwrap();
        assert_eq!(seen(id.advance(&event), kind), confirmation, "{kind:?}, advance after it");
    }
}

fn channel_of(fabric: &Fabric) -> EventChannel {
    EventChannel::on(fabric).unwrap()
}

/// Calls that wait on an id without a channel see the same.
#[test]
fn each_event_while_a_call_waits() {
    for (kind, row) in TABLE {
        let [_, _, connect, _, accept, _, _] = row;
        // The peer does not answer, so only the event ends the call.
        let w = World::new();
        let listening = w.listening::<Tcp>();
        let id = w.routed::<Tcp>();
        let (qp, _end) = end(&id, 1);
        w.raise(&id, kind);
        let connected = id.connect(qp, &ConnParam::default(), MOMENT);
        if kind == EventKind::DeviceRemoval {
            assert!(connected.is_err(), "the call itself fails");
            continue;
        }
        assert_eq!(waited(connected.map_err(|e| e.error), kind), connect, "{kind:?}, connect");
        drop(listening);

        let w = World::new();
        let listening = w.listening::<Tcp>();
        let id = w.routed::<Tcp>().migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&id, 1);
        let _pending = id.connect(qp, &ConnParam::default()).unwrap();
        let request = listening.get_request_timeout(long()).unwrap();
        let (qp, _end) = end(&request.id, 1);
        w.raise(&request.id, kind);
        let accepted = request.accept(qp, &AcceptParam::default(), MOMENT);
        if kind == EventKind::DeviceRemoval {
            assert!(accepted.is_err(), "the call itself fails");
            continue;
        }
        assert_eq!(waited(accepted.map_err(|e| e.error), kind), accept, "{kind:?}, accept");
    }
}

/// A listening id waits for requests, and its device may be removed.
#[test]
fn each_event_of_a_listening_id() {
    for (kind, _) in TABLE {
        let w = World::new();
        let listening = w.listening::<Tcp>();
        w.raise(&listening, kind);
        let expected = if kind == EventKind::DeviceRemoval { Failed } else { Waits };
        for _ in 0..2 {
            assert_eq!(waited(listening.get_request_timeout(MOMENT), kind), expected, "{kind:?}");
        }
    }
}

/// These events cannot be raised without their causes.
#[test]
fn some_events_are_raised_only_by_their_causes() {
    let w = World::new();
    let id = w.created::<Tcp>();
    for kind in [
        EventKind::ConnectRequest,
        EventKind::MulticastJoin,
        EventKind::MulticastError,
        EventKind::User,
    ] {
        assert!(!w.fabric.raise_cm(&id, kind, 0), "{kind:?}");
    }
    assert!(!Fabric::new().raise_cm(&id, EventKind::AddrChange, 0), "another fabric's id");
}

/// Futures see the same, and so does each later call.
#[cfg(all(feature = "tokio", not(miri)))]
#[test]
fn each_event_while_a_future_waits() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context as Task, Poll, Waker};

    /// One poll, and one more for the yield of a channel.
    fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut task = Task::from_waker(Waker::noop());
        for _ in 0..4 {
            if let Poll::Ready(done) = future.as_mut().poll(&mut task) {
                return Some(done);
            }
        }
        None
    }

    fn finished<D, F>(done: Option<Result<D, proverbs::Refused<F>>>, kind: EventKind) -> Seen {
        match done {
            None => Waits,
            Some(Ok(_)) => Done,
            Some(Err(refused)) => failed(&refused.error, kind),
        }
    }

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    for (kind, row) in TABLE {
        let [addr, route, connect, look_up, accept, end_, confirmation] = row;
        let w = World::new();
        let mut channel = w.channel.clone().into_async().unwrap();
        let id = w.created::<Tcp>().resolve_addr(w.at, long()).unwrap();
        w.quiet();
        w.raise(&id, kind);
        assert_eq!(finished(poll(channel.finish(id)), kind), addr, "{kind:?}, resolve_addr");

        let id = w.created::<Tcp>().resolve_addr(w.at, long()).unwrap();
        let id = poll(channel.finish(id)).unwrap().unwrap().resolve_route(long()).unwrap();
        w.quiet();
        w.raise(&id, kind);
        assert_eq!(finished(poll(channel.finish(id)), kind), route, "{kind:?}, resolve_route");

        let listening = w.listening::<Tcp>();
        let id = w.routed::<Tcp>().migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&id, 1);
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        let request = listening.get_request_timeout(long()).unwrap();
        w.raise(pending.id(), kind);
        assert_eq!(finished(poll(channel.finish(pending)), kind), connect, "{kind:?}, connect");
        drop(request);

        let id = w.routed::<Tcp>().migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&id, 1);
        let _pending = id.connect(qp, &ConnParam::default()).unwrap();
        let request = listening.get_request_timeout(long()).unwrap();
        let request = request.migrate_to(&w.channel).unwrap();
        let (qp, _end) = end(&request.id, 1);
        let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
        w.raise(accepted.id(), kind);
        assert_eq!(finished(poll(channel.finish(accepted)), kind), accept, "{kind:?}, accept");

        let _service = w.listening::<Udp>();
        let id = w.routed::<Udp>().migrate_to(&w.channel).unwrap();
        let id = id.connect(&LookupData::none()).unwrap();
        w.raise(&id, kind);
        assert_eq!(finished(poll(channel.finish(id)), kind), look_up, "{kind:?}, look-up");

        let ConnectedPair { fabric, a, b: _b, .. } = loopback_pair().unwrap();
        let mut channel = channel_of(&fabric).into_async().unwrap();
        let a = a.migrate_to(channel.get_ref()).unwrap();
        assert!(fabric.raise_cm(&a.id, kind, STATUS));
        for _ in 0..2 {
            let told = poll(channel.disconnected(&a.id));
            let told = told.map_or(Waits, |told| waited(told, kind));
            assert_eq!(told, end_, "{kind:?}, disconnected");
        }
        assert_eq!(finished(poll(channel.finish(a)), kind), end_, "{kind:?}, finish");

        let ConnectedPair { fabric, a, b: _b, .. } = loopback_pair().unwrap();
        let mut channel = channel_of(&fabric).into_async().unwrap();
        let ended = a.migrate_to(channel.get_ref()).unwrap().disconnect().unwrap();
        assert!(fabric.raise_cm(&ended.id, kind, STATUS));
        let told = finished(poll(channel.finish(ended.id)), kind);
        assert_eq!(told, confirmation, "{kind:?}, finish after disconnect");
    }
}
