//! Device memory, dma-buf, and regions that change.

#![allow(unsafe_code)] // C objects.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::memory::make_mr;
use super::{errno_of, hand_out, number_beside, same_context, verb};
use crate::state::State;
use proverbs_sys::control::Created;
use proverbs_sys::memory::*;
use proverbs_sys::types::*;

pub(super) unsafe fn alloc_dm(
    context: *mut ibv_context,
    attr: ibv_alloc_dm_attr,
) -> Created<ibv_dm> {
    let alloc = |state: &mut State, device| match attr.comp_mask {
        0 => state.alloc_dm(device, attr.length, attr.log_align_req),
        _ => Err(libc::EINVAL),
    };
    // SAFETY: `context` is live (the verb's contract).
    let handle = unsafe { verb(context, alloc) }?;
    // The handle is valid.
    Ok(hand_out(ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask: 1, handle }))
}

/// The target of `ibv_memcpy_to_dm`.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    offset: u64,
    from: *const c_void,
    length: usize,
) -> c_int {
    let copy = |state: &mut State, dm| {
        let (memory, offset) = state.dm_at(dm, offset, length)?;
        if length > 0 {
            // SAFETY: `length` bytes are readable (the verb's contract).
            let bytes = unsafe { std::slice::from_raw_parts(from.cast(), length) };
            memory.write(offset, bytes).expect("`dm_at` looked");
        }
        Ok(())
    };
    // SAFETY: `dm` is live (the verb's contract).
    errno_of(unsafe { verb(dm, copy) })
}

/// The target of `ibv_memcpy_from_dm`.
unsafe extern "C" fn memcpy_from_dm(
    to: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
) -> c_int {
    let copy = |state: &mut State, dm| {
        let (memory, offset) = state.dm_at(dm, offset, length)?;
        let mut bytes = vec![0; length];
        memory.copy(offset, &mut bytes).expect("`dm_at` looked");
        // SAFETY: `length` bytes are writable (the verb's contract).
        unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), length) };
        Ok(())
    };
    // SAFETY: `dm` is live (the verb's contract).
    errno_of(unsafe { verb(dm, copy) })
}

pub(super) unsafe fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: u32,
) -> Created<ibv_mr> {
    // SAFETY: `pd` and `dm` are live (the verb's contract).
    unsafe {
        let dm = number_beside(pd, dm).ok_or(libc::EINVAL)?;
        let register = |state: &mut State, pd| state.reg_dm_mr(pd, dm, offset, length, access);
        make_mr(pd, (ptr::null_mut(), length), register)
    }
}

pub(super) unsafe fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    part: DmabufPart,
    access: u32,
) -> Created<ibv_mr> {
    let at = (ptr::without_provenance_mut(part.iova as usize), part.length);
    // SAFETY: `pd` is live (the verb's contract).
    unsafe { make_mr(pd, at, |state, pd| state.reg_dmabuf_mr(pd, part, access)) }
}

pub(super) unsafe fn rereg_mr(mr: *mut ibv_mr, to: Rereg) -> Result<(), ReregFailed> {
    let has = |flag| to.flags & flag != 0;
    // SAFETY: `mr` is live, and so is the domain if the flags name it (the verb's contract).
    let changed = unsafe {
        if has(CHANGE_PD) && !same_context(mr, to.pd) {
            return Err(ReregFailed { code: ERR_CMD, errno: libc::EINVAL });
        }
        let pd = if has(CHANGE_PD) { (*to.pd).handle } else { 0 };
        verb(mr, |state, mr| state.rereg_mr(mr, pd, to))
    };
    let ((handle, lkey, rkey), code) = changed?;
    // SAFETY: `mr` is live, and no other thread reads its fields while it is re-registered (the
    // verb's contract).
    unsafe {
        (*mr).handle = handle;
        (*mr).lkey = lkey;
        (*mr).rkey = rkey;
        if has(CHANGE_PD) {
            (*mr).pd = to.pd;
        }
        if has(CHANGE_TRANSLATION) {
            (*mr).addr = to.addr.cast();
            (*mr).length = to.length;
        }
    }
    if code == 0 { Ok(()) } else { Err(ReregFailed { code, errno: libc::ENOMEM }) }
}
