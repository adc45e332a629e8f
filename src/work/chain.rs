//! Lists of C work requests of any kind, linked by `next`.

#![allow(unsafe_code)] // follows C's links

use crate::sys::data::Link;
use crate::sys::types::ibv_sge;

/// The work requests of a list, in order.
///
/// # Safety
/// `first` is null, or the first of a list of emitted work requests that ends with null. The list
/// must outlive the iterator.
#[inline(always)]
pub(crate) unsafe fn iter<W: Link>(first: *mut W) -> impl Iterator<Item = *mut W> {
    let mut at = first;
    std::iter::from_fn(move || {
        let this = at;
        // SAFETY: a non-null pointer in the list is an emitted work request, whose `next` is
        // written.
        (!this.is_null()).then(|| at = unsafe { (*Link::head(this)).next }).map(|()| this)
    })
}

/// The index of `bad` in the list, or `None` if it is not in it, such as null.
///
/// # Safety
/// As for `iter`.
pub(crate) unsafe fn index_of<W: Link>(first: *mut W, bad: *mut W) -> Option<u32> {
    // SAFETY: the caller's list outlives this call, and so the iterator.
    unsafe { iter(first) }.position(|wr| wr == bad).map(|index| index as u32)
}

/// Removes zero-length elements, because some devices read length 0 as 2^31 (R3.3). Returns the
/// number of bytes in the others, in 64 bits, because a list can exceed 32 bits (R2.8).
///
/// # Safety
/// An emitted work request has these elements. If there are several, the list is writable.
#[cold]
pub(crate) unsafe fn trim(sges: *mut ibv_sge, count: &mut i32) -> u64 {
    let (mut kept, mut bytes) = (0, 0);
    // SAFETY: there are `count` written elements, and `kept` never exceeds `i`.
    unsafe {
        for i in 0..*count as usize {
            let sge = *sges.add(i);
            if sge.length != 0 {
                if kept != i {
                    *sges.add(kept) = sge;
                }
                kept += 1;
                bytes += u64::from(sge.length);
            }
        }
    }
    *count = kept as i32;
    bytes
}
