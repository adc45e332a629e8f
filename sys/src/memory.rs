//! Memory outside the processor's, and regions that change: device memory, dma-buf, `ibv_rereg_mr`,
//! `ibv_advise_mr`.
//!
//! `ibv_reg_dmabuf_mr` (rdma-core 34) and `ibv_rereg_mr` are looked up on first use. Device memory
//! and advice are extended operations, which C calls in inline functions.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};

use super::control::{Answer, Created, created, done, errno};
use super::extended::op;
use super::symbols::symbols;
use super::types::*;

/// The distances of operations before the context, in bytes; see `extended`.
pub const ADVISE_MR: usize = 312;
pub const REG_DM_MR: usize = 264;
pub const ALLOC_DM: usize = 256;
pub const FREE_DM: usize = 248;

/// `IBV_ACCESS_ZERO_BASED`.
pub const ZERO_BASED: u32 = 1 << 5;

/// `flags` of ibv_rereg_mr(3).
pub const CHANGE_TRANSLATION: c_int = 1;
pub const CHANGE_PD: c_int = 2;
pub const CHANGE_ACCESS: c_int = 4;

/// `enum ibv_rereg_mr_err_code`: the old region is valid.
pub const ERR_INPUT: c_int = -1;
pub const ERR_DONT_FORK_NEW: c_int = -2;
/// The new region is valid.
pub const ERR_DO_FORK_OLD: c_int = -3;
/// Neither is valid; the region must be deregistered.
pub const ERR_CMD: c_int = -4;
pub const ERR_CMD_AND_DO_FORK_NEW: c_int = -5;

/// `enum ibv_advise_mr_advice`, without its prefix.
pub mod advice {
    pub const PREFETCH: u32 = 0;
    pub const PREFETCH_WRITE: u32 = 1;
    pub const PREFETCH_NO_FAULT: u32 = 2;
}

/// `IBV_ADVISE_MR_FLAG_FLUSH`: the call returns when the advice is done.
pub const FLUSH: u32 = 1;

/// C's struct, as of rdma-core 24.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_alloc_dm_attr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
}

pub type MemcpyToDm = unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int;
pub type MemcpyFromDm = unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int;

/// Memory of a device (`struct ibv_dm`).
#[repr(C)]
pub struct ibv_dm {
    /// The context that it was allocated with.
    pub context: *mut ibv_context,
    /// The target of `ibv_memcpy_to_dm`.
    pub memcpy_to_dm: MemcpyToDm,
    /// The target of `ibv_memcpy_from_dm`.
    pub memcpy_from_dm: MemcpyFromDm,
    /// Which of the following fields are valid.
    pub comp_mask: u32,
    /// The kernel's number for it.
    pub handle: u32,
}

type AllocDm = unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm;
type FreeDm = unsafe extern "C" fn(*mut ibv_dm) -> c_int;
type RegDmMr = unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, usize, u32) -> *mut ibv_mr;
type AdviseMr = unsafe extern "C" fn(*mut ibv_pd, u32, u32, *mut ibv_sge, u32) -> c_int;
pub type RegDmabufMr =
    unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
pub type ReregMr =
    unsafe extern "C" fn(*mut ibv_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int;

symbols! {
    // SAFETY: the functions have had these types since IBVERBS_1.12 and IBVERBS_1.1
    // (`bindings::agreement` compares them with the headers).
    unsafe struct Symbols of VERBS {
        reg_dmabuf_mr: RegDmabufMr = c"ibv_reg_dmabuf_mr",
        rereg_mr: ReregMr = c"ibv_rereg_mr",
    }
}

/// The part of a dma-buf to register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmabufPart {
    pub fd: c_int,
    pub offset: u64,
    pub length: usize,
    pub iova: u64,
}

/// `ibv_reg_dmabuf_mr`; ENOSYS if the library lacks it.
///
/// # Safety
/// `pd` is live and belongs to libibverbs.
pub(crate) unsafe fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    part: DmabufPart,
    access: u32,
) -> Created<ibv_mr> {
    let register = symbols().reg_dmabuf_mr.ok_or(libc::ENOSYS)?;
    let DmabufPart { fd, offset, length, iova } = part;
    // SAFETY: the domain is live (the verb's contract), and the kernel checks the other arguments.
    created(unsafe { register(pd, offset, length, iova, fd, access as c_int) })
}

/// `ibv_alloc_dm`, like C's inline function.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn alloc_dm(
    context: *mut ibv_context,
    mut attr: ibv_alloc_dm_attr,
) -> Created<ibv_dm> {
    // SAFETY: the context is live (the verb's contract), and the attributes are a local.
    unsafe {
        let alloc = op::<AllocDm>(context, ALLOC_DM)?;
        created(alloc(context, &mut attr))
    }
}

/// `ibv_free_dm`, like C's inline function.
///
/// # Safety
/// `dm` is live and belongs to libibverbs, and is not used again if it succeeds.
pub(crate) unsafe fn free_dm(dm: *mut ibv_dm) -> Answer {
    // SAFETY: the memory is live (the verb's contract), and its context outlives it.
    unsafe { done(op::<FreeDm>((*dm).context, FREE_DM)?(dm)) }
}

/// `ibv_reg_dm_mr`, like C's inline function.
///
/// # Safety
/// `pd` and `dm` are live and belong to libibverbs. `dm` is not freed before the region is
/// deregistered.
pub(crate) unsafe fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: u32,
) -> Created<ibv_mr> {
    // SAFETY: domain and memory are live (the verb's contract), and the domain's context outlives
    // it.
    unsafe {
        let register = op::<RegDmMr>((*pd).context, REG_DM_MR)?;
        created(register(pd, dm, offset, length, access))
    }
}

/// `ibv_advise_mr`, like C's inline function.
///
/// # Safety
/// `pd` is live and belongs to libibverbs.
pub(crate) unsafe fn advise_mr(
    pd: *mut ibv_pd,
    advice: u32,
    flags: u32,
    list: &mut [ibv_sge],
) -> Answer {
    // SAFETY: the domain is live (the verb's contract), and its context outlives it. The list is a
    // slice, and the kernel checks its elements.
    unsafe {
        let advise = op::<AdviseMr>((*pd).context, ADVISE_MR)?;
        done(advise(pd, advice, flags, list.as_mut_ptr(), list.len() as u32))
    }
}

/// The changes to a region.
#[derive(Clone, Copy)]
pub struct Rereg {
    /// The fields that are used.
    pub flags: c_int,
    pub pd: *mut ibv_pd,
    pub addr: *mut u8,
    pub length: usize,
    pub access: u32,
}

/// `enum ibv_rereg_mr_err_code`, and the errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReregFailed {
    pub code: c_int,
    pub errno: c_int,
}

/// `ibv_rereg_mr`.
///
/// # Safety
/// `mr` is live and belongs to libibverbs, and so does the domain if the flags name it. If they
/// name the translation, the memory is valid until the region is deregistered or re-registered.
pub(crate) unsafe fn rereg_mr(mr: *mut ibv_mr, to: Rereg) -> Result<(), ReregFailed> {
    let Some(rereg) = symbols().rereg_mr else {
        return Err(ReregFailed { code: ERR_INPUT, errno: libc::ENOSYS });
    };
    let Rereg { flags, pd, addr, length, access } = to;
    // SAFETY: region, domain and memory are live (the verb's contract). errno is cleared first,
    // since the verb may set none and an earlier value must not be taken for its own.
    let code = unsafe {
        *libc::__errno_location() = 0;
        rereg(mr, flags, pd, addr.cast(), length, access as c_int)
    };
    if code == 0 { Ok(()) } else { Err(ReregFailed { code, errno: errno() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "uses the dynamic linker")]
    fn the_installed_library_has_both_functions() {
        let symbols = symbols();
        assert!(symbols.reg_dmabuf_mr.is_some() && symbols.rereg_mr.is_some());
    }
}
