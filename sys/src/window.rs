//! Memory windows: C's inlines, which call what the device's table has.

use std::ffi::c_int;
use std::sync::Arc;

use super::control::{Answer, Control, Created, created, done, status};
use super::handle::{Object, Pd};
use super::types::*;

/// The kind of a window (`enum ibv_mw_type`).
pub use super::types::raw::ibv_mw_type as kind;

/// What a window needs: its domain, and while it is bound its region.
pub struct MwParents {
    pub pd: Arc<Pd>,
    /// Held, not read, and of a type that this room does not know.
    #[allow(dead_code)]
    pub region: Option<Arc<dyn Send + Sync>>,
    /// While a window of type 1 is bound anew: the region that it is bound to then.
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
    // (`sys::data`). An errno of an earlier call must not be taken for this one's.
    created(unsafe {
        let alloc = (*(*pd).context).ops.alloc_mw.unwrap_unchecked();
        *libc::__errno_location() = 0;
        alloc(pd, kind)
    })
}

/// Posts a work request that was emitted as BIND_MW, of a window of type 1, by `ibv_bind_mw`. C's
/// object has the window's new key when it returns.
///
/// It has no bad_wr: `bad` is the work request if nothing was posted. librxe (`is_software`) may
/// have written its ring before the kernel refused, and `bad` stays null then, unless the verb is
/// not there at all (R15.12).
///
/// # Safety
/// - `qp` is live, and may have the work request, which is emitted. `bad` is writable.
/// - Window and region are live until the verb has returned, and nobody touches the window's key.
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

/// The operands of BIND_MW, behind the union that other opcodes use.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub unsafe fn emit_bind(wr: *mut ibv_send_wr, bind: raw::bind_mw_t) {
    // SAFETY: `wr` is writable, and every arm of the union begins where it does; no reference to
    // the rest is made.
    unsafe { (&raw mut (*wr).bind_mw_tso_union).cast::<raw::bind_mw_t>().write(bind) };
}
