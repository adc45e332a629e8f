//! Vectors of 64 bytes, where there are AVX-512 registers, or of 32.
//!
//! What takes time in a short copy are its jumps. So each length has a way of its own, which ends
//! in a `ret`, and the shortest have the straightest.

use std::arch::{asm, is_x86_feature_detected};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use crate::cold::seldom;

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

/// Copies of at most so many bytes are made where they are asked for, by vectors of 64 bytes.
///
/// # Invariants
/// It is at most 128, and 0 unless the processor has AVX-512 (F and VL).
static SHORT: AtomicUsize = AtomicUsize::new(0);

impl Best {
    #[inline(always)]
    fn get(&self) -> Copy {
        // SAFETY: it is a `Copy` (invariant).
        unsafe { std::mem::transmute::<*mut (), Copy>(self.0.load(Relaxed)) }
    }

    fn find(&self, by_64: Copy, by_32: Copy) -> Copy {
        let has = (is_x86_feature_detected!("avx512vl"), is_x86_feature_detected!("avx"));
        let (best, short) = best_of(has, by_64, by_32);
        SHORT.store(short, Relaxed);
        self.0.store(best as *mut (), Relaxed);
        best
    }
}

/// The best copy, and the most bytes of a short one, of a processor that has AVX-512 (F and VL), and
/// AVX.
fn best_of(has: (bool, bool), by_64: Copy, by_32: Copy) -> (Copy, usize) {
    match has {
        (true, _) => (by_64, 128),
        (false, true) => (by_32, 0),
        (false, false) => (by_8, 0),
    }
}

/// From shared memory.
///
/// # Safety
/// As for a `Copy`.
#[inline(always)]
pub unsafe fn load(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the words are the caller's part. `SHORT` is no less than a length only if that is at
    // most 128, and the processor has AVX-512; `LOAD` always has what its copy needs, and is one
    // from shared memory (invariants).
    unsafe {
        if len > SHORT.load(Relaxed) {
            seldom(); // or not: but a jump is less there
            return LOAD.get()(to, from, len);
        }
        load_short(to, from, len);
    }
}

/// To shared memory.
///
/// # Safety
/// As for a `Copy`.
#[inline(always)]
pub unsafe fn store(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the words are the caller's part. `SHORT` is no less than a length only if that is at
    // most 128, and the processor has AVX-512; `STORE` always has what its copy needs, and is one
    // to shared memory (invariants).
    unsafe {
        if len > SHORT.load(Relaxed) {
            seldom(); // or not: but a jump is less there
            return STORE.get()(to, from, len);
        }
        store_short(to, from, len);
    }
}

/// # Safety
/// As for a `Copy`.
#[cold]
unsafe extern "C" fn find_load(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: `find` gives one of the three that this processor has the instructions for (or is
    // `by_8`, for any), and all are from shared memory. The words are the caller's part.
    unsafe { LOAD.find(load_by_64, load_by_32)(to, from, len) }
}

/// # Safety
/// As for a `Copy`.
#[cold]
unsafe extern "C" fn find_store(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: `find` gives one of the three that this processor has the instructions for (or is
    // `by_8`, for any), and all are to shared memory. The words are the caller's part.
    unsafe { STORE.find(store_by_64, store_by_32)(to, from, len) }
}

/// Loads the vectors at some offsets, and then stores them: in unsafe code, where the words are
/// such as a `Copy` may load and store, and the processor has the instruction.
///
/// The compiler knows of all that it changes: memory and the registers that are named.
macro_rules! vectors {
    ($to:expr, $from:expr $(, $len:ident)?; $mov:tt $($register:tt [$at:tt])+) => {
        asm!(
            $(concat!($mov, " ", $register, ", [{from} + ", $at, "]"),)+
            $(concat!($mov, " [{to} + ", $at, "], ", $register),)+
            to = in(reg) $to.as_ptr(),
            from = in(reg) $from.as_ptr(),
            $($len = in(reg) $len,)?
            $(out($register) _,)+
            options(nostack, preserves_flags),
        )
    };
}

/// As `vectors`, but stores only the words whose bits are set in `mask`: eight for each vector.
macro_rules! masked {
    ($to:ident, $from:ident, $len:ident, $mask:expr; $($register:tt [$at:tt] $k:tt)+) => {
        asm!(
            $(concat!("vmovdqu64 ", $register, ", [{from} + ", $at, "]"),)+
            $(concat!("kmovw ", $k, ", {mask:e}; shr {mask:e}, 8"),)+
            $(concat!("vmovdqu64 [{to} + ", $at, "] {{", $k, "}}, ", $register),)+
            to = in(reg) $to.as_ptr(),
            from = in(reg) $from.as_ptr(),
            $len = in(reg) $len,
            mask = inout(reg) $mask => _,
            $(out($register) _, out($k) _,)+
            options(nostack),
        )
    };
}

/// A bit for each word of `all` bytes, at most 256, which is set if it is in the last `len` bytes.
#[inline(always)]
fn last_words(len: usize, all: usize) -> u32 {
    let mask = (1_u64 << (all / 8)) - 1;
    (mask << (all / 8) >> (len / 8) & mask) as u32
}

/// # Safety
/// As for a `Copy`, of at most 128 bytes; the processor has AVX-512 (F and VL).
#[inline(always)]
unsafe fn load_short(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the first 64 bytes and the last 64, of at least as many. A word that is in both is
    // loaded twice, and stored twice in memory that nobody else touches. Registers from 16 on leave
    // the upper halves of the others alone.
    unsafe { vectors!(to, from, len; "vmovdqu64" "zmm16" ["0"] "zmm17" ["{len} - 64"]) }
}

/// # Safety
/// As for a `Copy`, of at most 128 bytes; the processor has AVX-512 (F and VL).
#[inline(always)]
unsafe fn store_short(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the first 64 bytes, and of the last 64 those words that are not among these: each
    // word is stored once. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        vectors!(to, from; "vmovdqu64" "zmm16" ["0"]);
        masked!(to, from, len, last_words(len - 64, 64); "zmm17" ["{len} - 64"] "k1");
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX-512 (F and VL).
unsafe extern "C" fn load_by_64(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: each vector is between the first word and the last: `len` is as much as has been
    // tested, and where the last 256 bytes are copied, the loop has copied others before. A word in
    // two vectors is loaded twice, and stored twice in memory that nobody else touches. Registers
    // from 16 on leave the upper halves of the others alone.
    unsafe {
        if len <= 128 {
            seldom(); // `load` does so itself, when it knows the processor
            return load_short(to, from, len);
        }
        if len <= 256 {
            return vectors!(to, from, len; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                "zmm18" ["{len} - 128"] "zmm19" ["{len} - 64"]);
        }
        if len >= LONG {
            seldom();
            return by_string(to, from, len);
        }
        while len > 256 {
            vectors!(to, from; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                "zmm18" ["128"] "zmm19" ["192"]);
            (to, from, len) = (to.byte_add(256), from.byte_add(256), len - 256);
        }
        vectors!(to, from, len; "vmovdqu64" "zmm16" ["{len} - 256"] "zmm17" ["{len} - 192"]
            "zmm18" ["{len} - 128"] "zmm19" ["{len} - 64"]);
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX-512 (F and VL).
unsafe extern "C" fn store_by_64(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: whole vectors, one behind the other, and of the last ones those words that are not
    // among these: each word is stored once. All are between the first word and the last: `len` is
    // as much as has been tested, and where the last 256 bytes are copied, the loop has copied
    // others before. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        if len <= 128 {
            seldom(); // `store` does so itself, when it knows the processor
            return store_short(to, from, len);
        }
        if len <= 256 {
            vectors!(to, from; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]);
            // Behind the second, if it is whole; else the second again, of which no word is stored.
            let third = (len - 65) & 192;
            let is_third = (third as u32 >> 7).wrapping_neg();
            masked!(to, from, third, is_third; "zmm18" ["{third}"] "k1");
            let rest = last_words(len - 64 - third, 64);
            return masked!(to, from, len, rest; "zmm19" ["{len} - 64"] "k1");
        }
        if len >= LONG {
            seldom();
            return by_string(to, from, len);
        }
        while len >= 256 {
            vectors!(to, from; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                "zmm18" ["128"] "zmm19" ["192"]);
            (to, from, len) = (to.byte_add(256), from.byte_add(256), len - 256);
        }
        if len == 0 {
            return;
        }
        seldom();
        masked!(to, from, len, last_words(len, 256);
            "zmm16" ["{len} - 256"] "k1" "zmm17" ["{len} - 192"] "k2"
            "zmm18" ["{len} - 128"] "k3" "zmm19" ["{len} - 64"] "k4");
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX.
unsafe extern "C" fn load_by_32(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: each vector is between the first word and the last: there are at least 64 bytes, as a
    // `Copy` asks, and where the last 128 are copied, the loop has copied others before. A word in
    // two vectors is loaded twice, and stored twice in memory that nobody else touches. The upper
    // halves of all registers are 0 afterwards.
    unsafe {
        if len == 64 {
            vectors!(to, from; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"]);
            return zero_upper();
        }
        if len <= 128 {
            vectors!(to, from, len; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"]
                "ymm2" ["{len} - 64"] "ymm3" ["{len} - 32"]);
            return zero_upper();
        }
        if len >= LONG {
            seldom();
            return by_string(to, from, len);
        }
        while len > 128 {
            vectors!(to, from; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"] "ymm2" ["64"] "ymm3" ["96"]);
            (to, from, len) = (to.byte_add(128), from.byte_add(128), len - 128);
        }
        vectors!(to, from, len; "vmovdqu" "ymm0" ["{len} - 128"] "ymm1" ["{len} - 96"]
            "ymm2" ["{len} - 64"] "ymm3" ["{len} - 32"]);
        zero_upper();
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX.
unsafe extern "C" fn store_by_32(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: the loop copies whole multiples of 128 bytes. What is left is a sum of powers of two,
    // the least of them 8, each of which is copied behind the greater ones: each word is stored
    // once, and none beyond the last. The upper halves of all registers are 0 afterwards.
    unsafe {
        if len == 64 {
            vectors!(to, from; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"]);
            return zero_upper();
        }
        if len >= 128 {
            if len >= LONG {
                seldom();
                return by_string(to, from, len);
            }
            while len >= 128 {
                vectors!(to, from; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"] "ymm2" ["64"] "ymm3" ["96"]);
                (to, from, len) = (to.byte_add(128), from.byte_add(128), len - 128);
            }
        }
        if len & 64 != 0 {
            vectors!(to, from; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"]);
        }
        if len & 56 == 0 {
            return zero_upper();
        }
        if len & 32 != 0 {
            let at = len & 64;
            vectors!(to.byte_add(at), from.byte_add(at); "vmovdqu" "ymm0" ["0"]);
        }
        zero_upper();
        if len & 16 != 0 {
            let at = len & 96;
            vectors!(to.byte_add(at), from.byte_add(at); "movdqu" "xmm0" ["0"]);
        }
        if len & 8 != 0 {
            vectors!(to, from, len; "mov" "rax" ["{len} - 8"]);
        }
    }
}

/// # Safety
/// The processor has AVX.
#[inline(always)]
unsafe fn zero_upper() {
    // SAFETY: the compiler is told that no vector register keeps its value.
    unsafe { asm!("vzeroupper", clobber_abi("C"), options(nomem, nostack, preserves_flags)) }
}

/// # Safety
/// As for a `Copy`.
#[inline(always)]
unsafe fn by_string(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: it accesses the words that it may (this function's contract), each once, upwards: the
    // direction flag is clear in Rust code.
    unsafe {
        asm!(
            "rep movsq",
            inout("rdi") to.as_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rcx") len / 8 => _,
            options(nostack, preserves_flags),
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

    /// No processor is given instructions that it lacks.
    #[test]
    fn each_processor_copies_as_it_can() {
        for (has, way, short) in [
            ((true, true), load_by_64 as Copy, 128),
            ((false, true), load_by_32, 0),
            ((false, false), by_8, 0),
        ] {
            let (best, most) = best_of(has, load_by_64, load_by_32);
            assert_eq!((best as *mut (), most), (way as *mut (), short), "{has:?}");
        }
    }

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
