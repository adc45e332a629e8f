//! The data path: the inlines of verbs.h, to the instruction.
//!
//! rdma-sys unwraps each function pointer, which costs a test and a panic path that C has not.
//! libibverbs fills every entry of `ops` (with functions that return `EOPNOTSUPP` if need be), and so
//! does the loopback device, so the pointers are never null.

use std::ffi::c_int;

use super::types::*;

macro_rules! op {
    ($name:ident, $object:ty, $wr:ty) => {
        /// # Safety
        /// `object` is live, `wr` is a valid list (or null), `bad` is writable.
        #[inline(always)]
        pub(crate) unsafe fn $name(
            object: *mut $object,
            wr: *mut $wr,
            bad: *mut *mut $wr,
        ) -> c_int {
            // SAFETY: a live object points to its live context.
            let context = unsafe { (*object).context };
            // SAFETY: as above; `ops` is filled when the device is opened and never changes.
            let op = unsafe { (*context).ops.$name };
            // SAFETY: providers leave no entry of `ops` null (see the top of this file).
            let op = unsafe { op.unwrap_unchecked() };
            // SAFETY: the caller's contract is that of the C verb.
            unsafe { op(object, wr, bad) }
        }
    };
}

op!(post_send, ibv_qp, ibv_send_wr);
op!(post_recv, ibv_qp, ibv_recv_wr);
op!(post_srq_recv, ibv_srq, ibv_recv_wr);

/// # Safety
/// `cq` is live and `wc` has room for `entries` completions.
#[inline(always)]
pub(crate) unsafe fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live object points to its live context.
    let context = unsafe { (*cq).context };
    // SAFETY: as above; `ops` is filled when the device is opened and never changes.
    let op = unsafe { (*context).ops.poll_cq };
    // SAFETY: providers leave no entry of `ops` null.
    let op = unsafe { op.unwrap_unchecked() };
    // SAFETY: the caller's contract is that of the C verb.
    unsafe { op(cq, entries, wc) }
}

/// # Safety
/// `cq` is live.
#[inline(always)]
pub(crate) unsafe fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a live object points to its live context.
    let context = unsafe { (*cq).context };
    // SAFETY: as above; `ops` is filled when the device is opened and never changes.
    let op = unsafe { (*context).ops.req_notify_cq };
    // SAFETY: providers leave no entry of `ops` null.
    let op = unsafe { op.unwrap_unchecked() };
    // SAFETY: the caller's contract is that of the C verb.
    unsafe { op(cq, solicited_only) }
}
