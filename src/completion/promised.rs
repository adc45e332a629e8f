//! The fields of an `ibv_wc`, each readable only where ibv_poll_cq(3) promises it.
//!
//! A provider need not write the other fields: they hold values of an earlier completion, or are
//! uninitialised. So fields are read one by one through a pointer; a reference would claim that all
//! of them are initialised.

#![allow(unsafe_code)] // reads C structs

use std::marker::PhantomData;

use crate::sys::types::{ibv_wc, ibv_wc_flags, ibv_wc_opcode, ibv_wc_status};

/// A completion. Its wr_id, status, qp_num and vendor_err are always promised.
///
/// # Invariants
/// A provider's poll wrote `at`, and nothing writes to it for `'cq`.
#[derive(Clone, Copy)]
pub(crate) struct Promised<'cq> {
    at: *const ibv_wc,
    _borrowed: PhantomData<&'cq ibv_wc>,
}

// SAFETY: it points to memory that is read and, for `'cq`, not written: it is no more than a
// `&'cq ibv_wc`. (`Completion` is what keeps a completion on its thread.)
unsafe impl Send for Promised<'_> {}
// SAFETY: it only reads, and nothing writes to the memory for `'cq`.
unsafe impl Sync for Promised<'_> {}

/// A completion that succeeded: its opcode is promised too.
#[derive(Clone, Copy)]
pub(crate) struct Success<'cq>(Promised<'cq>);

/// A receive that succeeded: promised too are its byte_len, its wc_flags, and with IBV_WC_WITH_IMM
/// its imm_data.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'cq>(Promised<'cq>);

/// A receive of a UD queue pair that succeeded: its source is promised too.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'cq>(Promised<'cq>);

impl<'cq> Promised<'cq> {
    /// # Safety
    /// A provider's poll wrote `at`, and nothing writes to it for `'cq`.
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
        // SAFETY: promised of every completion.
        unsafe { (*self.at).status }
    }

    #[inline(always)]
    pub fn qp_num(self) -> u32 {
        // SAFETY: promised of every completion.
        unsafe { (*self.at).qp_num }
    }

    #[inline(always)]
    pub fn vendor_err(self) -> u32 {
        // SAFETY: promised of every completion.
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
        // SAFETY: promised of every success.
        unsafe { (*self.0.at).opcode }
    }

    /// Whether it is a receive, by its opcode.
    pub fn says_receive(self) -> bool {
        self.opcode() & ibv_wc_opcode::IBV_WC_RECV != 0
    }

    /// # Safety
    /// The completion is of a receive.
    #[inline(always)]
    pub unsafe fn arrival(self) -> Arrival<'cq> {
        Arrival(self.0)
    }

    /// The number of bytes that a READ or an atomic brought.
    pub fn bytes_brought(self) -> Option<u32> {
        const BRING: [ibv_wc_opcode::Type; 3] = [
            ibv_wc_opcode::IBV_WC_RDMA_READ,
            ibv_wc_opcode::IBV_WC_COMP_SWAP,
            ibv_wc_opcode::IBV_WC_FETCH_ADD,
        ];
        // SAFETY: promised of these opcodes when they succeed.
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

    /// What stands in the union of `imm_data` and `invalidated_rkey`, if `flag` says that it is
    /// there.
    #[inline(always)]
    pub fn word(self, flag: ibv_wc_flags) -> Option<u32> {
        if !self.has(flag) {
            return None;
        }
        // SAFETY: the flag promises the union, which is one u32; no reference to the rest is made.
        let word = unsafe {
            let union = &raw const (*self.0.at).imm_data_invalidated_rkey_union;
            union.cast::<u32>().read()
        };
        Some(word)
    }

    /// The immediate, in host order.
    #[inline(always)]
    pub fn imm_data(self) -> Option<u32> {
        self.word(ibv_wc_flags::IBV_WC_WITH_IMM).map(u32::from_be)
    }

    /// # Safety
    /// The receive was of a UD queue pair.
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
