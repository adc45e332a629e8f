//! Functions that give back the value that they are given, through an empty `asm!`. They are no
//! instruction. But the compiler does not look into `asm!`, so it cannot compute the value in
//! another way: it would rather do that, in three loops and one load, at a cost.
//!
//! - `Completions::next`: `black_box` of the count spares a second counter, 2 instructions a poll.
//! - `next_slot` of a list's slot: `black_box_pointer` of the next one. The compiler would compute
//!   each address from the array and an index: 5 instructions a slot, of 22.
//! - A ring's wr_ids in a chain: `black_box_word` of the last one, to which the same constant is
//!   added. The compiler would add a large constant of its own to the first: 1 instruction a work
//!   request.
//! - `emit_one` of a READ: `black_box` of the remote slice's length, of whose word one half would
//!   be loaded besides: 1 instruction.

#![allow(unsafe_code)] // an empty `asm!`

macro_rules! black_box {
    ($(#[$doc:meta])* $name:ident, $number:ty) => {
        $(#[$doc])*
        #[inline(always)]
        #[allow(unused_mut, asm_sub_register)] // nothing is done to it; the register is not named
        pub(crate) fn $name(mut number: $number) -> $number {
            #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
            // SAFETY: no instruction.
            unsafe {
                std::arch::asm!(
                    "/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags)
                );
            }
            number
        }
    };
}

black_box! {
    /// The number, not to be computed in another way.
    black_box, u32
}
black_box! {
    /// The number, not to be computed in another way.
    black_box_word, u64
}

/// The pointer, not to be computed in another way.
#[inline(always)]
#[allow(unused_mut)]
#[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written: there is no instruction
pub(crate) fn black_box_pointer<S>(mut at: *mut S) -> *mut S {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    at
}
