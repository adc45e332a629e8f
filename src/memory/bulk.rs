//! Whole words between memory that others may touch meanwhile and memory of this program's own, at
//! the speed of memcpy.
//!
//! Short runs, and all under Miri and on other processors, are accesses to one word after the
//! other. LLVM never makes wider ones of them, so longer runs are copied by vector instructions in
//! inline assembly, which Rust does not see through: what it must do for Rust is what Rust code
//! could have done. It does what relaxed accesses to each word would, in some order:
//!
//! - It touches the same bytes: whole words, each once.
//! - No word is torn. On aarch64 a vector of 128 bits at a multiple of 8 is two words, each of which
//!   is accessed at once (Arm ARM, "single-copy atomicity"). On x86-64 processors with AVX access 16
//!   aligned bytes at once (Intel SDM volume 3, AMD APM volume 2). Of others the manuals do not
//!   speak; processors access what lies in one cache line at once, or in aligned halves of 16 bytes,
//!   and no aligned word lies in two lines. Java's virtual machines copy arrays of references in
//!   this way, which must not tear either.
//! - It orders nothing else, as relaxed accesses do not.

#![allow(unsafe_code)] // accesses raw memory

use std::ptr::NonNull;

pub(super) const WORD: usize = size_of::<u64>();

/// Copies words from `at` on to `out`, each with `word` or as `word` does.
///
/// # Safety
/// `at` is aligned and `out` as long as a number of words; as many words at `at` may be passed to
/// `word`. `word` accesses the word that it is given, once.
#[inline(always)]
pub(super) unsafe fn load(at: NonNull<u64>, out: &mut [u8], word: impl Fn(NonNull<u64>) -> u64) {
    // SAFETY: `out` may be written, and what is loaded is the caller's part.
    unsafe {
        let one = |from: NonNull<u64>, to: NonNull<u64>| to.write_unaligned(word(from));
        copy(at, NonNull::from(&mut *out).cast(), out.len(), one);
    }
}

/// Copies `bytes` to the words from `at` on, each with `word` or as `word` does.
///
/// # Safety
/// `at` is aligned and `bytes` as long as a number of words; as many words at `at` may be passed to
/// `word`. `word` accesses the word that it is given, once.
#[inline(always)]
pub(super) unsafe fn store(at: NonNull<u64>, bytes: &[u8], word: impl Fn(NonNull<u64>, u64)) {
    // SAFETY: `bytes` may be read, and what is stored is the caller's part.
    unsafe {
        let one = |from: NonNull<u64>, to: NonNull<u64>| word(to, from.read_unaligned());
        copy(NonNull::from(bytes).cast(), at, bytes.len(), one);
    }
}

/// Copies `left` bytes, word by word with `one` or as `one` does.
///
/// # Safety
/// `left` is the size of a number of words, as many as may be passed to `one` from `from` and `to`
/// on. Those on the shared side are aligned.
#[inline(always)]
unsafe fn copy(
    mut from: NonNull<u64>,
    mut to: NonNull<u64>,
    mut left: usize,
    one: impl Fn(NonNull<u64>, NonNull<u64>),
) {
    debug_assert!(left % WORD == 0);
    if left >= vectors::LEAST && vectors::are_there() {
        // SAFETY: the caller's part; there are such instructions.
        return unsafe { vectors::copy(from, to, left) };
    }
    while left != 0 {
        one(from, to);
        // SAFETY: at most the end of what there is: the steps are `left` bytes in all.
        unsafe { (from, to) = (from.add(1), to.add(1)) };
        left -= WORD;
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use std::arch::asm;
    use std::ptr::NonNull;

    /// From so many bytes on they are faster than words.
    pub const LEAST: usize = 32;

    #[inline(always)]
    pub fn are_there() -> bool {
        std::arch::is_x86_feature_detected!("avx")
    }

    /// # Safety
    /// The processor has AVX. The words of `len` bytes may be loaded at `from` and stored at `to`;
    /// those on the shared side are aligned.
    #[inline(never)]
    pub unsafe fn copy(from: NonNull<u64>, to: NonNull<u64>, len: usize) {
        // SAFETY: it accesses the words that it may, as the page says, and what it is declared to
        // change.
        unsafe {
            asm!(
                "cmp rdx, 128",
                "jb 3f",
                "2:",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                "vmovdqu ymm2, [rsi + 64]",
                "vmovdqu ymm3, [rsi + 96]",
                "vmovdqu [rdi], ymm0",
                "vmovdqu [rdi + 32], ymm1",
                "vmovdqu [rdi + 64], ymm2",
                "vmovdqu [rdi + 96], ymm3",
                "add rsi, 128",
                "add rdi, 128",
                "sub rdx, 128",
                "cmp rdx, 128",
                "jae 2b",
                "3:",
                "test dl, 64",
                "jz 4f",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                "vmovdqu [rdi], ymm0",
                "vmovdqu [rdi + 32], ymm1",
                "add rsi, 64",
                "add rdi, 64",
                "4:",
                "test dl, 56",
                "jz 7f",
                "test dl, 32",
                "jz 5f",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu [rdi], ymm0",
                "add rsi, 32",
                "add rdi, 32",
                "5:",
                "test dl, 16",
                "jz 6f",
                "vmovdqu xmm0, [rsi]",
                "vmovdqu [rdi], xmm0",
                "add rsi, 16",
                "add rdi, 16",
                "6:",
                "test dl, 8",
                "jz 7f",
                "mov rax, [rsi]",
                "mov [rdi], rax",
                "7:",
                "vzeroupper",
                inout("rdi") to.as_ptr() => _,
                inout("rsi") from.as_ptr() => _,
                inout("rdx") len => _,
                clobber_abi("C"), // all vector registers: the upper halves become zero
                options(nostack),
            );
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod vectors {
    use std::arch::asm;
    use std::ptr::NonNull;

    /// From so many bytes on they are faster than words.
    pub const LEAST: usize = 32;

    #[inline(always)]
    pub fn are_there() -> bool {
        true
    }

    /// # Safety
    /// The words of `len` bytes, at least 32, may be loaded at `from` and stored at `to`; those on
    /// the shared side are aligned.
    #[inline(never)]
    pub unsafe fn copy(from: NonNull<u64>, to: NonNull<u64>, len: usize) {
        // SAFETY: it accesses the words that it may, as the page says, and what it is declared to
        // change.
        unsafe {
            asm!(
                "sub {len}, {len}, #32",
                "2:",
                "ldp {a:q}, {b:q}, [{from}], #32",
                "stp {a:q}, {b:q}, [{to}], #32",
                "subs {len}, {len}, #32",
                "b.hs 2b",
                "tbz {len}, #4, 3f",
                "ldr {a:q}, [{from}], #16",
                "str {a:q}, [{to}], #16",
                "3:",
                "tbz {len}, #3, 4f",
                "ldr {a:d}, [{from}]",
                "str {a:d}, [{to}]",
                "4:",
                from = inout(reg) from.as_ptr() => _,
                to = inout(reg) to.as_ptr() => _,
                len = inout(reg) len => _,
                a = out(vreg) _,
                b = out(vreg) _,
                options(nostack),
            );
        }
    }
}

/// There are only words.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod vectors {
    use std::ptr::NonNull;

    pub const LEAST: usize = usize::MAX;

    #[inline(always)]
    pub fn are_there() -> bool {
        false
    }

    /// # Safety
    /// It is not called.
    pub unsafe fn copy(_: NonNull<u64>, _: NonNull<u64>, _: usize) {
        unreachable!("words, and no vectors")
    }
}
