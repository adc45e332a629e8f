//! Extended posting: the functions of a queue pair that was created for it, which C calls in inline
//! functions. A list is posted in one session, from `ibv_wr_start` to `ibv_wr_complete`.

#![allow(non_camel_case_types)] // C's names

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::control::{Created, status};
use super::data::{Each, PostSend, Verb, apart, arm, is_rdma};
use super::persist::{WR_ATOMIC_WRITE, WR_FLUSH, flush_t, ibv_qp_ex_65};
use super::symbols::symbols;
use super::types::*;

/// The bits of `enum ibv_qp_create_send_ops_flags`, without their prefix.
pub mod send_ops {
    pub const RDMA_WRITE: u64 = 1 << 0;
    pub const RDMA_WRITE_WITH_IMM: u64 = 1 << 1;
    pub const SEND: u64 = 1 << 2;
    pub const SEND_WITH_IMM: u64 = 1 << 3;
    pub const RDMA_READ: u64 = 1 << 4;
    pub const ATOMIC_CMP_AND_SWP: u64 = 1 << 5;
    pub const ATOMIC_FETCH_AND_ADD: u64 = 1 << 6;
    pub const LOCAL_INV: u64 = 1 << 7;
    pub const BIND_MW: u64 = 1 << 8;
    pub const SEND_WITH_INV: u64 = 1 << 9;
    pub const FLUSH: u64 = 1 << 11;
    pub const ATOMIC_WRITE: u64 = 1 << 12;
}

/// C's struct.
#[repr(C)]
pub struct ibv_data_buf {
    pub addr: *mut c_void,
    pub length: usize,
}

type Ex = *mut ibv_qp_ex;
type Step<T> = Option<unsafe extern "C" fn(Ex) -> T>;
type WithKey = Option<unsafe extern "C" fn(Ex, u32)>;
type AtRemote = Option<unsafe extern "C" fn(Ex, u32, u64)>;

/// C's struct, as of rdma-core 24: a queue pair, the number and flags of the next work request, and
/// functions. Functions for operations that were not requested may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_ex {
    pub qp_base: ibv_qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: Option<unsafe extern "C" fn(Ex, u32, u64, u64, u64)>,
    pub wr_atomic_fetch_add: Option<unsafe extern "C" fn(Ex, u32, u64, u64)>,
    pub wr_bind_mw:
        Option<unsafe extern "C" fn(Ex, *mut raw::ibv_mw, u32, *const raw::ibv_mw_bind_info)>,
    pub wr_local_inv: WithKey,
    pub wr_rdma_read: AtRemote,
    pub wr_rdma_write: AtRemote,
    pub wr_rdma_write_imm: Option<unsafe extern "C" fn(Ex, u32, u64, u32)>,
    pub wr_send: Step<()>,
    pub wr_send_imm: WithKey,
    pub wr_send_inv: WithKey,
    pub wr_send_tso: Option<unsafe extern "C" fn(Ex, *mut c_void, u16, u16)>,
    pub wr_set_ud_addr: Option<unsafe extern "C" fn(Ex, *mut ibv_ah, u32, u32)>,
    pub wr_set_xrc_srqn: WithKey,
    pub wr_set_inline_data: Option<unsafe extern "C" fn(Ex, *mut c_void, usize)>,
    pub wr_set_inline_data_list: Option<unsafe extern "C" fn(Ex, usize, *const ibv_data_buf)>,
    pub wr_set_sge: Option<unsafe extern "C" fn(Ex, u32, u64, u32)>,
    pub wr_set_sge_list: Option<unsafe extern "C" fn(Ex, usize, *const ibv_sge)>,
    pub wr_start: Step<()>,
    pub wr_complete: Step<c_int>,
    pub wr_abort: Step<()>,
}

// SAFETY: it consists of an `ibv_qp`, integers, and functions that may be null.
unsafe impl Zeroes for ibv_qp_ex {}

symbols! {
    /// `ibv_qp_to_qp_ex` was added in rdma-core 24.
    unsafe struct Symbols of VERBS {
        to_ex: unsafe extern "C" fn(*mut ibv_qp) -> *mut ibv_qp_ex = c"ibv_qp_to_qp_ex",
        destroy: unsafe extern "C" fn(*mut ibv_qp) -> c_int = c"ibv_destroy_qp",
    }
}

/// Returns the queue pair if it supports extended posting and its `ibv_qp_ex` has the same address,
/// which this crate relies on. Otherwise destroys it and returns EOPNOTSUPP.
///
/// # Safety
/// libibverbs just made `qp`, and it has no other owner.
pub(crate) unsafe fn extended(qp: NonNull<ibv_qp>) -> Created<ibv_qp> {
    // SAFETY: the queue pair is live (this function's contract).
    if symbols().to_ex.is_some_and(|to_ex| unsafe { to_ex(qp.as_ptr()) } == qp.as_ptr().cast()) {
        return Ok(qp);
    }
    // SAFETY: it is live and has no other owner (this function's contract). If it is not destroyed,
    // it leaks.
    symbols().destroy.map(|destroy| unsafe { destroy(qp.as_ptr()) });
    Err(libc::EOPNOTSUPP)
}

/// The most elements of a work request. Inline pieces are copied to a list of this length in C's
/// other form.
pub const MOST_SGES: u32 = 128;

/// The value of `qp_context` of a queue pair whose provider is librxe (or may be): see [`Session`].
pub fn on_rxe() -> *mut c_void {
    ptr::without_provenance_mut(1)
}

/// The value of `qp_context` of an XRC initiator, whose work requests each name a shared receive
/// queue. So sessions of other transports do not check for XRC.
pub fn on_xrc() -> *mut c_void {
    ptr::without_provenance_mut(2)
}

/// Posts a list in one session. No other code runs between its start and end, so no session stays
/// open, none is nested, and none needs `ibv_wr_abort`.
///
/// - Work requests use operations that the queue pair was created for (R15.1), and have at most
///   [`MOST_SGES`] elements.
/// - Inline data also has its flag set, which librxe needs (R15.8).
/// - librxe sends wrong bytes for several elements (R15.10, R15.11). A list that has such a work
///   request is posted with `ibv_post_send`; if it also has a FLUSH or an ATOMIC_WRITE, one by one.
/// - If the session was refused, `bad` is the first work request, and nothing was posted (R15.6).
///   librxe may nevertheless have written its ring, unless it returns ENOSPC; `bad` then stays null
///   (R15.12).
///
/// With `SRD`, the queue pair may be one of EFA's SRD queue pairs. Each of its work requests has a
/// destination; those with remote memory have it [`apart`].
#[doc(hidden)]
pub enum SessionOf<const SRD: bool> {}

#[doc(hidden)]
pub type Session = SessionOf<false>;

/// Calls a function of a queue pair with extended posting.
macro_rules! call {
    ($qp:ident.$function:ident($($argument:expr),*)) => {
        (*$qp).$function.unwrap_unchecked()($qp $(, $argument)*)
    };
}

// SAFETY: a session posts the whole list, or nothing, and then `bad` is the first work request (see
// the type).
unsafe impl<const SRD: bool> Verb for SessionOf<SRD> {
    type Object = ibv_qp;
    type Wr = ibv_send_wr;
    const NAME: &'static str = "ibv_wr_complete";

    /// A copy. Provider calls cannot change it, so the compiler still knows the values of a work
    /// request that was just emitted when the session is built from it.
    type Known = MaybeUninit<ibv_send_wr>;

    #[inline(always)]
    unsafe fn known(wr: *const ibv_send_wr) -> Self::Known {
        // SAFETY: it is readable; fields that were not emitted are not used.
        unsafe { wr.cast::<Self::Known>().read() }
    }

    const KNOWS: bool = true;

    #[inline(always)]
    unsafe fn show(known: &Self::Known, wr: *mut ibv_send_wr) {
        // SAFETY: `wr` is writable (this function's contract), and does not alias `known`.
        unsafe { wr.cast::<Self::Known>().copy_from_nonoverlapping(known, 1) };
    }

    #[inline(always)]
    unsafe fn flag(known: &mut Self::Known, flags: u32) {
        // SAFETY: it is a copy of an emitted work request (this function's contract), including its
        // flags.
        unsafe { (*known.as_mut_ptr()).send_flags |= flags };
    }

    #[inline(always)]
    unsafe fn build(qp: *mut ibv_qp, known: &Self::Known) {
        // SAFETY: the caller guarantees what `build` requires, and `build` does not write to it.
        unsafe { build::<SRD>(qp.cast(), known.as_ptr().cast_mut()) }
    }

    #[inline(always)]
    unsafe fn post_known(qp: *mut ibv_qp, known: &impl Each<Self::Known>) -> Option<c_int> {
        // SAFETY: a live queue pair can be read, and `qp_context` was written when it was made.
        // `known` is a list that it may have, and it has the functions that it was created for.
        unsafe {
            let is_srd = SRD && is_srd(qp);
            if !is_srd && !(*qp).qp_context.is_null() {
                return None;
            }
            let ex = qp.cast::<ibv_qp_ex>();
            call!(ex.wr_start());
            match is_srd {
                true => known.each::<SessionOf<true>>(qp),
                false => known.each::<SessionOf<false>>(qp),
            }
            Some(call!(ex.wr_complete()))
        }
    }

    #[inline(always)]
    unsafe fn post(qp: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
        // SAFETY: a live queue pair can be read, and `qp_context` was written when it was made. It
        // may have the list, however that is posted, and `bad` is writable.
        unsafe {
            if SRD && is_srd(qp) {
                let errno = session(qp.cast(), first, |qp, wr| build::<true>(qp, wr));
                return whole(errno, first, bad);
            }
            if !(*qp).qp_context.is_null() {
                return post_otherwise(qp, first, bad);
            }
            whole(plain(qp.cast(), first), first, bad)
        }
    }
}

/// # Safety
/// `qp` is live.
#[inline(always)]
unsafe fn is_srd(qp: *mut ibv_qp) -> bool {
    // SAFETY: a live queue pair can be read (this function's contract).
    unsafe { (*qp).qp_type == ibv_qp_type::IBV_QPT_DRIVER }
}

/// Converts the result of a session, which is refused as a whole.
///
/// # Safety
/// `bad` is writable.
#[inline(always)]
unsafe fn whole(errno: c_int, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
    if errno != 0 {
        // SAFETY: it is writable (this function's contract).
        unsafe { *bad = first };
    }
    errno
}

/// Runs a session with a list from start to end. `build` builds each work request.
///
/// # Safety
/// The queue pair is live, supports extended posting, and may have the list, which ends with a null
/// `next`.
#[inline(always)]
unsafe fn session(
    qp: *mut ibv_qp_ex,
    mut wr: *mut ibv_send_wr,
    build: impl Fn(*mut ibv_qp_ex, *mut ibv_send_wr),
) -> c_int {
    // SAFETY: a queue pair with extended posting has the functions of sessions, and each work
    // request up to the end of the list can be read.
    unsafe {
        call!(qp.wr_start());
        while !wr.is_null() {
            build(qp, wr);
            wr = (*wr).next;
        }
        call!(qp.wr_complete())
    }
}

/// A session of work requests without a destination.
///
/// # Safety
/// As for [`session`].
#[inline(always)]
unsafe fn plain(qp: *mut ibv_qp_ex, first: *mut ibv_send_wr) -> c_int {
    // SAFETY: the list is one that the queue pair may have, so it has the functions of each
    // operation.
    unsafe { session(qp, first, |qp, wr| build::<false>(qp, wr)) }
}

/// Posts on librxe or XRC. (It is a separate function, so that other work requests need not be in
/// memory.)
///
/// # Safety
/// As for [`Verb::post`].
#[cold]
#[inline(never)]
unsafe fn post_otherwise(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a live queue pair can be read. Its `qp_context` shows how it was made, and it may
    // have the list.
    unsafe {
        match (*qp).qp_context == on_xrc() {
            true => post_on_xrc(qp, first, bad),
            false => post_on_rxe(qp, first, bad),
        }
    }
}

/// Posts in a session in which each work request names its shared receive queue.
///
/// # Safety
/// As for [`Verb::post`]; the queue pair is an initiator of XRC, whose work requests have data and
/// name a shared receive queue.
unsafe fn post_on_xrc(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let numbered = |qp: *mut ibv_qp_ex, wr: *mut ibv_send_wr| {
        // SAFETY: the queue pair has the functions of the operation, and the setter of its
        // transport. Each work request has the number for it.
        unsafe {
            build::<false>(qp, wr);
            call!(qp.wr_set_xrc_srqn((*wr).qp_type.xrc.remote_srqn));
        }
    };
    // SAFETY: the list is one that the queue pair may have, and `bad` is writable.
    unsafe { whole(session(qp.cast(), first, numbered), first, bad) }
}

/// Posts in the way that librxe supports.
///
/// # Safety
/// As for [`Verb::post`].
unsafe fn post_on_rxe(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the queue pair may have the list, and each way gets only what it supports: a session
    // no work request with several elements, `ibv_post_send` no FLUSH and no ATOMIC_WRITE.
    unsafe {
        if !has_any(first, |head| head.num_sge > 1) {
            return session_on_rxe(qp, first, bad);
        }
        if !has_any(first, |head| matches!(head.opcode, WR_FLUSH | WR_ATOMIC_WRITE)) {
            return PostSend::post(qp, first, bad);
        }
        one_by_one(qp, first, bad)
    }
}

/// A session on librxe.
///
/// # Safety
/// As for [`Verb::post`].
unsafe fn session_on_rxe(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the queue pair supports extended posting, and may have the list; `bad` is writable.
    unsafe {
        let errno = plain(qp.cast(), first);
        // Only ENOSPC guarantees that nothing was posted.
        if status(errno) == libc::ENOSPC {
            *bad = first;
        }
        errno
    }
}

/// Posts a list that neither verb of librxe supports: each work request by the verb that supports
/// it.
///
/// # Safety
/// As for [`Verb::post`].
unsafe fn one_by_one(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: the list ends with a null `next`, and the queue pair may have it. Each work
        // request is temporarily cut off from the rest, and the caller's list is restored.
        unsafe {
            let next = ptr::replace(&raw mut (*wr).next, ptr::null_mut());
            let is_several = (*wr).num_sge > 1;
            let errno = match is_several {
                true => PostSend::post(qp, wr, bad),
                false => session_on_rxe(qp, wr, bad),
            };
            (*wr).next = next;
            if errno != 0 {
                return errno;
            }
            wr = next;
        }
    }
    0
}

/// The common fields of all work requests of a list.
struct Head {
    num_sge: c_int,
    opcode: ibv_wr_opcode::Type,
}

/// Whether `is` holds for a work request of a list.
///
/// # Safety
/// `wr` is a list, or null.
unsafe fn has_any(mut wr: *mut ibv_send_wr, is: impl Fn(Head) -> bool) -> bool {
    // SAFETY: the list ends with a null `next`, and each head of it is emitted.
    unsafe {
        while !wr.is_null() {
            if is(Head { num_sge: (*wr).num_sge, opcode: (*wr).opcode }) {
                return true;
            }
            wr = (*wr).next;
        }
    }
    false
}

/// Builds a work request: its operation, its address and its data. (Inlining saves 9 instructions
/// per work request.)
///
/// # Safety
/// A session of the queue pair is open, and it may have the work request, which is emitted.
#[inline(always)]
unsafe fn build<const SRD: bool>(qp: *mut ibv_qp_ex, wr: *mut ibv_send_wr) {
    use ibv_wr_opcode::*;
    // SAFETY: the queue pair has the functions of the operations that it was created for, and those
    // of sessions. The fields that the opcode reads are emitted.
    unsafe {
        (*qp).wr_id = (*wr).wr_id;
        (*qp).wr_flags = (*wr).send_flags;
        let word = (&raw const (*wr).imm_data_invalidated_rkey_union).cast::<u32>();
        let (rdma, atomic) = (arm::<raw::rdma_t>(wr), arm::<raw::atomic_t>(wr));
        match (*wr).opcode {
            IBV_WR_SEND => {
                call!(qp.wr_send());
                address::<SRD>(qp, arm::<ud_t>(wr));
            }
            IBV_WR_SEND_WITH_IMM => {
                call!(qp.wr_send_imm(*word));
                address::<SRD>(qp, arm::<ud_t>(wr));
            }
            IBV_WR_SEND_WITH_INV => call!(qp.wr_send_inv(*word)),
            IBV_WR_RDMA_WRITE => call!(qp.wr_rdma_write((*rdma).rkey, (*rdma).remote_addr)),
            IBV_WR_RDMA_WRITE_WITH_IMM => {
                call!(qp.wr_rdma_write_imm((*rdma).rkey, (*rdma).remote_addr, *word));
            }
            IBV_WR_RDMA_READ => call!(qp.wr_rdma_read((*rdma).rkey, (*rdma).remote_addr)),
            IBV_WR_ATOMIC_CMP_AND_SWP => {
                let (expected, new) = ((*atomic).compare_add, (*atomic).swap);
                let (rkey, addr) = ((*atomic).rkey, (*atomic).remote_addr);
                call!(qp.wr_atomic_cmp_swp(rkey, addr, expected, new));
            }
            IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let (rkey, addr) = ((*atomic).rkey, (*atomic).remote_addr);
                call!(qp.wr_atomic_fetch_add(rkey, addr, (*atomic).compare_add));
            }
            // These four have no data.
            WR_ATOMIC_WRITE => {
                let newer = qp.cast::<ibv_qp_ex_65>();
                let (rkey, addr) = ((*atomic).rkey, (*atomic).remote_addr);
                // Copied, so that the work request itself need not be in memory.
                let bytes = (*atomic).compare_add;
                let write = (*newer).wr_atomic_write.unwrap_unchecked();
                return write(qp, rkey, addr, (&raw const bytes).cast());
            }
            WR_FLUSH => {
                let newer = qp.cast::<ibv_qp_ex_65>();
                let flush_t { remote_addr, len, rkey, placement, level } = *arm::<flush_t>(wr);
                let flush = (*newer).wr_flush.unwrap_unchecked();
                return flush(qp, rkey, remote_addr, len as usize, placement, level);
            }
            IBV_WR_LOCAL_INV => return call!(qp.wr_local_inv(*word)),
            IBV_WR_BIND_MW => {
                // Copied, so that the work request itself need not be in memory.
                let raw::bind_mw_t { mw, rkey, bind_info, .. } =
                    (&raw const (*wr).bind_mw_tso_union).cast::<raw::bind_mw_t>().read();
                return call!(qp.wr_bind_mw(mw, rkey, &raw const bind_info));
            }
            opcode => return debug_assert!(false, "opcode {opcode} has no session"),
        }
        if SRD && is_rdma((*wr).opcode) {
            address::<SRD>(qp, apart(wr));
        }
        let (list, count) = ((*wr).sg_list, (*wr).num_sge as usize);
        let is_inline = (*wr).send_flags & ibv_send_flags::IBV_SEND_INLINE.0 != 0;
        match (is_inline, count) {
            (false, 1) => call!(qp.wr_set_sge((*list).lkey, (*list).addr, (*list).length)),
            (false, _) => call!(qp.wr_set_sge_list(count, list)),
            (true, 1) => {
                let ibv_data_buf { addr, length } = piece(list);
                call!(qp.wr_set_inline_data(addr, length));
            }
            (true, 0) if SRD => call!(qp.wr_set_inline_data(NonNull::dangling().as_ptr(), 0)),
            // Handled here, so that the compiler knows both elements if it knows the work request.
            (true, 2) => {
                let pieces = [piece(list), piece(list.add(1))];
                call!(qp.wr_set_inline_data_list(2, pieces.as_ptr()));
            }
            (true, _) => set_inline_list(qp, list, count),
        }
    }
}

/// Sets the destination of a datagram or of an SRD message.
///
/// # Safety
/// As for `build`; `to` is emitted, if the transport has destinations.
#[inline(always)]
unsafe fn address<const SRD: bool>(qp: *mut ibv_qp_ex, to: *const ud_t) {
    // SAFETY: the queue pair is live; a work request of UD or SRD has an address.
    unsafe {
        if SRD || (*qp).qp_base.qp_type == ibv_qp_type::IBV_QPT_UD {
            let ud_t { ah, remote_qpn, remote_qkey } = *to;
            call!(qp.wr_set_ud_addr(ah, remote_qpn, remote_qkey));
        }
    }
}

/// Converts an inline element to C's other form.
///
/// # Safety
/// `sge` is an element of inline data.
#[inline]
unsafe fn piece(sge: *const ibv_sge) -> ibv_data_buf {
    // SAFETY: the element is initialised.
    let ibv_sge { addr, length, .. } = unsafe { *sge };
    // The code that emitted the element has exposed the address.
    let addr = ptr::with_exposed_provenance_mut(addr as usize);
    ibv_data_buf { addr, length: length as usize }
}

/// # Safety
/// As for `build`; the list has `count` inline elements.
unsafe fn set_inline_list(qp: *mut ibv_qp_ex, list: *const ibv_sge, count: usize) {
    let mut pieces = [const { MaybeUninit::<ibv_data_buf>::uninit() }; MOST_SGES as usize];
    debug_assert!(count <= pieces.len());
    for (i, to) in pieces.iter_mut().enumerate().take(count) {
        // SAFETY: the list has `count` elements.
        to.write(unsafe { piece(list.add(i)) });
    }
    // SAFETY: the first `count` are written, which are all: no queue pair with extended posting has
    // more elements. The session is open.
    unsafe { call!(qp.wr_set_inline_data_list(count, pieces.as_ptr().cast())) }
}

#[cfg(any(test, feature = "testing"))]
pub mod stub {
    //! Stubs of the functions that distinguish queue pairs with extended posting.

    use super::*;
    use crate::tests::{answered, saw};

    unsafe extern "C" fn to_itself(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
        saw(format!("to_ex({qp:?})"));
        qp.cast()
    }

    unsafe extern "C" fn to_none(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
        saw(format!("to_ex({qp:?})"));
        ptr::null_mut()
    }

    unsafe extern "C" fn destroy(qp: *mut ibv_qp) -> c_int {
        answered(format!("destroy({qp:?})"))
    }

    /// From here on, this thread treats every queue pair as one with extended posting.
    ///
    /// # Safety
    /// Each queue pair that this thread creates or reads is an `ibv_qp_ex`.
    pub unsafe fn with_extended() {
        REPLACED.set(Some(Symbols { to_ex: Some(to_itself), destroy: Some(destroy) }));
    }

    /// From here on, no queue pair has extended posting.
    pub fn with_other() {
        REPLACED.set(Some(Symbols { to_ex: Some(to_none), destroy: Some(destroy) }));
    }
}

#[cfg(test)]
pub(crate) mod tests;
