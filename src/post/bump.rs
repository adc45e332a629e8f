//! Going through an array of slots with one pointer.

#![allow(unsafe_code)] // an empty `asm!`

/// The slot at `at` and the one after it, which exists or is one past the last.
///
/// Hides from LLVM that the second is the first plus a constant, and gives the first as the second
/// less one: so a loop keeps one pointer and addresses the current slot from there. Otherwise LLVM
/// computes each address from the array and an index: 5 instructions a slot, of 22.
///
/// # Safety
/// There is a slot at `at`.
#[inline(always)]
pub(crate) unsafe fn bump<S>(at: *mut S) -> (*mut S, *mut S) {
    // SAFETY: `next` is at most one past the last slot, and one before it is `at`.
    unsafe {
        let next = opaque(at.add(1));
        (next.sub(1), next)
    }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written: there is no instruction
fn opaque<S>(mut at: *mut S) -> *mut S {
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    at
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
#[inline(always)]
fn opaque<S>(at: *mut S) -> *mut S {
    at
}
