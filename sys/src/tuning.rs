//! Verbs that tune existing objects. Some are extended operations, which C calls in inline
//! functions; others are looked up on first use, since older libraries lack them.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_int;

use super::control::{Answer, Created, created, done};
use super::extended::op;
use super::symbols::symbols;
use super::types::*;

/// The distances of operations before the context, in bytes; see `extended`.
pub const ALLOC_NULL_MR: usize = 304;
pub const MODIFY_QP_RATE_LIMIT: usize = 216;
pub const MODIFY_CQ: usize = 184;

/// `IBV_CQ_ATTR_MODERATE`.
pub const MODERATE: u32 = 1;

/// C's struct. Its `moderate` is the last two fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ibv_modify_cq_attr {
    pub attr_mask: u32,
    pub moderate: ibv_moderate_cq,
}

/// C's struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_moderate_cq {
    pub cq_count: u16,
    pub cq_period: u16,
}

/// C's struct, as of rdma-core 18.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_qp_rate_limit_attr {
    pub rate_limit: u32,
    pub max_burst_sz: u32,
    pub typical_pkt_sz: u16,
    pub comp_mask: u32,
}

/// C's struct, as of rdma-core 31.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_ece {
    pub vendor_id: u32,
    pub options: u32,
    pub comp_mask: u32,
}

type AllocNullMr = unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr;
type ModifyQpRateLimit = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int;
type ModifyCq = unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int;
type Ece = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_ece) -> c_int;

symbols! {
    /// Both exist since rdma-core 31.
    // SAFETY: the functions have had this type since IBVERBS_1.10 (`bindings::agreement` compares
    // it with the headers).
    unsafe struct Symbols of VERBS {
        set_ece: Ece = c"ibv_set_ece",
        query_ece: Ece = c"ibv_query_ece",
    }
}

/// `ibv_set_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `qp` is live and belongs to libibverbs.
pub(crate) unsafe fn set_ece(qp: *mut ibv_qp, ece: &mut ibv_ece) -> Answer {
    let set = symbols().set_ece.ok_or(libc::ENOSYS)?;
    // SAFETY: the queue pair is live (the verb's contract), and the options are behind a reference.
    done(unsafe { set(qp, ece) })
}

/// `ibv_query_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `qp` is live and belongs to libibverbs.
pub(crate) unsafe fn query_ece(qp: *mut ibv_qp) -> Answer<ibv_ece> {
    let query = symbols().query_ece.ok_or(libc::ENOSYS)?;
    let mut ece = ibv_ece::default();
    // SAFETY: the queue pair is live (the verb's contract), and the options are a local.
    done(unsafe { query(qp, &mut ece) }).map(|()| ece)
}

/// `ibv_modify_cq`, like C's inline function.
///
/// # Safety
/// `cq` is live and belongs to libibverbs.
pub(crate) unsafe fn modify_cq(cq: *mut ibv_cq, attr: &mut ibv_modify_cq_attr) -> Answer {
    // SAFETY: the completion queue is live (the verb's contract), and its context outlives it.
    unsafe { done(op::<ModifyCq>((*cq).context, MODIFY_CQ)?(cq, attr)) }
}

/// `ibv_modify_qp_rate_limit`, like C's inline function.
///
/// # Safety
/// `qp` is live and belongs to libibverbs.
pub(crate) unsafe fn modify_qp_rate_limit(
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_rate_limit_attr,
) -> Answer {
    // SAFETY: the queue pair is live (the verb's contract), and its context outlives it.
    unsafe { done(op::<ModifyQpRateLimit>((*qp).context, MODIFY_QP_RATE_LIMIT)?(qp, attr)) }
}

/// `ibv_alloc_null_mr`, like C's inline function.
///
/// # Safety
/// `pd` is live and belongs to libibverbs.
pub(crate) unsafe fn alloc_null_mr(pd: *mut ibv_pd) -> Created<ibv_mr> {
    // SAFETY: the domain is live (the verb's contract), and its context outlives it.
    unsafe {
        let alloc = op::<AllocNullMr>((*pd).context, ALLOC_NULL_MR)?;
        created(alloc(pd))
    }
}

#[cfg(test)]
mod tests;
