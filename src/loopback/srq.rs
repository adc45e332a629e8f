//! Shared receive queues.

use std::collections::VecDeque;

use super::Verb;
use super::fabric::State;
use super::limits;
use super::wr::Recv;

pub(super) struct Srq {
    pub(super) pd: u32,
    max_wr: u32,
    pub(super) max_sge: u32,
    /// Armed while not 0. The device has no asynchronous events, so firing only disarms it.
    limit: u32,
    queue: VecDeque<Recv>,
}

impl Srq {
    pub(super) fn has_room(&self) -> bool {
        (self.queue.len() as u64) < u64::from(self.max_wr)
    }

    pub(super) fn push(&mut self, wr: Recv) {
        self.queue.push_back(wr);
    }

    pub(super) fn front(&self) -> Option<&Recv> {
        self.queue.front()
    }

    pub(super) fn pop(&mut self) -> Option<Recv> {
        let wr = self.queue.pop_front();
        if (self.queue.len() as u64) < u64::from(self.limit) {
            self.limit = 0;
        }
        wr
    }
}

impl State {
    pub(super) fn create_srq(&mut self, pd: u32, max_wr: u32, max_sge: u32) -> Verb<u32> {
        let fits = (1..=limits::SRQ_WR).contains(&max_wr) && max_sge <= limits::SGE;
        if !fits || !self.pds.contains_key(&pd) {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        self.srqs.insert(number, Srq { pd, max_wr, max_sge, limit: 0, queue: VecDeque::new() });
        Ok(number)
    }

    /// Resizes or arms, or both, or neither when either value will not do.
    pub(super) fn modify_srq(&mut self, srq: u32, max_wr: Option<u32>, limit: Option<u32>) -> Verb {
        let srq = self.srqs.get_mut(&srq).ok_or(libc::EINVAL)?;
        let max_wr = max_wr.unwrap_or(srq.max_wr);
        let limit = limit.unwrap_or(srq.limit);
        let fits =
            (1..=limits::SRQ_WR).contains(&max_wr) && u64::from(max_wr) >= srq.queue.len() as u64;
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
        Ok((srq.max_wr, srq.max_sge, srq.limit))
    }

    pub(super) fn destroy_srq(&mut self, srq: u32) -> Verb {
        if self.qps.values().any(|qp| qp.shape.srq == Some(srq)) {
            return Err(libc::EBUSY);
        }
        self.srqs.remove(&srq).map(drop).ok_or(libc::EINVAL)
    }
}
