//! Queue pairs with flags or with extended posting: `ibv_create_qp_ex`, which C calls in an inline
//! function.

#![allow(non_camel_case_types)] // C's names

use std::ffi::c_void;
use std::ptr;

use super::control::{Created, created};
use super::extended::op;
use super::session::extended;
use super::types::*;
use super::xrc::ibv_xrcd;

/// The distance of the operation before the context, in bytes; see `extended`.
pub const CREATE_QP_EX: usize = 56;

/// `IBV_QP_INIT_ATTR_PD`, and the bits for the XRC domain, the flags and the operations.
pub const ATTR_PD: u32 = 1;
pub const ATTR_XRCD: u32 = 2;
pub const ATTR_CREATE_FLAGS: u32 = 4;
pub const ATTR_SEND_OPS_FLAGS: u32 = 64;

/// `IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`.
pub const BLOCK_SELF_MCAST_LB: u32 = 2;

/// C's struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_rx_hash_conf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}

/// C's struct, as of rdma-core 24. It begins with `ibv_qp_init_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_init_attr_ex {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type::Type,
    pub sq_sig_all: i32,
    pub comp_mask: u32,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: ibv_rx_hash_conf,
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

// SAFETY: it consists of integers, pointers, and structs of these.
unsafe impl Zeroes for ibv_qp_init_attr_ex {}

impl ibv_qp_init_attr_ex {
    /// The attributes of a queue pair on `pd` with these flags, and extended posting for these
    /// operations.
    pub fn new(
        init: &ibv_qp_init_attr,
        pd: *mut ibv_pd,
        create_flags: u32,
        send_ops_flags: u64,
    ) -> Self {
        let mut comp_mask = ATTR_PD;
        if create_flags != 0 {
            comp_mask |= ATTR_CREATE_FLAGS;
        }
        if send_ops_flags != 0 {
            comp_mask |= ATTR_SEND_OPS_FLAGS;
        }
        ibv_qp_init_attr_ex {
            qp_context: init.qp_context,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            cap: init.cap,
            qp_type: init.qp_type,
            sq_sig_all: init.sq_sig_all,
            comp_mask,
            pd,
            create_flags,
            send_ops_flags,
            ..zeroed()
        }
    }

    /// The attributes of an XRC target: it has only its domain.
    pub fn target(xrcd: *mut ibv_xrcd) -> Self {
        let qp_type = ibv_qp_type::IBV_QPT_XRC_RECV;
        let init = ibv_qp_init_attr { qp_type, ..zeroed() };
        ibv_qp_init_attr_ex {
            comp_mask: ATTR_XRCD,
            xrcd,
            ..ibv_qp_init_attr_ex::new(&init, ptr::null_mut(), 0, 0)
        }
    }

    /// The attributes of a plain queue pair.
    pub fn plain(&self) -> ibv_qp_init_attr {
        let &ibv_qp_init_attr_ex { qp_context, send_cq, recv_cq, srq, cap, .. } = self;
        let &ibv_qp_init_attr_ex { qp_type, sq_sig_all, .. } = self;
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
    }
}

type CreateQpEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;

/// `ibv_create_qp_ex`, like C's inline function. EOPNOTSUPP if the library or the provider lacks
/// it, or if extended posting was requested and the queue pair does not have it. `cap` returns the
/// granted limits.
///
/// # Safety
/// The domain of `init` (for an XRC target, its XRC domain) is live and belongs to libibverbs, and
/// so do the other objects that it names.
pub(crate) unsafe fn create_qp_ex(init: &mut ibv_qp_init_attr_ex) -> Created<ibv_qp> {
    // SAFETY: the domain and its context are live, and so are the objects that the attributes name
    // (this function's contract). The attributes are behind a reference.
    unsafe {
        let context = if init.pd.is_null() { (*init.xrcd).context } else { (*init.pd).context };
        let create = op::<CreateQpEx>(context, CREATE_QP_EX)?;
        let qp = created(create(context, init))?;
        if init.send_ops_flags == 0 { Ok(qp) } else { extended(qp) }
    }
}

#[cfg(test)]
mod tests;
