//! The transitions that exist, and the attributes that each requires and permits.

use super::Verb;
use super::attributes::{Changes, Migration};
use super::engine::ENDLESS;
use super::fabric::State;
use super::qp::{Phase, Transport, phase};
use super::world::Link;
use proverbs_sys::types::ibv_qp_attr_mask as attribute;

pub(super) const STATE: u32 = attribute::IBV_QP_STATE.0;
pub(super) const CUR_STATE: u32 = attribute::IBV_QP_CUR_STATE.0;
pub(super) const SQD_NOTIFY: u32 = attribute::IBV_QP_EN_SQD_ASYNC_NOTIFY.0;
pub(super) const ACCESS: u32 = attribute::IBV_QP_ACCESS_FLAGS.0;
pub(super) const PKEY: u32 = attribute::IBV_QP_PKEY_INDEX.0;
pub(super) const PORT: u32 = attribute::IBV_QP_PORT.0;
pub(super) const QKEY: u32 = attribute::IBV_QP_QKEY.0;
pub(super) const AV: u32 = attribute::IBV_QP_AV.0;
pub(super) const MTU: u32 = attribute::IBV_QP_PATH_MTU.0;
pub(super) const TIMEOUT: u32 = attribute::IBV_QP_TIMEOUT.0;
pub(super) const RETRY: u32 = attribute::IBV_QP_RETRY_CNT.0;
pub(super) const RNR_RETRY: u32 = attribute::IBV_QP_RNR_RETRY.0;
pub(super) const RQ_PSN: u32 = attribute::IBV_QP_RQ_PSN.0;
pub(super) const MAX_RD: u32 = attribute::IBV_QP_MAX_QP_RD_ATOMIC.0;
pub(super) const ALT: u32 = attribute::IBV_QP_ALT_PATH.0;
pub(super) const MIN_RNR: u32 = attribute::IBV_QP_MIN_RNR_TIMER.0;
pub(super) const SQ_PSN: u32 = attribute::IBV_QP_SQ_PSN.0;
pub(super) const MAX_DEST_RD: u32 = attribute::IBV_QP_MAX_DEST_RD_ATOMIC.0;
pub(super) const MIG: u32 = attribute::IBV_QP_PATH_MIG_STATE.0;
pub(super) const DEST_QPN: u32 = attribute::IBV_QP_DEST_QPN.0;

/// The required and the optional attributes of a transition, besides the state itself.
fn rule(transport: Transport, from: Phase, to: Phase) -> Option<(u32, u32)> {
    use Phase::*;
    use Transport::*;
    Some(match (from, to, transport) {
        (_, Reset, _) => (0, 0),
        (Reset, Err, _) => return None,
        (_, Err, _) => (0, 0),

        (Reset, Init, Rc | Uc | XrcSend | XrcRecv) => (PKEY | PORT | ACCESS, 0),
        (Reset, Init, Ud | Srd) => (PKEY | PORT | QKEY, 0),
        (Init, Init, Rc | Uc | XrcSend | XrcRecv) => (0, PKEY | PORT | ACCESS),
        (Init, Init, Ud | Srd) => (0, PKEY | PORT | QKEY),

        (Init, Rtr, Rc | XrcRecv) => {
            (AV | MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD | MIN_RNR, ALT | ACCESS | PKEY)
        }
        (Init, Rtr, Uc | XrcSend) => (AV | MTU | DEST_QPN | RQ_PSN, ALT | ACCESS | PKEY),
        (Init, Rtr, Ud | Srd) => (0, PKEY | QKEY),

        (Rtr, Rts, Rc) => (
            TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | MAX_RD,
            CUR_STATE | ALT | ACCESS | MIN_RNR | MIG,
        ),
        (Rtr, Rts, XrcSend) => {
            (TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | MAX_RD, CUR_STATE | ALT | ACCESS | MIG)
        }
        (Rtr, Rts, XrcRecv) => (TIMEOUT | SQ_PSN, CUR_STATE | ALT | ACCESS | MIN_RNR | MIG),
        (Rtr, Rts, Uc) => (SQ_PSN, CUR_STATE | ALT | ACCESS | MIG),
        (Rtr, Rts, Ud) => (SQ_PSN, CUR_STATE | QKEY),
        (Rtr, Rts, Srd) => (SQ_PSN, CUR_STATE | QKEY | RNR_RETRY),

        (Rts | Sqd, Rts, Rc | XrcRecv) => (0, CUR_STATE | ACCESS | ALT | MIG | MIN_RNR),
        (Rts | Sqd, Rts, Uc | XrcSend) => (0, CUR_STATE | ACCESS | ALT | MIG),
        (Rts | Sqd | Sqe, Rts, Ud) => (0, CUR_STATE | QKEY),
        (Rts, Rts, Srd) => (0, CUR_STATE | QKEY),
        (Sqe, Rts, Rc) => (0, 0),
        (Sqe, Rts, Uc) => (0, CUR_STATE | ACCESS),

        (Rts, Sqd, Rc | Uc | Ud | XrcSend | XrcRecv) => (0, SQD_NOTIFY),
        (Sqd, Sqd, Rc) => {
            let retries = TIMEOUT | RETRY | RNR_RETRY | MIN_RNR;
            (0, PORT | AV | retries | MAX_RD | MAX_DEST_RD | ALT | ACCESS | PKEY | MIG)
        }
        (Sqd, Sqd, XrcSend) => {
            let retries = TIMEOUT | RETRY | RNR_RETRY;
            (0, PORT | AV | retries | MAX_RD | ALT | ACCESS | PKEY | MIG)
        }
        (Sqd, Sqd, XrcRecv) => {
            (0, PORT | AV | TIMEOUT | MIN_RNR | MAX_DEST_RD | ALT | ACCESS | PKEY | MIG)
        }
        (Sqd, Sqd, Uc) => (0, AV | ALT | ACCESS | PKEY | MIG),
        (Sqd, Sqd, Ud) => (0, PKEY | QKEY),

        _ => return None,
    })
}

impl State {
    /// On iWARP only rdma_cm moves a queue pair further than INIT.
    pub(super) fn modify_qp_by_hand(&mut self, number: u32, changes: &Changes) -> Verb<Phase> {
        let may = matches!(phase(changes.state), Ok(Phase::Init | Phase::Err));
        if self.world.link == Link::Iwarp && !may {
            return Err(libc::EINVAL);
        }
        self.modify_qp(number, changes)
    }

    /// Makes the whole change or none. Returns the queue pair's new state.
    pub(super) fn modify_qp(&mut self, number: u32, changes: &Changes) -> Verb<Phase> {
        let qp = self.qps.get(&number).ok_or(libc::EINVAL)?;
        self.check_alive(qp.device)?;
        let has = |bit| changes.mask & bit != 0;
        let from = qp.phase;
        if has(CUR_STATE) && phase(changes.cur_state)? != from {
            return Err(libc::EINVAL);
        }
        let to = if has(STATE) { phase(changes.state)? } else { from };
        let (required, optional) = rule(qp.shape.transport, from, to).ok_or(libc::EINVAL)?;
        let given = changes.mask & !STATE;
        if given & required != required || given & !(required | optional) != 0 {
            return Err(libc::EINVAL);
        }
        let mut attributes = self.changed(qp, changes)?;
        let is_srd = qp.shape.transport == Transport::Srd;
        if is_srd && (from, to) == (Phase::Rtr, Phase::Rts) && !has(RNR_RETRY) {
            attributes.rnr_retry = ENDLESS;
        }
        let before = qp.attributes.migration;
        if let Some(qp) = self.qps.get_mut(&number) {
            qp.attributes = attributes;
            qp.tells_drained = has(SQD_NOTIFY) && changes.notify;
        }
        if before == Migration::Armed && attributes.migration == Migration::Migrated {
            self.migrate(number);
        }
        if has(STATE) {
            self.enter(number, to);
            // What is posted is flushed, or goes on: somebody may sleep until it does.
            self.ring();
        }
        Ok(to)
    }
}
