//! A device of a loopback fabric is removed, or falls silent, during each step or just before it.
//! Each step ends, and so does a second attempt if the step returned its objects.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use proverbs::cm::*;
use proverbs::completion::Waker;
use proverbs::ext::af_ib::IbAddr;
use proverbs::loopback::{Fabric, Fault, Script, World};
use proverbs::{Context, DefaultProfile, Depth, Error, ErrorKind};

use crate::fabric::next;
use crate::steps::done;
use crate::support::{end, long};
use crate::waits::ends;

const DEPTH: Depth = Depth { send: 1, recv: 1 };

const SHORT: Duration = Duration::from_millis(20);

/// How often a device is removed during each step. The order of the two varies.
const ROUNDS: u32 = if cfg!(miri) { 1 } else { 8 };

/// Two devices; the first one is removed.
struct Ground {
    fabric: Fabric,
    goes: Context,
    stays: Context,
}

fn ground() -> Ground {
    let fabric = Fabric::new();
    let (goes, stays) = (fabric.open_device(), fabric.open_device());
    Ground { fabric, goes, stays }
}

impl Ground {
    fn of(&self, device: &Context) -> SocketAddr {
        SocketAddr::new(self.fabric.ip_of(device).unwrap(), 0)
    }

    /// Ids that listen on the devices.
    fn listener<PS: PortSpace>(&self, device: &Context) -> (CmId<PS, Listening>, SocketAddr) {
        let id = CmId::<PS, _>::on(&self.fabric).unwrap().bind_addr(self.of(device)).unwrap();
        let id = id.listen(8).unwrap();
        let at = id.local_addr().unwrap();
        (id, at)
    }

    /// An id bound to a device.
    fn bound<PS: PortSpace>(&self, device: &Context) -> CmId<PS, Bound> {
        CmId::on(&self.fabric).unwrap().bind_addr(self.of(device)).unwrap()
    }

    fn routed<PS: PortSpace>(&self, from: &Context, at: SocketAddr) -> CmId<PS, RouteResolved> {
        let id = self.bound(from).resolve_addr(at, long()).unwrap();
        id.resolve_route(long()).unwrap()
    }

    /// A request to the device that is removed, from a peer that does not confirm; and a value that
    /// keeps the peer.
    fn asked(&self) -> (Request<Tcp>, impl Sized) {
        let (listening, at) = self.listener::<Tcp>(&self.goes);
        let channel = EventChannel::on(&self.fabric).unwrap();
        let id = self.routed::<Tcp>(&self.stays, at).migrate_to(&channel).unwrap();
        let (qp, end) = end(&id, 0);
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        let request = listening.get_request_timeout(long()).unwrap();
        (request, (pending, end, listening, channel))
    }

    /// Waits while the device is removed.
    fn goes<R>(&self, wait: impl FnOnce() -> R) -> R {
        let both = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                both.wait();
                assert!(self.fabric.remove_device(&self.goes));
            });
            both.wait();
            let began = Instant::now();
            let done = wait();
            assert!(began.elapsed() < long());
            done
        })
    }
}

/// Checks the error after a device was removed: the removal itself, or a rejected call.
fn is_told(what: &str, error: &Error) {
    let is_removal = matches!(error.kind(), ErrorKind::Cm { .. });
    let is_refused = matches!(error.errno(), Some(libc::ENODEV | libc::ENXIO));
    assert!(is_removal || is_refused, "{what}: {error:?}");
}

/// Checks the error for a silent peer: a timeout, or the removal.
fn is_silent(what: &str, error: &Error) {
    let is_over = *error.kind() == ErrorKind::TimedOut { after: SHORT };
    let is_known =
        matches!(error.kind(), ErrorKind::Cm { status, .. } if *status == -libc::ETIMEDOUT);
    assert!(is_over || is_known, "{what}: {error:?}");
}

type Progress = fn(&Ground);

/// Ends: AddrInfo::create_ep, CmId::connect, CmId::get_request, CmId::join_multicast,
/// CmId::resolve_addr, CmId::resolve_route, Ep::accept, Ep::connect, Request::accept.
#[test]
fn every_step_ends() {
    let steps: [(&str, Progress); 11] = [
        ("resolve_addr", |g| {
            let (_listening, at) = g.listener::<Tcp>(&g.stays);
            let id = g.bound::<Tcp>(&g.goes);
            // The event may arrive before the removal.
            let Err(refused) = g.goes(|| id.resolve_addr(at, long())) else { return };
            is_told("resolve_addr", &refused.error);
            is_told("again", &refused.into_object().resolve_addr(at, long()).unwrap_err().error);
        }),
        ("resolve_route", |g| {
            let (_listening, at) = g.listener::<Tcp>(&g.stays);
            let id = g.bound::<Tcp>(&g.goes).resolve_addr(at, long()).unwrap();
            let Err(refused) = g.goes(|| id.resolve_route(long())) else { return };
            is_told("resolve_route", &refused.error);
            is_told("again", &refused.into_object().resolve_route(long()).unwrap_err().error);
        }),
        ("connect", |g| {
            let (_mute, at) = g.listener::<Tcp>(&g.stays);
            let id = g.routed::<Tcp>(&g.goes, at);
            let (qp, _end) = end(&id, 0);
            let refused = g.goes(|| id.connect(qp, &ConnParam::default(), long())).unwrap_err();
            is_told("connect", &refused.error);
        }),
        ("accept", |g| {
            let (request, _peer) = g.asked();
            let (qp, _end) = end(&request.id, 0);
            let refused = g.goes(|| request.accept(qp, &AcceptParam::default(), long()));
            is_told("accept", &refused.unwrap_err().error);
        }),
        ("connect of UDP", |g| {
            let (_mute, at) = g.listener::<Udp>(&g.stays);
            let id = g.routed::<Udp>(&g.goes, at);
            let refused = g.goes(|| id.connect(&LookupData::none(), long())).unwrap_err();
            is_told("connect of UDP", &refused.error);
        }),
        ("joins", |g| {
            let at = "239.77.0.9:7471".parse::<SocketAddr>().unwrap();
            let mut id = g.bound::<Udp>(&g.goes).on_device().unwrap();
            // The join may succeed before the removal.
            let _ = g.goes(|| id.join_multicast(at, long()));
            for _ in 0..2 {
                let other = "239.77.0.10:7471".parse::<SocketAddr>().unwrap();
                is_told("join_multicast", &id.join_multicast(other, long()).unwrap_err());
                let joined = id.join_multicast(Join::<SendOnlyFullMember>::new(other), long());
                is_told("join_multicast_ex", &joined.unwrap_err());
            }
        }),
        ("get_request", |g| {
            let (listening, _at) = g.listener::<Tcp>(&g.goes);
            is_told("get_request", &g.goes(|| listening.get_request()).unwrap_err());
            is_told("again", &listening.get_request().unwrap_err());
            is_told("again, in time", &listening.get_request_timeout(long()).unwrap_err());
        }),
        ("Ep::connect", |g| {
            let (_mute, at) = g.listener::<Tcp>(&g.stays);
            let ep = g.routed::<Tcp>(&g.goes, at).create_ep::<DefaultProfile>(None, DEPTH);
            let ep = ep.unwrap();
            let refused = g.goes(|| ep.connect(&ConnParam::default(), long())).unwrap_err();
            is_told("Ep::connect", &refused.error);
        }),
        ("Ep::accept", |g| {
            let (request, _peer) = g.asked();
            let ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
            let refused = g.goes(|| ep.accept(&AcceptParam::default(), long())).unwrap_err();
            is_told("Ep::accept", &refused.error);
        }),
        ("Ep::connect of UDP", |g| {
            let (_mute, at) = g.listener::<Udp>(&g.stays);
            let ep = g.routed::<Udp>(&g.goes, at).create_ep::<DefaultProfile>(None, DEPTH);
            let ep = ep.unwrap();
            let refused = g.goes(|| ep.connect(&LookupData::none(), long())).unwrap_err();
            is_told("Ep::connect of UDP", &refused.error);
        }),
        ("create_ep", |g| {
            let (_listening, at) = g.listener::<Tcp>(&g.stays);
            let port = at.port().to_string();
            let mut found = AddrInfo::<Tcp>::look_up_on(&g.fabric, "loop1", &port).unwrap();
            found[0].local = Some(g.of(&g.goes));
            let found = &found[0];
            let made = g.goes(|| found.create_ep::<DefaultProfile>(None, DEPTH, long()).map(drop));
            made.unwrap_or_else(|error| is_told("create_ep", &error));
            for _ in 0..2 {
                let error = found.create_ep::<DefaultProfile>(None, DEPTH, long()).unwrap_err();
                is_told("create_ep again", &error);
            }
        }),
    ];
    for (what, step) in steps {
        ends(what, move || (0..ROUNDS).for_each(|_| step(&ground())));
    }
}

/// A device exists but is silent: each step that needs it ends in time, and so do the steps of
/// endpoints.
/// Ends: AddrInfo::create_ep, CmId::resolve_addr, CmId::resolve_ib_addr, CmId::resolve_route,
/// Ep::accept, Ep::connect.
#[test]
fn every_step_with_a_silent_peer_ends() {
    let steps: [(&str, Progress); 5] = [
        ("to a silent device", |g| {
            let (_listening, at) = g.listener::<Tcp>(&g.stays);
            let found = AddrInfo::<Tcp>::look_up_on(&g.fabric, "loop1", &at.port().to_string());
            let found = &found.unwrap()[0];
            let resolved = g.bound::<Tcp>(&g.goes).resolve_addr(at, SHORT).unwrap();
            assert!(g.fabric.silence_device(&g.stays, true));
            let refused = resolved.resolve_route(SHORT).unwrap_err();
            is_silent("resolve_route", &refused.error);
            let refused = refused.into_object().resolve_route(SHORT).unwrap_err();
            is_silent("resolve_route again", &refused.error);
            for _ in 0..2 {
                let refused = g.bound::<Tcp>(&g.goes).resolve_addr(at, SHORT).unwrap_err();
                is_silent("resolve_addr", &refused.error);
                let refused = refused.into_object().resolve_addr(at, SHORT).unwrap_err();
                is_silent("resolve_addr again", &refused.error);
                let made = found.create_ep::<DefaultProfile>(None, DEPTH, SHORT);
                is_silent("create_ep", &made.unwrap_err());
            }
        }),
        ("to a silent device of InfiniBand", |_| {
            let fabric = Fabric::with(World::infiniband());
            let (one, two) = (fabric.open_device(), fabric.open_device());
            let [own, at] = [&one, &two].map(|device| device.query_gid(1, 0).unwrap());
            let id = CmId::<Udp, _>::on(&fabric).unwrap().bind_ib_addr(IbAddr::new(own, 0));
            assert!(fabric.silence_device(&two, true));
            let at = IbAddr::new(at, 9);
            let refused = id.unwrap().resolve_ib_addr(at, SHORT).unwrap_err();
            is_silent("resolve_ib_addr", &refused.error);
            assert!(fabric.remove_device(&one));
            let refused = refused.into_object().resolve_ib_addr(at, SHORT).unwrap_err();
            is_told("resolve_ib_addr again", &refused.error);
        }),
        ("Ep::connect", |g| {
            let (_mute, at) = g.listener::<Tcp>(&g.stays);
            let ep = g.routed::<Tcp>(&g.goes, at).create_ep::<DefaultProfile>(None, DEPTH);
            let refused = ep.unwrap().connect(&ConnParam::default(), SHORT).unwrap_err();
            is_silent("Ep::connect", &refused.error);
        }),
        ("Ep::accept", |g| {
            let (request, _peer) = g.asked();
            let ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
            let refused = ep.accept(&AcceptParam::default(), SHORT).unwrap_err();
            is_silent("Ep::accept", &refused.error);
        }),
        ("Ep::connect of UDP", |g| {
            let (_mute, at) = g.listener::<Udp>(&g.stays);
            let ep = g.routed::<Udp>(&g.goes, at).create_ep::<DefaultProfile>(None, DEPTH);
            let refused = ep.unwrap().connect(&LookupData::none(), SHORT).unwrap_err();
            is_silent("Ep::connect of UDP", &refused.error);
        }),
    ];
    for (what, step) in steps {
        ends(what, move || step(&ground()));
    }
}

/// Every wait on a channel reports the removal of its ids' device, once.
/// Ends: EventChannel::wait, EventChannel::wait_or_woken, EventChannel::wait_timeout.
#[test]
fn every_wait_on_a_channel_reports_removal() {
    for way in 0..3 {
        ends("a wait on a channel", move || {
            let ground = ground();
            let (channel, waker) =
                (EventChannel::on(&ground.fabric).unwrap(), Waker::new().unwrap());
            let id = channel.create_id::<Tcp>().unwrap();
            let id = id.bind_addr(ground.of(&ground.goes)).unwrap();
            let told = ground.goes(|| match way {
                0 => channel.wait().map(Some),
                1 => channel.wait_timeout(long()),
                _ => channel.wait_or_woken(&waker, None),
            });
            let told = told.unwrap().expect("an event");
            assert_eq!((told.kind(), told.id()), (EventKind::DeviceRemoval, id.key()));
            for _ in 0..2 {
                assert!(channel.wait_timeout(SHORT).unwrap().is_none());
                assert!(channel.wait_or_woken(&waker, Some(SHORT)).unwrap().is_none());
            }
            waker.wake();
            assert!(channel.wait_or_woken(&waker, None).unwrap().is_none());
        });
    }
}

/// The answer to a join cannot arrive after the device was removed: the loop that waits for it
/// ends.
///
/// A wait for a multicast join ends when the device is removed.
#[test]
fn a_join_on_a_removed_device_ends() {
    let ground = ground();
    let channel = EventChannel::on(&ground.fabric).unwrap();
    let id = channel.create_id::<Udp>().unwrap().bind_addr(ground.of(&ground.goes)).unwrap();
    let mut id = id.on_device().unwrap();
    let joining: Joining =
        id.join_multicast("239.77.0.11:7471".parse::<SocketAddr>().unwrap()).unwrap();
    drop(next(&channel, EventKind::MulticastJoin)); // the answer is lost
    assert!(ground.fabric.remove_device(&ground.goes));
    let told = joining.advance(&next(&channel, EventKind::DeviceRemoval));
    let proverbs::cm::Progress::Failed(refused) = told else { panic!("it would wait forever") };
    is_told("join_multicast", &refused.error);
}

/// An endpoint's device breaks, and the flush of a receive is delayed: every call times out.
/// Ends: Ep::drain_within, Ep::get_recv_comp_timeout, Ep::get_send_comp_timeout.
#[test]
fn every_wait_for_completions_of_an_endpoint_ends() {
    ends("a completion of an endpoint", || {
        let ground = ground();
        let (listening, at) = ground.listener::<Tcp>(&ground.stays);
        let server = thread::spawn(move || {
            let request = listening.get_request_timeout(long()).unwrap();
            let ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
            ep.accept(&AcceptParam::default(), long()).unwrap()
        });
        let ep = ground.routed::<Tcp>(&ground.goes, at);
        let ep = ep.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
        let mut ep = ep.connect(&ConnParam::default(), long()).unwrap();
        let mut peer = server.join().unwrap();
        let late = Fault::FlushLate { runs: u32::MAX };
        ground.fabric.inject(Script::seeded(0).with(late.always()));
        let pool = ep.reg_msgs::<()>(1, 64).unwrap();
        ep.post_recv((), pool.take().unwrap()).unwrap();
        let mut ep = ep.disconnect().unwrap();
        assert!(ground.fabric.break_device(&ground.goes));
        for _ in 0..2 {
            let timed_out = ErrorKind::TimedOut { after: SHORT };
            let error = ep.get_send_comp_timeout(SHORT).expect_err("nothing is sent");
            assert_eq!(*error.kind(), timed_out);
            let error = ep.get_recv_comp_timeout(SHORT).expect_err("nothing is flushed");
            assert_eq!(*error.kind(), timed_out);
            let left = ep.drain_within(SHORT, |_| panic!("nothing is flushed")).unwrap_err();
            assert_eq!(left.errno(), Some(libc::ETIMEDOUT));
        }
        // The peer's flush is late, but in time.
        ground.fabric.inject(Script::seeded(0).with(Fault::FlushLate { runs: 20 }.always()));
        let pool = peer.reg_msgs::<()>(1, 64).unwrap();
        peer.post_recv((), pool.take().unwrap()).unwrap();
        peer.disconnect().unwrap().drain_within(long(), drop).unwrap();
        assert_eq!(pool.available(), 1);
    });
}

/// A device that was reset is a new one, whatever its name: a server serves on it again, while a
/// buffer of the old one exists.
#[test]
fn a_server_serves_again_on_a_device_of_the_same_name() {
    for world in [World::ipv4(), World::infiniband()] {
        let fabric = Fabric::with(world);
        let mut device = fabric.open_device();
        let name = device.name();
        let at = SocketAddr::new(fabric.ip_of(&device).unwrap(), 7471);
        let mut kept = Vec::new();
        for _ in 0..3 {
            let channel = EventChannel::on(&fabric).unwrap();
            let listening = channel.create_id::<Tcp>().unwrap().bind_addr(at).unwrap();
            let listening = listening.listen(8).unwrap();
            let id = CmId::<Tcp, _>::on(&fabric).unwrap();
            let id = id.resolve_addr(at, long()).unwrap().resolve_route(long()).unwrap();
            assert_eq!(id.device(), Some(&*name));
            let (qp, mut active) = end(&id, 2);
            kept.push((active.pool.take().unwrap(), id.pd().unwrap()));
            let id = id.migrate_to(&channel).unwrap();
            let pending = id.connect(qp, &ConnParam::default()).unwrap();
            let request = listening.request(next(&channel, EventKind::ConnectRequest)).unwrap();
            let (qp, mut passive) = end(&request.id, 2);
            let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
            let event = next(&channel, EventKind::ConnectResponse);
            let mut a = done(pending.advance(&event));
            let event = next(&channel, EventKind::Established);
            let b = done(accepted.advance(&event));
            proverbs::post_send!(a.qp, [proverbs::wr::Send::inline(b"again")]).unwrap();
            active.sent();
            assert_eq!(passive.receive().data(), b"again");

            // The old domain belongs to the old device, and cannot be used for queue pairs on the
            // new one.
            let new = fabric.replace_device(&device).unwrap();
            assert_eq!((new.name(), fabric.ip_of(&new)), (name.clone(), Some(at.ip())));
            let id = CmId::<Tcp, _>::on(&fabric).unwrap().resolve_addr(at, long()).unwrap();
            let (_, old) = kept.last().unwrap();
            let cq = device.create_cq(4).unwrap();
            let error = id.create_qp::<DefaultProfile>(old, &cq, &cq, DEPTH).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
            assert!(error.to_string().contains("on another device called"), "{error}");
            assert!(fabric.replace_device(&device).is_none(), "it is gone");
            drop((a, b, listening));
            device = new;
        }
    }
}
