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

/// Each plain attribute: its mask bit, its name here and in C, and its type.
macro_rules! plain_attributes {
    ($then:ident) => {
        $then! {
            ACCESS access qp_access_flags u32;
            PORT port port_num u8;
            PKEY pkey_index pkey_index u16;
            QKEY qkey qkey u32;
            MTU mtu path_mtu u32;
            DEST_QPN dest_qpn dest_qp_num u32;
            // The next expected and the next own packet sequence number.
            RQ_PSN rq_psn rq_psn u32;
            SQ_PSN sq_psn sq_psn u32;
            MAX_RD max_rd_atomic max_rd_atomic u8;
            MAX_DEST_RD max_dest_rd_atomic max_dest_rd_atomic u8;
            MIN_RNR min_rnr_timer min_rnr_timer u8;
            TIMEOUT timeout timeout u8;
            RETRY retry_cnt retry_cnt u8;
            RNR_RETRY rnr_retry rnr_retry u8;
        }
    };
}
pub(crate) use plain_attributes;

macro_rules! attributes {
    ($($bit:ident $name:ident $c:ident $type:ty;)*) => {
        #[derive(Clone, Copy, Default)]
        pub(crate) struct Attributes {
            $(pub(crate) $name: $type,)*
            pub(crate) path: Option<Address>,
            pub(crate) alternate: Option<Alternate>,
            pub(crate) migration: Migration,
            /// Whether the migration of the peer was already reported as a failure.
            pub(crate) told_refusal: bool,
        }

        impl Attributes {
            /// Copies the plain attributes that `mask` names.
            pub(crate) fn take(&mut self, new: &Attributes, mask: u32) {
                $(if mask & $bit != 0 {
                    self.$name = new.$name;
                })*
            }
        }
    };
}

plain_attributes!(attributes);

/// The alternate path to the peer.
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
