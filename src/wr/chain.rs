//! Lists of C work requests, linked by `next`, whatever their kind.

#![allow(unsafe_code)] // follows C's links

use crate::sys::types::{ibv_recv_wr, ibv_send_wr};

/// `ibv_send_wr` or `ibv_recv_wr`.
pub(crate) trait Link: Sized {
    /// # Safety
    /// `this` is an emitted work request.
    unsafe fn next(this: *mut Self) -> *mut Self;

    /// # Safety
    /// `this` is an emitted work request.
    unsafe fn wr_id(this: *mut Self) -> u64;
}

macro_rules! link {
    ($($wr:ty)*) => {$(
        impl Link for $wr {
            #[inline(always)]
            unsafe fn next(this: *mut Self) -> *mut Self {
                // SAFETY: the caller's contract.
                unsafe { (*this).next }
            }

            #[inline(always)]
            unsafe fn wr_id(this: *mut Self) -> u64 {
                // SAFETY: the caller's contract.
                unsafe { (*this).wr_id }
            }
        }
    )*};
}

link!(ibv_send_wr ibv_recv_wr);

/// Each work request of a list, in order.
///
/// # Safety
/// `first` is null, or a list of emitted work requests ended by null, which stay as long as the
/// iterator is used.
#[inline(always)]
pub(crate) unsafe fn iter<W: Link>(first: *mut W) -> impl Iterator<Item = *mut W> {
    let mut at = first;
    std::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        let this = at;
        // SAFETY: the caller's contract.
        at = unsafe { W::next(this) };
        Some(this)
    })
}

/// Where `bad` is in the list; `None` if it is not (null, for one), which tells nothing.
///
/// # Safety
/// As for `iter`.
pub(crate) unsafe fn index_of<W: Link>(first: *mut W, bad: *mut W) -> Option<u32> {
    // SAFETY: the caller's contract.
    unsafe { iter(first) }.position(|wr| wr == bad).map(|index| index as u32)
}

/// The bytes in the gather list of a work request: 64 bits, since a list can exceed 32 (R2.8).
///
/// # Safety
/// `wr` is emitted.
pub(crate) unsafe fn bytes(wr: *mut ibv_send_wr) -> u64 {
    // SAFETY: the caller's contract.
    let sges = unsafe { (*wr).sg_list };
    // SAFETY: as above.
    let count = unsafe { (*wr).num_sge } as usize;
    let length = |i| {
        // SAFETY: element `i` of `count`.
        let sge = unsafe { sges.add(i) };
        // SAFETY: it is written.
        u64::from(unsafe { (*sge).length })
    };
    (0..count).map(length).sum()
}

/// Leaves out the elements of no bytes: some devices read length 0 as 2^31 (R3.3).
///
/// # Safety
/// As for `iter`; the gather lists are writable.
#[cold]
pub(crate) unsafe fn drop_empty(first: *mut ibv_send_wr) {
    // SAFETY: the caller's contract.
    for wr in unsafe { iter(first) } {
        // SAFETY: as above.
        let sges = unsafe { (*wr).sg_list };
        // SAFETY: as above.
        let count = unsafe { (*wr).num_sge };
        let mut kept = 0;
        for i in 0..count as usize {
            // SAFETY: element `i` of `count`.
            let from = unsafe { sges.add(i) };
            // SAFETY: as above; `kept` is at most `i`.
            let to = unsafe { sges.add(kept) };
            // SAFETY: as above.
            let sge = unsafe { from.read() };
            if sge.length != 0 {
                // SAFETY: as above.
                unsafe { to.write(sge) };
                kept += 1;
            }
        }
        // SAFETY: as above.
        unsafe { (*wr).num_sge = kept as i32 };
    }
}
