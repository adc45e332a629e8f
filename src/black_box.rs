//! Functions that return their argument through an empty `asm!`, which does not emit an
//! instruction. The compiler cannot see through `asm!`, so it cannot compute the value in another
//! way. It would do so in three loops and one load, at a cost:
//!
//! - `Completions::next`: `black_box` of the count avoids a second counter, which costs 2
//!   instructions per poll.
//! - `next_slot` of a list's slot: `black_box_pointer` of the next slot. The compiler would compute
//!   each address from the array and an index, which costs 5 of 22 instructions per slot.
//! - A ring's wr_ids in a chain: `black_box_word` of the previous wr_id, to which a constant is
//!   added. The compiler would add a different large constant to the first wr_id each time, which
//!   costs 1 instruction per work request.
//! - `emit_one` of a READ: `black_box` of the remote slice's length. The compiler would also load
//!   one half of its word, which costs 1 instruction.

#![allow(unsafe_code)] // an empty `asm!`

macro_rules! black_box {
    ($($name:ident $(<$of:ident>)?: $value:ty;)*) => {$(
        /// Returns the value, which the compiler cannot compute in another way.
        #[inline(always)]
        #[allow(unused_mut, asm_sub_register)] // it is not changed; the register is not named
        #[allow(clippy::pointers_in_nomem_asm_block)] // no instruction reads or writes memory
        pub(crate) fn $name$(<$of>)?(mut value: $value) -> $value {
            #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
            // SAFETY: there is no instruction.
            unsafe {
                std::arch::asm!(
                    "/* {0} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags)
                );
            }
            value
        }
    )*};
}

black_box! {
    black_box: u32;
    black_box_word: u64;
    black_box_pointer<S>: *mut S;
}
