//! How connections, ids and devices end.

use std::ffi::c_int;

use super::Kind;
use super::connect::{BY_THE_CONSUMER, TIMEOUT};
use crate::objects::cm::{Arm, Event, Id, Param, Phase, Space};
use crate::state::State;
use crate::words::Verb;
use crate::words::world::Link;
use proverbs_sys::cm::RDMA_CM_EVENT_USER;

impl State {
    /// Asks the peer to end the connection, or confirms that it did.
    pub(super) fn disconnect_id(&mut self, number: u32) -> Verb {
        let id = self.id(number)?;
        match (id.phase, id.space) {
            (Phase::Connected, Space::Tcp) => {
                id.phase = Phase::Leaving;
                if !self.leave_peer(number) {
                    self.is_over(number);
                }
            }
            (Phase::Left, _) => {
                self.leave_peer(number);
                self.id(number)?.phase = Phase::Ended;
                self.leave_timewait(number);
            }
            (Phase::Leaving | Phase::Ended, _) => {}
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    /// Notifies the peer that this side disconnected, or confirms that the peer did. Returns false
    /// if the peer's confirmation, or its absence, ends the connection at once.
    pub(super) fn leave_peer(&mut self, number: u32) -> bool {
        let peer = self.cm.ids.get(&number).and_then(|id| id.peer);
        let Some(peer) = peer.filter(|_| self.reaches_its_peer(number)) else { return false };
        match self.id(peer) {
            Ok(id @ Id { phase: Phase::Connected | Phase::Accepted, .. }) => {
                id.phase = Phase::Left;
                self.tell(Event::of(peer, Kind::RDMA_CM_EVENT_DISCONNECTED));
            }
            // It disconnected first, or both did at once.
            Ok(Id { phase: Phase::Leaving, .. }) => self.is_over(peer),
            // It is notified when it confirms.
            Ok(Id { phase: Phase::Answered, .. }) => {}
            _ => return false,
        }
        true
    }

    /// Ends the connection of an id, which reports it.
    fn is_over(&mut self, number: u32) {
        let event = Event::of(number, Kind::RDMA_CM_EVENT_DISCONNECTED);
        self.cm.move_id(number, Phase::Ended, event);
        self.leave_timewait(number);
    }

    /// Reports the end of TIMEWAIT, which iWARP does not have (`cma.c`, `cma_iw_handler`).
    fn leave_timewait(&mut self, number: u32) {
        if self.world.link != Link::Iwarp {
            self.tell(Event::of(number, Kind::RDMA_CM_EVENT_TIMEWAIT_EXIT));
        }
    }

    /// Notifies the peer, as far as possible, of an id that is destroyed or whose device is
    /// removed.
    fn part(&mut self, number: u32) {
        let Some(id) = self.cm.ids.get(&number) else { return };
        let (phase, space, peer) = (id.phase, id.space, id.peer);
        if let (Some(peer), true) = (peer, self.reaches_its_peer(number)) {
            match (phase, space) {
                // The responder to a lookup is not notified when the asking id is gone.
                (Phase::Asking, Space::Udp) => {}
                (Phase::Asking, Space::Tcp) => self.refuse(peer, TIMEOUT, 0, &[]),
                (Phase::Asked, _) => drop(self.reject_id(number, BY_THE_CONSUMER, &[])),
                (Phase::Answered | Phase::Accepted, _) => {
                    self.refuse(peer, BY_THE_CONSUMER, 0, &[]);
                }
                (Phase::Connected, Space::Tcp) | (Phase::Left, _) => _ = self.leave_peer(number),
                _ => {}
            }
        }
        if let Some(id) = peer.and_then(|peer| self.cm.ids.get_mut(&peer)) {
            id.peer = id.peer.filter(|&peer| peer != number);
        }
    }

    /// Destroys an id with its events. Rejects requests that were not accepted.
    pub(super) fn destroy_id(&mut self, number: u32) -> Verb {
        self.cm.ids.get(&number).ok_or(libc::EINVAL)?;
        self.waiting_requests(number).into_iter().for_each(|waiting| self.end_id(waiting));
        self.end_id(number);
        self.mind_the_unheard();
        Ok(())
    }

    /// Queues an event that the program writes itself.
    pub(super) fn write_cm_event(&mut self, number: u32, status: c_int, arg: u64) -> Verb {
        self.id(number)?;
        self.cm.bring(Event::of(number, RDMA_CM_EVENT_USER).status(status).arm(Arm::User(arg)));
        Ok(())
    }

    /// Raises an event for a test. A request and the events of a group cannot be raised: they name
    /// other objects as well.
    pub(super) fn raise(&mut self, number: u32, kind: Kind::Type, status: c_int) -> bool {
        let Ok(id) = self.id(number) else { return false };
        let arm = match (kind, id.space) {
            (Kind::RDMA_CM_EVENT_CONNECT_REQUEST | RDMA_CM_EVENT_USER, _) => return false,
            (Kind::RDMA_CM_EVENT_MULTICAST_JOIN, _) => return false,
            (Kind::RDMA_CM_EVENT_MULTICAST_ERROR, _) => return false,
            (_, Space::Tcp) => Arm::Conn(Param::default()),
            (_, Space::Udp) => Arm::Ud { to: Default::default(), qp_num: 0x11 },
        };
        self.cm.bring(Event::of(number, kind).status(status).arm(arm));
        if let (Kind::RDMA_CM_EVENT_DEVICE_REMOVAL, Ok(id)) = (kind, self.id(number)) {
            id.phase = Phase::Removed;
        }
        true
    }

    pub(super) fn end_id(&mut self, number: u32) {
        self.part(number);
        self.forget_events_of(number, |_| true);
        if let Some(Id { local: Some(local), .. }) = self.cm.ids.remove(&number) {
            self.cm.ports.remove(&(local.port(), number));
        }
    }

    pub(super) fn destroy_event_channel(&mut self, number: u32) {
        self.cm.channels.remove(&number);
    }

    /// Removes a device from rdma_cm. Each of its ids gets an event, and none after that. Returns
    /// whether the device was there.
    pub(crate) fn remove_device(&mut self, device: u32) -> bool {
        if !self.devices.contains_key(&device) || self.cm.removed.contains(&device) {
            return false;
        }
        let ids = self.cm.ids.iter().filter(|(_, id)| id.device == Some(device));
        let ids: Vec<u32> = ids.map(|(&number, _)| number).collect();
        // Its own ids receive the removal event, but no event for each other's end.
        for &number in &ids {
            self.tell(Event::of(number, Kind::RDMA_CM_EVENT_DEVICE_REMOVAL));
        }
        for &number in &ids {
            let peer = self.cm.ids.get(&number).and_then(|id| id.peer);
            if peer.is_none_or(|peer| !ids.contains(&peer)) {
                self.part(number);
            }
        }
        for number in ids {
            _ = self.id(number).map(|id| id.phase = Phase::Removed);
        }
        self.cm.removed.insert(device);
        self.mind_the_unheard();
        true
    }

    /// Stops a device from sending and receiving rdma_cm messages, or lets it do so again.
    pub(crate) fn silence_device(&mut self, device: u32, silent: bool) {
        if silent {
            self.cm.silent.insert(device);
        } else {
            self.cm.silent.remove(&device);
        }
    }
}
