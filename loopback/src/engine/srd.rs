//! SRD: acknowledged messages without an order.
//!
//! Each run takes the sends of a queue pair in an order drawn from the world's seed, delays some
//! for a run or more, and flushes in a random order too. A send that cannot be delivered yet does
//! not block the others. A failed send does not stop the queue pair.

use std::collections::VecDeque;

use crate::engine::responder::{Arrival, Refusal};
use crate::engine::sends::Outcome;
use crate::objects::cq::Cqe;
use crate::objects::memory::{REMOTE_READ, REMOTE_WRITE};
use crate::objects::qp::Cause;
use crate::state::State;
use crate::words::address::Address;
use crate::words::limits;
use crate::words::transport::Transport;
use crate::words::wr::{Doom, Op, Payload, Send, To};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::{ibv_wc_opcode as opcode, ibv_wc_status as status};

/// `slid` of an arrival from a device that no address handle leads to.
const UNKNOWN: u16 = 0xffff;

/// One in `HELD` sends is delayed, for at most `RUNS` runs.
const HELD: u32 = 3;
const RUNS: u32 = 3;
impl State {
    /// One round for an SRD queue pair in RTS: each of its sends is tried once.
    pub(crate) fn turn_srd(&mut self, number: u32) -> bool {
        let Some(qp) = self.qps.get_mut(&number) else { return self.rest(number) };
        let mut sends = std::mem::take(&mut qp.sends);
        if sends.is_empty() {
            return self.rest(number);
        }
        self.shuffle.mix(sends.make_contiguous());
        let (mut left, mut worked, mut is_late) = (VecDeque::new(), false, false);
        for mut wr in sends {
            let is_new = wr.doom == Doom::Undecided;
            let outcome = match self.is_in_rts(number).then(|| self.begin(number, &mut wr)) {
                None => Outcome::Stuck,
                Some(Err(())) => {
                    worked = true;
                    Outcome::Stuck
                }
                Some(Ok(Some(outcome))) => outcome,
                Some(Ok(None)) => {
                    if is_new && wr.doom == Doom::None && self.shuffle.below(HELD) == 0 {
                        let runs = self.shuffle.below(RUNS) + 1;
                        wr.doom = Doom::Late(self.faults.runs + u64::from(runs));
                    }
                    self.send_srd(number, &mut wr)
                }
            };
            match outcome {
                Outcome::Done { length } => {
                    self.complete_send(number, &wr, status::IBV_WC_SUCCESS, length);
                    worked = true;
                }
                Outcome::Failed(cause) => {
                    self.complete_send(number, &wr, cause, 0);
                    worked = true;
                }
                // The message that has waited longest comes first.
                Outcome::Wait(Cause::Late) => {
                    is_late = true;
                    left.push_front(wr);
                }
                Outcome::Wait(_) | Outcome::Stuck => left.push_back(wr),
            }
        }
        let is_in_rts = self.is_in_rts(number);
        let Some(qp) = self.qps.get_mut(&number) else { return worked };
        if worked {
            qp.wait = None;
        }
        if worked || !is_in_rts || left.is_empty() {
            qp.sends = left;
            return worked;
        }
        let first = left.pop_front();
        qp.sends = left;
        let cause = if is_late { Cause::Late } else { Cause::NotReady };
        first.is_some_and(|first| self.wait(number, first, cause))
    }

    fn is_in_rts(&self, number: u32) -> bool {
        self.qps.get(&number).is_some_and(|qp| qp.phase == Phase::Rts)
    }

    /// Delivers one message, if possible.
    fn send_srd(&mut self, number: u32, wr: &mut Send) -> Outcome {
        match wr.doom {
            Doom::Late(due) if due > self.faults.runs => return Outcome::Wait(Cause::Late),
            // It is sent again.
            Doom::Lost => {
                wr.doom = Doom::Late(self.faults.runs + 1);
                return Outcome::Wait(Cause::Late);
            }
            Doom::NotReady => {
                wr.doom = Doom::None;
                return Outcome::Wait(Cause::NotReady);
            }
            Doom::NeverReady => return Outcome::Wait(Cause::NotReady),
            Doom::NoAnswer => return Outcome::Failed(status::IBV_WC_RESP_TIMEOUT_ERR),
            _ => {}
        }
        let Some(qp) = self.qps.get(&number) else { return Outcome::Stuck };
        let (device, pd) = (qp.device, qp.pd);
        let Some(To { ah, qpn, qkey }) = wr.to else {
            return Outcome::Failed(status::IBV_WC_LOC_QP_OP_ERR);
        };
        let address = match self.ahs.get(&ah) {
            Some(ah) if ah.pd == pd => ah.address,
            _ => return Outcome::Failed(status::IBV_WC_LOC_QP_OP_ERR),
        };
        let length = wr.payload.length();
        let longest = if wr.op.is_rdma() { limits::MESSAGE } else { self.world.longest.into() };
        if length > longest {
            return Outcome::Failed(status::IBV_WC_LOC_LEN_ERR);
        }
        let data = match wr.op {
            Op::Read(_) => Vec::new(),
            _ => match self.payload(pd, &wr.payload) {
                Some(data) if self.sends_pages(number, &wr.op, &wr.payload) => data,
                _ => return Outcome::Failed(status::IBV_WC_LOC_PROT_ERR),
            },
        };
        let to = match self.srd_receiver(&address, qpn, qkey) {
            Ok(to) => to,
            Err(cause) => return Outcome::Failed(cause),
        };
        let ah_back = self.ah_back(to, device);
        if wr.op.is_rdma() && ah_back.is_none() {
            return Outcome::Failed(status::IBV_WC_REM_OP_ERR);
        }
        let slid = ah_back.unwrap_or(UNKNOWN);
        self.serve_srd(number, to, wr, &data, slid)
    }

    /// The queue pair that a message reaches.
    fn srd_receiver(
        &mut self,
        address: &Address,
        qpn: u32,
        qkey: u32,
    ) -> Result<u32, status::Type> {
        let device = self.device_at(address).ok_or(status::IBV_WC_RESP_TIMEOUT_ERR)?;
        let peer = self.qps.get(&qpn).filter(|qp| {
            qp.device == device && qp.shape.transport == Transport::Srd && qp.receives()
        });
        match peer {
            Some(peer) if peer.attributes.qkey == qkey => Ok(qpn),
            Some(_) => {
                let count = self.qkey_violations.entry(device).or_default();
                *count = count.saturating_add(1);
                Err(status::IBV_WC_REM_INV_RD_REQ_ERR)
            }
            None => Err(status::IBV_WC_REM_INV_RD_REQ_ERR),
        }
    }

    /// The number of an address handle that leads from the device of `from` to `device`.
    fn ah_back(&self, from: u32, device: u32) -> Option<u16> {
        let home = self.qps.get(&from)?.device;
        let leads = |ah: u32| {
            let ah = &self.ahs[&ah];
            self.pds.get(&ah.pd).is_some_and(|pd| pd.device == home)
                && self.device_at(&ah.address) == Some(device)
        };
        self.ahs.keys().copied().find(|&ah| leads(ah)).map(|ah| self.srd_number_of(ah))
    }

    /// The number by which arrivals name an address handle. Handles to one device share it.
    pub(crate) fn srd_number_of(&self, ah: u32) -> u16 {
        let there = self.ahs.get(&ah).and_then(|ah| self.device_at(&ah.address));
        there.map_or(UNKNOWN, |device| device as u16)
    }

    fn serve_srd(&mut self, from: u32, to: u32, wr: &Send, data: &[u8], slid: u16) -> Outcome {
        let length = wr.payload.length();
        let (at, right) = match wr.op {
            Op::Write(at) => (Some(at), REMOTE_WRITE),
            Op::Read(at) => (Some(at), REMOTE_READ),
            _ => (None, 0),
        };
        let span = at.map_or(Ok(None), |at| self.open(to, at, length as usize, right));
        let Ok(span) = span else { return Outcome::Failed(status::IBV_WC_REM_ACCESS_ERR) };
        let arrival = |data, opcode| {
            let (byte_len, extra) = (length as u32, wr.extra);
            let says = Cqe { byte_len, opcode, extra, src_qp: from, slid, ..Cqe::default() };
            Arrival { data, solicited: false, says }
        };
        let done = Outcome::Done { length: length as u32 };
        let received = match wr.op {
            Op::Read(_) => {
                let mut read = Vec::new();
                if let Some(span) = span {
                    span.load(&mut read);
                }
                let (Payload::List(list), Some(pd)) = (&wr.payload, self.qps.get(&from)) else {
                    return done;
                };
                return match self.scatter(pd.pd, list, &read) {
                    Some(()) => done,
                    None => Outcome::Failed(status::IBV_WC_LOC_PROT_ERR),
                };
            }
            Op::Write(_) => {
                let notes = wr.extra.is_imm();
                if notes && !self.has_receive(to) {
                    return Outcome::Wait(Cause::NotReady);
                }
                if let Some(span) = span {
                    span.store(data);
                }
                if !notes {
                    return done;
                }
                self.receive(to, &arrival(&[], opcode::IBV_WC_RECV_RDMA_WITH_IMM))
            }
            _ => self.receive(to, &arrival(data, opcode::IBV_WC_RECV)),
        };
        match received {
            Ok(()) => done,
            Err(Refusal::NoReceive) => Outcome::Wait(Cause::NotReady),
            Err(Refusal::TooLong) => Outcome::Failed(status::IBV_WC_REM_INV_REQ_ERR),
            Err(Refusal::Protected | Refusal::Key) => Outcome::Failed(status::IBV_WC_REM_OP_ERR),
        }
    }
}
