//! Thread domains and parent domains: extended operations that C calls in inline functions.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};
use std::ptr;

use super::control::{Answer, Created, created, done};
use super::extended::op;
use super::types::*;

/// The distances of operations before the context, in bytes; see `extended`.
pub const ALLOC_PARENT_DOMAIN: usize = 208;
pub const DEALLOC_TD: usize = 200;
pub const ALLOC_TD: usize = 192;

/// A thread domain (`struct ibv_td`).
#[repr(C)]
pub struct ibv_td {
    pub context: *mut ibv_context,
}

/// C's struct, as of rdma-core 16.
#[repr(C)]
pub struct ibv_td_init_attr {
    pub comp_mask: u32,
}

/// C's struct, as of rdma-core 21. `alloc` and `free` are function pointers, which are null here.
#[repr(C)]
pub struct ibv_parent_domain_init_attr {
    pub pd: *mut ibv_pd,
    pub td: *mut ibv_td,
    pub comp_mask: u32,
    pub alloc: *mut c_void,
    pub free: *mut c_void,
    pub pd_context: *mut c_void,
}

type AllocTd = unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td;
type DeallocTd = unsafe extern "C" fn(*mut ibv_td) -> c_int;
type AllocParentDomain =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd;

/// `ibv_alloc_td`, like C's inline function.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn alloc_td(context: *mut ibv_context) -> Created<ibv_td> {
    let mut attr = ibv_td_init_attr { comp_mask: 0 };
    // SAFETY: the context is live (the verb's contract), and the attributes are a local.
    unsafe {
        let alloc = op::<AllocTd>(context, ALLOC_TD)?;
        created(alloc(context, &mut attr))
    }
}

/// `ibv_dealloc_td`, like C's inline function.
///
/// # Safety
/// `td` is live and belongs to libibverbs, and is not used again if it succeeds.
pub(crate) unsafe fn dealloc_td(td: *mut ibv_td) -> Answer {
    // SAFETY: the thread domain is live (the verb's contract), and its context outlives it.
    unsafe { done(op::<DeallocTd>((*td).context, DEALLOC_TD)?(td)) }
}

/// `ibv_alloc_parent_domain`, like C's inline, without allocators.
///
/// # Safety
/// `pd` and `td` are live, belong to libibverbs and to one context, and live until `ibv_dealloc_pd`
/// deallocates the result.
pub(crate) unsafe fn alloc_parent_domain(pd: *mut ibv_pd, td: *mut ibv_td) -> Created<ibv_pd> {
    let mut attr = ibv_parent_domain_init_attr {
        pd,
        td,
        comp_mask: 0,
        alloc: ptr::null_mut(),
        free: ptr::null_mut(),
        pd_context: ptr::null_mut(),
    };
    // SAFETY: the domain and its context are live (this function's contract), and the attributes
    // are a local.
    unsafe {
        let context = (*pd).context;
        let alloc = op::<AllocParentDomain>(context, ALLOC_PARENT_DOMAIN)?;
        created(alloc(context, &mut attr))
    }
}
