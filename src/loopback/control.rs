//! The control path's table.

use super::entry::*;
use crate::sys::control::Control;

/// The loopback device.
pub(crate) static LOOPBACK: Control = Control {
    close_device,
    query_device,
    query_device_ex,
    query_port,
    query_gid,
    query_gid_ex,
    query_gid_table,
    query_pkey,
    alloc_pd,
    dealloc_pd,
    alloc_td,
    dealloc_td,
    alloc_parent_domain,
    reg_mr,
    reg_dmabuf_mr,
    rereg_mr,
    dereg_mr,
    alloc_dm,
    free_dm,
    reg_dm_mr,
    create_ah,
    destroy_ah,
    create_comp_channel,
    destroy_comp_channel,
    try_get_cq_event,
    create_cq,
    create_cq_ex,
    polls_singly,
    resize_cq,
    destroy_cq,
    create_srq,
    modify_srq,
    query_srq,
    destroy_srq,
    create_qp,
    modify_qp,
    query_qp,
    destroy_qp,
    // The fabric has no multicast.
    attach_mcast: |_, _, _| libc::EOPNOTSUPP,
    detach_mcast: |_, _, _| libc::EOPNOTSUPP,

    async_fd,
    try_get_async_event,
};
