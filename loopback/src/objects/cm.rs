//! The ids of rdma_cm, and their pending events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use crate::objects::Object;
use crate::objects::signal::Signal;
use crate::words::Verb;
use crate::words::address::Address;
use proverbs_sys::tuning::ibv_ece;
use proverbs_sys::types::raw::{rdma_cm_event_type as Kind, rdma_cm_id, rdma_port_space};

/// The state of rdma_cm on a fabric.
#[derive(Default)]
pub(crate) struct Cm {
    pub(crate) channels: BTreeMap<u32, Channel>,
    pub(crate) ids: BTreeMap<u32, Id>,
    /// The port of each bound id, and the id. (The id of a request shares its listener's port.)
    pub(crate) ports: BTreeSet<(u16, u32)>,
    /// Requests that a full backlog dropped, in order.
    pub(crate) unheard: Vec<Unheard>,
    /// The last port given to an id that requested any port.
    pub(crate) last_port: u16,
    /// Devices that were removed.
    pub(crate) removed: BTreeSet<u32>,
    /// Devices that neither send nor receive rdma_cm messages.
    pub(crate) silent: BTreeSet<u32>,
}

impl Cm {
    /// Queues an event on the channel of its id. The id of a request has no events until the
    /// program accepts it (`ucma.c`, `ucma_event_handler`).
    pub(crate) fn tell(&mut self, event: Event) {
        let is_known = |id: &Id| !id.came_by_request || id.has_accepted;
        let is_request = event.kind == Kind::RDMA_CM_EVENT_CONNECT_REQUEST;
        if is_request || self.ids.get(&event.id).is_some_and(is_known) {
            self.bring(event);
        }
    }

    /// Queues any event on the channel of its id. Device removal is the last event of an id.
    pub(crate) fn bring(&mut self, event: Event) {
        let Some(id) = self.ids.get(&event.id).filter(|id| id.phase != Phase::Removed) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&id.channel) {
            channel.events.push_back(event);
            channel.signal.raise();
        }
    }

    /// The device ended the iWARP connection of a queue pair, which its id reports.
    pub(crate) fn lose_connection(&mut self, qp: u32) {
        let is_of =
            |id: &Id| id.qp_num == qp && matches!(id.phase, Phase::Connected | Phase::Leaving);
        let number = self.ids.iter().find(|(_, id)| is_of(id)).map(|(number, _)| *number);
        if let Some(number) = number {
            let event = Event::of(number, Kind::RDMA_CM_EVENT_DISCONNECTED);
            self.move_id(number, Phase::Ended, event);
        }
    }

    /// Moves an id, if it exists, to a phase, and queues an event for it.
    pub(crate) fn move_id(&mut self, number: u32, phase: Phase, event: Event) {
        if let Some(id) = self.ids.get_mut(&number).filter(|id| id.phase != Phase::Removed) {
            id.phase = phase;
        }
        self.tell(event);
    }
}

/// An event channel.
pub(crate) struct Channel {
    pub(crate) signal: Signal,
    pub(crate) events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Space {
    #[default]
    Tcp,
    Udp,
}

impl Space {
    pub(crate) fn of(ps: u32) -> Verb<Space> {
        match ps {
            rdma_port_space::RDMA_PS_TCP => Ok(Space::Tcp),
            rdma_port_space::RDMA_PS_UDP => Ok(Space::Udp),
            _ => Err(libc::EPROTONOSUPPORT),
        }
    }

    pub(crate) fn to_c(self) -> u32 {
        match self {
            Space::Tcp => rdma_port_space::RDMA_PS_TCP,
            Space::Udp => rdma_port_space::RDMA_PS_UDP,
        }
    }

    /// The native service ids that stand for its ports (`RDMA_IB_IP_PS_TCP`, `RDMA_IB_IP_PS_UDP`).
    pub(crate) fn services(self) -> u64 {
        u64::from(self.to_c()) << 16
    }
}

/// The state of an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Bound,
    AddrResolved,
    RouteResolved,
    Listening,
    /// It sent a request.
    Asking,
    /// Its request was accepted, and it has not confirmed yet.
    Answered,
    /// It was created by a request.
    Asked,
    /// It accepted, and the peer has not confirmed yet.
    Accepted,
    Connected,
    /// It disconnected, and the peer has not confirmed yet.
    Leaving,
    /// The peer disconnected, and it has not confirmed yet.
    Left,
    /// It can only be destroyed.
    Ended,
    /// Its device was removed.
    Removed,
}

#[derive(Default)]
pub(crate) struct Id {
    pub(crate) space: Space,
    pub(crate) channel: u32,
    pub(crate) came_by_request: bool,
    pub(crate) has_accepted: bool,
    /// `None` until the program takes the request that created the id.
    pub(crate) object: Option<Object<rdma_cm_id>>,
    /// The listening id, for a request that was not taken yet.
    pub(crate) listener: Option<u32>,
    pub(crate) phase: Phase,
    pub(crate) device: Option<u32>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    /// The id at the other end.
    pub(crate) peer: Option<u32>,
    /// The queue pairs of both ends, if known.
    pub(crate) qp_num: u32,
    pub(crate) peer_qp_num: u32,
    /// The negotiated parameters.
    pub(crate) agreed: Agreed,
    /// Options of the connection: its own, for the next message, and the peer's.
    pub(crate) local_ece: ibv_ece,
    pub(crate) remote_ece: ibv_ece,
    pub(crate) backlog: usize,
    pub(crate) options: Options,
    /// The joined groups, with the contexts of the joins.
    pub(crate) groups: Vec<(IpAddr, usize)>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Agreed {
    pub(crate) initiator_depth: u8,
    pub(crate) responder_resources: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
}

impl Agreed {
    /// The same values from the peer's side, with initiator and responder depths exchanged.
    pub(crate) fn of_peer(self) -> Agreed {
        let Agreed { initiator_depth, responder_resources, .. } = self;
        Agreed {
            initiator_depth: responder_resources,
            responder_resources: initiator_depth,
            ..self
        }
    }

    /// Only the depths.
    pub(crate) fn depths(self) -> Agreed {
        Agreed { retry_count: 0, rnr_retry_count: 0, ..self }
    }
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) reuse_addr: bool,
    pub(crate) af_only: bool,
    pub(crate) ack_timeout: Option<u8>,
}

/// The parameters of a request or an answer, without private data.
#[derive(Clone, Copy, Default)]
pub(crate) struct Param {
    pub(crate) agreed: Agreed,
    pub(crate) srq: bool,
    pub(crate) qp_num: u32,
}

/// A request that a full backlog dropped; its id will send it again.
pub(crate) struct Unheard {
    pub(crate) id: u32,
    pub(crate) param: Param,
    pub(crate) data: Vec<u8>,
}

/// The union arm of the C event.
#[derive(Clone, Copy)]
pub(crate) enum Arm {
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
    /// The private data that the program wrote.
    User(u64),
}

pub(crate) struct Event {
    /// The id that the event is about; for a request, the new one.
    pub(crate) id: u32,
    /// For a request, the listening id.
    pub(crate) listener: Option<u32>,
    pub(crate) kind: Kind::Type,
    pub(crate) status: c_int,
    pub(crate) arm: Arm,
    pub(crate) data: Vec<u8>,
}

impl Event {
    pub(crate) fn of(id: u32, kind: Kind::Type) -> Event {
        Event { id, listener: None, kind, status: 0, arm: Arm::None, data: Vec::new() }
    }

    pub(crate) fn status(self, status: c_int) -> Event {
        Event { status, ..self }
    }

    pub(crate) fn data(self, data: Vec<u8>) -> Event {
        Event { data, ..self }
    }

    pub(crate) fn arm(self, arm: Arm) -> Event {
        Event { arm, ..self }
    }
}

/// An event, with the id fields that the C structs show.
pub(crate) struct ReportedEvent {
    pub(crate) event: Event,
    pub(crate) number: u32,
    pub(crate) object: Option<Object<rdma_cm_id>>,
    pub(crate) listener: Option<Object<rdma_cm_id>>,
    pub(crate) seen: Seen,
}

/// The fields of an id that the C struct shows.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) ps: u32,
    pub(crate) device: Option<u32>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
}

impl Cm {
    /// Whether a channel or an id has this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.channels.contains_key(&number) || self.ids.contains_key(&number)
    }
}

impl Id {
    pub(crate) fn new(space: Space, channel: u32, phase: Phase) -> Id {
        Id { space, channel, phase, ..Id::default() }
    }
}
