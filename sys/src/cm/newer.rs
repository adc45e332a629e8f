//! Functions of librdmacm that are looked up when used, since older libraries lack them.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};

use libc::sockaddr;

use super::calls::answer;
use crate::symbols::symbols;
use crate::tuning::ibv_ece;
use crate::types::raw::rdma_cm_id;

type Ece = unsafe extern "C" fn(*mut rdma_cm_id, *mut ibv_ece) -> c_int;
type Reject = unsafe extern "C" fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;

type JoinMulticastEx =
    unsafe extern "C" fn(*mut rdma_cm_id, *mut rdma_cm_join_mc_attr_ex, *mut c_void) -> c_int;

type WriteCmEvent = unsafe extern "C" fn(*mut rdma_cm_id, u32, c_int, u64) -> c_int;

/// A user event, of `enum rdma_cm_event_type` since rdma-core 60.
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
    /// ECE is available since rdma-core 31, `rdma_join_multicast_ex` since 16, and
    /// `rdma_write_cm_event` since 60.
    // SAFETY: the functions have always had these types (`bindings::agreement` compares them with
    // the installed headers).
    unsafe struct Symbols of CM {
        set_local_ece: Ece = c"rdma_set_local_ece",
        get_remote_ece: Ece = c"rdma_get_remote_ece",
        reject_ece: Reject = c"rdma_reject_ece",
        join_multicast_ex: JoinMulticastEx = c"rdma_join_multicast_ex",
        write_cm_event: WriteCmEvent = c"rdma_write_cm_event",
    }
}

/// Calls a function of librdmacm: 0, or the errno, which is ENOSYS if the library lacks it.
macro_rules! call {
    ($name:ident($($arg:expr),*)) => {
        symbols().$name.map_or(libc::ENOSYS, |call| {
            // SAFETY: the caller upholds the contract of the C namesake (see `Calls`).
            answer(unsafe { call($($arg),*) })
        })
    };
}

/// # Safety
/// `id` is live and belongs to librdmacm, and its channel's lock is held.
pub(crate) unsafe fn set_local_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    call!(set_local_ece(id, ece))
}

/// # Safety
/// `id` is live and belongs to librdmacm, and its channel's lock is held.
pub(crate) unsafe fn get_remote_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    call!(get_remote_ece(id, ece))
}

/// # Safety
/// `id` is live and belongs to librdmacm, its channel's lock is held, and `data` is readable for
/// `len` bytes.
pub(crate) unsafe fn reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    call!(reject_ece(id, data, len))
}

/// # Safety
/// `id` is live and belongs to librdmacm, its channel's lock is held, and `addr` is readable as its
/// family requires.
pub(crate) unsafe fn join_multicast_ex(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
    join_flags: u32,
    context: *mut c_void,
) -> c_int {
    let comp_mask = JOIN_ADDRESS | JOIN_FLAGS;
    let mut attr = rdma_cm_join_mc_attr_ex { comp_mask, join_flags, addr };
    call!(join_multicast_ex(id, &mut attr, context))
}

/// Writes an event of the only kind that `rdma_write_cm_event` accepts.
///
/// # Safety
/// `id` is live and belongs to librdmacm, and its channel's lock is held.
pub(crate) unsafe fn write_cm_event(id: *mut rdma_cm_id, status: c_int, arg: u64) -> c_int {
    call!(write_cm_event(id, RDMA_CM_EVENT_USER, status, arg))
}

#[cfg(test)]
mod tests;
