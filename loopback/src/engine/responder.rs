//! The receiving side: the effect of a message at the peer, and the peer's answer.

// No model: each atomic of the device is one read-modify-write of memory that the
// program opened.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use crate::objects::cq::Cqe;
use crate::objects::memory::{
    REMOTE_ATOMIC, REMOTE_READ, REMOTE_TAG, REMOTE_WRITE, Span, number_of,
};
use crate::state::State;
use crate::words::transport::Transport;
use crate::words::world::Link;
use crate::words::wr;
use crate::words::wr::{Extra, Message, Op};
use proverbs_sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT, placement};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::{ibv_wc_opcode as opcode, ibv_wc_status as status};

pub(crate) enum Reply {
    /// Acknowledged, with the data of a READ or an atomic.
    Done(Vec<u8>),
    /// No receive was posted.
    NotReady,
    /// The status of the requester's completion.
    Refused(status::Type),
    Lost,
    /// The message is still in transit (RC).
    Late,
}

/// Why an arriving message was not received.
pub(crate) enum Refusal {
    /// No receive was posted.
    NoReceive,
    /// The receive is too short.
    TooLong,
    /// The receive's memory is not accessible to its domain.
    Protected,
    /// The key that the message would invalidate does not belong to a window of the domain (R1.6).
    Key,
}

/// A message for a receive.
pub(crate) struct Arrival<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) solicited: bool,
    /// The fields of the receive's completion.
    pub(crate) says: Cqe,
}

/// The access rights that a FLUSH with this placement needs.
fn flush_rights(to: u8) -> u32 {
    let right = |bit, right| if to & bit != 0 { right } else { 0 };
    right(placement::GLOBAL, ACCESS_FLUSH_GLOBAL)
        | right(placement::PERSISTENT, ACCESS_FLUSH_PERSISTENT)
}

impl State {
    /// Delivers a message to a connected queue pair. UC silently drops messages that it cannot
    /// accept (class D).
    pub(crate) fn respond(&mut self, to: u32, message: &Message) -> Reply {
        self.establish(to);
        let is_astray = self.is_astray(to, message.srqn);
        let reply = match is_astray {
            true => Reply::Refused(status::IBV_WC_REM_INV_REQ_ERR),
            false => self.serve_as(to, message.srqn, |state| state.serve(to, message)),
        };
        let is_reliable = self.qps.get(&to).is_some_and(|qp| qp.shape.transport.is_reliable());
        if let (&Reply::Refused(cause), true) = (&reply, is_reliable) {
            // Faults of classes C and A stop the responder too (R10.17).
            self.enter(to, Phase::Err);
            // A message's receive reports it, if it consumes one.
            if is_astray || !matches!(message.op, Op::Send) {
                self.raise_refusal(to, cause);
            }
        }
        reply
    }

    fn serve(&mut self, to: u32, message: &Message) -> Reply {
        let Some(qp) = self.qps.get(&to) else { return Reply::Lost };
        let granted = qp.attributes.access;
        let refused = Reply::Refused(status::IBV_WC_REM_INV_REQ_ERR);
        let (at, length, right) = match message.op {
            Op::Write(at) => (at, message.data.len(), REMOTE_WRITE),
            Op::Read(at) => (at, message.asks, REMOTE_READ),
            Op::CompareSwap { at, .. } | Op::FetchAdd { at, .. } => (at, 8, REMOTE_ATOMIC),
            Op::AtomicWrite { at, .. } => (at, 8, REMOTE_WRITE),
            Op::Flush { at, length, placement, whole } => {
                let length = if whole { 0 } else { length as usize };
                (at, length, flush_rights(placement))
            }
            Op::Send | Op::Datagram { .. } => {
                return self.deliver(to, message, opcode::IBV_WC_RECV, &message.data);
            }
            Op::Invalidate(_) | Op::Bind(_) => return refused, // for no peer
        };
        if granted & right != right
            || message.op.fetches() && qp.attributes.max_dest_rd_atomic == 0
            || message.op.is_of_persistence() && qp.attributes.max_dest_rd_atomic == 0
            || (message.op.is_atomic() || matches!(message.op, Op::AtomicWrite { .. }))
                && at.addr % 8 != 0
        {
            return refused;
        }
        if let Op::Flush { whole: true, .. } = message.op {
            let pd = qp.pd;
            return match self.region_of(to, pd, at.rkey, right) {
                true => Reply::Done(Vec::new()),
                false => Reply::Refused(status::IBV_WC_REM_ACCESS_ERR),
            };
        }
        let is_at_once = matches!(message.op, Op::AtomicWrite { .. });
        if is_at_once && !self.may_write_at_once(to, at.rkey) {
            return Reply::Refused(status::IBV_WC_REM_ACCESS_ERR);
        }
        let Ok(span) = self.open(to, at, length, right) else {
            return Reply::Refused(status::IBV_WC_REM_ACCESS_ERR);
        };
        match message.op {
            Op::Write(_) => {
                // A write without an immediate has no receive that could fail.
                let write = |span: Option<Span>| span.map_or((), |span| span.store(&message.data));
                if message.extra == Extra::Nothing {
                    write(span);
                    return Reply::Done(Vec::new());
                }
                if !self.has_receive(to) {
                    return Reply::NotReady;
                }
                write(span);
                self.deliver(to, message, opcode::IBV_WC_RECV_RDMA_WITH_IMM, &[])
            }
            Op::Read(_) => {
                let mut data = Vec::new();
                if let Some(span) = span {
                    span.load(&mut data);
                }
                Reply::Done(data)
            }
            // All written bytes are already in memory.
            Op::Flush { .. } => Reply::Done(Vec::new()),
            Op::AtomicWrite { bytes, .. } => {
                let swap = |cell: &AtomicU64| cell.swap(u64::from_ne_bytes(bytes), SeqCst);
                match self.change(span, swap) {
                    Reply::Done(_) => Reply::Done(Vec::new()),
                    refused => refused,
                }
            }
            Op::CompareSwap { expected, new, .. } => self.change(span, |cell| {
                match cell.compare_exchange(expected, new, SeqCst, SeqCst) {
                    Ok(old) | Err(old) => old,
                }
            }),
            Op::FetchAdd { add, .. } => self.change(span, |cell| cell.fetch_add(add, SeqCst)),
            Op::Send | Op::Datagram { .. } | Op::Invalidate(_) | Op::Bind(_) => refused,
        }
    }

    fn change(&self, span: Option<Span>, change: impl FnOnce(&AtomicU64) -> u64) -> Reply {
        match span.and_then(|span| span.atomic(change)) {
            Some(old) => Reply::Done(old.to_ne_bytes().to_vec()),
            None => Reply::Refused(status::IBV_WC_REM_INV_REQ_ERR),
        }
    }

    fn deliver(&mut self, to: u32, message: &Message, opcode: opcode::Type, data: &[u8]) -> Reply {
        let byte_len = message.data.len() as u32;
        let says = Cqe { byte_len, opcode, extra: message.extra, ..Cqe::default() };
        let arrival = Arrival { data, solicited: message.solicited, says };
        match self.receive(to, &arrival) {
            Ok(()) => Reply::Done(Vec::new()),
            Err(Refusal::NoReceive) => Reply::NotReady,
            Err(Refusal::TooLong) => Reply::Refused(status::IBV_WC_REM_INV_REQ_ERR),
            Err(Refusal::Protected) => Reply::Refused(status::IBV_WC_REM_OP_ERR),
            // The message was acknowledged before its key was checked.
            Err(Refusal::Key) => Reply::Done(Vec::new()),
        }
    }

    /// Invalidates the key that the message names, if any. It must belong to a window of the queue
    /// pair's domain; on iWARP it may also belong to a region.
    fn ends_its_key(&mut self, to: u32, extra: Extra) -> bool {
        let Extra::Invalidate(key) = extra else { return true };
        self.invalidate(to, key) || self.world.link == Link::Iwarp && self.end_region(to, key)
    }

    /// Invalidates the keys of a region of the queue pair's domain. Returns whether there is such a
    /// region.
    fn end_region(&mut self, to: u32, key: u32) -> bool {
        let pd = self.qps.get(&to).map(|qp| qp.pd);
        let mr = number_of(key, REMOTE_TAG).and_then(|number| self.mrs.get_mut(&number));
        let mr = mr.filter(|mr| Some(mr.pd) == pd);
        mr.is_some_and(|mr| {
            mr.is_ended = true;
            true
        })
    }

    pub(crate) fn has_receive(&self, to: u32) -> bool {
        self.qps.get(&to).is_some_and(|qp| match qp.shape.srq {
            Some(srq) => self.srqs.get(&srq).is_some_and(|srq| srq.front().is_some()),
            None => !qp.recvs.is_empty(),
        })
    }

    /// Puts a message into the next receive, from the queue pair's own queue or from its SRQ.
    ///
    /// A receive too short for an RC message fails with it. UC and UD drop such a message, and the
    /// next one gets the receive (class D). But an SRQ cannot take a receive back, so there the
    /// receive fails, and the queue pair continues (class E). Memory that is not accessible fails
    /// the receive and the queue pair on every transport (class A).
    pub(crate) fn receive(&mut self, to: u32, arrival: &Arrival) -> Result<(), Refusal> {
        let Some(qp) = self.qps.get(&to) else { return Err(Refusal::NoReceive) };
        let (transport, srq, cq) = (qp.shape.transport, qp.shape.srq, qp.shape.recv_cq);
        let (next, pd) = match srq {
            Some(srq) => self.srqs.get(&srq).map_or((None, 0), |srq| (srq.front(), srq.pd)),
            None => (qp.recvs.front(), qp.pd),
        };
        let Some(next) = next else { return Err(Refusal::NoReceive) };
        let outcome = if wr::length(&next.list) < arrival.data.len() as u64 {
            if !transport.is_reliable() && srq.is_none() {
                return Err(Refusal::TooLong);
            }
            Err((Refusal::TooLong, status::IBV_WC_LOC_LEN_ERR))
        } else {
            match self.scatter(pd, &next.list, arrival.data) {
                None => Err((Refusal::Protected, status::IBV_WC_LOC_PROT_ERR)),
                Some(()) if !self.ends_its_key(to, arrival.says.extra) => {
                    Err((Refusal::Key, status::IBV_WC_REM_INV_REQ_ERR))
                }
                Some(()) => Ok(()),
            }
        };
        let Some(taken) = self.take_receive(to) else { return Err(Refusal::NoReceive) };
        let entry = match &outcome {
            Ok(()) => Cqe {
                wr_id: taken.wr_id,
                qp_num: taken.qp_num,
                generation: taken.generation,
                receive_slot: taken.receive_slot,
                datagram: matches!(transport, Transport::Ud | Transport::Srd),
                ..arrival.says
            },
            Err((_, status)) => Cqe { status: *status, ..taken },
        };
        self.complete(cq, entry, arrival.solicited);
        outcome.map_err(|(refusal, _)| {
            if matches!(refusal, Refusal::Protected | Refusal::Key) {
                self.enter(to, Phase::Err);
            }
            refusal
        })
    }
}
