//! The attributes of a queue pair, and their legal values.

use super::address::Address;
use super::fabric::State;
use super::memory::{LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};
use super::migration::asked_of;
use super::modify::*;
use super::qp::Qp;
use super::{Verb, limits};
use proverbs_sys::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use proverbs_sys::types::{ibv_access_flags, ibv_qp_state};

const QP_ACCESS: u32 = LOCAL_WRITE
    | REMOTE_WRITE
    | REMOTE_READ
    | REMOTE_ATOMIC
    | ibv_access_flags::IBV_ACCESS_MW_BIND.0
    | ACCESS_FLUSH_GLOBAL
    | ACCESS_FLUSH_PERSISTENT;

#[derive(Clone, Copy, Default)]
pub(super) struct Attributes {
    pub(super) access: u32,
    pub(super) port: u8,
    pub(super) pkey_index: u16,
    pub(super) qkey: u32,
    pub(super) path: Option<Address>,
    pub(super) mtu: u32,
    pub(super) dest_qpn: u32,
    /// The next expected and the next own packet sequence number.
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alternate: Option<Alternate>,
    pub(super) migration: Migration,
    /// Whether a peer that has migrated was told of as a failure already.
    pub(super) told_refusal: bool,
}

/// The second way to the peer.
#[derive(Clone, Copy, Default)]
pub(super) struct Alternate {
    pub(super) path: Address,
    pub(super) port: u8,
    pub(super) pkey_index: u16,
    pub(super) timeout: u8,
}

/// `path_mig_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Migration {
    #[default]
    Migrated,
    Rearm,
    Armed,
}

/// The attributes given to `modify_qp`. Fields that `mask` does not name have no meaning.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) mask: u32,
    pub(super) state: ibv_qp_state::Type,
    pub(super) cur_state: ibv_qp_state::Type,
    pub(super) migration: u32,
    pub(super) alternate: Alternate,
    /// Whether an event reports that the send queue has drained.
    pub(super) notify: bool,
    pub(super) path: Address,
    pub(super) values: Attributes,
}

/// `value`, if it is at most `max`.
fn up_to<T: PartialOrd>(value: T, max: T) -> Verb<T> {
    if value <= max { Ok(value) } else { Err(libc::EINVAL) }
}

impl State {
    /// The attributes with the changes applied, if every new value is legal.
    pub(super) fn changed(&self, qp: &Qp, changes: &Changes) -> Verb<Attributes> {
        let has = |bit| changes.mask & bit != 0;
        let new = &changes.values;
        let mut now = qp.attributes;
        if has(ACCESS) {
            if new.access & !QP_ACCESS != 0 {
                return Err(libc::EINVAL);
            }
            now.access = new.access;
        }
        if has(PORT) {
            if new.port != 1 {
                return Err(libc::EINVAL);
            }
            now.port = new.port;
        }
        if has(PKEY) {
            now.pkey_index = up_to(new.pkey_index, 0)?;
        }
        if has(QKEY) {
            now.qkey = new.qkey;
        }
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
        if has(MTU) {
            if new.mtu == 0 {
                return Err(libc::EINVAL);
            }
            now.mtu = up_to(new.mtu, self.world.mtu.to_c())?;
        }
        if has(DEST_QPN) {
            now.dest_qpn = up_to(new.dest_qpn, limits::BITS_24)?;
        }
        if has(RQ_PSN) {
            now.rq_psn = new.rq_psn & limits::BITS_24;
        }
        if has(SQ_PSN) {
            now.sq_psn = new.sq_psn & limits::BITS_24;
        }
        if has(MAX_RD) {
            now.max_rd_atomic = up_to(new.max_rd_atomic, limits::RD_ATOMIC)?;
        }
        if has(MAX_DEST_RD) {
            now.max_dest_rd_atomic = up_to(new.max_dest_rd_atomic, limits::RD_ATOMIC)?;
        }
        if has(MIN_RNR) {
            now.min_rnr_timer = up_to(new.min_rnr_timer, 31)?;
        }
        if has(TIMEOUT) {
            now.timeout = up_to(new.timeout, 31)?;
        }
        if has(RETRY) {
            now.retry_cnt = up_to(new.retry_cnt, 7)?;
        }
        if has(RNR_RETRY) {
            now.rnr_retry = up_to(new.rnr_retry, 7)?;
        }
        Ok(now)
    }
}
