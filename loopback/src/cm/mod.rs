//! rdma_cm between the devices of a fabric: ids, and the events that they tell each other of.
//!
//! An id is a state machine behind the fabric's lock. What it sends reaches its peer at once, and
//! each event is in its channel when the call that caused it returns. Whoever waits for an answer
//! that cannot come is told at once that the time is over. So no clock is needed, and a program
//! that makes the same calls sees the same events. A request that a full backlog drops is sent
//! again when there is room and its listener's channel has no other event, where Linux sends it
//! again after some seconds. `tests/cm/scenarios` compares all this with kernels.
//!
//! | file | what |
//! |---|---|
//! | `address` | addresses and ports: bind, resolve, listen |
//! | `connect` | connections: ask, accept, reject, establish |
//! | `end` | their end: disconnect, destroy, a device that goes |
//! | `multicast` | groups |
//! | `attributes` | the attributes with which queue pairs are moved, and the options of ids |
//! | `fabric` | what a test says to its fabric |
//! | `entry`, `event`, `newer` | the C boundary, and the table of calls |

mod address;
mod attributes;
mod connect;
mod end;
mod entry;
mod event;
mod fabric;
mod multicast;
mod newer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::ptr::NonNull;

pub use entry::{open_channel, raise};

use super::Verb;
use super::address::Address;
use super::fabric::State;
use super::signal::Signal;
use proverbs_sys::tuning::ibv_ece;
use proverbs_sys::types::raw::rdma_cm_event_type as Kind;
use proverbs_sys::types::raw::{rdma_cm_id, rdma_port_space};

/// The state of rdma_cm on a fabric.
#[derive(Default)]
pub(super) struct Cm {
    channels: BTreeMap<u32, Channel>,
    ids: BTreeMap<u32, Id>,
    /// Requests that found a full backlog, in their order.
    unheard: Vec<Unheard>,
    /// The port that was given last to an id that asked for any.
    last_port: u16,
    /// Devices that were removed.
    removed: BTreeSet<u32>,
    /// Devices that neither send nor hear messages of rdma_cm.
    silent: BTreeSet<u32>,
}

/// An event channel.
struct Channel {
    signal: Signal,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Tcp,
    Udp,
}

impl Space {
    fn of(ps: u32) -> Verb<Space> {
        match ps {
            rdma_port_space::RDMA_PS_TCP => Ok(Space::Tcp),
            rdma_port_space::RDMA_PS_UDP => Ok(Space::Udp),
            _ => Err(libc::EPROTONOSUPPORT),
        }
    }

    fn to_c(self) -> u32 {
        match self {
            Space::Tcp => rdma_port_space::RDMA_PS_TCP,
            Space::Udp => rdma_port_space::RDMA_PS_UDP,
        }
    }

    /// The services that stand for its ports (`RDMA_IB_IP_PS_TCP`, `RDMA_IB_IP_PS_UDP`).
    fn services(self) -> u64 {
        u64::from(self.to_c()) << 16
    }
}

/// The C object of an id, by which an event names it.
#[derive(Clone, Copy)]
struct Object(NonNull<rdma_cm_id>);

#[allow(unsafe_code)] // a pointer between threads
// SAFETY: the fabric only hands the pointer back to the C boundary, and never dereferences it.
unsafe impl Send for Object {}

/// What an id has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Bound,
    AddrResolved,
    RouteResolved,
    Listening,
    /// It asked for a connection.
    Asking,
    /// Its request was accepted, and it has not confirmed yet.
    Answered,
    /// It is that of a request.
    Asked,
    /// It accepted, and the peer has not confirmed yet.
    Accepted,
    Connected,
    /// It disconnected, and the peer has not confirmed yet.
    Leaving,
    /// The peer disconnected, and it has not confirmed yet.
    Left,
    /// Nothing but its destruction is left.
    Ended,
    /// Its device was removed.
    Removed,
}

struct Id {
    space: Space,
    channel: u32,
    came_by_request: bool,
    has_accepted: bool,
    /// `None` until the request that brings the id was taken.
    object: Option<Object>,
    /// Of a request that was not taken yet.
    listener: Option<u32>,
    phase: Phase,
    device: Option<u32>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    /// The id at the other end.
    peer: Option<u32>,
    /// The queue pairs of both ends, as far as they are known.
    qp_num: u32,
    peer_qp_num: u32,
    /// What was agreed on.
    agreed: Agreed,
    /// Options of the connection: its own, for the next message, and the peer's.
    local_ece: ibv_ece,
    remote_ece: ibv_ece,
    backlog: usize,
    options: Options,
    /// The groups that it joined, with the contexts of the joins.
    groups: Vec<(IpAddr, usize)>,
}

#[derive(Clone, Copy, Default)]
struct Agreed {
    initiator_depth: u8,
    responder_resources: u8,
    retry_count: u8,
    rnr_retry_count: u8,
}

#[derive(Clone, Copy, Default)]
struct Options {
    reuse_addr: bool,
    af_only: bool,
    ack_timeout: Option<u8>,
}

/// The parameters of a request or an answer, without private data.
#[derive(Clone, Copy, Default)]
struct Param {
    responder_resources: u8,
    initiator_depth: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    srq: bool,
    qp_num: u32,
}

/// A request that a full backlog dropped: its id asks again.
struct Unheard {
    id: u32,
    param: Param,
    data: Vec<u8>,
}

/// The arm of C's union.
#[derive(Clone, Copy)]
enum Arm {
    None,
    Conn(Param),
    Ud {
        to: Address,
        qp_num: u32,
    },
    /// A group, with the context of its join.
    Group {
        to: Address,
        context: usize,
    },
    /// What the program wrote.
    User(u64),
}

struct Event {
    /// The id that it is about; of a request, the new one.
    id: u32,
    /// Of a request, the id that listens.
    listener: Option<u32>,
    kind: Kind::Type,
    status: c_int,
    arm: Arm,
    data: Vec<u8>,
}

impl Event {
    fn of(id: u32, kind: Kind::Type) -> Event {
        Event { id, listener: None, kind, status: 0, arm: Arm::None, data: Vec::new() }
    }

    fn status(self, status: c_int) -> Event {
        Event { status, ..self }
    }

    fn data(self, data: Vec<u8>) -> Event {
        Event { data, ..self }
    }

    fn arm(self, arm: Arm) -> Event {
        Event { arm, ..self }
    }
}

/// What an event says, with what C's structs show of its id.
struct Told {
    event: Event,
    number: u32,
    object: Option<Object>,
    listener: Option<Object>,
    seen: Seen,
}

/// What C's struct shows of an id.
#[derive(Clone, Copy)]
struct Seen {
    ps: u32,
    device: Option<u32>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
}

impl Cm {
    /// Whether a channel or an id has the number.
    pub(super) fn has(&self, number: u32) -> bool {
        self.channels.contains_key(&number) || self.ids.contains_key(&number)
    }
}

impl State {
    /// Returns the channel's number and its descriptor.
    fn create_event_channel(&mut self) -> Verb<(u32, c_int)> {
        let number = self.number()?;
        let signal = Signal::new()?;
        let fd = signal.fd();
        self.cm.channels.insert(number, Channel { signal, events: VecDeque::new() });
        Ok((number, fd))
    }

    fn create_id(&mut self, channel: u32, ps: u32) -> Verb<u32> {
        let number = self.number()?;
        self.cm.ids.insert(number, Id::new(Space::of(ps)?, channel, Phase::Idle));
        Ok(number)
    }

    /// The id, unless its device was removed.
    fn id(&mut self, number: u32) -> Verb<&mut Id> {
        match self.cm.ids.get_mut(&number).ok_or(libc::EINVAL)? {
            Id { phase: Phase::Removed, .. } => Err(libc::ENXIO),
            id => Ok(id),
        }
    }

    /// The id, in one of these phases.
    fn id_in(&mut self, number: u32, phases: &[Phase]) -> Verb<&mut Id> {
        let id = self.id(number)?;
        if phases.contains(&id.phase) { Ok(id) } else { Err(libc::EINVAL) }
    }

    fn see(&self, number: u32) -> Verb<Seen> {
        let id = self.cm.ids.get(&number).ok_or(libc::EINVAL)?;
        Ok(Seen { ps: id.space.to_c(), device: id.device, local: id.local, remote: id.remote })
    }

    /// Brings an event to the channel of its id. The id of a request has no event until the program
    /// accepts it (`ucma.c`, `ucma_event_handler`).
    fn tell(&mut self, event: Event) {
        let is_known = |id: &Id| !id.came_by_request || id.has_accepted;
        let is_request = event.kind == Kind::RDMA_CM_EVENT_CONNECT_REQUEST;
        if is_request || self.cm.ids.get(&event.id).is_some_and(is_known) {
            self.bring(event);
        }
    }

    /// Brings any event to the channel of its id. The last one of an id is that its device goes.
    fn bring(&mut self, event: Event) {
        let Some(id) = self.cm.ids.get(&event.id).filter(|id| id.phase != Phase::Removed) else {
            return;
        };
        if let Some(channel) = self.cm.channels.get_mut(&id.channel) {
            channel.events.push_back(event);
            channel.signal.raise();
        }
    }

    /// Takes the next event of a channel; `EAGAIN` if there is none.
    fn take_event(&mut self, number: u32) -> Verb<Told> {
        if self.cm.channels.get(&number).ok_or(libc::EINVAL)?.events.is_empty() {
            self.ask_again();
        }
        let channel = self.cm.channels.get_mut(&number).ok_or(libc::EINVAL)?;
        let taken = channel.events.pop_front();
        if channel.events.is_empty() {
            channel.signal.lower();
            self.mind_the_unheard();
        }
        let event = taken.ok_or(libc::EAGAIN)?;
        let number = event.id;
        let object = |number| self.cm.ids.get(&number).and_then(|id: &Id| id.object);
        let (object, listener) = (object(number), event.listener.and_then(object));
        let seen = self.see(number)?;
        Ok(Told { event, number, object, listener, seen })
    }

    /// The C object of an id is this one from now on.
    fn name_id(&mut self, number: u32, object: Object) {
        if let Some(id) = self.cm.ids.get_mut(&number) {
            (id.object, id.listener) = (Some(object), None);
        }
        // The backlog may have room now.
        self.mind_the_unheard();
    }

    /// Makes the channel of an id readable without an event, so that the program looks.
    fn wake_channel_of(&mut self, number: u32) {
        let channel = self.cm.ids.get(&number).map(|id| id.channel);
        if let Some(channel) = channel.and_then(|channel| self.cm.channels.get_mut(&channel)) {
            channel.signal.raise();
        }
    }

    /// Drops the events of an id that nobody took.
    fn forget_events_of(&mut self, number: u32, which: impl Fn(&Event) -> bool) {
        let channel = self.cm.ids.get(&number).map(|id| id.channel);
        let channel = channel.and_then(|channel| self.cm.channels.get_mut(&channel));
        let Some(channel) = channel else { return };
        channel.events.retain(|event| event.id != number || !which(event));
        if channel.events.is_empty() {
            channel.signal.lower();
        }
    }

    /// The requests of a listening id that nobody took.
    fn waiting_requests(&self, listener: u32) -> Vec<u32> {
        let ids = self.cm.ids.iter().filter(|(_, id)| id.listener == Some(listener));
        ids.map(|(&number, _)| number).collect()
    }

    /// Moves an id to another channel, with its events, and with the requests that nobody took.
    fn migrate_id(&mut self, number: u32, to: u32) -> Verb {
        self.id(number)?;
        if !self.cm.channels.contains_key(&to) {
            return Err(libc::EINVAL);
        }
        let mut moved = self.waiting_requests(number);
        moved.push(number);
        for number in &moved {
            let Some(id) = self.cm.ids.get_mut(number) else { continue };
            let from = std::mem::replace(&mut id.channel, to);
            let Some(channel) = self.cm.channels.get_mut(&from) else { continue };
            let (theirs, others) = channel.events.drain(..).partition(|event| event.id == *number);
            let theirs: VecDeque<Event> = theirs;
            channel.events = others;
            if channel.events.is_empty() {
                channel.signal.lower();
            }
            let Some(channel) = self.cm.channels.get_mut(&to) else { continue };
            channel.events.extend(theirs);
            if !channel.events.is_empty() {
                channel.signal.raise();
            }
        }
        self.mind_the_unheard();
        Ok(())
    }
}

impl Id {
    fn new(space: Space, channel: u32, phase: Phase) -> Id {
        Id {
            space,
            channel,
            came_by_request: false,
            has_accepted: false,
            object: None,
            listener: None,
            phase,
            device: None,
            local: None,
            remote: None,
            peer: None,
            qp_num: 0,
            peer_qp_num: 0,
            agreed: Agreed::default(),
            local_ece: ibv_ece::default(),
            remote_ece: ibv_ece::default(),
            backlog: 0,
            options: Options::default(),
            groups: Vec::new(),
        }
    }
}
