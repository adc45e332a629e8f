//! rdma_cm between the devices of a fabric: ids and their events.
//!
//! An id is a state machine behind the fabric's lock. Its messages reach the peer at once, and each
//! event is in its channel when the call that caused it returns. A wait for an answer that cannot
//! come times out at once. So no clock is needed, and a program that makes the same calls sees the
//! same events. A request that a full backlog drops is sent again when there is room and its
//! listener's channel has no other event; Linux sends it again after some seconds.
//! `tests/cm/scenarios` compares all this with kernels.
//!
//! | file | what |
//! |---|---|
//! | `address` | addresses and ports: bind, resolve, listen |
//! | `connect` | connections: request, accept, reject, establish |
//! | `end` | the end of connections: disconnect, destroy, a removed device |
//! | `multicast` | groups |
//! | `attributes` | the attributes with which queue pairs are moved, and the options of ids |
//! | `fabric` | the rdma_cm controls of a test |
//! | `c_api`, `event` | the C boundary, and the table of calls |

mod address;
mod attributes;
mod c_api;
mod connect;
mod end;
mod event;
mod fabric;
mod multicast;

use std::collections::VecDeque;
use std::ffi::c_int;

pub use c_api::{open_channel, raise};

use crate::objects::Object;
use crate::objects::cm::*;
use crate::objects::signal::Signal;
use crate::state::State;
use crate::words::Verb;
use proverbs_sys::types::raw::{rdma_cm_event_type as Kind, rdma_cm_id};

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

    /// The id, if it is in one of these phases.
    fn id_in(&mut self, number: u32, phases: &[Phase]) -> Verb<&mut Id> {
        let id = self.id(number)?;
        if phases.contains(&id.phase) { Ok(id) } else { Err(libc::EINVAL) }
    }

    fn see(&self, number: u32) -> Verb<Seen> {
        let id = self.cm.ids.get(&number).ok_or(libc::EINVAL)?;
        Ok(Seen { ps: id.space.to_c(), device: id.device, local: id.local, remote: id.remote })
    }

    fn tell(&mut self, event: Event) {
        self.cm.tell(event);
    }

    /// Takes the next event of a channel; `EAGAIN` if there is none.
    fn take_event(&mut self, number: u32) -> Verb<ReportedEvent> {
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
        Ok(ReportedEvent { event, number, object, listener, seen })
    }

    /// Sets the C object of an id.
    fn name_id(&mut self, number: u32, object: Object<rdma_cm_id>) {
        if let Some(id) = self.cm.ids.get_mut(&number) {
            (id.object, id.listener) = (Some(object), None);
        }
        // The backlog may have room now.
        self.mind_the_unheard();
    }

    /// Makes the channel of an id readable without an event, so that the program checks it.
    fn wake_channel_of(&mut self, number: u32) {
        let channel = self.cm.ids.get(&number).map(|id| id.channel);
        if let Some(channel) = channel.and_then(|channel| self.cm.channels.get_mut(&channel)) {
            channel.signal.raise();
        }
    }

    /// Drops the events of an id that were not taken.
    fn forget_events_of(&mut self, number: u32, which: impl Fn(&Event) -> bool) {
        let channel = self.cm.ids.get(&number).map(|id| id.channel);
        let channel = channel.and_then(|channel| self.cm.channels.get_mut(&channel));
        let Some(channel) = channel else { return };
        channel.events.retain(|event| event.id != number || !which(event));
        if channel.events.is_empty() {
            channel.signal.lower();
        }
    }

    /// The requests of a listening id that were not taken.
    fn waiting_requests(&self, listener: u32) -> Vec<u32> {
        let ids = self.cm.ids.iter().filter(|(_, id)| id.listener == Some(listener));
        ids.map(|(&number, _)| number).collect()
    }

    /// Moves an id to another channel, with its events. Rejects the requests that were not taken:
    /// Linux leaves their ids behind, where no program finds them (R16.21).
    fn migrate_id(&mut self, number: u32, to: u32) -> Verb {
        self.id(number)?;
        self.cm.channels.get(&to).ok_or(libc::EINVAL)?;
        self.waiting_requests(number).into_iter().for_each(|waiting| self.end_id(waiting));
        let from = std::mem::replace(&mut self.id(number)?.channel, to);
        if let Some(channel) = self.cm.channels.get_mut(&from) {
            let (moved, others) = channel.events.drain(..).partition(|event| event.id == number);
            channel.events = others;
            if channel.events.is_empty() {
                channel.signal.lower();
            }
            let moved: VecDeque<Event> = moved;
            moved.into_iter().for_each(|event| self.cm.bring(event));
        }
        self.mind_the_unheard();
        Ok(())
    }
}
