//! Shared receive queues.

use std::ptr::NonNull;

use crate::objects::Object;
use crate::objects::domains::OfXrc;
use crate::objects::events::Affiliate;
use crate::objects::srq::Srq;
use crate::state::State;
use crate::words::world::Capacity;
use crate::words::wr::Recv;
use crate::words::{Verb, limits};
use proverbs_sys::types::raw::ibv_event_type;
use proverbs_sys::types::{ibv_srq, ibv_srq_attr, zeroed};

impl State {
    /// Takes the next receive of an SRQ.
    pub(crate) fn pop_srq(&mut self, number: u32) -> Option<Recv> {
        let srq = self.srqs.get_mut(&number)?;
        let (wr, reached) = srq.pop();
        if let (true, Some(pd)) = (reached, self.pds.get(&srq.pd)) {
            let event = ibv_event_type::IBV_EVENT_SRQ_LIMIT_REACHED;
            self.raise_async(pd.device, event, Affiliate::Srq(number));
        }
        wr
    }

    /// Sets the object by which events name the queue.
    pub(crate) fn name_srq(&mut self, srq: u32, object: NonNull<ibv_srq>) {
        if let Some(srq) = self.srqs.get_mut(&srq) {
            srq.object = Some(Object(object));
        }
    }

    /// Creates a shared receive queue, for XRC if requested. Returns its number, and the granted
    /// limits.
    pub(crate) fn create_srq(
        &mut self,
        pd: u32,
        asked: ibv_srq_attr,
        of_xrc: Option<OfXrc>,
    ) -> Verb<(u32, ibv_srq_attr)> {
        self.check_alive_pd(pd)?;
        let fits = (1..=limits::SRQ_WR).contains(&asked.max_wr)
            && asked.max_sge <= self.world.most(Capacity::SrqSge);
        if !fits || !self.pds.contains_key(&pd) {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        let max_wr = self.world.grant(Capacity::SrqWr, asked.max_wr);
        let max_sge = self.world.grant(Capacity::SrqSge, asked.max_sge);
        self.srqs.insert(number, Srq { pd, of_xrc, max_wr, max_sge, ..Srq::default() });
        Ok((number, ibv_srq_attr { max_wr, max_sge, ..asked }))
    }

    /// Resizes or arms the queue, or both. Does neither if one of the values is illegal.
    pub(crate) fn modify_srq(&mut self, srq: u32, max_wr: Option<u32>, limit: Option<u32>) -> Verb {
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

    pub(crate) fn query_srq(&self, srq: u32) -> Verb<ibv_srq_attr> {
        let srq = self.srqs.get(&srq).ok_or(libc::EINVAL)?;
        self.check_alive_pd(srq.pd)?;
        let &Srq { max_wr, max_sge, limit: srq_limit, .. } = srq;
        Ok(ibv_srq_attr { max_wr, max_sge, srq_limit, ..zeroed() })
    }

    pub(crate) fn destroy_srq(&mut self, srq: u32) -> Verb {
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
