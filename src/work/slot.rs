//! Stack slots: a C work request and its scatter/gather list, written in place.

#![allow(unsafe_code)] // writes C work requests

use std::mem::MaybeUninit;

use crate::sys::types::{ibv_recv_wr, ibv_send_wr, ibv_sge};

/// Room for one work request `W` and its elements `G`, an array of `ibv_sge`.
///
/// Its pointers (`next`, `sg_list`) are taken from one raw pointer and stay valid because the slot
/// does not move between emission and post.
#[repr(C)]
#[doc(hidden)]
pub struct Slot<W, G> {
    wr: MaybeUninit<W>,
    sges: MaybeUninit<G>,
}

#[doc(hidden)]
pub type SendSlot<G> = Slot<ibv_send_wr, G>;
#[doc(hidden)]
pub type RecvSlot<G> = Slot<ibv_recv_wr, G>;

impl<W, G> Slot<W, G> {
    #[inline(always)]
    pub fn new() -> Self {
        Slot { wr: MaybeUninit::uninit(), sges: MaybeUninit::uninit() }
    }

    /// # Safety
    /// `slot` is writable.
    #[inline(always)]
    pub(crate) unsafe fn wr(slot: *mut Self) -> *mut W {
        slot.cast()
    }

    /// # Safety
    /// `slot` is writable.
    #[inline(always)]
    pub(crate) unsafe fn sges(slot: *mut Self) -> *mut ibv_sge {
        // SAFETY: the field is inside the slot; no reference is made.
        unsafe { &raw mut (*slot).sges }.cast()
    }
}

impl<W, G> Default for Slot<W, G> {
    fn default() -> Self {
        Self::new()
    }
}
