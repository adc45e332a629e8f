//! Moderation, rates, options of connections, and regions of no memory.

#![allow(unsafe_code)] // C objects.

use std::ffi::c_int;

use super::{errno_of, hand_out, verb};
use crate::state::State;
use proverbs_sys::control::Created;
use proverbs_sys::tuning::{ibv_ece, ibv_modify_cq_attr, ibv_qp_rate_limit_attr};
use proverbs_sys::types::*;

pub(crate) unsafe fn modify_cq(cq: *mut ibv_cq, attr: &mut ibv_modify_cq_attr) -> c_int {
    let attr = *attr;
    // SAFETY: `cq` is live (the verb's contract).
    errno_of(unsafe { verb(cq, |state, cq| state.modify_cq(cq, attr)) })
}

pub(crate) unsafe fn modify_qp_rate_limit(
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_rate_limit_attr,
) -> c_int {
    let attr = *attr;
    // SAFETY: `qp` is live (the verb's contract).
    errno_of(unsafe { verb(qp, |state, qp| state.limit_rate(qp, attr)) })
}

pub(crate) unsafe fn set_ece(qp: *mut ibv_qp, ece: &mut ibv_ece) -> c_int {
    let ece = *ece;
    // SAFETY: `qp` is live (the verb's contract).
    errno_of(unsafe { verb(qp, |state, qp| state.set_ece(qp, ece)) })
}

pub(crate) unsafe fn query_ece(qp: *mut ibv_qp, ece: &mut ibv_ece) -> c_int {
    // SAFETY: `qp` is live (the verb's contract).
    match unsafe { verb(qp, |state, qp| state.query_ece(qp)) } {
        Ok(found) => {
            *ece = found;
            0
        }
        Err(errno) => errno,
    }
}

pub(crate) unsafe fn alloc_null_mr(pd: *mut ibv_pd) -> Created<ibv_mr> {
    // SAFETY: `pd` is live (the verb's contract).
    let (context, made) = unsafe { ((*pd).context, verb(pd, State::alloc_null_mr)) };
    let (handle, lkey, rkey) = made?;
    Ok(hand_out(ibv_mr { context, pd, handle, lkey, rkey, ..zeroed() }))
}
