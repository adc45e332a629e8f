//! Functions of librdmacm that are looked up when used, since older libraries lack them.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};

use libc::sockaddr;

use super::super::control::errno;
use crate::symbols::symbols;
use crate::tuning::ibv_ece;
use crate::types::raw::rdma_cm_id;

type Ece = unsafe extern "C" fn(*mut rdma_cm_id, *mut ibv_ece) -> c_int;
type Reject = unsafe extern "C" fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;

type JoinMulticastEx =
    unsafe extern "C" fn(*mut rdma_cm_id, *mut rdma_cm_join_mc_attr_ex, *mut c_void) -> c_int;

type WriteCmEvent = unsafe extern "C" fn(*mut rdma_cm_id, u32, c_int, u64) -> c_int;

/// An event of the program's own, of `enum rdma_cm_event_type` since rdma-core 60.
pub const RDMA_CM_EVENT_USER: u32 = 18;

/// `RDMA_CM_JOIN_MC_ATTR_ADDRESS` and `RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS`.
pub const JOIN_ADDRESS: u32 = 1;
pub const JOIN_FLAGS: u32 = 2;

/// `enum rdma_cm_mc_join_flags`.
pub const FULLMEMBER: u32 = 0;
pub const SENDONLY_FULLMEMBER: u32 = 1;

/// C's struct.
#[repr(C)]
pub struct rdma_cm_join_mc_attr_ex {
    pub comp_mask: u32,
    pub join_flags: u32,
    pub addr: *mut sockaddr,
}

symbols! {
    /// They are there since rdma-core 31, 16 and 60.
    // SAFETY: the functions have had these types since they are there (`bindings::agreement` holds
    // those of installed headers against them).
    unsafe struct Symbols {
        set_local_ece: Ece = c"rdma_set_local_ece",
        get_remote_ece: Ece = c"rdma_get_remote_ece",
        reject_ece: Reject = c"rdma_reject_ece",
        join_multicast_ex: JoinMulticastEx = c"rdma_join_multicast_ex",
        write_cm_event: WriteCmEvent = c"rdma_write_cm_event",
    }
}

/// The errno of an answer.
fn answer(code: c_int) -> c_int {
    if code == 0 { 0 } else { errno() }
}

/// `rdma_set_local_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, and its channel's lock is held.
pub(crate) unsafe fn set_local_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    // SAFETY: the id is the call's, and the options are a reference's.
    symbols().set_local_ece.map_or(libc::ENOSYS, |set| answer(unsafe { set(id, ece) }))
}

/// `rdma_get_remote_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, and its channel's lock is held.
pub(crate) unsafe fn get_remote_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    // SAFETY: the id is the call's, and the options are a reference's.
    symbols().get_remote_ece.map_or(libc::ENOSYS, |get| answer(unsafe { get(id, ece) }))
}

/// `rdma_reject_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, its channel's lock is held, and `data` is readable for `len`
/// bytes.
pub(crate) unsafe fn reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the id and the private data are the call's.
    symbols().reject_ece.map_or(libc::ENOSYS, |reject| answer(unsafe { reject(id, data, len) }))
}

/// `rdma_join_multicast_ex`; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, its channel's lock is held, and `addr` is readable as its family
/// says.
pub(crate) unsafe fn join_multicast_ex(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
    join_flags: u32,
    context: *mut c_void,
) -> c_int {
    let comp_mask = JOIN_ADDRESS | JOIN_FLAGS;
    let mut attr = rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr };
    symbols().join_multicast_ex.map_or(libc::ENOSYS, |join| {
        // SAFETY: id and address are the call's, and the attributes are a local.
        answer(unsafe { join(id, &mut attr, context) })
    })
}

/// `rdma_write_cm_event` of the only kind that it takes; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, and its channel's lock is held.
pub(crate) unsafe fn write_cm_event(id: *mut rdma_cm_id, status: c_int, arg: u64) -> c_int {
    symbols().write_cm_event.map_or(libc::ENOSYS, |write| {
        // SAFETY: the id is the call's.
        answer(unsafe { write(id, RDMA_CM_EVENT_USER, status, arg) })
    })
}

#[cfg(test)]
mod tests;
