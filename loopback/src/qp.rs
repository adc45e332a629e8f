//! Queue pairs.

use std::collections::VecDeque;

use super::asynchronous::Affiliate;
use super::attributes::Attributes;
use super::engine::Wait;
use super::fabric::State;
use super::strict::broken;
use super::world::{Capacity, Link};
use super::wr::{Recv, Send};
use super::{Verb, limits};
pub(super) use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::raw::ibv_event_type;
use proverbs_sys::types::{ibv_qp_state, ibv_qp_type};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    Rc,
    Uc,
    Ud,
    /// An initiator of XRC, and a target.
    XrcSend,
    XrcRecv,
    Srd,
}

impl Transport {
    pub(super) fn from_c(qp_type: ibv_qp_type::Type) -> Verb<Transport> {
        match qp_type {
            ibv_qp_type::IBV_QPT_RC => Ok(Transport::Rc),
            ibv_qp_type::IBV_QPT_UC => Ok(Transport::Uc),
            ibv_qp_type::IBV_QPT_UD => Ok(Transport::Ud),
            ibv_qp_type::IBV_QPT_XRC_SEND => Ok(Transport::XrcSend),
            ibv_qp_type::IBV_QPT_XRC_RECV => Ok(Transport::XrcRecv),
            ibv_qp_type::IBV_QPT_DRIVER => Ok(Transport::Srd),
            _ => Err(libc::EOPNOTSUPP),
        }
    }

    pub(super) fn to_c(self) -> ibv_qp_type::Type {
        match self {
            Transport::Rc => ibv_qp_type::IBV_QPT_RC,
            Transport::Uc => ibv_qp_type::IBV_QPT_UC,
            Transport::Ud => ibv_qp_type::IBV_QPT_UD,
            Transport::XrcSend => ibv_qp_type::IBV_QPT_XRC_SEND,
            Transport::XrcRecv => ibv_qp_type::IBV_QPT_XRC_RECV,
            Transport::Srd => ibv_qp_type::IBV_QPT_DRIVER,
        }
    }
}

/// The state that a transition names.
pub(super) fn phase(state: ibv_qp_state::Type) -> Verb<Phase> {
    Phase::from_c(state).ok_or(libc::EINVAL)
}

/// The limits and options of a queue pair, as asked for or as granted.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) transport: Transport,
    pub(super) send_cq: u32,
    pub(super) recv_cq: u32,
    pub(super) srq: Option<u32>,
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline: u32,
    pub(super) sig_all: bool,
}

impl Shape {
    /// That of a target of XRC, which has no queues.
    pub(super) fn of_target() -> Shape {
        Shape {
            transport: Transport::XrcRecv,
            send_cq: 0,
            recv_cq: 0,
            srq: None,
            max_send_wr: 0,
            max_recv_wr: 0,
            max_send_sge: 0,
            max_recv_sge: 0,
            max_inline: 0,
            sig_all: false,
        }
    }
}

pub(super) struct Qp {
    pub(super) device: u32,
    /// A target has one while it serves a message, as it has a shared receive queue.
    pub(super) pd: u32,
    /// The XRC domain of a target.
    pub(super) xrcd: Option<u32>,
    pub(super) shape: Shape,
    pub(super) phase: Phase,
    /// Counts the resets: completions from before a reset free no slots.
    pub(super) generation: u32,
    pub(super) attributes: Attributes,
    pub(super) sends: VecDeque<Send>,
    pub(super) recvs: VecDeque<Recv>,
    /// Send slots in use: queued, or done and not yet released by a polled completion (R9.7).
    pub(super) send_slots: u32,
    /// Receive slots in use: posted, or on some devices done and not polled.
    pub(super) recv_slots: u32,
    /// The number of sends done without a completion since the last one that had one.
    pub(super) silent: u32,
    /// Set while the first send waits for another try.
    pub(super) wait: Option<Wait>,
    /// The run before which the queue pair flushes nothing.
    pub(super) flush_from: u64,
    /// Whether the first message arrived while it was in RTR.
    pub(super) established: bool,
    /// Whether an event reports that its send queue has drained.
    pub(super) tells_drained: bool,
    /// Whether what it sends to a group does not come back to it.
    pub(super) blocks_loopback: bool,
    /// The options of its connection that are taken.
    pub(super) options: u32,
}

impl Qp {
    /// Whether messages from the fabric are accepted.
    pub(super) fn receives(&self) -> bool {
        matches!(self.phase, Phase::Rtr | Phase::Rts | Phase::Sqd | Phase::Sqe)
    }

    pub(super) fn free_sends(&mut self, generation: u32, slots: u32) {
        if self.generation == generation {
            self.send_slots = self.send_slots.saturating_sub(slots);
        }
    }

    pub(super) fn free_receive(&mut self, generation: u32) {
        if self.generation == generation {
            self.recv_slots = self.recv_slots.saturating_sub(1);
        }
    }

    fn reset(&mut self) {
        self.attributes = Attributes::default();
        self.sends.clear();
        self.recvs.clear();
        self.send_slots = 0;
        self.recv_slots = 0;
        self.silent = 0;
        self.wait = None;
        self.flush_from = 0;
        self.established = false;
        self.tells_drained = false;
        self.generation = self.generation.wrapping_add(1);
    }
}

impl State {
    /// Returns the queue pair's number, and what was granted.
    pub(super) fn create_qp(&mut self, pd: u32, shape: Shape) -> Verb<(u32, Shape)> {
        self.check_alive_pd(pd)?;
        if self.world.link == Link::Iwarp && shape.transport != Transport::Rc {
            return Err(libc::EOPNOTSUPP);
        }
        // As siw's library (R24.11).
        if self.world.link == Link::Iwarp && shape.srq.is_none() && shape.max_recv_wr == 0 {
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
            // Neither has a domain that this verb names, nor receives.
            Transport::XrcRecv => return Err(libc::EINVAL),
            Transport::XrcSend if shape.max_recv_wr != 0 || shape.srq.is_some() => {
                return Err(libc::EINVAL);
            }
            _ => {}
        }
        let device = self.pds.get(&pd).ok_or(libc::EINVAL)?.device;
        let cq_fits = |cq| self.cqs.get(&cq).is_some_and(|cq| cq.device == device);
        let srq_fits = shape.srq.is_none_or(|srq| {
            // UC takes no SRQ (R7.3), and an SRQ is of its queue pairs' domain (R7.4).
            shape.transport != Transport::Uc
                && self.srqs.get(&srq).is_some_and(|srq| srq.pd == pd && srq.of_xrc.is_none())
        });
        let fits = shape.max_send_wr <= limits::QP_WR
            && shape.max_recv_wr <= limits::QP_WR
            && shape.max_send_sge <= limits::SGE
            && shape.max_recv_sge <= limits::SGE
            && shape.max_inline <= limits::INLINE
            && (shape.transport != Transport::Srd || shape.max_inline <= limits::INLINE_SRD);
        if !cq_fits(shape.send_cq) || !cq_fits(shape.recv_cq) || !srq_fits || !fits {
            return Err(libc::EINVAL);
        }
        let number = self.number()?;
        let grant = |limit, asked| self.world.grant(limit, asked);
        let shape = Shape {
            max_send_wr: grant(Capacity::SendWr, shape.max_send_wr),
            max_recv_wr: grant(Capacity::RecvWr, shape.max_recv_wr),
            max_send_sge: grant(Capacity::SendSge, shape.max_send_sge),
            max_recv_sge: grant(Capacity::RecvSge, shape.max_recv_sge),
            max_inline: grant(Capacity::Inline, shape.max_inline),
            ..shape
        };
        self.insert_qp(number, device, pd, shape, None);
        Ok((number, shape))
    }

    pub(super) fn insert_qp(
        &mut self,
        number: u32,
        device: u32,
        pd: u32,
        shape: Shape,
        xrcd: Option<u32>,
    ) {
        let qp = Qp {
            device,
            pd,
            xrcd,
            shape,
            phase: Phase::Reset,
            generation: 0,
            attributes: Attributes::default(),
            sends: VecDeque::new(),
            recvs: VecDeque::new(),
            send_slots: 0,
            recv_slots: 0,
            silent: 0,
            wait: None,
            flush_from: 0,
            established: false,
            tells_drained: false,
            blocks_loopback: false,
            options: super::tuning::OPTIONS,
        };
        self.qps.insert(number, qp);
    }

    /// On most devices, completions stay in the completion queues. Work requests without one are
    /// dropped.
    pub(super) fn destroy_qp(&mut self, qp: u32) -> Verb {
        self.destroy_fault(Some(qp))?;
        if self.is_attached(qp) {
            return Err(libc::EBUSY);
        }
        if self.has_windows_of(qp) {
            broken("a queue pair is destroyed before its memory windows");
        }
        self.active.remove(&qp);
        let pair = self.qps.remove(&qp).ok_or(libc::EINVAL)?;
        self.members.remove(&qp);
        self.clean(qp, pair.shape.send_cq, pair.shape.recv_cq);
        self.forget_async(pair.device, Affiliate::Qp(qp));
        Ok(())
    }

    /// Moves a queue pair to `phase`, with the effects on its queues.
    pub(super) fn enter(&mut self, number: u32, phase: Phase) {
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
            // It takes no more receives of the SRQ: here, messages arrive whole.
            self.raise_qp(number, ibv_event_type::IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }
}
