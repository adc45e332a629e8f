//! The table of verbs.

use super::*;
use proverbs_sys::control::Control;
use proverbs_sys::handle;

/// The loopback device.
pub static LOOPBACK: Control = Control {
    close_device,
    query_device,
    provider,
    query_device_ex,
    query_port,
    query_gid,
    query_gid_ex,
    query_gid_table,
    query_pkey,
    device_index,
    query_port_speed,
    query_rt_values,
    alloc_pd,
    dealloc_pd,
    alloc_td,
    dealloc_td,
    alloc_parent_domain,
    reg_mr,
    reg_dmabuf_mr,
    rereg_mr,
    dereg_mr,
    advise_mr,
    alloc_null_mr,
    alloc_dm,
    free_dm,
    reg_dm_mr,
    create_ah,
    destroy_ah,
    create_comp_channel,
    destroy_comp_channel,
    get_cq_event,
    ack_cq_events,
    create_cq,
    create_cq_ex,
    is_software,
    resize_cq,
    destroy_cq,
    modify_cq,
    open_xrcd,
    close_xrcd,
    create_srq_ex,
    srq_num,
    create_srq,
    modify_srq,
    query_srq,
    destroy_srq,
    create_qp,
    create_qp_ex,
    create_srd_qp,
    ah_number,
    modify_qp,
    query_qp,
    destroy_qp,
    data_in_order,
    modify_qp_rate_limit,
    set_ece,
    query_ece,
    attach_mcast,
    detach_mcast,
    async_fd,
    try_get_async_event,
};

/// The number of a device, if it is one of this fabric.
pub(crate) fn number_on(shared: &Arc<Shared>, context: &handle::Context) -> Option<u32> {
    if !ptr::eq(context.control(), &LOOPBACK) {
        return None;
    }
    // SAFETY: `context` is a handle's, so it is live, and of this provider by its table.
    let (fabric, number) = unsafe { locate(context.live()) };
    Arc::ptr_eq(&fabric, shared).then_some(number)
}
