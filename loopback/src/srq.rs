//! Shared receive queues.

use std::collections::VecDeque;
use std::ptr::NonNull;

use super::asynchronous::Affiliate;
use super::fabric::State;
use super::world::Capacity;
use super::wr::Recv;
use super::xrc::OfXrc;
use super::{Verb, limits};
use proverbs_sys::types::ibv_srq;
use proverbs_sys::types::raw::ibv_event_type;

pub(super) struct Srq {
    pub(super) pd: u32,
    /// Set if it is of XRC.
    pub(super) of_xrc: Option<OfXrc>,
    max_wr: u32,
    pub(super) max_sge: u32,
    /// The limit below which an event is raised; 0 if not armed.
    limit: u32,
    queue: VecDeque<Recv>,
    /// Slots in use: posted, or on some devices done and not polled.
    slots: u32,
    /// The C object, by which events name the queue.
    pub(super) object: Option<Object>,
}

/// The most receives and elements of one, as asked for or as granted.
#[derive(Clone, Copy)]
pub(super) struct MaxOf {
    pub(super) wr: u32,
    pub(super) sge: u32,
}

/// The C object of a shared receive queue.
#[derive(Clone, Copy)]
pub(super) struct Object(pub(super) NonNull<ibv_srq>);

#[allow(unsafe_code)] // a pointer between threads
// SAFETY: the fabric only hands the pointer back to the C boundary, and never dereferences it.
unsafe impl Send for Object {}

impl Srq {
    pub(super) fn has_room(&self) -> bool {
        self.slots < self.max_wr
    }

    pub(super) fn push(&mut self, wr: Recv) {
        self.queue.push_back(wr);
        self.slots += 1;
    }

    /// Frees a slot.
    pub(super) fn free(&mut self) {
        self.slots = self.slots.saturating_sub(1);
    }

    pub(super) fn posted(&self) -> impl Iterator<Item = &Recv> {
        self.queue.iter()
    }

    pub(super) fn front(&self) -> Option<&Recv> {
        self.queue.front()
    }

    /// Takes the next receive; also returns whether that reached the limit.
    fn pop(&mut self) -> (Option<Recv>, bool) {
        let wr = self.queue.pop_front();
        let reached = (self.queue.len() as u64) < u64::from(self.limit);
        if reached {
            self.limit = 0;
        }
        (wr, reached)
    }
}

impl State {
    /// Takes the next receive of an SRQ.
    pub(super) fn pop_srq(&mut self, number: u32) -> Option<Recv> {
        let srq = self.srqs.get_mut(&number)?;
        let (wr, reached) = srq.pop();
        if let (true, Some(pd)) = (reached, self.pds.get(&srq.pd)) {
            let event = ibv_event_type::IBV_EVENT_SRQ_LIMIT_REACHED;
            self.raise_async(pd.device, event, Affiliate::Srq(number));
        }
        wr
    }

    /// Sets the object by which events name the queue.
    pub(super) fn name_srq(&mut self, srq: u32, object: NonNull<ibv_srq>) {
        if let Some(srq) = self.srqs.get_mut(&srq) {
            srq.object = Some(Object(object));
        }
    }

    /// Creates a shared receive queue, of XRC if that is said. Returns its number, and what was
    /// granted.
    pub(super) fn create_srq(
        &mut self,
        pd: u32,
        MaxOf { wr: max_wr, sge: max_sge }: MaxOf,
        of_xrc: Option<OfXrc>,
    ) -> Verb<(u32, MaxOf)> {
        self.check_alive_pd(pd)?;
        let fits = (1..=limits::SRQ_WR).contains(&max_wr) && max_sge <= limits::SGE;
        if !fits || !self.pds.contains_key(&pd) {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        let max_wr = self.world.grant(Capacity::SrqWr, max_wr);
        let max_sge = self.world.grant(Capacity::SrqSge, max_sge);
        self.srqs.insert(
            number,
            Srq {
                pd,
                of_xrc,
                max_wr,
                max_sge,
                limit: 0,
                queue: VecDeque::new(),
                slots: 0,
                object: None,
            },
        );
        Ok((number, MaxOf { wr: max_wr, sge: max_sge }))
    }

    /// Resizes or arms the queue, or both. Does neither if one of the values is illegal.
    pub(super) fn modify_srq(&mut self, srq: u32, max_wr: Option<u32>, limit: Option<u32>) -> Verb {
        let pd = self.srqs.get(&srq).ok_or(libc::EINVAL)?.pd;
        self.check_alive_pd(pd)?;
        let srq = self.srqs.get_mut(&srq).ok_or(libc::EINVAL)?;
        let max_wr = max_wr.unwrap_or(srq.max_wr);
        let limit = limit.unwrap_or(srq.limit);
        let fits = (1..=limits::SRQ_WR).contains(&max_wr) && max_wr >= srq.slots;
        if !fits || limit > max_wr {
            return Err(libc::EINVAL);
        }
        srq.max_wr = max_wr;
        srq.limit = limit;
        Ok(())
    }

    /// `max_wr`, `max_sge` and the limit.
    pub(super) fn query_srq(&self, srq: u32) -> Verb<(u32, u32, u32)> {
        let srq = self.srqs.get(&srq).ok_or(libc::EINVAL)?;
        self.check_alive_pd(srq.pd)?;
        Ok((srq.max_wr, srq.max_sge, srq.limit))
    }

    pub(super) fn destroy_srq(&mut self, srq: u32) -> Verb {
        self.destroy_fault(None)?;
        if self.qps.values().any(|qp| qp.shape.srq == Some(srq)) {
            return Err(libc::EBUSY);
        }
        let queue = self.srqs.remove(&srq).ok_or(libc::EINVAL)?;
        self.members.remove(&srq);
        if let Some(pd) = self.pds.get(&queue.pd) {
            self.forget_async(pd.device, Affiliate::Srq(srq));
        }
        Ok(())
    }
}
