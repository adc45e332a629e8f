//! Memory windows.
#![allow(unsafe_code)] // C objects.

use std::ffi::c_int;
use std::ptr;

use super::super::fabric::State;
use super::super::window::Bind;
use super::{Domain, Object, destroy, hand_out, same_context, verb};
use crate::sys::types::*;
use crate::sys::window::kind;

pub(super) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, type_: kind::Type) -> *mut ibv_mw {
    let is_type_2 = type_ == kind::IBV_MW_TYPE_2;
    let allocated = match is_type_2 || type_ == kind::IBV_MW_TYPE_1 {
        // SAFETY: `pd` is live (the verb's contract), and every domain is a `Domain`.
        true => unsafe {
            let joint = (*pd.cast::<Domain>()).joint;
            verb(pd, |state, pd| match joint {
                Some(joint) => state.make_in_lane(joint, |state| state.alloc_mw(pd, is_type_2)),
                None => state.alloc_mw(pd, is_type_2),
            })
        },
        false => Err(libc::EINVAL),
    };
    match allocated {
        Ok((handle, rkey)) => {
            // SAFETY: `pd` is live (the verb's contract).
            let context = unsafe { (*pd).context };
            hand_out(ibv_mw { context, pd, rkey, handle, type_, ..zeroed() }).as_ptr()
        }
        Err(errno) => {
            // SAFETY: the location is this thread's own errno, always writable.
            unsafe { *libc::__errno_location() = errno };
            ptr::null_mut()
        }
    }
}

pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: `mw` is live, made by `alloc_mw`, and not used afterwards (the verb's contract).
    unsafe { destroy(mw, State::dealloc_mw) }
}

/// The operands of a bind; `None` if they name objects of another context.
///
/// # Safety
/// `mw` is live, and so is the region of `info`, if it names one.
pub(super) unsafe fn bind(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    rkey: u32,
    info: &raw::ibv_mw_bind_info,
) -> Option<Bind> {
    // SAFETY: the objects are live (this function's contract).
    unsafe {
        let is_known = same_context(qp, mw) && (info.mr.is_null() || same_context(qp, info.mr));
        is_known.then(|| Bind {
            window: ibv_mw::locate(mw).1,
            known: (*mw).rkey,
            rkey,
            mr: (!info.mr.is_null()).then(|| ibv_mr::locate(info.mr).1),
            addr: info.addr,
            length: info.length,
            rights: info.mw_access_flags,
        })
    }
}
