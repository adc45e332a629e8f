//! `ibv_qp_attr`: read as far as a mask says, and written whole.

#![allow(unsafe_code)] // Fields that the mask does not name may be uninitialised.

use super::memory::{address_of, address_to};
use crate::objects::qp::{Qp, Shape};
use crate::words::attributes::*;
use crate::words::attributes::{Alternate, Attributes, Changes, Migration};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::*;

/// Reads the fields that `mask` names, and no others.
///
/// # Safety
/// `attr` points to an `ibv_qp_attr` whose fields named by `mask` are initialised.
pub(crate) unsafe fn read(attr: *const ibv_qp_attr, mask: u32) -> Changes {
    let mut changes = Changes { mask, ..Changes::default() };
    let mut values = Attributes::default();
    macro_rules! take {
        ($bit:expr, $to:expr, $field:ident) => {
            if mask & $bit != 0 {
                // SAFETY: the mask names the field, so it is initialised (this function's
                // contract).
                $to = unsafe { (*attr).$field };
            }
        };
    }
    take!(STATE, changes.state, qp_state);
    take!(CUR_STATE, changes.cur_state, cur_qp_state);
    take!(MIG, changes.migration, path_mig_state);
    take!(ACCESS, values.access, qp_access_flags);
    take!(PKEY, values.pkey_index, pkey_index);
    take!(PORT, values.port, port_num);
    take!(QKEY, values.qkey, qkey);
    take!(MTU, values.mtu, path_mtu);
    take!(TIMEOUT, values.timeout, timeout);
    take!(RETRY, values.retry_cnt, retry_cnt);
    take!(RNR_RETRY, values.rnr_retry, rnr_retry);
    take!(RQ_PSN, values.rq_psn, rq_psn);
    take!(SQ_PSN, values.sq_psn, sq_psn);
    take!(MAX_RD, values.max_rd_atomic, max_rd_atomic);
    take!(MAX_DEST_RD, values.max_dest_rd_atomic, max_dest_rd_atomic);
    if mask & SQD_NOTIFY != 0 {
        // SAFETY: the mask names the field, so it is initialised (this function's contract).
        changes.notify = unsafe { (*attr).en_sqd_async_notify } != 0;
    }
    take!(MIN_RNR, values.min_rnr_timer, min_rnr_timer);
    take!(DEST_QPN, values.dest_qpn, dest_qp_num);
    if mask & AV != 0 {
        // SAFETY: the mask names the field, so it is initialised (this function's contract).
        let path = unsafe { (*attr).ah_attr };
        changes.path = address_of(&path);
    }
    if mask & ALT != 0 {
        // SAFETY: the mask names these fields, so they are initialised (this function's contract).
        let (path, port, pkey_index, timeout) = unsafe {
            let attr = &raw const *attr;
            ((*attr).alt_ah_attr, (*attr).alt_port_num, (*attr).alt_pkey_index, (*attr).alt_timeout)
        };
        changes.alternate = Alternate { path: address_of(&path), port, pkey_index, timeout };
    }
    changes.values = values;
    changes
}

pub(crate) fn cap(shape: &Shape) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: shape.max_send_wr,
        max_recv_wr: shape.max_recv_wr,
        max_send_sge: shape.max_send_sge,
        max_recv_sge: shape.max_recv_sge,
        max_inline_data: shape.max_inline,
        ..zeroed()
    }
}

/// The result of `query_qp`.
pub(crate) fn write(qp: &Qp) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: qp.phase.to_c(),
        cur_qp_state: qp.phase.to_c(),
        cap: cap(&qp.shape),
        sq_draining: (qp.phase == Phase::Sqd && qp.wait.is_some()).into(),
        ..attributes_to_c(&qp.attributes)
    }
}

pub(crate) fn attributes_to_c(now: &Attributes) -> ibv_qp_attr {
    let alternate = now.alternate.unwrap_or_default();
    ibv_qp_attr {
        path_mtu: now.mtu,
        path_mig_state: match now.migration {
            Migration::Migrated => raw::ibv_mig_state::IBV_MIG_MIGRATED,
            Migration::Rearm => raw::ibv_mig_state::IBV_MIG_REARM,
            Migration::Armed => raw::ibv_mig_state::IBV_MIG_ARMED,
        },
        alt_ah_attr: address_to(&alternate.path),
        alt_port_num: alternate.port,
        alt_pkey_index: alternate.pkey_index,
        alt_timeout: alternate.timeout,
        qkey: now.qkey,
        rq_psn: now.rq_psn,
        sq_psn: now.sq_psn,
        dest_qp_num: now.dest_qpn,
        qp_access_flags: now.access,
        ah_attr: address_to(&now.path.unwrap_or_default()),
        pkey_index: now.pkey_index,
        max_rd_atomic: now.max_rd_atomic,
        max_dest_rd_atomic: now.max_dest_rd_atomic,
        min_rnr_timer: now.min_rnr_timer,
        port_num: now.port,
        timeout: now.timeout,
        retry_cnt: now.retry_cnt,
        rnr_retry: now.rnr_retry,
        ..zeroed()
    }
}

/// Attributes that were not asked for get values that they cannot have.
pub(crate) fn litter(attr: &mut ibv_qp_attr, mask: u32) {
    const WRONG: u8 = 0xb7;
    let wrong = u32::from_ne_bytes([WRONG; 4]);
    macro_rules! spoil {
        ($($bit:ident $field:ident $wrong:expr;)*) => {$(
            if mask & $bit == 0 {
                attr.$field = $wrong;
            }
        )*};
    }
    spoil! {
        STATE qp_state wrong;
        CUR_STATE cur_qp_state wrong;
        ACCESS qp_access_flags wrong;
        PKEY pkey_index wrong as u16;
        PORT port_num WRONG;
        QKEY qkey wrong;
        MTU path_mtu wrong;
        TIMEOUT timeout WRONG;
        RETRY retry_cnt WRONG;
        RNR_RETRY rnr_retry WRONG;
        RQ_PSN rq_psn wrong;
        SQ_PSN sq_psn wrong;
        MAX_RD max_rd_atomic WRONG;
        MAX_DEST_RD max_dest_rd_atomic WRONG;
        MIN_RNR min_rnr_timer WRONG;
        DEST_QPN dest_qp_num wrong;
        MIG path_mig_state wrong;
        ALT alt_port_num WRONG;
        ALT alt_pkey_index wrong as u16;
        ALT alt_timeout WRONG;
    }
    if mask & ibv_qp_attr_mask::IBV_QP_CAP.0 == 0 {
        attr.cap.max_send_wr = wrong;
        attr.cap.max_recv_wr = wrong;
        attr.cap.max_inline_data = wrong;
    }
}
