//! The data path: the inlines of verbs.h, to the instruction.
//!
//! rdma-sys unwraps each function pointer, which costs a test and a panic path that C does not
//! have. libibverbs fills every entry of `ops` (with functions that return `EOPNOTSUPP` if need
//! be), and so does the loopback device. So the pointers are never null.

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
            // SAFETY: a live object points to its live context, whose `ops` was filled when the
            // device was opened, never changes and has no null entry (see the top of this file).
            // The rest of this function's contract is the verb's.
            unsafe {
                let op = (*(*object).context).ops.$name.unwrap_unchecked();
                op(object, wr, bad)
            }
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
    // SAFETY: a live object points to its live context, whose `ops` was filled when the device was
    // opened, never changes and has no null entry (see the top of this file). There is room for
    // `entries` completions, as the verb asks.
    unsafe {
        let op = (*(*cq).context).ops.poll_cq.unwrap_unchecked();
        op(cq, entries, wc)
    }
}

/// # Safety
/// `cq` is live.
#[inline(always)]
pub(crate) unsafe fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a live object points to its live context, whose `ops` was filled when the device was
    // opened, never changes and has no null entry (see the top of this file).
    unsafe {
        let op = (*(*cq).context).ops.req_notify_cq.unwrap_unchecked();
        op(cq, solicited_only)
    }
}
