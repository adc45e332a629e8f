//! Completion queues.

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::objects::Object;
use crate::objects::cq::{Arm, Cq, Cqe, Slot};
use crate::objects::events::Affiliate;
use crate::state::State;
use crate::words::contract::broken;
use crate::words::script::{Fault, Occasion};
use crate::words::world::Capacity;
use crate::words::{Verb, limits};
use proverbs_sys::types::ibv_cq;
use proverbs_sys::types::raw::ibv_event_type;

impl State {
    /// Returns the queue's number and its capacity.
    pub(crate) fn create_cq(
        &mut self,
        device: u32,
        capacity: i32,
        channel: Option<u32>,
        vector: i32,
    ) -> Verb<(u32, u32)> {
        self.check_alive(device)?;
        let capacity = u32::try_from(capacity).map_err(|_| libc::EINVAL)?;
        let fits = (1..=limits::CQE).contains(&capacity);
        let capacity = self.world.grant(Capacity::Cqe, capacity);
        let ours =
            channel.is_none_or(|c| self.channels.get(&c).is_some_and(|c| c.device == device));
        if !fits || !ours || !(0..limits::COMP_VECTORS).contains(&vector) {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        let cq = Cq { device, channel, capacity: capacity as usize, ..Cq::default() };
        self.cqs.insert(number, cq);
        Ok((number, capacity))
    }

    /// Changes the capacity of the queue, which must hold its completions. Returns the granted
    /// capacity.
    pub(crate) fn resize_cq(&mut self, cq: u32, capacity: i32) -> Verb<u32> {
        let device = self.cqs.get(&cq).ok_or(libc::EINVAL)?.device;
        self.check_ended(cq);
        self.check_alive(device)?;
        let capacity = u32::try_from(capacity).map_err(|_| libc::EINVAL)?;
        let granted = self.world.grant(Capacity::Cqe, capacity);
        let queue = self.cqs.get_mut(&cq).ok_or(libc::EINVAL)?;
        let fits = (1..=limits::CQE).contains(&capacity);
        if !fits || queue.overrun || queue.entries.len() > granted as usize {
            return Err(libc::EINVAL);
        }
        queue.capacity = granted as usize;
        Ok(granted)
    }

    /// Sets the object by which events name the queue.
    pub(crate) fn name_cq(&mut self, cq: u32, object: NonNull<ibv_cq>) {
        if let Some(cq) = self.cqs.get_mut(&cq) {
            cq.object = Some(Object(object));
        }
    }

    pub(crate) fn destroy_cq(&mut self, cq: u32) -> Verb {
        self.check_ended(cq);
        self.destroy_fault(None)?;
        if !self.cqs.contains_key(&cq) {
            return Err(libc::EINVAL);
        }
        if self.qps.values().any(|qp| qp.shape.send_cq == cq || qp.shape.recv_cq == cq) {
            return Err(libc::EBUSY);
        }
        self.disarm(cq);
        self.members.remove(&cq);
        if let Some(queue) = self.cqs.remove(&cq) {
            self.forget_async(queue.device, Affiliate::Cq(cq));
            if let Some(channel) = queue.channel {
                self.forget_events(channel, cq);
            }
        }
        Ok(())
    }

    /// Disarms the queue; returns what it was armed for.
    pub(crate) fn disarm(&mut self, cq: u32) -> Option<Arm> {
        let queue = self.cqs.get_mut(&cq)?;
        let armed = queue.armed.take()?;
        if let Some(channel) = queue.channel.and_then(|channel| self.channels.get_mut(&channel)) {
            channel.armed -= 1;
        }
        Some(armed)
    }

    /// Marks the queue's content as undefined. The first time, an event reports it.
    pub(crate) fn overrun(&mut self, cq: u32) {
        let Some(queue) = self.cqs.get_mut(&cq) else { return };
        if !std::mem::replace(&mut queue.overrun, true) {
            let device = queue.device;
            self.raise_async(device, ibv_event_type::IBV_EVENT_CQ_ERR, Affiliate::Cq(cq));
        }
    }

    /// The next completion, `None` if the queue is empty. Frees the slots that it covers.
    pub(crate) fn poll(&mut self, cq: u32) -> Verb<Option<Cqe>> {
        match self.decide(Occasion::Poll) {
            Some(Fault::BreakCq) => self.overrun(cq),
            Some(_) => return Err(libc::EIO),
            None => {}
        }
        let queue = self.cqs.get_mut(&cq).ok_or(libc::EINVAL)?;
        if queue.overrun {
            return Err(libc::EIO);
        }
        let Some(entry) = queue.entries.pop_front() else { return Ok(None) };
        if let Some(qp) = self.qps.get_mut(&entry.qp_num) {
            qp.free_sends(entry.generation, entry.frees);
        }
        self.free_receive(&entry);
        Ok(Some(entry))
    }

    /// Begins or ends extended polling. Until it ends, no other call may use the queue (R14.5).
    pub(crate) fn set_started(&mut self, cq: u32, started: bool) {
        if let Some(cq) = self.cqs.get_mut(&cq) {
            cq.started = started;
        }
    }

    pub(crate) fn check_started(&self, cq: u32) {
        if self.cqs.get(&cq).is_some_and(|cq| !cq.started) {
            broken("extended polling continues without a start, or after its end (R14.1)");
        }
    }

    pub(crate) fn check_ended(&self, cq: u32) {
        if self.cqs.get(&cq).is_some_and(|cq| cq.started) {
            broken("a completion queue is used between ibv_start_poll and ibv_end_poll (R14.5)");
        }
    }

    pub(crate) fn free_receive(&mut self, entry: &Cqe) {
        match entry.receive_slot {
            None => {}
            Some(Slot::Own) => {
                if let Some(qp) = self.qps.get_mut(&entry.qp_num) {
                    qp.free_receive(entry.generation);
                }
            }
            Some(Slot::Shared(srq)) => {
                if let Some(srq) = self.srqs.get_mut(&srq) {
                    srq.free();
                }
            }
        }
    }

    /// Called when a queue pair is destroyed or reset. Some devices then remove its unpolled
    /// completions.
    pub(crate) fn clean(&mut self, qp: u32, send_cq: u32, recv_cq: u32) {
        for cq in if send_cq == recv_cq { vec![send_cq] } else { vec![send_cq, recv_cq] } {
            if !self.habits.takes_completions_along() {
                continue;
            }
            let Some(queue) = self.cqs.get_mut(&cq) else { continue };
            let entries = std::mem::take(&mut queue.entries).into_iter();
            let (gone, left) = entries.partition(|entry| entry.qp_num == qp);
            queue.entries = left;
            let gone: VecDeque<Cqe> = gone;
            gone.iter().for_each(|entry| self.free_receive(entry));
        }
    }

    /// Arms the queue for one event. A queue armed for any completion stays so until it fires.
    pub(crate) fn arm(&mut self, cq: u32, arm: Arm) -> Verb {
        let queue = self.cqs.get_mut(&cq).ok_or(libc::EINVAL)?;
        let channel = queue.channel;
        let armed = if queue.armed == Some(Arm::Any) { Arm::Any } else { arm };
        let before = queue.armed.replace(armed);
        if let Some(number) = channel {
            if let (None, Some(channel)) = (before, self.channels.get_mut(&number)) {
                channel.armed += 1;
            }
            if self.decide(Occasion::Arm).is_some() {
                self.disarm(cq);
                self.raise_event(number, cq);
            }
        }
        Ok(())
    }
}
