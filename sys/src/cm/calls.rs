//! The calls of rdma_cm as a table of functions; the default table is librdmacm itself.
//!
//! Channels and ids keep the table of their provider, so an id is never given to another one's
//! call. A table does nothing by itself: only `unsafe` functions take one for an object, and ask
//! for its contract.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::ptr::NonNull;
use std::sync::Arc;

use libc::sockaddr;

use super::super::control::{Created, created, errno};
use super::super::events::that_never_blocks;
use super::super::handle;
use super::newer;
use crate::tuning::ibv_ece;
use crate::types::*;
use raw::{rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_channel};

/// One function for each call, each with the contract of its C namesake, and called with the lock
/// of the channel held unless it says otherwise: pointers to objects are live and of this table's
/// provider; structs and private data are readable, and writable where C writes; a destroyed object
/// is not used again.
///
/// Functions that return `c_int` return 0 or a positive errno.
pub struct Calls {
    /// Whether the contexts of its ids are libibverbs'.
    pub is_system: bool,
    /// A new channel of the provider of this one, which needs no lock. Its descriptor does not
    /// block.
    pub create_event_channel: unsafe fn(*mut rdma_event_channel) -> Created<rdma_event_channel>,
    pub destroy_event_channel: unsafe fn(*mut rdma_event_channel),
    /// `EAGAIN` if there is none.
    pub get_cm_event: unsafe fn(*mut rdma_event_channel) -> Created<rdma_cm_event>,
    pub ack_cm_event: unsafe fn(*mut rdma_cm_event),
    pub create_id: unsafe fn(*mut rdma_event_channel, *mut c_void, u32) -> Created<rdma_cm_id>,
    pub destroy_id: unsafe fn(*mut rdma_cm_id) -> c_int,
    pub migrate_id: unsafe fn(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int,
    pub set_option: unsafe fn(*mut rdma_cm_id, c_int, c_int, *mut c_void, usize) -> c_int,
    pub bind_addr: unsafe fn(*mut rdma_cm_id, *mut sockaddr) -> c_int,
    /// From the address that the id is bound to.
    pub resolve_addr: unsafe fn(*mut rdma_cm_id, *mut sockaddr, c_int) -> c_int,
    pub resolve_route: unsafe fn(*mut rdma_cm_id, c_int) -> c_int,
    pub listen: unsafe fn(*mut rdma_cm_id, c_int) -> c_int,
    /// Which needs no lock, since it may wait.
    pub connect: unsafe fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int,
    pub accept: unsafe fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int,
    pub reject: unsafe fn(*mut rdma_cm_id, *const c_void, u8) -> c_int,
    pub reject_ece: unsafe fn(*mut rdma_cm_id, *const c_void, u8) -> c_int,
    pub set_local_ece: unsafe fn(*mut rdma_cm_id, &mut ibv_ece) -> c_int,
    pub get_remote_ece: unsafe fn(*mut rdma_cm_id, &mut ibv_ece) -> c_int,
    pub establish: unsafe fn(*mut rdma_cm_id) -> c_int,
    pub disconnect: unsafe fn(*mut rdma_cm_id) -> c_int,
    /// `rdma_notify` with COMM_EST, the only event of its kind.
    pub notify_comm_est: unsafe fn(*mut rdma_cm_id) -> c_int,
    pub init_qp_attr: unsafe fn(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int,
    pub join_multicast: unsafe fn(*mut rdma_cm_id, *mut sockaddr, *mut c_void) -> c_int,
    /// With `enum rdma_cm_mc_join_flags`.
    pub join_multicast_ex: unsafe fn(*mut rdma_cm_id, *mut sockaddr, u32, *mut c_void) -> c_int,
    pub leave_multicast: unsafe fn(*mut rdma_cm_id, *mut sockaddr) -> c_int,
    /// `rdma_write_cm_event` with RDMA_CM_EVENT_USER, the only event of its kind.
    pub write_cm_event: unsafe fn(*mut rdma_cm_id, c_int, u64) -> c_int,
    /// The open context of the id's device, if this provider shares its own.
    pub context: unsafe fn(*mut rdma_cm_id) -> Option<Arc<handle::Context>>,
}

/// 0, or the errno of a function that returned something else.
pub(super) fn answer(code: c_int) -> c_int {
    if code == 0 { 0 } else { errno() }
}

macro_rules! forward {
    ($f:path, $($arg:ident: $t:ty),*) => {{
        unsafe fn call($($arg: $t),*) -> c_int {
            // SAFETY: the caller upholds the contract of the C namesake (see `Calls`).
            answer(unsafe { $f($($arg),*) })
        }
        call
    }};
}

pub(crate) unsafe fn create_event_channel(
    _: *mut rdma_event_channel,
) -> Created<rdma_event_channel> {
    // SAFETY: the call takes no arguments.
    let channel = created(unsafe { raw::rdma_create_event_channel() })?;
    // SAFETY: the channel was just created.
    let fd = unsafe { (*channel.as_ptr()).fd };
    // SAFETY: the channel was just created, and nothing else knows it.
    that_never_blocks(channel, fd, |channel| unsafe { raw::rdma_destroy_event_channel(channel) })
}

unsafe fn get_cm_event(channel: *mut rdma_event_channel) -> Created<rdma_cm_event> {
    let mut event = ptr::null_mut();
    // SAFETY: the channel is live (the call's contract). The out-pointer is a local.
    match unsafe { raw::rdma_get_cm_event(channel, &mut event) } {
        0 => NonNull::new(event).ok_or(libc::EIO),
        _ => Err(errno()),
    }
}

unsafe fn create_id(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: u32,
) -> Created<rdma_cm_id> {
    let mut id = ptr::null_mut();
    // SAFETY: the channel is live (the call's contract). The out-pointer is a local.
    match unsafe { raw::rdma_create_id(channel, &mut id, context, ps) } {
        0 => NonNull::new(id).ok_or(libc::EIO),
        _ => Err(errno()),
    }
}

unsafe fn resolve_addr(id: *mut rdma_cm_id, to: *mut sockaddr, ms: c_int) -> c_int {
    // SAFETY: the id is live and the address readable (the call's contract). The source address may
    // be null.
    answer(unsafe { raw::rdma_resolve_addr(id, ptr::null_mut(), to, ms) })
}

unsafe fn notify_comm_est(id: *mut rdma_cm_id) -> c_int {
    let event = raw::ibv_event_type::IBV_EVENT_COMM_EST;
    // SAFETY: the id is live (the call's contract).
    answer(unsafe { raw::rdma_notify(id, event) })
}

/// The system's librdmacm. Its contexts are its own (see `cm/devices.rs`).
pub static LIBRDMACM: Calls = Calls {
    is_system: true,
    create_event_channel,
    // SAFETY: the channel is live, and not used again (the call's contract).
    destroy_event_channel: |channel| unsafe { raw::rdma_destroy_event_channel(channel) },
    get_cm_event,
    // SAFETY: the event was taken, and is acknowledged once (the call's contract).
    ack_cm_event: |event| unsafe { _ = raw::rdma_ack_cm_event(event) },
    create_id,
    destroy_id: forward!(raw::rdma_destroy_id, i: *mut rdma_cm_id),
    migrate_id: forward!(raw::rdma_migrate_id, i: *mut rdma_cm_id, c: *mut rdma_event_channel),
    set_option: forward!(raw::rdma_set_option, i: *mut rdma_cm_id, l: c_int, o: c_int, v: *mut c_void, n: usize),
    bind_addr: forward!(raw::rdma_bind_addr, i: *mut rdma_cm_id, a: *mut sockaddr),
    resolve_addr,
    resolve_route: forward!(raw::rdma_resolve_route, i: *mut rdma_cm_id, ms: c_int),
    listen: forward!(raw::rdma_listen, i: *mut rdma_cm_id, n: c_int),
    connect: forward!(raw::rdma_connect, i: *mut rdma_cm_id, p: *mut rdma_conn_param),
    accept: forward!(raw::rdma_accept, i: *mut rdma_cm_id, p: *mut rdma_conn_param),
    reject: forward!(raw::rdma_reject, i: *mut rdma_cm_id, d: *const c_void, n: u8),
    reject_ece: newer::reject_ece,
    set_local_ece: newer::set_local_ece,
    get_remote_ece: newer::get_remote_ece,
    establish: forward!(raw::rdma_establish, i: *mut rdma_cm_id),
    disconnect: forward!(raw::rdma_disconnect, i: *mut rdma_cm_id),
    notify_comm_est,
    init_qp_attr: forward!(raw::rdma_init_qp_attr, i: *mut rdma_cm_id, a: *mut ibv_qp_attr, m: *mut c_int),
    join_multicast: forward!(raw::rdma_join_multicast, i: *mut rdma_cm_id, a: *mut sockaddr, c: *mut c_void),
    join_multicast_ex: newer::join_multicast_ex,
    leave_multicast: forward!(raw::rdma_leave_multicast, i: *mut rdma_cm_id, a: *mut sockaddr),
    write_cm_event: newer::write_cm_event,
    context: |_| None,
};
