//! Vectors of 64 bytes, where there are AVX-512 registers, or of 32.
//!
//! What takes time in a short copy are its jumps. So each length has a way of its own, which ends
//! in a `ret`, and the shortest have the straightest. What the processor has is asked at run time,
//! by the first copy of a kind, so a program that is compiled for any x86-64 copies by its
//! processor's best.

use std::arch::{asm, is_x86_feature_detected};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize};

use super::Shared;
use crate::cold::seldom;

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

/// Copies the whole vectors among less than nine vectors of bytes, the last one first: in unsafe
/// code, where they may be copied, and the processor has the instruction.
///
/// A jump goes to the one that is to be the first. Each has 16 bytes of code: the assembler fills
/// up what has less, and `.org` is an error if one has more.
macro_rules! up_to_8_vectors {
    ($to:ident, $from:ident, $len:ident; $size:literal $mov:tt $register:tt) => {
        up_to_8_vectors!($to, $from, $len; $size $mov $register; 7 6 5 4 3 2 1 0)
    };
    ($to:ident, $from:ident, $len:ident; $size:literal $mov:tt $register:tt; $($i:literal)+) => {
        asm!(
            "lea {jump}, [rip + 3f]; sub {jump}, {code}; jmp {jump}",
            ".p2align 6",
            "2:",
            $(
                concat!($mov, " ", $register, ", [rsi + ", $size, " * ", $i, "]"),
                concat!($mov, " [rdi + ", $size, " * ", $i, "], ", $register),
                ".p2align 4",
            )+
            ".org 2b + 128",
            "3:",
            in("rdi") $to.as_ptr(),
            in("rsi") $from.as_ptr(),
            code = in(reg) $len / $size * 16,
            jump = out(reg) _,
            out($register) _,
            options(nostack),
        )
    };
}

mod avx;
mod avx512;
#[cfg(test)]
#[path = "x86_64/tests.rs"]
mod tests;

use avx::{load_by_32, store_by_32};
use avx512::{load_by_64, load_bytes, load_ends, load_short};
use avx512::{store_by_64, store_bytes, store_bytes_short, store_short};

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

/// Whether the processor has AVX-512 with masks for bytes (F, VL and BW).
///
/// # Invariants
/// It is `YES` only if the processor has.
struct Masks(AtomicU8);

static MASKS: Masks = Masks(AtomicU8::new(UNKNOWN));

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

impl Masks {
    #[inline(always)]
    fn are_known(&self) -> bool {
        self.0.load(Relaxed) == YES
    }

    /// Asks for VL (and F) and BW, unless it is known.
    ///
    /// # Safety
    /// What is asked tells what the processor has.
    #[inline(always)]
    unsafe fn find(&self, has: impl Fn() -> (bool, bool)) {
        if self.0.load(Relaxed) == UNKNOWN {
            self.0.store(if has() == (true, true) { YES } else { NO }, Relaxed);
        }
    }
}

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

/// The best copy, and the most bytes of a short one, of a processor that has AVX-512 (F and VL),
/// and AVX.
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
    // SAFETY: the words are the caller's part, and both ways are from shared memory.
    unsafe { copy(to, from, len, &LOAD, load_short) }
}

/// To shared memory.
///
/// # Safety
/// As for a `Copy`.
#[inline(always)]
pub unsafe fn store(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the words are the caller's part, and both ways are to shared memory.
    unsafe { copy(to, from, len, &STORE, store_short) }
}

/// Copies words: `short` copies at most 128 bytes, if the processor has AVX-512, and `best` what it
/// does not.
///
/// # Safety
/// As for a `Copy`. Both are in the direction of the copy.
#[inline(always)]
unsafe fn copy(
    to: NonNull<u64>,
    from: NonNull<u64>,
    len: usize,
    best: &Best,
    short: unsafe fn(NonNull<u64>, NonNull<u64>, usize),
) {
    // SAFETY: the words are the caller's part. `SHORT` is no less than a length only if that is at
    // most 128, and the processor has AVX-512; `best` always has what its copy needs (invariants).
    unsafe {
        if len == 64 {
            seldom(); // or not: but a jump is less for the others
            return by_16(to, from);
        }
        if len > SHORT.load(Relaxed) {
            seldom(); // or not: but a jump is less there
            return best.get()(to, from, len);
        }
        short(to, from, len);
    }
}

/// Copies bytes that are not whole words, if they are 65 to 128 together with those before them in
/// their first word, and the processor is known to have what that takes.
///
/// # Safety
/// As for `any`.
#[inline(always)]
pub unsafe fn any_short(
    to: NonNull<u8>,
    from: NonNull<u8>,
    len: usize,
    before: usize,
    shared: Shared,
) -> bool {
    let copy: Masked = match shared {
        Shared::From => load_ends,
        Shared::To => store_bytes_short,
    };
    // SAFETY: `len` bytes may be loaded and stored, with those before them in their first word
    // (this function's contract). They are 65 to 128 together, as many as both functions copy, and
    // these need AVX-512 alone.
    matches!(before + len, 65..=128) && unsafe { by_masks(to, from, len, before, copy) }
}

/// Copies bytes that are not whole words, if the processor is known to have what that takes.
///
/// # Safety
/// `len` bytes may be stored at the first address and loaded at the second, those on the shared
/// side with others of their words. On that side, the first word has `before` bytes before them,
/// which is less than 8.
#[inline(always)]
pub unsafe fn any(
    to: NonNull<u8>,
    from: NonNull<u8>,
    len: usize,
    before: usize,
    shared: Shared,
) -> bool {
    let copy: Masked = match shared {
        Shared::From => load_bytes,
        Shared::To => store_bytes,
    };
    // SAFETY: `len` bytes may be loaded and stored, and `before` is less than 8 (this function's
    // contract). Both functions copy any number of bytes, and need AVX-512 alone.
    unsafe { by_masks(to, from, len, before, copy) }
}

/// A copy of bytes by masks, as `any` says.
type Masked = unsafe fn(NonNull<u8>, NonNull<u8>, usize, usize);

/// Copies bytes, if the processor is known to have masks for them.
///
/// # Safety
/// As for `any`; `copy` copies as many, in this direction, and needs no more than AVX-512.
#[inline(always)]
unsafe fn by_masks(
    to: NonNull<u8>,
    from: NonNull<u8>,
    len: usize,
    before: usize,
    copy: Masked,
) -> bool {
    let can = MASKS.are_known();
    if can {
        // SAFETY: `copy` may be called for these bytes, in this direction (this function's
        // contract). What it needs, AVX-512, the processor has (`MASKS`).
        unsafe { copy(to, from, len, before) };
    }
    can
}

/// What `any` asks for, for the next time.
#[inline(always)]
pub fn find_masks() {
    let has = || (is_x86_feature_detected!("avx512vl"), is_x86_feature_detected!("avx512bw"));
    // SAFETY: the processor is asked.
    unsafe { MASKS.find(has) }
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

/// # Safety
/// As for a `Copy`, of 64 bytes.
#[inline(always)]
unsafe fn by_16(to: NonNull<u64>, from: NonNull<u64>) {
    // SAFETY: the 64 bytes.
    unsafe {
        vectors!(to, from; "movups" "xmm0" ["0"] "xmm1" ["16"] "xmm2" ["32"] "xmm3" ["48"]);
    }
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
