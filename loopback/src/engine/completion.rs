//! Completions, and the work requests that end with them.

use crate::objects::cq::{Arm, Cqe, Slot};
use crate::state::State;
use crate::words::transport::Transport;
use crate::words::wr::{Op, Send};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::raw::ibv_event_type;
use proverbs_sys::types::{ibv_wc_opcode as opcode, ibv_wc_status, ibv_wc_status as status};

impl State {
    /// Adds a completion, and an event if the queue was armed.
    pub(crate) fn complete(&mut self, cq: u32, mut entry: Cqe, solicited: bool) {
        self.completions += 1;
        (entry.at, entry.clock) = (self.completions, self.now());
        let Some(queue) = self.cqs.get_mut(&cq) else {
            return;
        };
        if queue.overrun || queue.entries.len() >= queue.capacity {
            // The queue is unusable, and so are the QPs whose completions are lost.
            self.overrun(cq);
            if self.qps.get(&entry.qp_num).is_some_and(|qp| qp.phase != Phase::Err) {
                self.enter(entry.qp_num, Phase::Err);
                self.raise_qp(entry.qp_num, ibv_event_type::IBV_EVENT_QP_FATAL);
            }
            return;
        }
        let error = entry.status != ibv_wc_status::IBV_WC_SUCCESS;
        queue.entries.push_back(entry);
        let fires = match queue.armed {
            None => false,
            Some(Arm::Any) => true,
            Some(Arm::Solicited) => solicited || error,
        };
        if fires {
            let channel = queue.channel;
            self.disarm(cq);
            if let Some(channel) = channel {
                self.raise_event(channel, cq);
            }
        }
    }

    /// Completes a send. A signaled or failed send adds a completion; polling it frees the slots of
    /// all sends that it covers.
    pub(crate) fn complete_send(
        &mut self,
        number: u32,
        wr: &Send,
        status: status::Type,
        byte_len: u32,
    ) {
        let Some(qp) = self.qps.get_mut(&number) else {
            return;
        };
        let success = status == status::IBV_WC_SUCCESS;
        if success && !wr.signaled {
            qp.silent += 1;
            return;
        }
        let entry = Cqe {
            wr_id: wr.wr_id,
            status,
            opcode: match (success, qp.shape.transport, wr.op) {
                (false, ..) => 0,
                // EFA's provider does the same.
                (true, Transport::Srd, Op::Read(_)) => opcode::IBV_WC_SEND,
                (true, ..) => wr.op.completes_as(),
            },
            byte_len,
            sent_imm: wr.extra.is_imm(),
            qp_num: number,
            frees: std::mem::take(&mut qp.silent) + 1,
            generation: qp.generation,
            ..Cqe::default()
        };
        let cq = qp.shape.send_cq;
        self.complete(cq, entry, false);
    }

    /// Takes the next receive off its queue, and starts its completion.
    pub(crate) fn take_receive(&mut self, to: u32) -> Option<Cqe> {
        let qp = self.qps.get_mut(&to)?;
        let generation = qp.generation;
        let (wr, slot) = match qp.shape.srq {
            Some(srq) => (self.pop_srq(srq)?, Slot::Shared(srq)),
            None => (qp.recvs.pop_front()?, Slot::Own),
        };
        let entry = Cqe {
            wr_id: wr.wr_id,
            qp_num: to,
            generation,
            receive_slot: Some(slot),
            ..Cqe::default()
        };
        if self.habits.holds_slots_until_polled() {
            return Some(entry);
        }
        self.free_receive(&entry);
        Some(Cqe { receive_slot: None, ..entry })
    }
}
