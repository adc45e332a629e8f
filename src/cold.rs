//! Results of cold functions.

#![allow(unsafe_code)] // out-pointers

use std::mem::MaybeUninit;

/// What `fill` writes. A cold function that returns a large value writes it to the place of the hot path's
/// result, which then has to be in memory; through a local of its own it does not.
#[inline(always)]
pub(crate) fn out_of_line<R>(fill: impl FnOnce(*mut R)) -> R {
    let mut out = MaybeUninit::uninit();
    fill(out.as_mut_ptr());
    // SAFETY: `fill` wrote it.
    unsafe { out.assume_init() }
}
