//! Memory windows.

#![allow(unsafe_code)] // C objects.

use std::ffi::c_int;
use std::ptr;

use super::pair::make_on;
use super::{Object, alone, destroy, errno_of, hand_out, read_wr, same_context};
use crate::shared::Call;
use crate::state::State;
use crate::words::contract::broken;
use crate::words::wr::Bind;
use proverbs_sys::memory::ZERO_BASED;
use proverbs_sys::types::*;
use proverbs_sys::window::kind;

pub(super) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, type_: kind::Type) -> *mut ibv_mw {
    let is_type_2 = type_ == kind::IBV_MW_TYPE_2;
    let allocated = match is_type_2 || type_ == kind::IBV_MW_TYPE_1 {
        // SAFETY: `pd` is live (the verb's contract).
        true => unsafe { make_on(pd, |state, pd| state.alloc_mw(pd, is_type_2)) },
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
    errno_of(unsafe { destroy(mw, State::dealloc_mw) })
}

/// Posts the bind of a type 1 window. There is no bad_wr: a refused bind was not posted, except on
/// librxe (R15.12).
pub(super) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    of: *mut raw::ibv_mw_bind,
) -> c_int {
    // SAFETY: queue pair and window are live, and `of` is readable (the verb's contract).
    let raw::ibv_mw_bind { wr_id, send_flags, bind_info } = unsafe {
        super::posting::check_closed(qp);
        if (*mw).type_ != kind::IBV_MW_TYPE_1 {
            broken("ibv_bind_mw requires a memory window of type 1 (ibv_bind_mw(3))");
            return libc::EINVAL;
        }
        of.read()
    };
    // SAFETY: the window is live, and so is the region, if there is one (the verb's contract).
    let (known, is_strange) = unsafe {
        let is_strange = !bind_info.mr.is_null() && (*bind_info.mr).pd != (*mw).pd;
        ((*mw).rkey, is_strange)
    };
    let rkey = known & !0xff | known.wrapping_add(1) & 0xff;
    // SAFETY: window and region are live until the verb returns (the verb's contract).
    let operands = unsafe { bind(qp, mw, rkey, &bind_info) };
    let post = |state: &mut State, number| {
        if bind_info.mr.is_null() && state.habits.is_rxe() {
            broken("librxe reads the key of `bind_info.mr`, even to unbind");
        }
        if is_strange {
            return Err(libc::EPERM);
        }
        let shape = state.check_sends(number, 1)?;
        let is_zero_based = bind_info.mw_access_flags & ZERO_BASED != 0;
        let operands = operands.filter(|_| !is_zero_based).ok_or(libc::EINVAL)?;
        let send = read_wr::bind(wr_id, send_flags, &shape, operands)?;
        let said = state.whole_fault(number, 1)?;
        state.push_sends(number, [send]);
        said
    };
    // SAFETY: `qp` is live (the verb's contract).
    let posted = unsafe { alone(qp, Call::Send, post) };
    if posted.is_ok() {
        // SAFETY: the window is live until the verb has returned (the verb's contract).
        unsafe { (*mw).rkey = rkey };
    }
    errno_of(posted)
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
