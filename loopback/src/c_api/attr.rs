//! Reads and writes `ibv_qp_attr`. A read touches only the fields that the mask names; a write
//! fills all of them.

#![allow(unsafe_code)] // Fields that the mask does not name may be uninitialised.

use super::memory::{address_of, address_to};
use crate::objects::qp::Qp;
use crate::words::attributes::*;
use crate::words::attributes::{Alternate, Attributes, Changes, Migration};
use proverbs_sys::terms::state::QpState as Phase;
use proverbs_sys::types::*;

/// Reads only the fields that `mask` names.
///
/// # Safety
/// `attr` points to an `ibv_qp_attr` whose fields named by `mask` are initialised.
pub(super) unsafe fn read(attr: *const ibv_qp_attr, mask: u32) -> Changes {
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
    macro_rules! take_each {
        ($($bit:ident $name:ident $c:ident $type:ty;)*) => {
            $(take!($bit, values.$name, $c);)*
        };
    }
    plain_attributes!(take_each);
    take!(STATE, changes.state, qp_state);
    take!(CUR_STATE, changes.cur_state, cur_qp_state);
    take!(MIG, changes.migration, path_mig_state);
    if mask & SQD_NOTIFY != 0 {
        // SAFETY: the mask names the field, so it is initialised (this function's contract).
        changes.notify = unsafe { (*attr).en_sqd_async_notify } != 0;
    }
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

/// The result of `query_qp`.
pub(super) fn write(qp: &Qp) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: qp.phase.to_c(),
        cur_qp_state: qp.phase.to_c(),
        cap: qp.shape.cap,
        sq_draining: (qp.phase == Phase::Sqd && qp.wait.is_some()).into(),
        ..attributes_to_c(&qp.attributes)
    }
}

pub(crate) fn attributes_to_c(now: &Attributes) -> ibv_qp_attr {
    let alternate = now.alternate.unwrap_or_default();
    let mut attr = ibv_qp_attr {
        path_mig_state: match now.migration {
            Migration::Migrated => raw::ibv_mig_state::IBV_MIG_MIGRATED,
            Migration::Rearm => raw::ibv_mig_state::IBV_MIG_REARM,
            Migration::Armed => raw::ibv_mig_state::IBV_MIG_ARMED,
        },
        alt_ah_attr: address_to(&alternate.path),
        alt_port_num: alternate.port,
        alt_pkey_index: alternate.pkey_index,
        alt_timeout: alternate.timeout,
        ah_attr: address_to(&now.path.unwrap_or_default()),
        ..zeroed()
    };
    macro_rules! set_each {
        ($($bit:ident $name:ident $c:ident $type:ty;)*) => {
            $(attr.$c = now.$name;)*
        };
    }
    plain_attributes!(set_each);
    attr
}

/// Fills attributes that the caller did not request with impossible values.
pub(super) fn litter(attr: &mut ibv_qp_attr, mask: u32) {
    let wrong = u32::from_ne_bytes([0xb7; 4]);
    macro_rules! spoil {
        ($($bit:ident $name:ident $field:ident $type:ty;)*) => {$(
            if mask & $bit == 0 {
                attr.$field = wrong as $type;
            }
        )*};
    }
    plain_attributes!(spoil);
    spoil! {
        STATE state qp_state u32;
        CUR_STATE state cur_qp_state u32;
        MIG migration path_mig_state u32;
        ALT port alt_port_num u8;
        ALT pkey_index alt_pkey_index u16;
        ALT timeout alt_timeout u8;
    }
    if mask & ibv_qp_attr_mask::IBV_QP_CAP.0 == 0 {
        attr.cap.max_send_wr = wrong;
        attr.cap.max_recv_wr = wrong;
        attr.cap.max_inline_data = wrong;
    }
}
