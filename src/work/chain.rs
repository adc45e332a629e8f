//! Lists of C work requests, linked by `next`, whatever their kind.

#![allow(unsafe_code)] // follows C's links

use crate::sys::data::Link;
use crate::sys::types::ibv_send_wr;

/// Each work request of a list, in order.
///
/// # Safety
/// `first` is null, or a list of emitted work requests ended by null, which stay as long as the
/// iterator is used.
#[inline(always)]
pub(crate) unsafe fn iter<W: Link>(first: *mut W) -> impl Iterator<Item = *mut W> {
    let mut at = first;
    std::iter::from_fn(move || {
        let this = at;
        // SAFETY: what is not null in a list is an emitted work request, whose link is written.
        (!this.is_null()).then(|| at = unsafe { (*Link::head(this)).next }).map(|()| this)
    })
}

/// Where `bad` is in the list; `None` if it is not (null, for one), which tells nothing.
///
/// # Safety
/// As for `iter`.
pub(crate) unsafe fn index_of<W: Link>(first: *mut W, bad: *mut W) -> Option<u32> {
    // SAFETY: the caller's list outlives this call, and with it the iterator.
    unsafe { iter(first) }.position(|wr| wr == bad).map(|index| index as u32)
}

/// Leaves out the elements of no bytes, since some devices read length 0 as 2^31 (R3.3), and gives
/// the bytes in the others: 64 bits, since a list can exceed 32 (R2.8).
///
/// # Safety
/// `wr` is emitted, and its gather list writable, if it has several elements.
#[cold]
pub(crate) unsafe fn trim(wr: *mut ibv_send_wr) -> u64 {
    let (mut kept, mut bytes) = (0, 0);
    // SAFETY: an emitted work request has `num_sge` written elements from `sg_list` on; `kept`
    // never passes `i`.
    unsafe {
        let sges = (*wr).sg_list;
        for i in 0..(*wr).num_sge as usize {
            let sge = *sges.add(i);
            if sge.length != 0 {
                if kept != i {
                    *sges.add(kept) = sge;
                }
                kept += 1;
                bytes += u64::from(sge.length);
            }
        }
        (*wr).num_sge = kept as i32;
    }
    bytes
}
