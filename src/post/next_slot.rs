//! Iterating over an array of slots with one pointer.

#![allow(unsafe_code)] // pointers

use crate::black_box::black_box_pointer;

/// Returns the slot at `at` and the one after it, which exists or is one past the last.
///
/// Hides from LLVM that the second pointer is the first plus a constant, and computes the first
/// pointer from the second. So a loop keeps one pointer and addresses the current slot relative to
/// it. Otherwise LLVM computes each address from the array and an index: 5 instructions of 22 per
/// slot.
///
/// # Safety
/// There is a slot at `at`.
#[inline(always)]
pub(crate) unsafe fn next_slot<S>(at: *mut S) -> (*mut S, *mut S) {
    // SAFETY: `next` is at most one past the last slot, and one before it is `at`.
    unsafe {
        let next = black_box_pointer(at.add(1));
        (next.sub(1), next)
    }
}
