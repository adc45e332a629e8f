//! XRC: domains, and shared receive queues with a number. They are extended operations, which C
//! calls in inline functions.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_void};

use super::control::{Answer, Created, created, done};
use super::extended::op;
use super::types::*;

/// The distances of operations before the context, in bytes; see `extended`.
pub const GET_SRQ_NUM: usize = 48;
pub const CREATE_SRQ_EX: usize = 40;
pub const OPEN_XRCD: usize = 32;
pub const CLOSE_XRCD: usize = 24;

/// `IBV_XRCD_INIT_ATTR_FD` and `IBV_XRCD_INIT_ATTR_OFLAGS`: C's inline needs both.
pub const XRCD_FD: u32 = 1;
pub const XRCD_OFLAGS: u32 = 2;

/// `IBV_SRQT_XRC`.
pub const SRQT_XRC: u32 = 1;

/// `IBV_SRQ_INIT_ATTR_TYPE`, `_PD`, `_XRCD` and `_CQ`.
pub const SRQ_TYPE: u32 = 1;
pub const SRQ_PD: u32 = 2;
pub const SRQ_XRCD: u32 = 4;
pub const SRQ_CQ: u32 = 8;

/// An XRC domain (`struct ibv_xrcd`).
#[repr(C)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}

/// C's struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_xrcd_init_attr {
    pub comp_mask: u32,
    pub fd: c_int,
    pub oflags: c_int,
}

/// C's struct.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ibv_tm_cap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}

/// C's struct, as of rdma-core 17. It begins with `ibv_srq_init_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: u32,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub cq: *mut ibv_cq,
    pub tm_cap: ibv_tm_cap,
}

impl ibv_srq_init_attr_ex {
    /// The attributes of an XRC shared receive queue.
    pub fn xrc(
        init: &ibv_srq_init_attr,
        pd: *mut ibv_pd,
        xrcd: *mut ibv_xrcd,
        cq: *mut ibv_cq,
    ) -> Self {
        ibv_srq_init_attr_ex {
            srq_context: init.srq_context,
            attr: init.attr,
            comp_mask: SRQ_TYPE | SRQ_PD | SRQ_XRCD | SRQ_CQ,
            srq_type: SRQT_XRC,
            pd,
            xrcd,
            cq,
            tm_cap: ibv_tm_cap::default(),
        }
    }
}

type OpenXrcd = unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
type CloseXrcd = unsafe extern "C" fn(*mut ibv_xrcd) -> c_int;
type CreateSrqEx =
    unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
type GetSrqNum = unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int;

/// `ibv_open_xrcd`, like C's inline function. `fd` is -1 for a domain without a file.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn open_xrcd(
    context: *mut ibv_context,
    fd: c_int,
    oflags: c_int,
) -> Created<ibv_xrcd> {
    let mut attr = ibv_xrcd_init_attr { comp_mask: XRCD_FD | XRCD_OFLAGS, fd, oflags };
    // SAFETY: the context is live (the verb's contract), and the attributes are a local.
    unsafe {
        let open = op::<OpenXrcd>(context, OPEN_XRCD)?;
        created(open(context, &mut attr))
    }
}

/// `ibv_close_xrcd`, like C's inline function.
///
/// # Safety
/// `xrcd` is live and belongs to libibverbs, and is not used again if it succeeds.
pub(crate) unsafe fn close_xrcd(xrcd: *mut ibv_xrcd) -> Answer {
    // SAFETY: the domain is live (the verb's contract), and its context outlives it.
    unsafe { done(op::<CloseXrcd>((*xrcd).context, CLOSE_XRCD)?(xrcd)) }
}

/// `ibv_create_srq_ex`, like C's inline, for queues that are not plain. `attr` returns the granted
/// limits.
///
/// # Safety
/// The objects that `init` names are live, belong to libibverbs, and to one context.
pub(crate) unsafe fn create_srq_ex(init: &mut ibv_srq_init_attr_ex) -> Created<ibv_srq> {
    // SAFETY: the domain and its context are live, and so are the objects that the attributes name
    // (this function's contract). The attributes are behind a reference.
    unsafe {
        let context = (*init.pd).context;
        let create = op::<CreateSrqEx>(context, CREATE_SRQ_EX)?;
        created(create(context, init))
    }
}

/// `ibv_get_srq_num`, like C's inline function.
///
/// # Safety
/// `srq` is live, belongs to libibverbs, and was created for XRC.
pub(crate) unsafe fn srq_num(srq: *mut ibv_srq) -> Answer<u32> {
    let mut number = 0;
    // SAFETY: the queue is live, and its context outlives it; the number is a local.
    unsafe {
        let get = op::<GetSrqNum>((*srq).context, GET_SRQ_NUM)?;
        done(get(srq, &mut number)).map(|()| number)
    }
}
