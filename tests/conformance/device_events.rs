//! Asynchronous events: each is reported once, acknowledged at once, and contains nothing that can
//! dangle.

use std::os::fd::AsRawFd;

use proverbs::completion::Direction;
use proverbs::device::{DeviceEvent, QpEvent, SrqEvent};
use proverbs::prelude::*;
use proverbs::qp::Drain;
use proverbs::state::QpState;

use crate::support::*;

profile! { OnSrq { receive: SharedRq } }

/// The next event, except for port events, which have external causes.
#[track_caller]
fn next(dev: &Device, events: &mut DeviceEvents) -> DeviceEvent {
    let mut deadline = dev.deadline("an asynchronous event must come");
    loop {
        match events.try_next().unwrap() {
            None => deadline.tick(&()),
            Some(DeviceEvent::Port { .. }) => {}
            Some(event) => return event,
        }
    }
}

#[track_caller]
fn none(events: &mut DeviceEvents) {
    while let Some(event) = events.try_next().unwrap() {
        assert!(matches!(event, DeviceEvent::Port { .. }), "{event:?}");
    }
}

/// A sender, and a queue pair whose receives come from an SRQ.
struct Shared {
    a: QueuePair<Rc, Rts>,
    b: QueuePair<Rc, Rts, OnSrq>,
    srq: SharedReceiveQueue<Rc>,
    ca: CompletionQueue,
    cb: CompletionQueue,
    pool: Pool,
    events: DeviceEvents,
    dev: Device,
}

fn shared() -> Shared {
    let (dev, wish) = (Device::open(), Wish::new());
    let events = dev.ctx.events().unwrap();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 64).unwrap();
    let srq = pd.create_srq(&pool).unwrap();
    let (ca, cb) = (dev.ctx.create_cq(20).unwrap(), dev.ctx.create_cq(20).unwrap());
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, Depth { send: 8, recv: 0 }).unwrap();
    let b = pd.create_qp::<Rc, OnSrq>(&cb, &cb, Depth::on_srq(2, &srq)).unwrap();
    let (a, b) = Rc::connect((a, &pd), (b, &pd), &dev, &wish);
    Shared { a, b, srq, ca, cb, pool, events, dev }
}

#[test]
fn an_srq_limit_event_comes_once_per_arming() {
    let Shared { mut a, b: _b, mut srq, mut ca, mut cb, mut events, dev, .. } = {
        let mut shared = shared();
        for _ in 0..6 {
            shared.srq.post_srq_recv(wr::Recv::new(poisoned(&shared.pool))).unwrap();
        }
        shared
    };
    let reached = DeviceEvent::Srq { srq: srq.id(), event: SrqEvent::LimitReached };
    let mut take = |n: usize| {
        for _ in 0..n {
            a.post_send(wr::Send::inline_slice(b"x")).unwrap();
            poll(&dev, &mut ca, 1);
            poll(&dev, &mut cb, 1);
        }
    };
    srq.arm_limit(4).unwrap();
    take(2);
    none(&mut events);
    take(1);
    assert_eq!(next(&dev, &mut events), reached);
    take(1);
    none(&mut events);
    srq.arm_limit(2).unwrap();
    take(1);
    assert_eq!(next(&dev, &mut events), reached);
    none(&mut events);
}

/// Proves R13.1.
#[test]
fn a_forgotten_event_blocks_nothing() {
    let mut shared = shared();
    shared.srq.post_srq_recv(wr::Recv::new(poisoned(&shared.pool))).unwrap();
    shared.srq.arm_limit(1).unwrap();
    shared.a.post_send(wr::Send::inline_slice(b"x")).unwrap();
    poll(&shared.dev, &mut shared.ca, 1);
    poll(&shared.dev, &mut shared.cb, 1);
    // Taken and ignored. In C, without an acknowledgement, the next line would sleep forever.
    let id = shared.srq.id();
    let event = next(&shared.dev, &mut shared.events);
    drop(shared.b);
    shared.srq.destroy().unwrap();
    // It still identifies its queue, although the queue is gone.
    assert_eq!(event, DeviceEvent::Srq { srq: id, event: SrqEvent::LimitReached });
}

#[test]
fn events_of_destroyed_objects_are_dropped() {
    let mut shared = shared();
    shared.srq.post_srq_recv(wr::Recv::new(poisoned(&shared.pool))).unwrap();
    shared.srq.arm_limit(1).unwrap();
    shared.a.post_send(wr::Send::inline_slice(b"x")).unwrap();
    poll(&shared.dev, &mut shared.ca, 1);
    poll(&shared.dev, &mut shared.cb, 1);
    drop(shared.b);
    shared.srq.destroy().unwrap();
    none(&mut shared.events);
}

/// Proves R13.11.
#[test]
fn the_last_receive_of_a_failing_queue_pair_is_reported() {
    fails_on!(IwarpOtherwise, "R24.16");
    let mut shared = shared();
    let qp_num = shared.b.qp_num();
    let dead = shared.b.to_error().unwrap();
    assert_eq!(dead.query().unwrap().state, Some(QpState::Err));
    by_rule! { shared.dev, "R13.11",
        loopback: assert_eq!(
            next(&shared.dev, &mut shared.events),
            DeviceEvent::Qp { qp_num, event: QpEvent::LastWqeReached },
        ),
        rxe before (6, 12): none(&mut shared.events),
    }
    let dead = dead.to_error().unwrap();
    drop(dead);
    none(&mut shared.events);
}

/// Proves R13.11.
#[test]
fn the_responder_receives_the_reason_of_its_failure() {
    fails_on!(IwarpOtherwise, "R24.5");
    // An operation that the queue pair forbids is an invalid request; one that the region forbids
    // is an access violation.
    for (access, status, cause) in [
        (QpAccess::all(), WcStatus::RemAccess, QpEvent::AccessError),
        (QpAccess::empty(), WcStatus::RemInvReq, QpEvent::RequestError),
    ] {
        let mut p = Pair::<Rc>::with(&Wish { access, ..Wish::new() });
        let mut events = p.dev.ctx.events().unwrap();
        let region = p.pd.register::<RemoteRead>(64).unwrap();
        let mut bytes = region.remote().to_bytes();
        // A peer that uses rights that it does not have.
        bytes[23] = RemoteSlice::<RemoteReadWrite>::from_parts(0, 1, 0).to_bytes()[23];
        let there = RemoteSlice::<RemoteReadWrite>::from_bytes(&bytes).unwrap();
        p.a.post_send(wr::RdmaWrite::inline(&[1; 8], there.write())).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, status);
        let qp_num = p.b.qp_num();
        let is_told = match cause {
            QpEvent::AccessError => {
                by_rule!(p.dev, "R13.11", loopback: true, rxe before (7, 3): false)
            }
            _ => by_rule!(p.dev, "R13.11", loopback: true, rxe: false),
        };
        if is_told {
            assert_eq!(next(&p.dev, &mut events), DeviceEvent::Qp { qp_num, event: cause });
        }
        none(&mut events);
    }
}

#[test]
fn the_first_message_in_rtr_reports_that_the_peer_is_ready() {
    fails_on!(Iwarp, "R24.5");
    let (dev, wish) = (Device::open(), Wish::new());
    let mut events = dev.ctx.events().unwrap();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (mut ca, cb): (CompletionQueue, CompletionQueue) =
        (dev.ctx.create_cq(20).unwrap(), dev.ctx.create_cq(20).unwrap());
    let a = pd.create_qp::<Rc, DefaultProfile>(&ca, &ca, wish.depth).unwrap();
    let b = pd.create_qp::<Rc, DefaultProfile>(&cb, &cb, wish.depth).unwrap();
    let (na, qp_num) = (a.qp_num(), b.qp_num());
    let mut b = Rc::rtr(Rc::init(b, &wish), &dev, na, &wish);
    let mut a = Rc::up(a, &dev, qp_num, &wish);
    for _ in 0..2 {
        b.post_recv(wr::Recv::empty()).unwrap();
        a.post_send(wr::Send::inline_slice(b"")).unwrap();
        poll(&dev, &mut ca, 1);
    }
    by_rule! { dev, "R13.11",
        loopback: assert_eq!(
            next(&dev, &mut events),
            DeviceEvent::Qp { qp_num, event: QpEvent::CommunicationEstablished },
        ),
        rxe: none(&mut events),
    }
    none(&mut events);
}

#[test]
fn a_drained_send_queue_raises_an_event() {
    fails_on!(Iwarp, "R24.5");
    let p = Pair::<Rc>::new();
    let mut events = p.dev.ctx.events().unwrap();
    let qp_num = p.a.qp_num();
    let stopped = p.a.modify(Drain { notify: true }).unwrap();
    let drained = DeviceEvent::Qp { qp_num, event: QpEvent::SqDrained };
    assert_eq!(next(&p.dev, &mut events), drained);
    none(&mut events);
    drop(stopped);
}

/// Proves R13.10.
#[test]
fn an_open_device_has_one_reader() {
    let dev = Device::open();
    let events = dev.ctx.events().unwrap();
    let refused = dev.ctx.clone().events().unwrap_err();
    assert_eq!(
        said(&refused),
        "ibv_get_async_event: EBUSY: Device or resource busy (another `DeviceEvents` of this \
         open device exists)"
    );
    drop(events);
    dev.ctx.events().unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot wait on a descriptor")]
fn an_event_wakes_its_sleeper() {
    let mut shared = shared();
    let none_yet = std::time::Duration::from_millis(1);
    assert_eq!(shared.events.wait_timeout(none_yet).unwrap(), None);
    for _ in 0..2 {
        shared.srq.post_srq_recv(wr::Recv::new(poisoned(&shared.pool))).unwrap();
    }
    shared.srq.arm_limit(2).unwrap();
    let reached = DeviceEvent::Srq { srq: shared.srq.id(), event: SrqEvent::LimitReached };
    let mut events = shared.events;
    assert!(events.as_raw_fd() >= 0);
    let sleeper = std::thread::spawn(move || events.wait().unwrap());
    // After the post only the sleeper calls verbs.
    shared.a.post_send(wr::Send::inline_slice(b"x")).unwrap();
    assert_eq!(sleeper.join().unwrap(), reached);
}
