//! The legal transitions, and the attributes that each requires and permits.

use crate::objects::memory::{LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};
use crate::objects::qp::{ENDLESS, Qp, phase};
use crate::state::State;
use crate::verbs::migration::asked_of;
use crate::words::attributes::{
    ACCESS, ALT, AV, Attributes, CUR_STATE, Changes, DEST_QPN, MAX_DEST_RD, MAX_RD, MIG, MIN_RNR,
    MTU, Migration, PKEY, PORT, QKEY, RETRY, RNR_RETRY, RQ_PSN, SQ_PSN, SQD_NOTIFY, STATE, TIMEOUT,
};
use crate::words::transport::Transport;
use crate::words::world::Link;
use crate::words::{Verb, limits};
use proverbs_sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::ibv_access_flags;

const QP_ACCESS: u32 = LOCAL_WRITE
    | REMOTE_WRITE
    | REMOTE_READ
    | REMOTE_ATOMIC
    | ibv_access_flags::IBV_ACCESS_MW_BIND.0
    | ACCESS_FLUSH_GLOBAL
    | ACCESS_FLUSH_PERSISTENT;

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
    /// The attributes with the changes applied, if every new value is legal.
    pub(crate) fn changed(&self, qp: &Qp, changes: &Changes) -> Verb<Attributes> {
        let has = |bit| changes.mask & bit != 0;
        let check = |all: &[(u32, bool)]| match all.iter().all(|&(bit, fits)| fits || !has(bit)) {
            true => Ok(()),
            false => Err(libc::EINVAL),
        };
        let new = &changes.values;
        let mut now = qp.attributes;
        check(&[
            (ACCESS, new.access & !QP_ACCESS == 0),
            (PORT, new.port == 1),
            (PKEY, new.pkey_index == 0),
        ])?;
        if has(AV) {
            self.check_address(qp.device, &changes.path)?;
            now.path = Some(changes.path);
        }
        if has(ALT) {
            self.check_alternate(qp, &changes.alternate)?;
            now.alternate = Some(changes.alternate);
        }
        if has(MIG) {
            now.migration = asked_of(&now, changes.migration)?;
        }
        check(&[
            (MTU, (1..=self.world.mtu.to_c()).contains(&new.mtu)),
            (DEST_QPN, new.dest_qpn <= limits::BITS_24),
            (MAX_RD, new.max_rd_atomic <= limits::RD_ATOMIC),
            (MAX_DEST_RD, new.max_dest_rd_atomic <= limits::RD_ATOMIC),
            (MIN_RNR, new.min_rnr_timer <= 31),
            (TIMEOUT, new.timeout <= 31),
            (RETRY, new.retry_cnt <= 7),
            (RNR_RETRY, new.rnr_retry <= 7),
        ])?;
        now.take(new, changes.mask);
        (now.rq_psn, now.sq_psn) = (now.rq_psn & limits::BITS_24, now.sq_psn & limits::BITS_24);
        Ok(now)
    }

    /// On iWARP only rdma_cm moves a queue pair past INIT, and ERR ends its connection.
    pub(crate) fn modify_qp_by_hand(&mut self, number: u32, changes: &Changes) -> Verb<Phase> {
        let may = matches!(phase(changes.state), Ok(Phase::Init | Phase::Err));
        if self.world.link == Link::Iwarp && !may {
            return Err(libc::EINVAL);
        }
        let to = self.modify_qp(number, changes)?;
        if self.world.link == Link::Iwarp && to == Phase::Err {
            self.end_stream(number);
            self.ring();
        }
        Ok(to)
    }

    /// Makes the whole change or none. Returns the queue pair's new state.
    pub(crate) fn modify_qp(&mut self, number: u32, changes: &Changes) -> Verb<Phase> {
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
            // Posted work is flushed or continues. A thread may sleep until then.
            self.ring();
        }
        Ok(to)
    }
}
