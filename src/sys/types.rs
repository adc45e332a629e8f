//! The C types: rdma-sys's, or without its feature our own bindings; and the few names that both lack.
//!
//! Nothing outside `sys` names either: what rdma-sys gets wrong is put right here and in `control`.

#![allow(non_upper_case_globals)]

pub(crate) use self::raw::{
    atomic_t, ibv_access_flags, ibv_ah, ibv_ah_attr, ibv_atomic_cap, ibv_comp_channel, ibv_context,
    ibv_cq, ibv_device, ibv_device_attr, ibv_gid, ibv_global_route, ibv_mr, ibv_mtu, ibv_pd,
    ibv_port_attr, ibv_port_state, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge,
    ibv_srq, ibv_srq_attr, ibv_srq_attr_mask, ibv_srq_init_attr, ibv_wc, ibv_wc_flags,
    ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode, rdma_t, ud_t,
};
#[cfg(feature = "loopback")]
pub(crate) use self::raw::{
    ibv_context_ops, ibv_node_type, ibv_transport_type, imm_data_invalidated_rkey_union_t,
};

#[cfg(not(feature = "rdma-sys"))]
pub(crate) use super::bindings as raw;
#[cfg(feature = "rdma-sys")]
pub(crate) use rdma_sys as raw;

pub(crate) use self::raw::ibv_query_port as raw_query_port;

/// Access flags from here up are optional: a device that does not know one ignores it.
/// (`IBV_ACCESS_OPTIONAL_RANGE` of verbs.h.)
pub(crate) const OPTIONAL_ACCESS: u32 = 0x3ff0_0000;

/// `ibv_port_attr.link_layer`.
pub(crate) const LINK_LAYER_INFINIBAND: u8 = 1;
pub(crate) const LINK_LAYER_ETHERNET: u8 = 2;
