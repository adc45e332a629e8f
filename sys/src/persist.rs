//! FLUSH and ATOMIC_WRITE. Their functions come after those of rdma-core 24, and headers older than
//! rdma-core 65 lack some of their names.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_void;

use super::session::ibv_qp_ex;
use super::types::Zeroes;
use super::types::{ibv_wc_opcode, ibv_wr_opcode};

/// `IBV_WR_FLUSH` and `IBV_WR_ATOMIC_WRITE`. Only sessions have them, not `ibv_post_send`.
pub const WR_FLUSH: ibv_wr_opcode::Type = 14;
pub const WR_ATOMIC_WRITE: ibv_wr_opcode::Type = 15;

/// `IBV_WC_FLUSH` and `IBV_WC_ATOMIC_WRITE`.
pub const WC_FLUSH: ibv_wc_opcode::Type = 8;
pub const WC_ATOMIC_WRITE: ibv_wc_opcode::Type = 9;

/// `IBV_ACCESS_FLUSH_GLOBAL` and `IBV_ACCESS_FLUSH_PERSISTENT`.
pub const ACCESS_FLUSH_GLOBAL: u32 = 1 << 8;
pub const ACCESS_FLUSH_PERSISTENT: u32 = 1 << 9;

/// `IBV_ODP_SUPPORT_FLUSH` and `IBV_ODP_SUPPORT_ATOMIC_WRITE`.
pub const ODP_FLUSH: u32 = 1 << 6;
pub const ODP_ATOMIC_WRITE: u32 = 1 << 7;

/// The bits of `enum ibv_placement_type`.
pub mod placement {
    pub const GLOBAL: u8 = 1 << 0;
    pub const PERSISTENT: u8 = 1 << 1;
}

/// The values of `enum ibv_selectivity_level`.
pub mod selectivity {
    pub const RANGE: u8 = 0;
    pub const MR: u8 = 1;
}

/// The operands of a FLUSH, in a union arm that C's work request has for other operations.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct flush_t {
    pub remote_addr: u64,
    pub len: u64,
    pub rkey: u32,
    pub placement: u8,
    pub level: u8,
}

type Ex = *mut ibv_qp_ex;

/// C's struct `ibv_qp_ex`, as of rdma-core 65. Its size is not relied on: a queue pair has one of
/// these functions only if it was created for the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_ex_65 {
    pub of_24: ibv_qp_ex,
    pub wr_atomic_write: Option<unsafe extern "C" fn(Ex, u32, u64, *const c_void)>,
    pub wr_flush: Option<unsafe extern "C" fn(Ex, u32, u64, usize, u8, u8)>,
}

// SAFETY: it consists of an `ibv_qp_ex`, and of functions that may be null.
unsafe impl Zeroes for ibv_qp_ex_65 {}
