//! Connections from the request to the connected state, and lookups for datagrams.

use std::ffi::c_int;
use std::net::SocketAddr;

use super::Kind;
use crate::objects::cm::{Agreed, Arm, Event, Id, Param, Phase, Space, Unheard};
use crate::state::State;
use crate::words::attributes::Changes;
use crate::words::world::Link;
use crate::words::{Verb, limits};
use proverbs_sys::tuning::ibv_ece;
use proverbs_sys::types::ibv_qp_state;

/// The bytes of private data in each message.
const REQUEST: usize = 56;
const REPLY: usize = 196;
pub(super) const REJECTION: usize = 148;
const LOOKUP: usize = 180;
const LOOKUP_REPLY: usize = 136;

/// Reasons of a rejection (IBA 12.6.7.2).
pub(super) const TIMEOUT: c_int = 4;
const NOBODY_LISTENS: c_int = 8;
/// The status of any rejection on iWARP, whose messages carry no reason.
const ON_IWARP: c_int = -libc::ECONNRESET;
pub(super) const BY_THE_CONSUMER: c_int = 28;
pub(super) const OF_THE_OPTIONS: c_int = 35;

/// Status of the answer to a lookup (IBA 12.11.2).
const NO_SERVICE: c_int = 1;
const REFUSED: c_int = 2;

/// The route of a request. Requests with the same route reach the same listening id.
#[derive(Clone, Copy, PartialEq)]
struct Way {
    space: Space,
    device: Option<u32>,
    to: Option<SocketAddr>,
}

impl State {
    /// Sends a request to the id that listens at the peer's address.
    pub(super) fn connect_id(&mut self, number: u32, param: Param, data: &[u8]) -> Verb {
        let id = self.id_in(number, &[Phase::RouteResolved])?;
        let space = id.space;
        if id.device.is_none() || id.local.is_none() || id.remote.is_none() {
            return Err(libc::EINVAL);
        }
        let depths = param.agreed.initiator_depth.max(param.agreed.responder_resources);
        if space == Space::Tcp && depths > limits::RD_ATOMIC {
            return Err(libc::EINVAL);
        }
        let data = self.filled(data, if space == Space::Tcp { REQUEST } else { LOOKUP })?;
        let id = self.id(number)?;
        id.phase = Phase::Asking;
        id.qp_num = param.qp_num;
        id.agreed = param.agreed;
        let asked = self.ask(Unheard { id: number, param, data });
        if asked.is_err() {
            self.id(number)?.phase = Phase::RouteResolved;
        }
        asked
    }

    /// The private data of a message. It is padded to the field's size, except on iWARP, whose
    /// messages have a length.
    fn filled(&self, data: &[u8], field: usize) -> Verb<Vec<u8>> {
        if data.len() > field {
            return Err(libc::EINVAL);
        }
        let mut whole = data.to_vec();
        if self.world.link != Link::Iwarp {
            whole.resize(field, 0);
        }
        Ok(whole)
    }

    /// Resends the requests that a full backlog dropped. Linux does so on a timer after some
    /// seconds, so everything that a program does before then comes first. Here it happens when a
    /// channel has no other event to return.
    pub(super) fn ask_again(&mut self) {
        // Requests with the same route find the same backlog, so a full one is tried once.
        let mut full = Vec::new();
        for unheard in std::mem::take(&mut self.cm.unheard) {
            let Some(way) = self.way_of(&unheard) else { continue };
            if full.contains(&way) {
                self.cm.unheard.push(unheard);
                continue;
            }
            let dropped = self.cm.unheard.len();
            self.repeat(unheard);
            if self.cm.unheard.len() > dropped {
                full.push(way);
            }
        }
    }

    /// The route of a dropped request; `None` if its id is not connecting any more.
    fn way_of(&self, unheard: &Unheard) -> Option<Way> {
        let id = self.cm.ids.get(&unheard.id).filter(|id| id.phase == Phase::Asking)?;
        Some(Way { space: id.space, device: id.device, to: id.remote })
    }

    fn repeat(&mut self, unheard: Unheard) {
        let id = unheard.id;
        let asks = self.id_in(id, &[Phase::Asking]).is_ok();
        if asks && self.ask(unheard).is_err() {
            self.unreachable(id);
        }
    }

    /// Called when a backlog, a listener or a device changed. The channel of a listener with room
    /// for a dropped request becomes readable. A request whose listener is gone fails.
    pub(super) fn mind_the_unheard(&mut self) {
        let heard = |state: &State, way: Way| {
            let (device, to) = (way.device?, way.to?);
            let there = state.device_with(to.ip())?;
            let listener = state.listener_at(way.space, to)?;
            state.hear_each_other(device, there).then_some(listener)
        };
        let mut found: Vec<(Way, bool)> = Vec::new();
        for unheard in std::mem::take(&mut self.cm.unheard) {
            let Some(way) = self.way_of(&unheard) else { continue };
            let known = found.iter().find(|(known, _)| *known == way);
            let is_heard = known.map(|&(_, is_heard)| is_heard).unwrap_or_else(|| {
                let listener = heard(self, way);
                found.push((way, listener.is_some()));
                if let Some(listener) = listener.filter(|&listener| self.has_room(listener)) {
                    self.wake_channel_of(listener);
                }
                listener.is_some()
            });
            match is_heard {
                true => self.cm.unheard.push(unheard),
                false => self.repeat(unheard),
            }
        }
    }

    /// Whether the backlog of a listening id has room for a request.
    fn has_room(&self, listener: u32) -> bool {
        let backlog = self.cm.ids.get(&listener).map_or(0, |id| id.backlog);
        self.waiting_requests(listener).len() < backlog
    }

    /// Delivers a request to the listening id. A full backlog drops it, like Linux's (`ucma.c`),
    /// but iWARP requests and lookups are refused. iWARP connects by TCP within the call, so an
    /// address without a listener is an errno (`siw_cm.c`, `siw_connect`).
    fn ask(&mut self, request: Unheard) -> Verb {
        let number = request.id;
        let Id { space, device, local, remote, local_ece: remote_ece, .. } = *self.id(number)?;
        let (Some(device), Some(local), Some(to)) = (device, local, remote) else {
            return Err(libc::EINVAL);
        };
        let there = self.device_with(to.ip());
        let Some(there) = there.filter(|&there| self.hear_each_other(device, there)) else {
            self.unreachable(number);
            return Ok(());
        };
        let Some(listener) = self.listener_at(space, to) else {
            if self.world.link == Link::Iwarp {
                return Err(libc::ECONNREFUSED);
            }
            self.refuse(number, NOBODY_LISTENS, NO_SERVICE, &[]);
            return Ok(());
        };
        if !self.has_room(listener) {
            match (space, self.world.link) {
                (Space::Udp, _) | (_, Link::Iwarp) => {
                    self.refuse(number, BY_THE_CONSUMER, REFUSED, &[]);
                }
                (Space::Tcp, _) => self.cm.unheard.push(request),
            }
            return Ok(());
        }
        let channel = self.id(listener)?.channel;
        let Unheard { param, data, .. } = request;
        let request = self.number()?;
        let agreed = param.agreed.of_peer();
        let id = Id {
            came_by_request: true,
            listener: Some(listener),
            device: Some(there),
            local: Some(to),
            remote: Some(local),
            peer: Some(number),
            peer_qp_num: param.qp_num,
            agreed,
            remote_ece,
            ..Id::new(space, channel, Phase::Asked)
        };
        self.cm.ids.insert(request, id);
        self.id(number)?.peer = Some(request);
        let arm = match space {
            // iWARP messages carry only the depths.
            Space::Tcp if self.world.link == Link::Iwarp => {
                Arm::Conn(Param { agreed: agreed.depths(), ..Param::default() })
            }
            Space::Tcp => Arm::Conn(Param { agreed, ..param }),
            Space::Udp => Arm::Ud { to: self.way_to(local.ip()), qp_num: 0 },
        };
        let event = Event::of(request, Kind::RDMA_CM_EVENT_CONNECT_REQUEST).arm(arm).data(data);
        self.tell(Event { listener: Some(listener), ..event });
        Ok(())
    }

    /// The request times out.
    fn unreachable(&mut self, number: u32) {
        let event = Event::of(number, Kind::RDMA_CM_EVENT_UNREACHABLE);
        self.cm.move_id(number, Phase::Ended, event.status(-libc::ETIMEDOUT));
    }

    /// Refuses the request or the answer of an id: a connection with `reason`, a lookup with
    /// `status`.
    pub(super) fn refuse(&mut self, number: u32, reason: c_int, status: c_int, data: &[u8]) {
        let is_iwarp = self.world.link == Link::Iwarp;
        let Ok(id) = self.id(number) else { return };
        (id.phase, id.peer) = (Phase::Ended, None);
        let (kind, status, field) = match id.space {
            Space::Tcp if is_iwarp => (Kind::RDMA_CM_EVENT_REJECTED, ON_IWARP, REJECTION),
            Space::Tcp => (Kind::RDMA_CM_EVENT_REJECTED, reason, REJECTION),
            Space::Udp => (Kind::RDMA_CM_EVENT_UNREACHABLE, status, LOOKUP_REPLY),
        };
        let arm = match id.space {
            Space::Tcp => Arm::Conn(Param::default()),
            Space::Udp => Arm::Ud { to: Default::default(), qp_num: 0 },
        };
        let data = self.filled(data, field).unwrap_or_default();
        self.tell(Event::of(number, kind).status(status).arm(arm).data(data));
    }

    /// Whether messages pass between an id and its peer.
    pub(super) fn reaches_its_peer(&self, number: u32) -> bool {
        let device = |number| self.cm.ids.get(&number).and_then(|id: &Id| id.device);
        let peer = self.cm.ids.get(&number).and_then(|id| id.peer);
        match (device(number), peer.and_then(device)) {
            (Some(one), Some(other)) => self.hear_each_other(one, other),
            _ => false,
        }
    }

    /// Returns the id if it may answer. If its peer is gone, the errno on iWARP is siw's
    /// (`siw_cm.c`, `siw_accept` and `siw_reject`).
    fn asked(&mut self, number: u32, phases: &[Phase]) -> Verb<&mut Id> {
        let is_iwarp = self.world.link == Link::Iwarp;
        let id = self.id(number)?;
        match id.phase {
            phase if phases.contains(&phase) => Ok(id),
            Phase::Ended if is_iwarp && id.came_by_request => Err(libc::ECONNRESET),
            _ => Err(libc::EINVAL),
        }
    }

    pub(super) fn accept_request(&mut self, number: u32, param: Param, data: &[u8]) -> Verb {
        let id = self.asked(number, &[Phase::Asked])?;
        let (space, peer, remote_ece) = (id.space, id.peer, id.local_ece);
        let depths = param.agreed.initiator_depth.max(param.agreed.responder_resources);
        if space == Space::Tcp && depths > limits::RD_ATOMIC {
            return Err(libc::EINVAL);
        }
        let data = self.filled(data, if space == Space::Tcp { REPLY } else { LOOKUP_REPLY })?;
        let id = self.id(number)?;
        (id.qp_num, id.has_accepted) = (param.qp_num, true);
        if space == Space::Tcp {
            id.phase = Phase::Accepted;
            id.agreed.initiator_depth = param.agreed.initiator_depth;
            id.agreed.responder_resources = param.agreed.responder_resources;
        } else {
            id.phase = Phase::Connected;
        }
        let peer = peer.filter(|_| self.reaches_its_peer(number));
        if let (Some(peer), Link::Iwarp, Space::Tcp) = (peer, self.world.link, space) {
            return self.connect_on_iwarp([number, peer], param, data);
        }
        let Some(peer) = peer else {
            if space == Space::Tcp {
                self.unreachable(number);
            }
            return Ok(());
        };
        let here = self.id(number)?.device.map(|device| self.ip_of(device));
        let (kind, arm) = match (space, here) {
            (Space::Tcp, _) => {
                let theirs = &mut self.id(peer)?.agreed;
                let agreed = param.agreed.of_peer();
                *theirs = Agreed { retry_count: theirs.retry_count, ..agreed };
                let arm = Param { agreed: Agreed { retry_count: 0, ..agreed }, ..param };
                (Kind::RDMA_CM_EVENT_CONNECT_RESPONSE, Arm::Conn(arm))
            }
            (Space::Udp, Some(here)) => {
                let to = self.way_to(here);
                (Kind::RDMA_CM_EVENT_ESTABLISHED, Arm::Ud { to, qp_num: param.qp_num })
            }
            (Space::Udp, None) => return Err(libc::EINVAL),
        };
        let id = self.id(peer)?;
        (id.peer_qp_num, id.remote_ece) = (param.qp_num, remote_ece);
        id.phase = if space == Space::Tcp { Phase::Answered } else { Phase::Connected };
        self.tell(Event::of(peer, kind).arm(arm).data(data));
        Ok(())
    }

    /// Moves the queue pairs of both ids to RTS and reports the connection to both. On iWARP the
    /// answer completes the handshake.
    fn connect_on_iwarp(&mut self, [number, peer]: [u32; 2], param: Param, data: Vec<u8>) -> Verb {
        let theirs = self.id(peer)?;
        theirs.peer_qp_num = param.qp_num;
        theirs.agreed.initiator_depth = param.agreed.responder_resources;
        theirs.agreed.responder_resources = param.agreed.initiator_depth;
        let states =
            [ibv_qp_state::IBV_QPS_INIT, ibv_qp_state::IBV_QPS_RTR, ibv_qp_state::IBV_QPS_RTS];
        for id in [number, peer] {
            self.id(id)?.phase = Phase::Connected;
            let qp = self.id(id)?.qp_num;
            let move_on = |fabric: &mut State, &state: &u32| {
                let (values, mask) = fabric.attributes_of(id, state)?;
                let path = values.path.unwrap_or_default();
                let changes = Changes { mask, state, path, values, ..Changes::default() };
                fabric.modify_qp(qp, &changes).map(drop)
            };
            if states.iter().try_for_each(|state| move_on(self, state)).is_err() {
                [number, peer].iter().for_each(|&id| self.unreachable(id));
                return Ok(());
            }
        }
        // Unlike an answer elsewhere, it reports the requester's responder resources as the
        // initiator depth.
        let arm = Param { agreed: param.agreed.depths(), ..Param::default() };
        let own = Param { agreed: param.agreed.of_peer().depths(), ..Param::default() };
        self.tell(Event::of(number, Kind::RDMA_CM_EVENT_ESTABLISHED).arm(Arm::Conn(own)));
        self.tell(Event::of(peer, Kind::RDMA_CM_EVENT_ESTABLISHED).arm(Arm::Conn(arm)).data(data));
        Ok(())
    }

    /// Refuses a request, or an answer, for a reason.
    pub(super) fn reject_id(&mut self, number: u32, reason: c_int, data: &[u8]) -> Verb {
        let id = self.asked(number, &[Phase::Asked, Phase::Answered])?;
        let field = if id.space == Space::Tcp { REJECTION } else { LOOKUP_REPLY };
        if data.len() > field {
            return Err(libc::EINVAL);
        }
        let hears = self.reaches_its_peer(number);
        let id = self.id(number)?;
        id.phase = Phase::Ended;
        if let Some(peer) = id.peer.take().filter(|_| hears) {
            self.refuse(peer, reason, REFUSED, data);
        }
        Ok(())
    }

    /// The options that the id's next message carries.
    pub(super) fn set_local_ece(&mut self, number: u32, ece: ibv_ece) -> Verb {
        let id = self.id(number)?;
        if ece.vendor_id == 0 || ece.comp_mask != 0 {
            return Err(libc::EINVAL);
        }
        id.local_ece = ece;
        Ok(())
    }

    /// The options in the peer's last message; zeroes if there were none.
    pub(super) fn remote_ece(&mut self, number: u32) -> Verb<ibv_ece> {
        self.id(number).map(|id| id.remote_ece)
    }

    /// Confirms an answer.
    pub(super) fn establish_id(&mut self, number: u32) -> Verb {
        let id = self.id_in(number, &[Phase::Answered])?;
        id.phase = Phase::Connected;
        let Some(peer) = id.peer else { return Ok(()) };
        match (self.id(peer).map(|id| id.phase), self.reaches_its_peer(number)) {
            (Ok(Phase::Accepted), true) => self.confirm(peer),
            (Ok(Phase::Accepted), false) => self.unreachable(peer),
            (Ok(Phase::Leaving), _) => _ = self.leave_peer(peer),
            _ => {}
        }
        Ok(())
    }

    fn confirm(&mut self, number: u32) {
        let event = Event::of(number, Kind::RDMA_CM_EVENT_ESTABLISHED);
        self.cm.move_id(number, Phase::Connected, event);
    }

    /// A message from the peer arrived before its confirmation. iWARP ignores this.
    pub(super) fn comm_est(&mut self, number: u32) -> Verb {
        let is_iwarp = self.world.link == Link::Iwarp;
        match self.id(number)?.phase {
            Phase::Accepted => self.confirm(number),
            Phase::Connected if is_iwarp => {}
            Phase::Connected => return Err(libc::EISCONN),
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }
}
