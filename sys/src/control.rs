//! The control path as a table of functions; the default table is libibverbs itself.
//!
//! The data path goes through `ibv_context.ops`, which is public ABI and belongs to each device.
//! libibverbs has no such table for its control path that a second provider could fill. So this
//! crate has its own, with one function per verb, in the C signature except for `errno`. A table is
//! plain data: only `unsafe` functions accept a table for an object, and their contract covers it.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::ptr::NonNull;

use super::create_qp_ex::{create_qp_ex, ibv_qp_init_attr_ex};
use super::events::{AsyncEvent, async_fd, create_comp_channel, try_get_async_event};
use super::extended::{PortAttr, ibv_device_attr_ex, query_device_ex, query_port};
use super::gid::{ibv_gid_entry, query_gid_ex, query_gid_table};
use super::lanes::{alloc_parent_domain, alloc_td, dealloc_td, ibv_td};
use super::memory::{
    DmabufPart, Rereg, ReregFailed, advise_mr, alloc_dm, free_dm, ibv_alloc_dm_attr, ibv_dm,
    reg_dm_mr, reg_dmabuf_mr, rereg_mr,
};
use super::polling::{CqAttr, create_cq_ex, ibv_cq_ex, is_software};
use super::provider::{Provider, provider};
use super::query::{data_in_order, device_index, ibv_values_ex, query_port_speed, query_rt_values};
use super::srd::{ah_number, create_srd_qp};
use super::tuning::{
    alloc_null_mr, ibv_ece, ibv_modify_cq_attr, ibv_qp_rate_limit_attr, modify_cq,
    modify_qp_rate_limit, query_ece, set_ece,
};
use super::types::*;
use super::xrc::{close_xrcd, create_srq_ex, ibv_srq_init_attr_ex, ibv_xrcd, open_xrcd, srq_num};

/// The result of a verb that creates an object: the object, or the errno.
pub type Created<T> = Answer<NonNull<T>>;

/// The filled entries of a device's GID tables, or the errno.
pub type GidTable = Answer<Vec<ibv_gid_entry>>;

/// The value that a verb returns, or its errno.
pub type Answer<T = ()> = Result<T, c_int>;

/// The use of a region's memory. C's verb has no such argument; the loopback device needs it, since
/// its accesses are Rust code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Bytes that this program and its peers access at any time, in whole aligned words
    /// (`memory::open`).
    Open,
    /// Buffers, each of which belongs to the device or to the program, whatever words they share.
    Buffers,
    /// Bytes that the program may access by any means, not only through this crate
    /// (`memory::exact`).
    Opaque,
}

/// One function for each control verb, with the contract of its C namesake: pointers to objects are
/// live and belong to this table's provider; attribute pointers are readable, and writable where C
/// writes; a destroyed object is not used again.
///
/// The errno of an [`Answer`] is positive.
pub struct Control {
    pub close_device: unsafe fn(*mut ibv_context) -> Answer,
    pub query_device: unsafe fn(*mut ibv_context) -> Answer<ibv_device_attr>,
    /// The provider decides which promises of the device the crate relies on.
    pub provider: unsafe fn(*mut ibv_context) -> Provider,
    pub query_device_ex: unsafe fn(*mut ibv_context) -> Answer<ibv_device_attr_ex>,
    pub query_port: unsafe fn(*mut ibv_context, u8) -> Answer<PortAttr>,
    pub query_gid: unsafe fn(*mut ibv_context, u8, c_int) -> Answer<ibv_gid>,
    /// Returns ENODATA if the entry is empty.
    pub query_gid_ex: unsafe fn(*mut ibv_context, u8, u32) -> Answer<ibv_gid_entry>,
    /// The filled entries of these ports, given as port and table length.
    pub query_gid_table: unsafe fn(*mut ibv_context, &[(u8, u32)]) -> GidTable,
    pub query_pkey: unsafe fn(*mut ibv_context, u8, c_int) -> Answer<u16>,
    /// Negative if unknown.
    pub device_index: unsafe fn(*mut ibv_context) -> c_int,
    /// Tenths of Gbit/s. ENOSYS if the library lacks it.
    pub query_port_speed: unsafe fn(*mut ibv_context, u8) -> Answer<u64>,
    pub query_rt_values: unsafe fn(*mut ibv_context, &mut ibv_values_ex) -> Answer,

    pub alloc_pd: unsafe fn(*mut ibv_context) -> Created<ibv_pd>,
    pub dealloc_pd: unsafe fn(*mut ibv_pd) -> Answer,
    /// Like the next two and `create_cq_ex`, returns EOPNOTSUPP if the library or the device lacks
    /// it.
    pub alloc_td: unsafe fn(*mut ibv_context) -> Created<ibv_td>,
    pub dealloc_td: unsafe fn(*mut ibv_td) -> Answer,
    /// Deallocated by `dealloc_pd`, before its domain and its thread domain.
    pub alloc_parent_domain: unsafe fn(*mut ibv_pd, *mut ibv_td) -> Created<ibv_pd>,
    pub reg_mr: unsafe fn(*mut ibv_pd, *mut u8, usize, u32, Holds) -> Created<ibv_mr>,
    /// ENOSYS if the library lacks it.
    pub reg_dmabuf_mr: unsafe fn(*mut ibv_pd, DmabufPart, u32) -> Created<ibv_mr>,
    pub rereg_mr: unsafe fn(*mut ibv_mr, Rereg) -> Result<(), ReregFailed>,
    pub dereg_mr: unsafe fn(*mut ibv_mr) -> Answer,
    /// EOPNOTSUPP if the library or the device lacks it.
    pub advise_mr: unsafe fn(*mut ibv_pd, u32, u32, &mut [ibv_sge]) -> Answer,
    /// Like the other extended operations: EOPNOTSUPP if the library or the device lacks it.
    pub alloc_null_mr: unsafe fn(*mut ibv_pd) -> Created<ibv_mr>,
    pub alloc_dm: unsafe fn(*mut ibv_context, ibv_alloc_dm_attr) -> Created<ibv_dm>,
    pub free_dm: unsafe fn(*mut ibv_dm) -> Answer,
    pub reg_dm_mr: unsafe fn(*mut ibv_pd, *mut ibv_dm, u64, usize, u32) -> Created<ibv_mr>,
    pub create_ah: unsafe fn(*mut ibv_pd, *mut ibv_ah_attr) -> Created<ibv_ah>,
    pub destroy_ah: unsafe fn(*mut ibv_ah) -> Answer,

    pub create_comp_channel: unsafe fn(*mut ibv_context) -> Created<ibv_comp_channel>,
    pub destroy_comp_channel: unsafe fn(*mut ibv_comp_channel) -> Answer,
    /// Only for `events::try_get_cq_event`. The C function itself, with errors for `status`. Never
    /// blocks: `EAGAIN` if there is none.
    pub get_cq_event:
        unsafe extern "C" fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int,
    pub ack_cq_events: unsafe extern "C" fn(*mut ibv_cq, c_uint),
    pub create_cq:
        unsafe fn(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> Created<ibv_cq>,
    /// If it is single-threaded, calls on it never overlap, neither with each other nor with calls
    /// that destroy or change a queue pair on it. It begins with an `ibv_cq` and is destroyed as
    /// one.
    pub create_cq_ex: unsafe fn(*mut ibv_context, CqAttr) -> Created<ibv_cq_ex>,
    /// Whether the device is kernel software, or may be: librxe. There each completion needs its
    /// own start and end (R14.3), and sessions break with several elements (R15.10).
    pub is_software: unsafe fn(*mut ibv_context) -> bool,
    /// `ibv_cq.cqe` has the granted capacity afterwards.
    pub resize_cq: unsafe fn(*mut ibv_cq, c_int) -> Answer,
    pub destroy_cq: unsafe fn(*mut ibv_cq) -> Answer,
    pub modify_cq: unsafe fn(*mut ibv_cq, &mut ibv_modify_cq_attr) -> Answer,

    /// Takes the descriptor of a file, or -1. Like `close_xrcd`, `create_srq_ex` and `srq_num`,
    /// returns EOPNOTSUPP if the library or the device lacks it.
    pub open_xrcd: unsafe fn(*mut ibv_context, c_int, c_int) -> Created<ibv_xrcd>,
    pub close_xrcd: unsafe fn(*mut ibv_xrcd) -> Answer,
    /// Destroyed by `destroy_srq`, before its domains and its completion queue.
    pub create_srq_ex: unsafe fn(&mut ibv_srq_init_attr_ex) -> Created<ibv_srq>,
    /// The queue must have been created for XRC.
    pub srq_num: unsafe fn(*mut ibv_srq) -> Answer<u32>,
    pub create_srq: unsafe fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> Created<ibv_srq>,
    pub modify_srq: unsafe fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> Answer,
    pub query_srq: unsafe fn(*mut ibv_srq) -> Answer<ibv_srq_attr>,
    pub destroy_srq: unsafe fn(*mut ibv_srq) -> Answer,

    pub create_qp: unsafe fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> Created<ibv_qp>,
    pub create_qp_ex: unsafe fn(&mut ibv_qp_init_attr_ex) -> Created<ibv_qp>,
    /// Takes flags of EFA. ENOSYS if no library has it.
    pub create_srd_qp: unsafe fn(&mut ibv_qp_init_attr_ex, u16) -> Created<ibv_qp>,
    /// EFA's number of an address handle. ENOSYS if no library has it.
    pub ah_number: unsafe fn(*mut ibv_ah) -> Answer<u16>,
    pub modify_qp: unsafe fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> Answer,
    pub query_qp: unsafe fn(*mut ibv_qp, c_int) -> Answer<(ibv_qp_attr, ibv_qp_init_attr)>,
    pub destroy_qp: unsafe fn(*mut ibv_qp) -> Answer,
    /// For messages with this opcode.
    pub data_in_order: unsafe fn(*mut ibv_qp, u32) -> bool,
    pub modify_qp_rate_limit: unsafe fn(*mut ibv_qp, &mut ibv_qp_rate_limit_attr) -> Answer,
    pub set_ece: unsafe fn(*mut ibv_qp, &mut ibv_ece) -> Answer,
    pub query_ece: unsafe fn(*mut ibv_qp) -> Answer<ibv_ece>,
    pub attach_mcast: unsafe fn(*mut ibv_qp, *const ibv_gid, u16) -> Answer,
    pub detach_mcast: unsafe fn(*mut ibv_qp, *const ibv_gid, u16) -> Answer,

    /// The descriptor that is readable while an asynchronous event is pending.
    pub async_fd: unsafe fn(*mut ibv_context) -> Answer<c_int>,
    /// Takes and acknowledges the next asynchronous event. Never blocks: `EAGAIN` if there is none.
    pub try_get_async_event: unsafe fn(*mut ibv_context) -> Answer<AsyncEvent>,
}

/// The errno of this thread's last failed C call, never 0.
pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().filter(|&code| code != 0).unwrap_or(libc::EIO)
}

pub fn created<T>(object: *mut T) -> Created<T> {
    NonNull::new(object).ok_or_else(errno)
}

/// The errno of a verb's return value; not 0 if the verb failed. Most C verbs return an errno. Some
/// return -1 and set errno. Some providers return a negative errno, as a kernel does (libsiw does
/// both). EIO stands for a failure without an errno.
pub fn status(code: c_int) -> c_int {
    match code {
        -1 => errno(),
        code => code.saturating_abs(),
    }
}

/// Like [`status`], for a verb without another result.
pub fn done(code: c_int) -> Answer {
    match status(code) {
        0 => Ok(()),
        errno => Err(errno),
    }
}

macro_rules! forward {
    ($answer:ident $verb:ident($($arg:ident),*)) => {
        // SAFETY: the caller upholds the contract of the C namesake (see `Control`).
        |$($arg),*| $answer(unsafe { raw::$verb($($arg),*) })
    };
}

/// A verb that writes its result through its last argument.
macro_rules! fills {
    ($verb:ident($($arg:ident),*)) => {
        |$($arg),*| {
            let mut answer = zeroed();
            // SAFETY: the caller upholds the contract of the C namesake (see `Control`), and
            // `answer` is a local.
            done(unsafe { raw::$verb($($arg,)* &mut answer) }).map(|()| answer)
        }
    };
}

unsafe fn query_pkey(context: *mut ibv_context, port: u8, index: c_int) -> Answer<u16> {
    let mut pkey = 0;
    // SAFETY: the context is live (the verb's contract, see `Control`), and `pkey` is a local.
    done(unsafe { raw::ibv_query_pkey(context, port, index, &mut pkey) })?;
    Ok(u16::from_be(pkey)) // it is in network byte order
}

unsafe fn query_qp(qp: *mut ibv_qp, mask: c_int) -> Answer<(ibv_qp_attr, ibv_qp_init_attr)> {
    let (mut attr, mut init) = (zeroed(), zeroed());
    // SAFETY: the queue pair is live (the verb's contract, see `Control`), and both are locals.
    done(unsafe { raw::ibv_query_qp(qp, &mut attr, mask, &mut init) })?;
    Ok((attr, init))
}

unsafe fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut u8,
    length: usize,
    access: u32,
    _: Holds,
) -> Created<ibv_mr> {
    // Optional access flags need the `_iova2` entry point. The C macro makes the same choice.
    if access & OPTIONAL_ACCESS != 0 {
        // SAFETY: `pd` is live, and the memory is valid until `dereg_mr` (the verb's contract).
        created(unsafe {
            raw::ibv_reg_mr_iova2(pd, addr.cast(), length, addr.expose_provenance() as u64, access)
        })
    } else {
        // SAFETY: `pd` is live, and the memory is valid until `dereg_mr` (the verb's contract).
        created(unsafe { raw::ibv_reg_mr(pd, addr.cast(), length, access as c_int) })
    }
}

unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> Created<ibv_cq> {
    // SAFETY: context and channel are live (the verb's contract). The CQ's user context is not
    // used.
    created(unsafe { raw::ibv_create_cq(context, cqe, ptr::null_mut(), channel, vector) })
}

/// The system's libibverbs.
pub static LIBIBVERBS: Control = Control {
    close_device: forward!(done ibv_close_device(c)),
    query_device: fills!(ibv_query_device(c)),
    provider,
    query_device_ex,
    query_port,
    query_gid: fills!(ibv_query_gid(c, p, i)),
    query_gid_ex,
    query_gid_table,
    query_pkey,
    device_index,
    query_port_speed,
    query_rt_values,
    alloc_pd: forward!(created ibv_alloc_pd(c)),
    dealloc_pd: forward!(done ibv_dealloc_pd(p)),
    alloc_td,
    dealloc_td,
    alloc_parent_domain,
    reg_mr,
    reg_dmabuf_mr,
    rereg_mr,
    dereg_mr: forward!(done ibv_dereg_mr(m)),
    advise_mr,
    alloc_null_mr,
    alloc_dm,
    free_dm,
    reg_dm_mr,
    create_ah: forward!(created ibv_create_ah(p, a)),
    destroy_ah: forward!(done ibv_destroy_ah(a)),
    create_comp_channel,
    destroy_comp_channel: forward!(done ibv_destroy_comp_channel(c)),
    get_cq_event: raw::ibv_get_cq_event,
    ack_cq_events: raw::ibv_ack_cq_events,
    create_cq,
    create_cq_ex,
    is_software,
    resize_cq: forward!(done ibv_resize_cq(c, n)),
    destroy_cq: forward!(done ibv_destroy_cq(c)),
    modify_cq,
    open_xrcd,
    close_xrcd,
    create_srq_ex,
    srq_num,
    create_srq: forward!(created ibv_create_srq(p, a)),
    modify_srq: forward!(done ibv_modify_srq(s, a, m)),
    query_srq: fills!(ibv_query_srq(s)),
    destroy_srq: forward!(done ibv_destroy_srq(s)),
    create_qp: forward!(created ibv_create_qp(p, a)),
    create_qp_ex,
    create_srd_qp,
    ah_number,
    modify_qp: forward!(done ibv_modify_qp(q, a, m)),
    query_qp,
    destroy_qp: forward!(done ibv_destroy_qp(q)),
    data_in_order,
    modify_qp_rate_limit,
    set_ece,
    query_ece,
    attach_mcast: forward!(done ibv_attach_mcast(q, g, l)),
    detach_mcast: forward!(done ibv_detach_mcast(q, g, l)),
    async_fd,
    try_get_async_event,
};
