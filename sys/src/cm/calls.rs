//! The calls of rdma_cm as a table of functions; the default table is librdmacm itself.
//!
//! Channels and ids keep the table of their provider, so an id is never passed to another provider.
//! A table is plain data: only `unsafe` functions accept a table for an object, and their contract
//! covers it.

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

/// One function for each call, with the contract of its C namesake. The lock of the channel is held
/// unless noted. Pointers to objects are live and belong to this table's provider; structs and
/// private data are readable, and writable where C writes; a destroyed object is not used again.
///
/// Functions that return `c_int` return 0 or a positive errno.
pub struct Calls {
    /// Whether the contexts of its ids belong to libibverbs.
    pub is_system: bool,
    /// A new channel of the same provider. Needs no lock. Its descriptor does not block.
    pub create_event_channel: unsafe fn(*mut rdma_event_channel) -> Created<rdma_event_channel>,
    pub destroy_event_channel: unsafe fn(*mut rdma_event_channel),
    /// Returns `EAGAIN` if there is none.
    pub get_cm_event: unsafe fn(*mut rdma_event_channel) -> Created<rdma_cm_event>,
    pub ack_cm_event: unsafe fn(*mut rdma_cm_event),
    pub create_id: unsafe fn(*mut rdma_event_channel, *mut c_void, u32) -> Created<rdma_cm_id>,
    pub destroy_id: unsafe fn(*mut rdma_cm_id) -> c_int,
    pub migrate_id: unsafe fn(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int,
    pub set_option: unsafe fn(*mut rdma_cm_id, c_int, c_int, *mut c_void, usize) -> c_int,
    pub bind_addr: unsafe fn(*mut rdma_cm_id, *mut sockaddr) -> c_int,
    /// Resolves from the address that the id is bound to.
    pub resolve_addr: unsafe fn(*mut rdma_cm_id, *mut sockaddr, c_int) -> c_int,
    pub resolve_route: unsafe fn(*mut rdma_cm_id, c_int) -> c_int,
    pub listen: unsafe fn(*mut rdma_cm_id, c_int) -> c_int,
    /// Needs no lock, since it may wait.
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
    /// The open context of the id's device, if this provider shares its contexts.
    pub context: unsafe fn(*mut rdma_cm_id) -> Option<Arc<handle::Context>>,
}

/// Converts a return value to 0 or an errno.
pub(super) fn answer(code: c_int) -> c_int {
    if code == 0 { 0 } else { errno() }
}

macro_rules! call {
    (|$($arg:ident),*| $call:expr) => {
        |$($arg),*| {
            // SAFETY: the caller upholds the contract of the C namesake (see `Calls`).
            answer(unsafe { $call })
        }
    };
}

pub(crate) unsafe fn create_event_channel(
    _: *mut rdma_event_channel,
) -> Created<rdma_event_channel> {
    // SAFETY: the call takes no arguments.
    let channel = created(unsafe { raw::rdma_create_event_channel() })?;
    // SAFETY: the channel was just created.
    let fd = unsafe { (*channel.as_ptr()).fd };
    // SAFETY: the channel was just created, and is not shared yet.
    that_never_blocks(channel, fd, |channel| unsafe { raw::rdma_destroy_event_channel(channel) })
}

/// The object that a call returned, or its errno.
fn given<T>(result: c_int, object: *mut T) -> Created<T> {
    if result == 0 { NonNull::new(object).ok_or(libc::EIO) } else { Err(errno()) }
}

unsafe fn get_cm_event(channel: *mut rdma_event_channel) -> Created<rdma_cm_event> {
    let mut event = ptr::null_mut();
    // SAFETY: the channel is live (the call's contract). The out-pointer is a local.
    given(unsafe { raw::rdma_get_cm_event(channel, &mut event) }, event)
}

unsafe fn create_id(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: u32,
) -> Created<rdma_cm_id> {
    let mut id = ptr::null_mut();
    // SAFETY: the channel is live (the call's contract). The out-pointer is a local.
    given(unsafe { raw::rdma_create_id(channel, &mut id, context, ps) }, id)
}

/// The system's librdmacm. It opens its own contexts (see `cm/devices.rs`).
pub static LIBRDMACM: Calls = Calls {
    is_system: true,
    create_event_channel,
    // SAFETY: the channel is live, and not used again (the call's contract).
    destroy_event_channel: |channel| unsafe { raw::rdma_destroy_event_channel(channel) },
    get_cm_event,
    // SAFETY: the event was taken, and is acknowledged once (the call's contract).
    ack_cm_event: |event| unsafe { _ = raw::rdma_ack_cm_event(event) },
    create_id,
    destroy_id: call!(|id| raw::rdma_destroy_id(id)),
    migrate_id: call!(|id, to| raw::rdma_migrate_id(id, to)),
    set_option: call!(|id, l, o, value, n| raw::rdma_set_option(id, l, o, value, n)),
    bind_addr: call!(|id, addr| raw::rdma_bind_addr(id, addr)),
    resolve_addr: call!(|id, to, ms| raw::rdma_resolve_addr(id, ptr::null_mut(), to, ms)),
    resolve_route: call!(|id, ms| raw::rdma_resolve_route(id, ms)),
    listen: call!(|id, backlog| raw::rdma_listen(id, backlog)),
    connect: call!(|id, param| raw::rdma_connect(id, param)),
    accept: call!(|id, param| raw::rdma_accept(id, param)),
    reject: call!(|id, data, len| raw::rdma_reject(id, data, len)),
    reject_ece: newer::reject_ece,
    set_local_ece: newer::set_local_ece,
    get_remote_ece: newer::get_remote_ece,
    establish: call!(|id| raw::rdma_establish(id)),
    disconnect: call!(|id| raw::rdma_disconnect(id)),
    notify_comm_est: call!(|id| raw::rdma_notify(id, raw::ibv_event_type::IBV_EVENT_COMM_EST)),
    init_qp_attr: call!(|id, attr, mask| raw::rdma_init_qp_attr(id, attr, mask)),
    join_multicast: call!(|id, addr, context| raw::rdma_join_multicast(id, addr, context)),
    join_multicast_ex: newer::join_multicast_ex,
    leave_multicast: call!(|id, addr| raw::rdma_leave_multicast(id, addr)),
    write_cm_event: newer::write_cm_event,
    context: |_| None,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// librdmacm returns -1 and sets errno on failure. A success without an object would be a null
    /// pointer.
    #[test]
    fn a_call_that_fails_returns_no_object() {
        let mut object = 7;
        let at = &raw mut object;
        assert_eq!(given(0, at), Ok(NonNull::from(&mut object)));
        assert_eq!(given(0, ptr::null_mut::<u8>()), Err(libc::EIO));
        // SAFETY: errno belongs to this thread.
        unsafe { *libc::__errno_location() = libc::ENODEV };
        assert_eq!(given(-1, at), Err(libc::ENODEV));
    }
}
