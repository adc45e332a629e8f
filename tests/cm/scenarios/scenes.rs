//! The scenarios. Each creates its own ids; `expected` has the transcripts.

use std::net::SocketAddr;

use proverbs::bounded::{ReadDepth, ResponderDepth, RetryCount, RnrRetries, RnrRetry};
use proverbs::cm::*;
use proverbs::state::{Init, Rts};
use proverbs::transport::{Rc, Ud};
use proverbs::{DefaultProfile, Depth, Error, QueuePair};

use super::Scene;
use crate::steps::done;
use crate::support::{address, fabric, is_iwarp, long};

type Client = CmId<Tcp, RouteResolved, OnChannel>;
type Connected = Connection<DefaultProfile, OnChannel>;

/// A queue pair on an id.
fn made<S: HasDevice>(
    id: &CmId<Tcp, S, OnChannel>,
) -> Result<QueuePair<Rc, Init, DefaultProfile>, Error> {
    let (pd, cq) = (id.pd()?, id.context()?.create_cq(16)?);
    id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 1, recv: 1 })
}

/// Requests a connection. On siw the call itself may fail.
fn ask(s: &mut Scene, who: &str, id: Client, data: &[u8]) -> Option<Pending> {
    let param = ConnParam { private_data: PrivateData::new(data).unwrap(), ..offered() };
    let qp = made(&id).unwrap();
    match id.connect(qp, &param) {
        Ok(pending) => Some(pending),
        Err(refused) => {
            s.say(who, format!("rdma_connect: {}", super::errno(&refused.error)));
            None
        }
    }
}

/// Parameters with distinct values.
fn offered<const N: usize>() -> ConnParam<DefaultProfile, N> {
    ConnParam {
        initiator_depth: ReadDepth::try_from(2).unwrap(),
        responder_resources: ResponderDepth::try_from(4).unwrap(),
        retry_count: RetryCount::try_from(3).unwrap(),
        rnr_retry_count: RnrRetry::Times(RnrRetries::try_from(5).unwrap()),
        ..ConnParam::default()
    }
}

fn answer(s: &mut Scene, request: Request<Tcp, OnChannel>, data: &[u8]) -> Option<Accepted> {
    let param = AcceptParam { private_data: PrivateData::new(data).unwrap(), ..offered() };
    let qp = match made(&request.id) {
        Ok(qp) => qp,
        Err(error) => {
            s.say("passive", format!("{}: {}", error.verb(), super::errno(&error)));
            return None;
        }
    };
    let accepted = request.accept(qp, &param);
    s.called("passive", "rdma_accept", accepted)
}

/// A connection of both sides, and their objects.
struct Both {
    active: Connected,
    passive: Connected,
    listening: CmId<Tcp, Listening, OnChannel>,
}

fn connected(s: &mut Scene) -> Both {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let pending = ask(s, "active", client, b"hello").unwrap();
    let request = s.request(&listening, "passive");
    let accepted = answer(s, request, b"welcome").unwrap();
    let (active, passive) = established(s, pending, accepted);
    Both { active, passive, listening }
}

/// The last steps of both sides. On iWARP the answer completes the handshake.
fn established(s: &mut Scene, pending: Pending, accepted: Accepted) -> (Connected, Connected) {
    if is_iwarp() {
        let passive = done(accepted.advance(&s.event("passive")));
        return (done(pending.advance(&s.event("active"))), passive);
    }
    let active = done(pending.advance(&s.event("active")));
    (active, done(accepted.advance(&s.event("passive"))))
}

/// The end of TIMEWAIT, which iWARP does not have.
fn timewait(s: &mut Scene, who: &'static str) {
    if !is_iwarp() {
        s.sees(who);
    }
}

pub fn the_active_side_leaves(s: &mut Scene) {
    s.in_full = true;
    let Both { active, passive, .. } = connected(s);
    let active = s.called("active", "rdma_disconnect", active.disconnect());
    s.sees("passive");
    let passive = s.called("passive", "rdma_disconnect", passive.disconnect());
    s.sees("active");
    timewait(s, "active");
    timewait(s, "passive");
    drop((active, passive));
}

pub fn the_passive_side_leaves(s: &mut Scene) {
    let Both { active, passive, .. } = connected(s);
    let passive = s.called("passive", "rdma_disconnect", passive.disconnect());
    s.sees("active");
    let active = s.called("active", "rdma_disconnect", active.disconnect());
    s.sees("passive");
    timewait(s, "active");
    timewait(s, "passive");
    drop((active, passive));
}

pub fn an_active_side_is_dropped(s: &mut Scene) {
    let Both { active, passive, .. } = connected(s);
    drop(active);
    s.sees("passive");
    let passive = s.called("passive", "rdma_disconnect", passive.disconnect());
    timewait(s, "passive");
    drop(passive);
}

/// The listening id may be dropped before its connections.
pub fn a_listener_leaves_its_connections(s: &mut Scene) {
    let Both { active, passive, listening } = connected(s);
    let at = listening.local_addr().unwrap();
    drop(listening);
    let again = s.id::<Tcp>("again").bind_addr(at);
    drop(s.called("again", "rdma_bind_addr", again));
    drop(passive);
    s.sees("active");
    let active = s.called("active", "rdma_disconnect", active.disconnect());
    timewait(s, "active");
    drop(active);
}

pub fn no_listener(s: &mut Scene) {
    let bound = s.id::<Tcp>("server").bind_addr(address(0)).unwrap();
    let client = s.client("active", bound.local_addr().unwrap());
    if let Some(pending) = ask(s, "active", client, b"hello") {
        let event = s.event("active");
        assert!(matches!(pending.advance(&event), Progress::Failed(_)));
    }
}

/// A service for datagrams does not accept connections to its port number.
pub fn a_listener_of_another_space(s: &mut Scene) {
    let (listening, at) = s.server::<Udp>(1);
    let client = s.client("active", at);
    if let Some(_attempt) = ask(s, "active", client, b"hello") {
        s.sees("active");
    }
    drop(listening);
}

pub fn a_wildcard_listens(s: &mut Scene) {
    let mut any = address(0);
    any.set_ip(match any {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    });
    let listening = s.id::<Tcp>("server").bind_addr(any).unwrap().listen(1).unwrap();
    let client = s.client("active", address(listening.local_addr().unwrap().port()));
    let _attempt = ask(s, "active", client, b"hello");
    let request = s.request(&listening, "passive");
    let local = request.id.local_addr().unwrap();
    s.say("passive", format!("at the device's address: {}", local.ip() == address(0).ip()));
    request.reject(&RejectData::none()).unwrap();
    s.sees("active");
}

/// The addresses of the loopback interface stand for this machine.
pub fn this_machine(s: &mut Scene) {
    let at = |port| match address(0) {
        SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], port)),
        SocketAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)),
    };
    let id = s.id::<Tcp>("server").bind_addr(at(0));
    let id = s.called("server", "rdma_bind_addr", id).unwrap();
    s.say("server", format!("has a device: {}", id.device().is_some()));
    let listening = id.listen(1).unwrap();
    let port = listening.local_addr().unwrap().port();
    let client = s.client("active", address(port));
    if let Some(_attempt) = ask(s, "active", client, b"hello") {
        s.request(&listening, "passive").reject(&RejectData::none()).unwrap();
        s.sees("active");
    }

    let id = s.id::<Tcp>("other").resolve_addr(at(port), long());
    let Some(id) = s.called("other", "rdma_resolve_addr", id) else { return };
    let id = done(id.advance(&s.event("other")));
    let ends = [id.local_addr(), id.peer_addr()].map(|at| at.unwrap().ip().is_loopback());
    s.say("other", format!("both ends are the loopback interface's: {}", ends == [true; 2]));
    let id = id.resolve_route(long());
    drop(s.called("other", "rdma_resolve_route", id));
}

pub fn the_longest_private_data(s: &mut Scene) {
    s.in_full = true;
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let pending = ask(s, "active", client, &[b'a'; 56]).unwrap();
    let request = s.request(&listening, "passive");
    let accepted = answer(s, request, &[b'b'; 196]).unwrap();
    let both = established(s, pending, accepted);
    let client = s.client("other", at);
    let _attempt = ask(s, "other", client, &[]);
    let request = s.request(&listening, "refused");
    request.reject(&RejectData::of(&[b'c'; 148])).unwrap();
    s.sees("other");
    drop(both);
}

/// The passive side serves and issues less than the active one offered.
pub fn depths_are_agreed_on(s: &mut Scene) {
    s.in_full = true;
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let pending = ask(s, "active", client, &[]).unwrap();
    let request = s.request(&listening, "passive");
    let qp = made(&request.id).unwrap();
    let (one, nine) = (ReadDepth::ONE, ResponderDepth::try_from(9).unwrap());
    let param = AcceptParam { initiator_depth: one, responder_resources: nine, ..offered() };
    let accepted = request.accept(qp, &param).unwrap();
    let _both = established(s, pending, accepted);
}

pub fn rejected(s: &mut Scene) {
    s.in_full = true;
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let pending = ask(s, "active", client, b"hello").unwrap();
    let request = s.request(&listening, "passive");
    let done = request.reject(&RejectData::of(b"no"));
    s.called("passive", "rdma_reject", done);
    let event = s.event("active");
    assert!(matches!(pending.advance(&event), Progress::Failed(_)));
}

pub fn a_request_is_dropped(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let _attempt = ask(s, "active", client, b"hello").unwrap();
    drop(s.request(&listening, "passive"));
    s.sees("active");
}

/// A listening id is dropped with a request that was not taken.
pub fn a_listener_is_dropped(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let _attempt = ask(s, "active", client, b"hello").unwrap();
    s.settle();
    drop(listening);
    s.sees("active");
}

/// The active side gives up before it is answered.
pub fn an_answer_to_no_client(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let attempt = ask(s, "active", client, b"hello").unwrap();
    let request = s.request(&listening, "passive");
    drop(attempt);
    s.settle();
    s.looks("passive");
    let _accepted = answer(s, request, b"welcome");
}

pub fn a_rejection_of_no_client(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let attempt = ask(s, "active", client, b"hello").unwrap();
    let request = s.request(&listening, "passive");
    drop(attempt);
    s.settle();
    let done = request.reject(&RejectData::of(b"no"));
    s.called("passive", "rdma_reject", done);
}

/// The active side gives up before its request was taken.
pub fn a_request_of_no_client(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    drop(ask(s, "active", client, b"hello").unwrap());
    s.settle();
    let request = s.request(&listening, "passive");
    let _accepted = answer(s, request, b"welcome");
}

/// The active side gives up when it is answered.
pub fn an_answer_is_refused(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let pending = ask(s, "active", client, b"hello").unwrap();
    let request = s.request(&listening, "passive");
    let accepted = answer(s, request, b"welcome").unwrap();
    s.sees("active");
    drop(pending);
    s.sees("passive");
    drop(accepted);
}

/// The passive side accepts, and gives up before the active one confirms.
pub fn an_answer_is_taken_back(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let client = s.client("active", at);
    let pending = ask(s, "active", client, b"hello").unwrap();
    let request = s.request(&listening, "passive");
    let accepted = answer(s, request, b"welcome").unwrap();
    s.sees("active");
    drop(accepted);
    s.sees("active");
    drop(pending);
}

/// A device that exists, or seems to, and never answers. Linux gives up after a minute.
pub fn nobody_answers(s: &mut Scene) {
    let silent = fabric().map(|(fabric, _)| (fabric, fabric.open_device()));
    let at = match &silent {
        Some((fabric, device)) => SocketAddr::new(fabric.ip_of(device).unwrap(), 7),
        // The guest's network device does not resolve neighbours.
        None => "10.77.0.250:7".parse().unwrap(),
    };
    let tcp = s.client("active", at);
    let udp = s.client::<Udp>("other", at);
    if let Some((fabric, device)) = &silent {
        fabric.silence_device(device, true);
    }
    let _attempt = ask(s, "active", tcp, b"hello");
    let _lookup = udp.connect(&LookupData::none()).unwrap();
    s.sees("active");
    s.sees("other");
}

/// The second request finds the backlog full. It arrives later, and is not refused.
pub fn a_full_backlog(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let [one, two] = ["first", "second"].map(|who| s.client(who, at));
    let first = ask(s, "first", one, b"first");
    s.settle();
    let second = ask(s, "second", two, b"second");
    s.settle();
    if is_iwarp() {
        s.sees("second");
    }
    s.request(&listening, "passive").reject(&RejectData::none()).unwrap();
    s.sees("first");
    s.event_of_the_second(&listening);
    drop((first, second));
}

/// A dropped request arrives after others that find room first.
pub fn a_dropped_request_is_overtaken(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let [one, two, three] = ["first", "second", "third"].map(|who| s.client(who, at));
    let first = ask(s, "first", one, b"first");
    s.settle();
    let second = ask(s, "second", two, b"second");
    s.settle();
    if is_iwarp() {
        s.sees("second");
    }
    s.request(&listening, "passive").reject(&RejectData::none()).unwrap();
    let third = ask(s, "third", three, b"third");
    s.settle();
    s.request(&listening, "passive").reject(&RejectData::none()).unwrap();
    s.sees("third");
    s.sees("first");
    s.event_of_the_second(&listening);
    drop((first, second, third));
}

/// A dropped request is sent again after the listener is gone.
pub fn a_full_backlog_goes(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let [one, two] = ["first", "second"].map(|who| s.client(who, at));
    let first = ask(s, "first", one, b"first");
    s.settle();
    let second = ask(s, "second", two, b"second");
    s.settle();
    drop(listening);
    s.sees("first");
    s.sees("second");
    drop((first, second));
}

pub fn addresses(s: &mut Scene) {
    let at = address(0);
    let [nowhere, elsewhere] = match at {
        SocketAddr::V4(_) => ["192.0.2.1:7", "198.51.100.1:0"],
        SocketAddr::V6(_) => ["[2001:db8::1]:7", "[2001:db8::2]:0"],
    };
    let id = s.id::<Tcp>("id").bind_addr(elsewhere.parse().unwrap());
    drop(s.called("id", "rdma_bind_addr of another machine", id));
    let id = s.id::<Tcp>("id").resolve_addr(nowhere.parse().unwrap(), long());
    assert!(s.called("id", "rdma_resolve_addr without a route", id).is_none());
    let id = s.id::<Tcp>("id").resolve_addr(address(7), long()).unwrap();
    let id = done(id.advance(&s.event("id")));
    s.say("id", format!("at the device's address: {}", id.local_addr().unwrap().ip() == at.ip()));
    let id = id.resolve_route(long()).unwrap();
    s.sees("id");
    drop(id);
}

pub fn ports(s: &mut Scene) {
    let (listening, at) = s.server::<Tcp>(1);
    let mut any = at;
    any.set_ip(match any {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    });
    let id = s.id::<Tcp>("id").bind_addr(at);
    s.called("id", "rdma_bind_addr of a port that is taken", id);
    let id = s.id::<Tcp>("id").bind_addr(any);
    s.called("id", "rdma_bind_addr of a port that is taken, anywhere", id);
    let id = s.id::<Udp>("id").bind_addr(at);
    s.called("id", "rdma_bind_addr of a port that is taken, for datagrams", id);
    let mut id = s.id::<Tcp>("id");
    id.set_reuse_addr(true).unwrap();
    let id = id.bind_addr(at);
    s.called("id", "rdma_bind_addr of a port that is taken, to share it", id);
    drop(listening);
    let first = s.id::<Tcp>("id").bind_addr(any).unwrap();
    let id = s.id::<Tcp>("id").bind_addr(any);
    s.called("id", "rdma_bind_addr of a port that is taken everywhere, anywhere", id);
    let id = s.id::<Tcp>("id").bind_addr(at);
    s.called("id", "rdma_bind_addr of a port that is taken everywhere", id);
    drop(first);
    let [one, two] = [(); 2].map(|()| {
        let mut id = s.id::<Tcp>("id");
        id.set_reuse_addr(true).unwrap();
        let id = id.bind_addr(at);
        s.called("id", "rdma_bind_addr to share it", id).unwrap()
    });
    let one = one.listen(1);
    let one = s.called("id", "rdma_listen", one);
    let two = two.listen(1);
    s.called("id", "rdma_listen of the other", two);
    drop(one);
}

/// A service for datagrams, with a request for it.
fn looked_up(s: &mut Scene, data: &[u8]) -> (Lookup, Request<Udp, OnChannel>) {
    let (listening, at) = s.server::<Udp>(1);
    let id = s.client::<Udp>("active", at);
    let id = id.connect(&LookupData::new(data).unwrap()).unwrap();
    let request = s.request(&listening, "passive");
    (Lookup { id, _listening: listening }, request)
}

struct Lookup {
    id: CmId<Udp, Connecting, OnChannel>,
    _listening: CmId<Udp, Listening, OnChannel>,
}

fn service(id: &CmId<Udp, Requested, OnChannel>) -> QueuePair<Ud, Rts, DefaultProfile> {
    let (pd, cq) = (id.pd().unwrap(), id.context().unwrap().create_cq(16).unwrap());
    id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 1, recv: 1 }).unwrap()
}

pub fn a_service(s: &mut Scene) {
    s.in_full = true;
    let (lookup, request) = looked_up(s, b"who?");
    let qp = service(&request.id);
    let id = request.accept(&qp, &ReplyData::of(b"me"));
    let id = s.called("passive", "rdma_accept", id);
    let found = done(lookup.id.advance(&s.event("active")));
    s.say("active", format!("its queue pair: {}", found.peer.qpn.get() == qp.qp_num()));
    drop((id, found));
}

pub fn a_service_with_the_longest_data(s: &mut Scene) {
    s.in_full = true;
    let (_lookup, request) = looked_up(s, &[b'a'; 180]);
    let qp = service(&request.id);
    let _id = request.accept(&qp, &ReplyData::of(&[b'b'; 136])).unwrap();
    s.sees("active");
}

pub fn no_service(s: &mut Scene) {
    let bound = s.id::<Udp>("server").bind_addr(address(0)).unwrap();
    let id = s.client::<Udp>("active", bound.local_addr().unwrap());
    let _id = id.connect(&LookupData::none()).unwrap();
    s.sees("active");
}

pub fn a_service_refuses(s: &mut Scene) {
    s.in_full = true;
    let (_lookup, request) = looked_up(s, b"who?");
    let done = request.reject(&ReplyData::of(b"no"));
    s.called("passive", "rdma_reject", done);
    s.sees("active");
}

pub fn a_request_for_a_service_is_dropped(s: &mut Scene) {
    let (_lookup, request) = looked_up(s, b"who?");
    drop(request);
    s.sees("active");
}

pub fn a_service_is_dropped(s: &mut Scene) {
    let (listening, at) = s.server::<Udp>(1);
    let id = s.client::<Udp>("active", at);
    let _id = id.connect(&LookupData::of(b"who?")).unwrap();
    s.settle();
    drop(listening);
    s.sees("active");
}

pub fn a_service_with_a_full_backlog(s: &mut Scene) {
    let (listening, at) = s.server::<Udp>(1);
    let [one, two] = ["first", "second"].map(|who| s.client::<Udp>(who, at));
    let one = one.connect(&LookupData::of(b"first")).unwrap();
    s.settle();
    let two = two.connect(&LookupData::of(b"second")).unwrap();
    s.settle();
    s.sees("second");
    drop((listening, one, two));
}

pub fn an_answer_to_nobody(s: &mut Scene) {
    let (lookup, request) = looked_up(s, b"who?");
    drop(lookup.id);
    s.settle();
    let qp = service(&request.id);
    let id = request.accept(&qp, &ReplyData::of(b"me"));
    drop(s.called("passive", "rdma_accept", id));
}
