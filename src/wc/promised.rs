//! The fields of an `ibv_wc`, each where ibv_poll_cq(3) promises it.
//!
//! A provider need not write the others: what is in them is of an earlier completion, or of nobody. So they are read one
//! by one, through a pointer: a reference would say that all of them are there.

#![allow(unsafe_code)] // reads C structs

use std::marker::PhantomData;

use crate::sys::types::{ibv_wc, ibv_wc_flags, ibv_wc_opcode, ibv_wc_status};

/// A completion, of which these are always promised: its wr_id, status, qp_num and vendor_err.
///
/// # Invariants
/// `at` was written by a provider's poll, and stays so for `'cq`.
#[derive(Clone, Copy)]
pub(super) struct Promised<'cq> {
    at: *const ibv_wc,
    _borrowed: PhantomData<&'cq ibv_wc>,
}

// SAFETY: what it points to is read, and for `'cq` not written: it is no more than a `&'cq ibv_wc`. (Who has a completion
// is what keeps it on its thread.)
unsafe impl Send for Promised<'_> {}
// SAFETY: it only reads what nobody writes for `'cq`.
unsafe impl Sync for Promised<'_> {}

/// One that succeeded: its opcode too.
#[derive(Clone, Copy)]
pub(super) struct Success<'cq>(Promised<'cq>);

/// A receive that succeeded: its byte_len too, its wc_flags, and with IBV_WC_WITH_IMM its imm_data.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'cq>(Promised<'cq>);

/// One on UD: whence it came, too.
#[derive(Clone, Copy)]
pub(super) struct Datagram<'cq>(Promised<'cq>);

impl<'cq> Promised<'cq> {
    /// # Safety
    /// `at` was written by a provider's poll, and stays so for `'cq`.
    #[inline(always)]
    pub unsafe fn new(at: *const ibv_wc) -> Self {
        Promised { at, _borrowed: PhantomData }
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *const ibv_wc {
        self.at
    }

    #[inline(always)]
    pub fn status(self) -> ibv_wc_status::Type {
        // SAFETY: promised of each completion.
        unsafe { (*self.at).status }
    }

    #[inline(always)]
    pub fn qp_num(self) -> u32 {
        // SAFETY: promised of each completion.
        unsafe { (*self.at).qp_num }
    }

    #[inline(always)]
    pub fn vendor_err(self) -> u32 {
        // SAFETY: promised of each completion.
        unsafe { (*self.at).vendor_err }
    }

    #[inline(always)]
    pub fn success(self) -> Option<Success<'cq>> {
        (self.status() == ibv_wc_status::IBV_WC_SUCCESS).then_some(Success(self))
    }
}

impl<'cq> Success<'cq> {
    #[inline(always)]
    pub fn opcode(self) -> ibv_wc_opcode::Type {
        // SAFETY: promised of what succeeded.
        unsafe { (*self.0.at).opcode }
    }

    /// Whether it is a receive, by its opcode.
    pub fn says_receive(self) -> bool {
        self.opcode() & ibv_wc_opcode::IBV_WC_RECV != 0
    }

    /// # Safety
    /// It is a receive.
    #[inline(always)]
    pub unsafe fn arrival(self) -> Arrival<'cq> {
        Arrival(self.0)
    }

    /// What a READ or an atomic brought, in bytes.
    pub fn bytes_brought(self) -> Option<u32> {
        const BRING: [ibv_wc_opcode::Type; 3] = [
            ibv_wc_opcode::IBV_WC_RDMA_READ,
            ibv_wc_opcode::IBV_WC_COMP_SWAP,
            ibv_wc_opcode::IBV_WC_FETCH_ADD,
        ];
        // SAFETY: promised of these that succeeded.
        BRING.contains(&self.opcode()).then(|| unsafe { (*self.0.at).byte_len })
    }
}

impl<'cq> Arrival<'cq> {
    #[inline(always)]
    pub fn byte_len(self) -> u32 {
        // SAFETY: promised of a receive that succeeded.
        unsafe { (*self.0.at).byte_len }
    }

    #[inline(always)]
    fn has(self, flag: ibv_wc_flags) -> bool {
        // SAFETY: promised of a receive that succeeded.
        let flags = unsafe { (*self.0.at).wc_flags };
        flags & flag.0 != 0
    }

    /// In host order.
    #[inline(always)]
    pub fn imm_data(self) -> Option<u32> {
        if !self.has(ibv_wc_flags::IBV_WC_WITH_IMM) {
            return None;
        }
        // SAFETY: the pointer is good, and no reference is made.
        let union = unsafe { &raw const (*self.0.at).imm_data_invalidated_rkey_union };
        // SAFETY: the flag says that it is there, and it is all of the union.
        Some(u32::from_be(unsafe { union.cast::<u32>().read() }))
    }

    /// # Safety
    /// It is one of a UD queue pair.
    #[inline(always)]
    pub unsafe fn datagram(self) -> Datagram<'cq> {
        Datagram(self.0)
    }
}

impl Datagram<'_> {
    #[inline(always)]
    pub fn has_grh(self) -> bool {
        Arrival(self.0).has(ibv_wc_flags::IBV_WC_GRH)
    }

    #[inline(always)]
    pub fn src_qp(self) -> u32 {
        // SAFETY: promised of a datagram.
        unsafe { (*self.0.at).src_qp }
    }

    #[inline(always)]
    pub fn sl(self) -> u8 {
        // SAFETY: promised of a datagram.
        unsafe { (*self.0.at).sl }
    }

    #[inline(always)]
    pub fn slid(self) -> u16 {
        // SAFETY: promised of a datagram.
        unsafe { (*self.0.at).slid }
    }
}
