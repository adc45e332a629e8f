//! The table of verbs.

#![allow(unsafe_code)] // C objects.

use super::completion::*;
use super::context::*;
use super::device_memory::*;
use super::lanes::*;
use super::memory::*;
use super::pair::*;
use super::polling::create_cq_ex;
use super::xrc::*;
use super::*;
use proverbs_sys::control::Control;
use proverbs_sys::handle;

/// A verb on one object: returns the result, or what the expression makes of it.
macro_rules! on {
    ($object:ident $(, $arg:ident)* => |$state:ident, $number:pat_param| $body:expr) => {
        |$object $(, $arg)*| {
            let call = |$state: &mut State, $number: u32| $body;
            // SAFETY: the object is live (the verb's contract).
            unsafe { verb($object, call) }
        }
    };
}

/// A verb that destroys an object.
macro_rules! ends {
    ($end:path) => {
        // SAFETY: the object is live, and not used afterwards (the verb's contract).
        |object| unsafe { destroy(object, $end) }
    };
}

/// A verb that maps the object's number and the other arguments to a result.
macro_rules! asks {
    ($ask:path: $object:ident $(, $arg:ident)*) => {
        on!($object $(, $arg)* => |state, number| $ask(state, number $(, $arg)*))
    };
}

/// The loopback device.
pub static LOOPBACK: Control = Control {
    // Rejects with `EBUSY` while the device has objects.
    close_device: ends!(State::close_device),
    query_device: asks!(device_attr: context),
    provider: on!(context => |state, _| state.world.provider),
    query_device_ex: asks!(device_attr_ex: context),
    query_port: asks!(port_attr: context, port),
    query_gid: asks!(gid: context, port, index),
    query_gid_ex: asks!(State::gid_entry: context, port, index),
    query_gid_table: asks!(gid_table: context, ports),
    query_pkey: asks!(pkey: context, port, index),
    // Its number on its fabric.
    device_index: on!(context => |_state, device| device as c_int),
    // The device has no speed to report beyond its port's.
    query_port_speed: |_, _| Err(libc::EOPNOTSUPP),
    query_rt_values: asks!(rt_values: context, values),
    alloc_pd,
    dealloc_pd,
    alloc_td,
    dealloc_td: ends!(State::dealloc_td),
    alloc_parent_domain,
    reg_mr,
    reg_dmabuf_mr,
    rereg_mr,
    dereg_mr: ends!(State::dereg_mr),
    advise_mr: asks!(advise_mr: pd, advice, flags, list),
    alloc_null_mr,
    alloc_dm,
    free_dm: ends!(State::free_dm),
    reg_dm_mr,
    create_ah,
    destroy_ah: ends!(State::destroy_ah),
    create_comp_channel,
    destroy_comp_channel: ends!(State::destroy_channel),
    get_cq_event,
    ack_cq_events,
    create_cq,
    create_cq_ex,
    is_software: on!(context => |state, _| state.habits.is_rxe()),
    resize_cq,
    destroy_cq: ends!(State::destroy_cq),
    modify_cq: asks!(State::modify_cq: cq, attr),
    open_xrcd,
    close_xrcd: ends!(State::close_xrcd),
    create_srq_ex,
    srq_num: asks!(srq_num: srq),
    create_srq,
    modify_srq,
    query_srq: asks!(State::query_srq: srq),
    destroy_srq: ends!(State::destroy_srq),
    create_qp,
    create_qp_ex,
    create_srd_qp,
    ah_number: asks!(ah_number: ah),
    modify_qp,
    query_qp,
    destroy_qp,
    // Messages are written at once, but only the plain device promises it.
    data_in_order: on!(qp, _opcode => |state, _| state.habits.is_plain()),
    modify_qp_rate_limit: asks!(State::limit_rate: qp, attr),
    set_ece: asks!(State::set_ece: qp, ece),
    query_ece: asks!(State::query_ece: qp),
    attach_mcast,
    detach_mcast,
    async_fd: asks!(State::async_fd: context),
    try_get_async_event: asks!(async_event: context),
};

/// The number of a device, if it belongs to this fabric.
pub(crate) fn number_on(shared: &Arc<Shared>, context: &handle::Context) -> Option<u32> {
    if !ptr::eq(context.control(), &LOOPBACK) {
        return None;
    }
    // SAFETY: `context` comes from a handle, so it is live; its table shows that this provider made
    // it.
    let (fabric, number) = unsafe { locate(context.live()) };
    Arc::ptr_eq(&fabric, shared).then_some(number)
}
