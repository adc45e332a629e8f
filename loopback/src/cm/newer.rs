//! Calls that came later, at the C boundary: see `entry`.

#![allow(unsafe_code)] // C objects are handed out and taken as raw pointers.

use std::ffi::{c_int, c_void};

use libc::sockaddr;

use super::connect::OF_THE_OPTIONS;
use super::entry::{bytes, call, errno_of, join_multicast};
use crate::state::State;
use proverbs_sys::tuning::ibv_ece;
use proverbs_sys::types::raw::rdma_cm_id;

pub(super) unsafe fn reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the private data is readable (the call's contract).
    let data = unsafe { bytes(data, len.into()) };
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.reject_id_for(id, OF_THE_OPTIONS, &data)) })
}

pub(super) unsafe fn set_local_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.set_local_ece(id, *ece)) })
}

pub(super) unsafe fn get_remote_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    // SAFETY: the id is live (the call's contract).
    let theirs = unsafe { call(id, State::remote_ece) };
    errno_of(theirs.map(|theirs| *ece = theirs))
}

/// The kind of the membership is for switches, of which a fabric has none.
pub(super) unsafe fn join_multicast_ex(
    id: *mut rdma_cm_id,
    at: *mut sockaddr,
    _flags: u32,
    context: *mut c_void,
) -> c_int {
    // SAFETY: id and address are those of this call, and as live and readable there.
    unsafe { join_multicast(id, at, context) }
}

pub(super) unsafe fn write_cm_event(id: *mut rdma_cm_id, status: c_int, arg: u64) -> c_int {
    // SAFETY: the id is live (the call's contract).
    errno_of(unsafe { call(id, |state, id| state.write_cm_event(id, status, arg)) })
}
