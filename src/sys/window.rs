//! Memory windows: C's inlines, which call what the device's table has.

use std::ffi::c_int;
use std::sync::Arc;

use super::control::{Control, Created, created};
use super::handle::{Object, Pd};
use super::types::*;

/// The kind of a window (`enum ibv_mw_type`).
pub(crate) use super::types::raw::ibv_mw_type as kind;

/// What a window needs: its domain, and while it is bound its region.
pub(crate) struct MwParents {
    pub pd: Arc<Pd>,
    /// Held, not read, and of a type that this room does not know.
    #[allow(dead_code)]
    pub region: Option<Arc<dyn Send + Sync>>,
}

impl Object for ibv_mw {
    type Parents = MwParents;

    unsafe fn destroy(_: &Control, this: *mut Self) -> c_int {
        // SAFETY: a live window points to its live context, whose table has no null entry
        // (`sys::data`). The window is live, and not used again if 0 is returned (this function's
        // contract).
        unsafe {
            let dealloc = (*(*this).context).ops.dealloc_mw.unwrap_unchecked();
            dealloc(this)
        }
    }
}

/// `ibv_alloc_mw`.
///
/// # Safety
/// `pd` is live.
pub(crate) unsafe fn alloc_mw(pd: *mut ibv_pd, kind: kind::Type) -> Created<ibv_mw> {
    // SAFETY: a live domain points to its live context, whose table has no null entry
    // (`sys::data`). An errno of an earlier call must not be taken for this one's.
    created(unsafe {
        let alloc = (*(*pd).context).ops.alloc_mw.unwrap_unchecked();
        *libc::__errno_location() = 0;
        alloc(pd, kind)
    })
}

/// The operands of BIND_MW, behind the union that other opcodes use.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
pub(crate) unsafe fn emit_bind(wr: *mut ibv_send_wr, bind: raw::bind_mw_t) {
    // SAFETY: `wr` is writable, and every arm of the union begins where it does; no reference to
    // the rest is made.
    unsafe { (&raw mut (*wr).bind_mw_tso_union).cast::<raw::bind_mw_t>().write(bind) };
}
