//! The attributes of a queue pair, and the bits that name them.

use crate::words::address::Address;
use proverbs_sys::types::{ibv_qp_attr_mask as attribute, ibv_qp_state};

pub(crate) const STATE: u32 = attribute::IBV_QP_STATE.0;

pub(crate) const CUR_STATE: u32 = attribute::IBV_QP_CUR_STATE.0;

pub(crate) const SQD_NOTIFY: u32 = attribute::IBV_QP_EN_SQD_ASYNC_NOTIFY.0;

pub(crate) const ACCESS: u32 = attribute::IBV_QP_ACCESS_FLAGS.0;

pub(crate) const PKEY: u32 = attribute::IBV_QP_PKEY_INDEX.0;

pub(crate) const PORT: u32 = attribute::IBV_QP_PORT.0;

pub(crate) const QKEY: u32 = attribute::IBV_QP_QKEY.0;

pub(crate) const AV: u32 = attribute::IBV_QP_AV.0;

pub(crate) const MTU: u32 = attribute::IBV_QP_PATH_MTU.0;

pub(crate) const TIMEOUT: u32 = attribute::IBV_QP_TIMEOUT.0;

pub(crate) const RETRY: u32 = attribute::IBV_QP_RETRY_CNT.0;

pub(crate) const RNR_RETRY: u32 = attribute::IBV_QP_RNR_RETRY.0;

pub(crate) const RQ_PSN: u32 = attribute::IBV_QP_RQ_PSN.0;

pub(crate) const MAX_RD: u32 = attribute::IBV_QP_MAX_QP_RD_ATOMIC.0;

pub(crate) const ALT: u32 = attribute::IBV_QP_ALT_PATH.0;

pub(crate) const MIN_RNR: u32 = attribute::IBV_QP_MIN_RNR_TIMER.0;

pub(crate) const SQ_PSN: u32 = attribute::IBV_QP_SQ_PSN.0;

pub(crate) const MAX_DEST_RD: u32 = attribute::IBV_QP_MAX_DEST_RD_ATOMIC.0;

pub(crate) const MIG: u32 = attribute::IBV_QP_PATH_MIG_STATE.0;

pub(crate) const DEST_QPN: u32 = attribute::IBV_QP_DEST_QPN.0;

#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub(crate) access: u32,
    pub(crate) port: u8,
    pub(crate) pkey_index: u16,
    pub(crate) qkey: u32,
    pub(crate) path: Option<Address>,
    pub(crate) mtu: u32,
    pub(crate) dest_qpn: u32,
    /// The next expected and the next own packet sequence number.
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alternate: Option<Alternate>,
    pub(crate) migration: Migration,
    /// Whether a peer that has migrated was told of as a failure already.
    pub(crate) told_refusal: bool,
}

/// The second way to the peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Alternate {
    pub(crate) path: Address,
    pub(crate) port: u8,
    pub(crate) pkey_index: u16,
    pub(crate) timeout: u8,
}

/// `path_mig_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Migration {
    #[default]
    Migrated,
    Rearm,
    Armed,
}

/// The attributes given to `modify_qp`. Fields that `mask` does not name have no meaning.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) mask: u32,
    pub(crate) state: ibv_qp_state::Type,
    pub(crate) cur_state: ibv_qp_state::Type,
    pub(crate) migration: u32,
    pub(crate) alternate: Alternate,
    /// Whether an event reports that the send queue has drained.
    pub(crate) notify: bool,
    pub(crate) path: Address,
    pub(crate) values: Attributes,
}
