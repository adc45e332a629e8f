//! The sending side of RC, UC and XRC.

use crate::engine::responder::Reply;
use crate::engine::sends::{Fate, Outcome};
use crate::objects::qp::Cause;
use crate::state::State;
use crate::words::contract::broken;
use crate::words::limits;
use crate::words::transport::Transport;
use crate::words::world::Link;
use crate::words::wr::{Message, Op, Payload, Send};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::ibv_wc_status as status;

impl State {
    pub(crate) fn send_connected(&mut self, number: u32, wr: &Send) -> Outcome {
        let Some(qp) = self.qps.get(&number) else { return Outcome::Stuck };
        let (transport, pd, depth) = (qp.shape.transport, qp.pd, qp.attributes.max_rd_atomic);
        if let Op::Invalidate(key) = wr.op {
            let failed = Outcome::Failed(status::IBV_WC_LOC_QP_OP_ERR);
            if self.habits.is_rxe() && self.has_ended(key) {
                broken("LOCAL_INV of an invalidated key crashes the kernel of Soft-RoCE (R1.6)");
            }
            return if self.invalidate(number, key) { Outcome::Done { length: 0 } } else { failed };
        }
        if let Op::Bind(bind) = wr.op {
            let failed = Outcome::Failed(status::IBV_WC_MW_BIND_ERR);
            return if self.bind(number, &bind) { Outcome::Done { length: 0 } } else { failed };
        }
        let length = wr.payload.length();
        if length > limits::MESSAGE || wr.op.is_atomic() && length != 8 {
            return Outcome::Failed(status::IBV_WC_LOC_LEN_ERR);
        }
        if depth == 0 && (wr.op.fetches() || wr.op.is_of_persistence()) {
            return Outcome::Stuck;
        }
        let data = if wr.op.fetches() {
            Vec::new()
        } else {
            match self.payload(pd, &wr.payload) {
                Some(data) if self.sends_pages(number, &wr.op, &wr.payload) => data,
                _ => return Outcome::Failed(status::IBV_WC_LOC_PROT_ERR),
            }
        };
        let message = Message::of(wr, data);
        let reply = self.carry(number, &message);
        let length = length as u32;
        if transport == Transport::Uc {
            // Success means only that the message left.
            return Outcome::Done { length };
        }
        let is_over = match &reply {
            Reply::NotReady | Reply::Refused(_) => true,
            Reply::Lost => self.peer(number).is_none(),
            Reply::Late | Reply::Done(_) => false,
        };
        if self.world.link == Link::Iwarp && is_over {
            self.end_stream(number);
            return match reply {
                Reply::Refused(cause) if wr.op.fetches() => Outcome::Failed(cause),
                _ if wr.op.fetches() => Outcome::Failed(status::IBV_WC_WR_FLUSH_ERR),
                // TCP took the message (R24.12).
                _ => Outcome::Done { length },
            };
        }
        match reply {
            Reply::Lost => Outcome::Wait(Cause::Lost),
            Reply::NotReady => Outcome::Wait(Cause::NotReady),
            Reply::Late => Outcome::Wait(Cause::Late),
            Reply::Refused(cause) => Outcome::Failed(cause),
            Reply::Done(data) => {
                self.advance(number, length);
                let Payload::List(list) = &wr.payload else { return Outcome::Done { length } };
                self.check_read_to(number, list);
                match self.scatter(pd, list, &data) {
                    Some(()) => Outcome::Done { length },
                    // The peer has already executed the request, atomics too (R4.5).
                    None => Outcome::Failed(status::IBV_WC_LOC_PROT_ERR),
                }
            }
        }
    }

    fn carry(&mut self, from: u32, message: &Message) -> Reply {
        let Some(to) = self.peer(from) else {
            self.refuse_migrated(from);
            return Reply::Lost;
        };
        let is_rc = self.qps.get(&from).is_some_and(|qp| qp.shape.transport.is_reliable());
        match self.fate(message) {
            Fate::Arrives => {
                self.follow(from, to);
                self.respond(to, message)
            }
            Fate::Lost => Reply::Lost,
            Fate::NotReady => Reply::NotReady,
            Fate::Twice => {
                self.follow(from, to);
                let first = self.respond(to, message);
                let _ = self.respond(to, message);
                first
            }
            Fate::Late(_) if is_rc => Reply::Late,
            Fate::Late(due) => {
                self.delay(due, from, to, message, None);
                Reply::Lost
            }
        }
    }

    /// The peer of a connected queue pair, if it is connected to this one in turn.
    fn peer(&self, from: u32) -> Option<u32> {
        let qp = self.qps.get(&from)?;
        let path = qp.attributes.path.as_ref()?;
        let to = qp.attributes.dest_qpn;
        let peer = self.qps.get(&to)?;
        let back = peer.attributes.path.as_ref()?;
        let reached = self.device_at(path) == Some(peer.device)
            && peer.shape.transport == qp.shape.transport.of_peer()
            && peer.receives()
            // Packets from other senders are dropped, and so are acknowledgements to others.
            && (self.is_sender(qp.device, path, back)
                || self.follows(peer).is_some_and(|back| self.is_sender(qp.device, path, back)))
            && peer.attributes.dest_qpn == from
            // UC accepts the sequence number of the first packet of any message; RC requires the
            // expected one.
            && (qp.shape.transport == Transport::Uc || qp.attributes.sq_psn == peer.attributes.rq_psn);
        reached.then_some(to)
    }

    /// Both sides count the packets of a message.
    fn advance(&mut self, from: u32, length: u32) {
        let Some(qp) = self.qps.get_mut(&from) else {
            return;
        };
        let mtu = 128 << qp.attributes.mtu;
        let packets = length.div_ceil(mtu).max(1);
        qp.attributes.sq_psn = (qp.attributes.sq_psn + packets) & limits::BITS_24;
        let to = qp.attributes.dest_qpn;
        if let Some(peer) = self.qps.get_mut(&to) {
            if peer.phase != Phase::Reset {
                peer.attributes.rq_psn = (peer.attributes.rq_psn + packets) & limits::BITS_24;
            }
        }
    }
}
