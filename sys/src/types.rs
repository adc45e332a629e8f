//! The C types: this crate's bindings, or, with the feature `rdma-sys`, the bindings of rdma-sys.
//! Also the few names that both lack.
//!
//! No other module outside `sys` names either. Mistakes of rdma-sys are corrected here and in
//! `control`.

#![allow(non_upper_case_globals)]

pub use self::raw::ibv_context_ops;
pub use self::raw::ibv_node_type;
pub use self::raw::{
    atomic_t, ibv_access_flags, ibv_ah, ibv_ah_attr, ibv_atomic_cap, ibv_comp_channel, ibv_context,
    ibv_cq, ibv_device, ibv_device_attr, ibv_gid, ibv_global_route, ibv_mr, ibv_mtu, ibv_mw,
    ibv_pd, ibv_port_attr, ibv_port_state, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge,
    ibv_srq, ibv_srq_attr, ibv_srq_attr_mask, ibv_srq_init_attr, ibv_transport_type, ibv_wc,
    ibv_wc_flags, ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode, imm_data_invalidated_rkey_union_t,
    rdma_t, ud_t,
};

#[cfg(not(feature = "rdma-sys"))]
pub use super::bindings as raw;
#[cfg(feature = "rdma-sys")]
pub use rdma_sys as raw;

pub use self::raw::ibv_query_port as raw_query_port;

/// Access flags from here up are optional: a device that does not support one ignores it
/// (`IBV_ACCESS_OPTIONAL_RANGE` of verbs.h).
pub const OPTIONAL_ACCESS: u32 = 0x3ff0_0000;

/// `ibv_port_attr.link_layer`.
pub const LINK_LAYER_INFINIBAND: u8 = 1;
pub const LINK_LAYER_ETHERNET: u8 = 2;

/// A C struct for which all zeroes is a value.
///
/// # Safety
/// The type consists of integers, pointers, optional functions, and structs, arrays and unions of
/// these.
pub unsafe trait Zeroes {}

macro_rules! zeroes {
    ($($name:path),* $(,)?) => {
        // SAFETY: by their definitions in verbs.h.
        $(unsafe impl Zeroes for $name {})*
    };
}

zeroes! {
    super::gid::ibv_gid_entry, ibv_ah_attr, ibv_context, ibv_cq, ibv_device_attr, ibv_gid,
    ibv_global_route, ibv_port_attr, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_send_wr,
    ibv_srq_attr, ibv_srq_init_attr,
}

zeroes! {
    ibv_ah, ibv_comp_channel, ibv_context_ops, ibv_device, ibv_mr, ibv_mw, ibv_pd, ibv_qp, ibv_srq,
}

#[cfg(feature = "cm")]
zeroes! {
    raw::rdma_addrinfo, raw::rdma_cm_event, raw::rdma_cm_id, raw::rdma_conn_param,
    libc::sockaddr_storage,
}

/// All zeroes. C structs are initialised from this: a literal ends with `..zeroed()`, even if it
/// names all fields, since newer headers may have more. (Structs that C puts in arrays, such as
/// `ibv_sge`, and arms of unions cannot grow.)
pub const fn zeroed<T: Zeroes>() -> T {
    // SAFETY: all zeroes is a value of `T`, by the trait's contract.
    unsafe { std::mem::zeroed() }
}
