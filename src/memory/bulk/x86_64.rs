//! Vectors of 64 bytes, where there are AVX-512 registers, or of 32.
//!
//! What takes time in a short copy are its jumps. So each length has a way of its own, which ends
//! in a `ret`, and the shortest have the straightest. What the processor has is asked at run time,
//! by the first copy of a kind, so a program that is compiled for any x86-64 copies by its
//! processor's best.

use std::arch::{asm, is_x86_feature_detected};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};

use super::WORD;
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

use avx::{load_by_32, store_by_32};
use avx512::{bytes_by_64, bytes_short, load_by_64, load_short, store_by_64, store_short};

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
static MASKS: AtomicU8 = AtomicU8::new(UNKNOWN);

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

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
        if len == 64 {
            seldom(); // or not: but a jump is less for the others
            return by_16(to, from);
        }
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
        if len == 64 {
            seldom(); // or not: but a jump is less for the others
            return by_16(to, from);
        }
        if len > SHORT.load(Relaxed) {
            seldom(); // or not: but a jump is less there
            return STORE.get()(to, from, len);
        }
        store_short(to, from, len);
    }
}

/// Copies bytes that are not whole words, from shared memory or to it, if they are 65 to 128 together
/// with those before them in their first word, and the processor is known to have what that takes.
///
/// # Safety
/// As for `any`.
#[inline(always)]
pub unsafe fn any_short(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) -> bool {
    let can = matches!(before + len, 65..=128) && MASKS.load(Relaxed) == YES;
    if can {
        // SAFETY: asked of the caller; the processor has AVX-512 (`MASKS`).
        unsafe { bytes_short(to, from, len, before) };
    }
    can
}

/// Copies bytes that are not whole words, from shared memory or to it, if the processor is known to
/// have what that takes.
///
/// # Safety
/// `len` bytes may be stored at the first address and loaded at the second, those on the shared
/// side with others of their words. On that side, the first word has `before` bytes before them,
/// which is less than 8.
#[inline(always)]
pub unsafe fn any(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) -> bool {
    let can = MASKS.load(Relaxed) == YES;
    if can {
        // SAFETY: asked of the caller; the processor has AVX-512 (`MASKS`).
        unsafe { bytes_by_64(to, from, len, before) };
    }
    can
}

/// What `any` asks for, for the next time.
#[inline(always)]
pub fn find_masks() {
    if MASKS.load(Relaxed) == UNKNOWN {
        let has = is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw");
        MASKS.store(if has { YES } else { NO }, Relaxed);
    }
}

/// Puts `bytes` into the word, starting at its byte `from`, and leaves the others as they are: by
/// stores of four bytes, of two and of one.
///
/// # Panics
/// If the word has not as many bytes from there on, or no others.
#[inline]
pub fn merge(word: &AtomicU64, from: usize, bytes: &[u8]) {
    assert!(bytes.len() < WORD && from + bytes.len() <= WORD, "a part of one word");
    let (at, mut left) = (word.as_ptr().cast::<u8>().wrapping_add(from), bytes);
    macro_rules! part {
        ($($int:ident $register:ident $bits:tt)+) => {$(
            if let Some((part, rest)) = left.split_first_chunk() {
                // SAFETY: the bytes are of the word (asserted), which may be changed through a
                // shared reference; `bulk` says why a part of one may be stored.
                unsafe {
                    asm!(
                        concat!("mov [{to}], {part", $bits, "}"),
                        to = in(reg) at.wrapping_add(bytes.len() - left.len()),
                        part = in($register) $int::from_ne_bytes(*part),
                        options(nostack, preserves_flags),
                    );
                }
                left = rest;
            }
        )+};
    }
    part!(u32 reg ":e" u16 reg ":x" u8 reg_byte "");
    debug_assert!(left.is_empty());
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
        let mut eight = [0_u64; 10];
        // SAFETY: eight words each.
        unsafe { by_16(NonNull::from(&mut eight[1..]).cast(), NonNull::from(&from[..]).cast()) };
        assert_eq!(eight, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
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

    /// Bytes that are not words, of which some begin or end where the next page is not there.
    #[test]
    fn bytes_are_copied_and_no_others() {
        let two = Edges::new();
        // SAFETY: mappings of as many bytes, which nothing else uses but the copies below.
        let (plain, source) = unsafe { (&mut *two.all(0), &mut *two.all(1)) };
        source.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8 | 4);
        let (to, from) = (NonNull::from(&mut *plain), NonNull::from(&mut *source));
        let zeros = vec![0; Edges::LEN];
        find_masks();
        let mut lens: Vec<usize> = (0..290).chain(570..660).collect();
        lens.extend([1000, 4096, LONG - 1, LONG + 70]);
        for (before, len) in (0..WORD).flat_map(|before| lens.iter().map(move |&len| (before, len)))
        {
            for skipped in [0, Edges::LEN - len] {
                // SAFETY: as many bytes each, behind what is skipped. No reference is used between.
                let (did, now, source) = unsafe {
                    to.cast::<u8>().copy_from(NonNull::from(&zeros[..]).cast(), Edges::LEN);
                    let at = (to.cast::<u8>().add(skipped), from.cast::<u8>().add(skipped));
                    (any(at.0, at.1, len, before), to.as_ref(), from.as_ref())
                };
                if !did {
                    return eprintln!("skipped: the processor has no masks");
                }
                let (start, end) = (skipped, skipped + len);
                assert!(now[start..end] == source[start..end], "{len} bytes behind {before}");
                let others = now[..start] == zeros[..start] && now[end..] == zeros[end..];
                assert!(others, "{len} bytes behind {before}");
            }
        }
    }

    /// Two mappings, each between pages that cannot be accessed.
    struct Edges([*mut u8; 2]);

    impl Edges {
        const PAGE: usize = 4096;
        const LEN: usize = LONG + Edges::PAGE;

        fn new() -> Self {
            Edges([(); 2].map(|()| {
                // SAFETY: a new mapping, of which the inner pages are made accessible.
                unsafe {
                    let (none, all) = (libc::PROT_NONE, Edges::LEN + 2 * Edges::PAGE);
                    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    let at = libc::mmap(std::ptr::null_mut(), all, none, flags, -1, 0);
                    assert_ne!(at, libc::MAP_FAILED);
                    let inner = at.cast::<u8>().add(Edges::PAGE);
                    let access = libc::PROT_READ | libc::PROT_WRITE;
                    assert_eq!(libc::mprotect(inner.cast(), Edges::LEN, access), 0);
                    inner
                }
            }))
        }

        fn all(&self, i: usize) -> *mut [u8] {
            std::ptr::slice_from_raw_parts_mut(self.0[i], Edges::LEN)
        }
    }

    impl Drop for Edges {
        fn drop(&mut self) {
            for at in self.0 {
                let all = Edges::LEN + 2 * Edges::PAGE;
                // SAFETY: the mapping, with its outer pages; nothing uses it any more.
                unsafe { libc::munmap(at.wrapping_sub(Edges::PAGE).cast(), all) };
            }
        }
    }

    /// A part of a word is changed, and the rest of it not.
    #[test]
    fn a_part_of_a_word_is_stored() {
        for (from, len) in
            (0..=WORD).flat_map(|from| (0..=7.min(WORD - from)).map(move |len| (from, len)))
        {
            let word = AtomicU64::new(!0);
            merge(&word, from, &[1, 2, 3, 4, 5, 6, 7, 8][..len]);
            let mut expected = [0xff; WORD];
            (1..=len).for_each(|i| expected[from + i - 1] = i as u8);
            assert_eq!(word.into_inner().to_ne_bytes(), expected, "{len} at {from}");
        }
    }
}
