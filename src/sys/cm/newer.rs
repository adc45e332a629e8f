//! Functions of librdmacm that are looked up when used, since older libraries lack them.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};

use super::super::control::errno;
use crate::sys::symbols::symbols;
use crate::sys::tuning::ibv_ece;
use crate::sys::types::raw::rdma_cm_id;

type Ece = unsafe extern "C" fn(*mut rdma_cm_id, *mut ibv_ece) -> c_int;
type Reject = unsafe extern "C" fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;

symbols! {
    /// They are there since rdma-core 30.
    // SAFETY: the functions have had these types since RDMACM_1.3 (`bindings::agreement` holds them
    // against the headers).
    unsafe struct Symbols {
        set_local_ece: Ece = c"rdma_set_local_ece",
        get_remote_ece: Ece = c"rdma_get_remote_ece",
        reject_ece: Reject = c"rdma_reject_ece",
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
pub(super) unsafe fn set_local_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    // SAFETY: the id is the call's, and the options are a reference's.
    symbols().set_local_ece.map_or(libc::ENOSYS, |set| answer(unsafe { set(id, ece) }))
}

/// `rdma_get_remote_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, and its channel's lock is held.
pub(super) unsafe fn get_remote_ece(id: *mut rdma_cm_id, ece: &mut ibv_ece) -> c_int {
    // SAFETY: the id is the call's, and the options are a reference's.
    symbols().get_remote_ece.map_or(libc::ENOSYS, |get| answer(unsafe { get(id, ece) }))
}

/// `rdma_reject_ece`; ENOSYS if the library lacks it.
///
/// # Safety
/// `id` is live and of librdmacm, its channel's lock is held, and `data` is readable for `len` bytes.
pub(super) unsafe fn reject_ece(id: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the id and the private data are the call's.
    symbols().reject_ece.map_or(libc::ENOSYS, |reject| answer(unsafe { reject(id, data, len) }))
}

#[cfg(test)]
mod tests;
