//! Numbers and pointers of which LLVM is not to know where they come from.

#![allow(unsafe_code)] // an empty `asm!`

macro_rules! hidden {
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

hidden! {
    /// The same number.
    hidden, u32
}
hidden! {
    /// The same number.
    hidden_word, u64
}

/// The same pointer.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written: there is no instruction
pub(crate) fn hidden_pointer<S>(mut at: *mut S) -> *mut S {
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags));
    }
    at
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
#[inline(always)]
pub(crate) fn hidden_pointer<S>(at: *mut S) -> *mut S {
    at
}
