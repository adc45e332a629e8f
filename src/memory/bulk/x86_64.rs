//! Vectors of 64 bytes, where there are AVX-512 registers, or of 32.

use std::arch::{asm, is_x86_feature_detected};
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

/// From so many bytes on a call is worth it.
pub const LEAST: usize = 64;

/// From so many bytes on `rep movsq` is faster: it keeps what it writes out of the first cache.
const LONG: usize = 1 << 15;

/// Copies words.
///
/// # Safety
/// The words of as many bytes, at least `LEAST`, may be stored at the first address and loaded
/// at the second; those on the shared side are aligned.
type Copy = unsafe extern "C" fn(NonNull<u64>, NonNull<u64>, usize);

/// The way that this processor copies best, from shared memory or to it.
///
/// # Invariants
/// It is a `Copy` in this direction that the processor has the instructions for. (Threads may
/// find it at the same time: they store the same.)
struct Best(AtomicPtr<()>);

static LOAD: Best = Best(AtomicPtr::new(find_load as Copy as *mut ()));
static STORE: Best = Best(AtomicPtr::new(find_store as Copy as *mut ()));

impl Best {
    #[inline(always)]
    fn get(&self) -> Copy {
        // SAFETY: it is a `Copy` (invariant).
        unsafe { std::mem::transmute::<*mut (), Copy>(self.0.load(Relaxed)) }
    }

    fn find(&self, by_64: Copy, by_32: Copy) -> Copy {
        let best = match () {
            _ if is_x86_feature_detected!("avx512vl") => by_64,
            _ if is_x86_feature_detected!("avx") => by_32,
            _ => by_8,
        };
        self.0.store(best as *mut (), Relaxed);
        best
    }
}

/// From shared memory.
///
/// # Safety
/// As for a `Copy`.
#[inline(always)]
pub unsafe fn load(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: this function's contract.
    unsafe { LOAD.get()(to, from, len) }
}

/// To shared memory.
///
/// # Safety
/// As for a `Copy`.
#[inline(always)]
pub unsafe fn store(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: this function's contract.
    unsafe { STORE.get()(to, from, len) }
}

/// # Safety
/// As for a `Copy`.
#[cold]
unsafe extern "C" fn find_load(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: this function's contract; the processor has the instructions.
    unsafe { LOAD.find(load_by_64, load_by_32)(to, from, len) }
}

/// # Safety
/// As for a `Copy`.
#[cold]
unsafe extern "C" fn find_store(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: this function's contract; the processor has the instructions.
    unsafe { STORE.find(store_by_64, store_by_32)(to, from, len) }
}

/// # Safety
/// As for a `Copy`; the processor has AVX-512 (F and VL).
unsafe extern "C" fn load_by_64(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: it accesses the words that it may, as `bulk` says, and what it is declared to
    // change. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        asm!(
            "
                cmp rdx, 128; ja 2f
                vmovdqu64 zmm16, [rsi]; vmovdqu64 zmm17, [rsi + rdx - 64]
                vmovdqu64 [rdi], zmm16; vmovdqu64 [rdi + rdx - 64], zmm17; jmp 6f
            2:
                cmp rdx, 256; ja 3f
                vmovdqu64 zmm16, [rsi]; vmovdqu64 zmm17, [rsi + 64]
                vmovdqu64 zmm18, [rsi + rdx - 128]; vmovdqu64 zmm19, [rsi + rdx - 64]
                vmovdqu64 [rdi], zmm16; vmovdqu64 [rdi + 64], zmm17
                vmovdqu64 [rdi + rdx - 128], zmm18; vmovdqu64 [rdi + rdx - 64], zmm19
                jmp 6f
            3:
                cmp rdx, {LONG}; jae 5f
            4:
                vmovdqu64 zmm16, [rsi]; vmovdqu64 zmm17, [rsi + 64]
                vmovdqu64 zmm18, [rsi + 128]; vmovdqu64 zmm19, [rsi + 192]
                vmovdqu64 [rdi], zmm16; vmovdqu64 [rdi + 64], zmm17
                vmovdqu64 [rdi + 128], zmm18; vmovdqu64 [rdi + 192], zmm19; add rsi, 256
                add rdi, 256; sub rdx, 256; cmp rdx, 256; ja 4b
                vmovdqu64 zmm16, [rsi + rdx - 256]; vmovdqu64 zmm17, [rsi + rdx - 192]
                vmovdqu64 zmm18, [rsi + rdx - 128]; vmovdqu64 zmm19, [rsi + rdx - 64]
                vmovdqu64 [rdi + rdx - 256], zmm16; vmovdqu64 [rdi + rdx - 192], zmm17
                vmovdqu64 [rdi + rdx - 128], zmm18; vmovdqu64 [rdi + rdx - 64], zmm19
                jmp 6f
            5:
                mov rcx, rdx; shr rcx, 3; rep movsq
            6:
            ",
            LONG = const LONG,
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdx") len => _,
            clobber_abi("C"), // all vector registers, rax, rcx
            options(nostack),
        );
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX.
unsafe extern "C" fn load_by_32(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: it accesses the words that it may, as `bulk` says, and what it is declared to
    // change. The upper halves of all registers are 0 afterwards.
    unsafe {
        asm!(
            "
                cmp rdx, 64; ja 2f
                vmovdqu ymm0, [rsi]; vmovdqu ymm1, [rsi + rdx - 32]; vmovdqu [rdi], ymm0
                vmovdqu [rdi + rdx - 32], ymm1; jmp 6f
            2:
                cmp rdx, 128; ja 3f
                vmovdqu ymm0, [rsi]; vmovdqu ymm1, [rsi + 32]
                vmovdqu ymm2, [rsi + rdx - 64]; vmovdqu ymm3, [rsi + rdx - 32]
                vmovdqu [rdi], ymm0; vmovdqu [rdi + 32], ymm1
                vmovdqu [rdi + rdx - 64], ymm2; vmovdqu [rdi + rdx - 32], ymm3; jmp 6f
            3:
                cmp rdx, {LONG}; jae 5f
            4:
                vmovdqu ymm0, [rsi]; vmovdqu ymm1, [rsi + 32]; vmovdqu ymm2, [rsi + 64]
                vmovdqu ymm3, [rsi + 96]; vmovdqu [rdi], ymm0; vmovdqu [rdi + 32], ymm1
                vmovdqu [rdi + 64], ymm2; vmovdqu [rdi + 96], ymm3; add rsi, 128
                add rdi, 128; sub rdx, 128; cmp rdx, 128; ja 4b
                vmovdqu ymm0, [rsi + rdx - 128]; vmovdqu ymm1, [rsi + rdx - 96]
                vmovdqu ymm2, [rsi + rdx - 64]; vmovdqu ymm3, [rsi + rdx - 32]
                vmovdqu [rdi + rdx - 128], ymm0; vmovdqu [rdi + rdx - 96], ymm1
                vmovdqu [rdi + rdx - 64], ymm2; vmovdqu [rdi + rdx - 32], ymm3; jmp 6f
            5:
                mov rcx, rdx; shr rcx, 3; rep movsq
            6:
                vzeroupper
            ",
            LONG = const LONG,
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdx") len => _,
            clobber_abi("C"), // all vector registers, rax, rcx
            options(nostack),
        );
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX-512 (F and VL).
unsafe extern "C" fn store_by_64(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: it accesses the words that it may, as `bulk` says, and what it is declared to
    // change. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        asm!(
            "
            2:
                cmp rdx, 128; jae 6f
                cmp rdx, 64; jb 3f
                vmovdqu64 zmm16, [rsi]; vmovdqu64 [rdi], zmm16; sub edx, 64; jz 9f
                add rsi, 64; add rdi, 64
            3:
                test edx, 32; jz 4f
                vmovdqu64 ymm16, [rsi]; add rsi, 32; vmovdqu64 [rdi], ymm16; add rdi, 32
                sub edx, 32; jz 9f
            4:
                test edx, 16; jz 5f
                vmovdqu64 xmm16, [rsi]; add rsi, 16; vmovdqu64 [rdi], xmm16; add rdi, 16
                sub edx, 16; jz 9f
            5:
                mov rax, [rsi]; mov [rdi], rax; jmp 9f
            6:
                cmp rdx, 256; jae 7f
                vmovdqu64 zmm16, [rsi]; vmovdqu64 zmm17, [rsi + 64]; vmovdqu64 [rdi], zmm16
                vmovdqu64 [rdi + 64], zmm17; sub edx, 128; jz 9f
                add rsi, 128; add rdi, 128; jmp 2b
            7:
                cmp rdx, {LONG}; jae 8f
            22:
                vmovdqu64 zmm16, [rsi]; vmovdqu64 zmm17, [rsi + 64]
                vmovdqu64 zmm18, [rsi + 128]; vmovdqu64 zmm19, [rsi + 192]
                vmovdqu64 [rdi], zmm16; vmovdqu64 [rdi + 64], zmm17
                vmovdqu64 [rdi + 128], zmm18; vmovdqu64 [rdi + 192], zmm19; sub rdx, 256
                jz 9f
                add rsi, 256; add rdi, 256; cmp rdx, 256; jae 22b
                jmp 2b
            8:
                mov rcx, rdx; shr rcx, 3; rep movsq
            9:
            ",
            LONG = const LONG,
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdx") len => _,
            clobber_abi("C"), // all vector registers, rax, rcx
            options(nostack),
        );
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX.
unsafe extern "C" fn store_by_32(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: it accesses the words that it may, as `bulk` says, and what it is declared to
    // change. The upper halves of all registers are 0 afterwards.
    unsafe {
        asm!(
            "
                cmp rdx, {LONG}; jae 8f
                cmp rdx, 128; jb 3f
            2:
                vmovdqu ymm0, [rsi]; vmovdqu ymm1, [rsi + 32]; vmovdqu ymm2, [rsi + 64]
                vmovdqu ymm3, [rsi + 96]; vmovdqu [rdi], ymm0; vmovdqu [rdi + 32], ymm1
                vmovdqu [rdi + 64], ymm2; vmovdqu [rdi + 96], ymm3; sub rdx, 128; jz 9f
                add rsi, 128; add rdi, 128; cmp rdx, 128; jae 2b
            3:
                test edx, 64; jz 4f
                vmovdqu ymm0, [rsi]; vmovdqu ymm1, [rsi + 32]; vmovdqu [rdi], ymm0
                vmovdqu [rdi + 32], ymm1; sub edx, 64; jz 9f
                add rsi, 64; add rdi, 64
            4:
                test edx, 32; jz 5f
                vmovdqu ymm0, [rsi]; add rsi, 32; vmovdqu [rdi], ymm0; add rdi, 32
                sub edx, 32; jz 9f
            5:
                test edx, 16; jz 6f
                vmovdqu xmm0, [rsi]; add rsi, 16; vmovdqu [rdi], xmm0; add rdi, 16
                sub edx, 16; jz 9f
            6:
                mov rax, [rsi]; mov [rdi], rax; jmp 9f
            8:
                mov rcx, rdx; shr rcx, 3; rep movsq
            9:
                vzeroupper
            ",
            LONG = const LONG,
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdx") len => _,
            clobber_abi("C"), // all vector registers, rax, rcx
            options(nostack),
        );
    }
}

/// # Safety
/// As for a `Copy`; `len` is not 0.
unsafe extern "C" fn by_8(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: it accesses the words that it may, as `bulk` says, and what it is declared to
    // change.
    unsafe {
        asm!(
            "
            2:
                mov rax, [rsi + rdx - 8]; mov [rdi + rdx - 8], rax; sub rdx, 8; jnz 2b
            ",
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdx") len => _,
            clobber_abi("C"), // all vector registers, rax, rcx
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every copy that this processor has instructions for, against a plain array.
    #[test]
    fn each_way_copies_words() {
        const MOST: usize = LONG / 8 + 2;
        let mut ways: Vec<(&str, Copy)> = vec![("by_8", by_8)];
        if is_x86_feature_detected!("avx") {
            ways.extend([("load_by_32", load_by_32 as Copy), ("store_by_32", store_by_32)]);
        }
        if is_x86_feature_detected!("avx512vl") {
            ways.extend([("load_by_64", load_by_64 as Copy), ("store_by_64", store_by_64)]);
        }
        let from: Vec<u64> = (1..MOST as u64 + 8).collect();
        for (name, way) in ways {
            for words in (8..120).chain(MOST - 3..MOST) {
                for skip in 0..8 {
                    let mut to = vec![0; words + 10];
                    let (at, source) = (NonNull::from(&mut to[1 + skip..]), &from[skip..]);
                    // SAFETY: both have as many words from there on.
                    unsafe { way(at.cast(), NonNull::from(source).cast(), words * 8) };
                    assert_eq!(to[1 + skip..][..words], source[..words], "{name}: {words}");
                    let rest = to.iter().filter(|&&word| word == 0).count();
                    assert_eq!(rest, 10, "{name}: {words} at {skip}");
                }
            }
        }
    }
}
