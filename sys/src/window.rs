//! Memory windows: C's inlines, which call the device's table.

use std::ffi::c_int;
use std::sync::Arc;

use super::control::{Answer, Control, Created, created, done, status};
use super::handle::{Object, Pd};
use super::types::*;

/// The kind of a window (`enum ibv_mw_type`).
pub use super::types::raw::ibv_mw_type as kind;

/// The objects that a window needs: its domain, and its region while it is bound.
pub struct MwParents {
    pub pd: Arc<Pd>,
    /// Held, not read, and of a type that this module does not know.
    #[allow(dead_code)]
    pub region: Option<Arc<dyn Send + Sync>>,
    /// While a type 1 window is being bound again: the region that it will be bound to.
    #[allow(dead_code)]
    pub next: Option<Arc<dyn Send + Sync>>,
}

// SAFETY: an object of verbs.h.
unsafe impl Object for ibv_mw {
    type Parents = MwParents;
    const NAME: &'static str = "ibv_mw";

    unsafe fn destroy(_: &Control, this: *mut Self) -> Answer {
        // SAFETY: a live window points to its live context, whose table has no null entry
        // (`sys::data`). The window is live, and not used again if it succeeds (this function's
        // contract).
        unsafe {
            let dealloc = (*(*this).context).ops.dealloc_mw.unwrap_unchecked();
            done(dealloc(this))
        }
    }
}

/// `ibv_alloc_mw`.
///
/// # Safety
/// `pd` is live.
pub unsafe fn alloc_mw(pd: *mut ibv_pd, kind: kind::Type) -> Created<ibv_mw> {
    // SAFETY: a live domain points to its live context, whose table has no null entry
    // (`sys::data`). errno is cleared first, so an earlier value is not taken for this call's.
    created(unsafe {
        let alloc = (*(*pd).context).ops.alloc_mw.unwrap_unchecked();
        *libc::__errno_location() = 0;
        alloc(pd, kind)
    })
}

/// Posts a work request that was emitted as BIND_MW, for a type 1 window, with `ibv_bind_mw`. C's
/// object has the window's new key when it returns.
///
/// The verb has no bad_wr: `bad` is the work request if nothing was posted. librxe (`is_software`)
/// may have written its ring before the kernel refused. `bad` then stays null, unless the verb does
/// not exist at all (R15.12).
///
/// # Safety
/// - `qp` is live, and may have the work request, which is emitted. `bad` is writable.
/// - Window and region are live until the verb returns, and no other thread accesses the window's
///   key.
pub unsafe fn bind_mw(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    is_software: bool,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the fields of BIND_MW are emitted, and a live window points to its live context,
    // whose table has no null entry (`sys::data`). The rest is this function's contract.
    unsafe {
        let arm = (&raw const (*wr).bind_mw_tso_union).cast::<raw::bind_mw_t>();
        let raw::bind_mw_t { mw, bind_info, .. } = arm.read();
        let (wr_id, send_flags) = ((*wr).wr_id, (*wr).send_flags);
        let mut bind = raw::ibv_mw_bind { wr_id, send_flags, bind_info };
        let verb = (*(*mw).context).ops.bind_mw.unwrap_unchecked();
        let errno = status(verb(qp, mw, &raw mut bind));
        let is_absent = matches!(errno, libc::EOPNOTSUPP | libc::ENOSYS);
        if !is_software || is_absent {
            *bad = wr;
        }
        errno
    }
}

/// The operands of BIND_MW, which come after the union that other opcodes use.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub unsafe fn emit_bind(wr: *mut ibv_send_wr, bind: raw::bind_mw_t) {
    // SAFETY: `wr` is writable, and every arm of the union begins where it does; no reference to
    // the rest is made.
    unsafe { (&raw mut (*wr).bind_mw_tso_union).cast::<raw::bind_mw_t>().write(bind) };
}
