//! Queue pairs.

use crate::objects::events::Affiliate;
use crate::objects::qp::{Qp, Shape};
use crate::state::State;
use crate::words::contract::broken;
use crate::words::transport::Transport;
use crate::words::world::{Capacity, Link};
use crate::words::wr::{Recv, Send};
use crate::words::{Verb, limits};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::terms::wc::Direction;
use proverbs_sys::types::ibv_qp_cap;
use proverbs_sys::types::raw::ibv_event_type;

impl State {
    /// Returns the queue pair's number, and the granted limits.
    pub(crate) fn create_qp(&mut self, pd: u32, shape: Shape) -> Verb<(u32, Shape)> {
        self.check_alive_pd(pd)?;
        if self.world.link == Link::Iwarp && shape.transport != Transport::Rc {
            return Err(libc::EOPNOTSUPP);
        }
        // siw's library does the same (R24.11).
        if self.world.link == Link::Iwarp && shape.srq.is_none() && shape.cap.max_recv_wr == 0 {
            return Err(libc::EINVAL);
        }
        let is_efa = self.world.srd.is_some();
        let has = match shape.transport {
            Transport::Rc | Transport::Uc | Transport::XrcSend | Transport::XrcRecv => !is_efa,
            Transport::Ud => true,
            Transport::Srd => is_efa,
        };
        if !has || is_efa && shape.srq.is_some() {
            return Err(libc::EOPNOTSUPP);
        }
        match shape.transport {
            Transport::XrcSend if !self.has_xrc() => return Err(libc::EOPNOTSUPP),
            // An XRC target has no domain that this verb names, and no receive queue.
            Transport::XrcRecv => return Err(libc::EINVAL),
            Transport::XrcSend if shape.cap.max_recv_wr != 0 || shape.srq.is_some() => {
                return Err(libc::EINVAL);
            }
            _ => {}
        }
        let device = self.pds.get(&pd).ok_or(libc::EINVAL)?.device;
        let cq_fits = |cq| self.cqs.get(&cq).is_some_and(|cq| cq.device == device);
        let srq_fits = shape.srq.is_none_or(|srq| {
            // UC supports no SRQ (R7.3), and an SRQ must be in the domain of its queue pairs
            // (R7.4).
            shape.transport != Transport::Uc
                && self.srqs.get(&srq).is_some_and(|srq| srq.pd == pd && srq.of_xrc.is_none())
        });
        let most = |limit| self.world.most(limit);
        let fits = shape.cap.max_send_wr <= most(Capacity::SendWr)
            && shape.cap.max_recv_wr <= most(Capacity::RecvWr)
            && shape.cap.max_send_sge <= most(Capacity::SendSge)
            && shape.cap.max_recv_sge <= most(Capacity::RecvSge)
            && shape.cap.max_inline_data <= most(Capacity::Inline)
            && (shape.transport != Transport::Srd
                || shape.cap.max_inline_data <= limits::INLINE_SRD);
        if !cq_fits(shape.send_cq) || !cq_fits(shape.recv_cq) || !srq_fits || !fits {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        let grant = |limit, asked| self.world.grant(limit, asked);
        let cap = ibv_qp_cap {
            max_send_wr: grant(Capacity::SendWr, shape.cap.max_send_wr),
            max_recv_wr: grant(Capacity::RecvWr, shape.cap.max_recv_wr),
            max_send_sge: grant(Capacity::SendSge, shape.cap.max_send_sge),
            max_recv_sge: grant(Capacity::RecvSge, shape.cap.max_recv_sge),
            max_inline_data: grant(Capacity::Inline, shape.cap.max_inline_data),
        };
        let shape = Shape { cap, ..shape };
        self.qps.insert(number, Qp::new(device, pd, None, shape));
        Ok((number, shape))
    }

    /// The queue pair's shape, if this many sends may be posted to it.
    pub(crate) fn check_sends(&self, number: u32, count: usize) -> Verb<Shape> {
        let qp = self.qps.get(&number).ok_or(libc::EINVAL)?;
        if matches!(qp.phase, Phase::Reset | Phase::Init | Phase::Rtr) {
            return Err(libc::EINVAL);
        }
        if qp.send_slots as usize + count > qp.shape.cap.max_send_wr as usize {
            return Err(libc::ENOMEM);
        }
        Ok(qp.shape)
    }

    /// As siw's library, iWARP's devices reject a receive without an element (R24.15).
    pub(crate) fn check_recv(&self, recv: &Recv) -> Verb {
        let is_empty = self.world.link == Link::Iwarp && recv.list.is_empty();
        if is_empty { Err(libc::EINVAL) } else { Ok(()) }
    }

    /// Whether posts to this queue pair have no completion: siw accepts posts in the error state
    /// and flushes only those before it (R24.7).
    pub(crate) fn never_flushes(&self, number: u32) -> bool {
        let is_in_error = self.qps.get(&number).is_some_and(|qp| qp.phase == Phase::Err);
        self.world.link == Link::Iwarp && is_in_error
    }

    /// Accepts a work request that has no completion: it takes a place of its queue.
    pub(crate) fn strand(&mut self, number: u32, direction: Direction) {
        if let Some(qp) = self.qps.get_mut(&number) {
            match direction {
                Direction::Send => qp.send_slots += 1,
                Direction::Receive => qp.recv_slots += 1,
            }
        }
    }

    pub(crate) fn push_sends(&mut self, number: u32, sends: impl IntoIterator<Item = Send>) {
        if let Some(qp) = self.qps.get_mut(&number) {
            for send in sends {
                qp.sends.push_back(send);
                qp.send_slots += 1;
            }
            self.active.insert(number);
        }
    }

    /// On most devices, completions stay in the completion queues. Outstanding work requests are
    /// dropped.
    pub(crate) fn destroy_qp(&mut self, qp: u32) -> Verb {
        self.destroy_fault(Some(qp))?;
        if self.is_attached(qp) {
            return Err(libc::EBUSY);
        }
        if self.has_windows_of(qp) {
            broken("a queue pair is destroyed before its memory windows");
        }
        if self.world.link == Link::Iwarp {
            self.end_stream(qp);
            self.ring();
        }
        self.active.remove(&qp);
        let pair = self.qps.remove(&qp).ok_or(libc::EINVAL)?;
        self.members.remove(&qp);
        self.clean(qp, pair.shape.send_cq, pair.shape.recv_cq);
        self.forget_async(pair.device, Affiliate::Qp(qp));
        Ok(())
    }

    /// Moves a queue pair to `phase`, with the effects on its queues.
    pub(crate) fn enter(&mut self, number: u32, phase: Phase) {
        let Some(qp) = self.qps.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut qp.phase, phase);
        // A target has the shared receive queue of the message that it serves.
        let on_srq = qp.shape.srq.is_some() && qp.xrcd.is_none();
        let transport = qp.shape.transport;
        let (send_cq, recv_cq) = (qp.shape.send_cq, qp.shape.recv_cq);
        match phase {
            Phase::Reset => qp.reset(),
            Phase::Err | Phase::Sqe => qp.wait = None,
            _ => {}
        }
        if phase == Phase::Reset {
            self.clean(number, send_cq, recv_cq);
        }
        if phase == Phase::Err && before != Phase::Err {
            if transport == Transport::Srd {
                self.shuffle_queues(number);
            }
            self.flush_fault(number, transport);
        }
        self.active.insert(number);
        if phase == Phase::Err && before != Phase::Err && on_srq {
            // It takes no more receives from the SRQ, since messages arrive whole here.
            self.raise_qp(number, ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }

    /// Ends an iWARP connection: its queue pairs enter ERR, and their ids are disconnected.
    pub(crate) fn end_stream(&mut self, number: u32) {
        let to = self.qps.get(&number).map(|qp| qp.attributes.dest_qpn);
        let is_connected = |qp: &&Qp| qp.attributes.dest_qpn == number && qp.phase != Phase::Reset;
        let to = to.filter(|to| self.qps.get(to).as_ref().is_some_and(is_connected));
        for qp in [Some(number), to].into_iter().flatten() {
            self.enter(qp, Phase::Err);
            #[cfg(feature = "cm")]
            self.cm.lose_connection(qp);
        }
    }

    /// Shuffles the work requests of an SRD queue pair that enters ERR. They are flushed in that
    /// order.
    pub(crate) fn shuffle_queues(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let (mut sends, mut recvs) = (std::mem::take(&mut qp.sends), std::mem::take(&mut qp.recvs));
        self.shuffle.mix(sends.make_contiguous());
        self.shuffle.mix(recvs.make_contiguous());
        if let Some(qp) = self.qps.get_mut(&number) {
            (qp.sends, qp.recvs) = (sends, recvs);
        }
    }
}
