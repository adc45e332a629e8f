//! Vectors of 64 bytes, for processors that have AVX-512.

use std::arch::asm;
use std::ptr::NonNull;

use super::super::WORD;
use super::{LONG, by_string};
use crate::cold::seldom;

/// Stores the last `last` of `len` bytes: `last` is at most 64, and `len` no less.
///
/// # Safety
/// The last 64 bytes may be loaded, and these stored. The processor has AVX-512 (F).
#[inline(always)]
unsafe fn last_words(to: NonNull<u64>, from: NonNull<u64>, len: usize, last: usize) {
    // A bit for each of the eight words, of which the last are set; others are not looked at.
    let mask = 0xff00 >> (last / WORD);
    // SAFETY: what is accessed is the caller's part, and what changes is named.
    unsafe {
        asm!(
            "kmovw k1, {mask:e}",
            "vmovdqu64 zmm17, [{from} + {len} - 64]",
            "vmovdqu64 [{to} + {len} - 64] {{k1}}, zmm17",
            to = in(reg) to.as_ptr(),
            from = in(reg) from.as_ptr(),
            len = in(reg) len,
            mask = in(reg) mask,
            out("zmm17") _,
            out("k1") _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// As for a `Copy`, of at most 128 bytes; the processor has AVX-512 (F and VL).
#[inline(always)]
pub unsafe fn load_short(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the first 64 bytes and the last 64, of at least as many. A word that is in both is
    // loaded twice, and stored twice in memory that nobody else touches. Registers from 16 on leave
    // the upper halves of the others alone.
    unsafe { vectors!(to, from, len; "vmovdqu64" "zmm16" ["0"] "zmm17" ["{len} - 64"]) }
}

/// # Safety
/// As for a `Copy`, of at most 128 bytes; the processor has AVX-512 (F and VL).
#[inline(always)]
pub unsafe fn store_short(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: the first 64 bytes, and of the last 64 those words that are not among these: each
    // word is stored once. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        vectors!(to, from; "vmovdqu64" "zmm16" ["0"]);
        last_words(to, from, len, len - 64);
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX-512 (F and VL).
pub unsafe extern "C" fn load_by_64(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: each vector is between the first word and the last: `len` is as much as has been
    // tested, and where the last 512 bytes are copied, the loop has copied others before. A word in
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
        if len <= 512 {
            return vectors!(to, from, len; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                "zmm18" ["128"] "zmm19" ["192"] "zmm20" ["{len} - 256"] "zmm21" ["{len} - 192"]
                "zmm22" ["{len} - 128"] "zmm23" ["{len} - 64"]);
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
        if len <= 64 {
            return vectors!(to, from, len; "vmovdqu64" "zmm16" ["{len} - 64"]);
        }
        vectors!(to, from, len; "vmovdqu64" "zmm16" ["{len} - 256"] "zmm17" ["{len} - 192"]
            "zmm18" ["{len} - 128"] "zmm19" ["{len} - 64"]);
    }
}

/// # Safety
/// As for a `Copy`; the processor has AVX-512 (F and VL).
pub unsafe extern "C" fn store_by_64(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
    // SAFETY: whole vectors, and then those of the last 64 bytes that are not among these: each
    // word is stored once, and none beyond the last. Of vectors that are not whole, what is left
    // is at least 64 bytes long.
    unsafe {
        if len <= 128 {
            seldom(); // `store` does so itself, when it knows the processor
            return store_short(to, from, len);
        }
        let (to, from, len) = whole_vectors(to, from, len);
        if len % 64 != 0 {
            last_words(to, from, len, len % 64);
        }
    }
}

/// Copies all whole vectors among as many bytes, or from `LONG` on all whole words. Gives the last
/// of the bytes: less than 576, and at least 64 if there were as many, of which the whole vectors
/// are copied; or those that are in no whole word.
///
/// # Safety
/// As for `any`, with the first byte on the shared side at a word; the processor has AVX-512
/// (F and VL).
#[inline(always)]
unsafe fn whole_vectors<T>(
    mut to: NonNull<T>,
    mut from: NonNull<T>,
    mut len: usize,
) -> (NonNull<T>, NonNull<T>, usize) {
    // SAFETY: each vector, or word, is behind the one before, and all are among the bytes.
    // Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        if len >= 576 {
            seldom();
            if len >= LONG {
                let words = len - len % WORD;
                by_string(to.cast(), from.cast(), words);
                return (to.byte_add(words), from.byte_add(words), len - words);
            }
            while len >= 576 {
                vectors!(to, from; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                    "zmm18" ["128"] "zmm19" ["192"]);
                (to, from, len) = (to.byte_add(256), from.byte_add(256), len - 256);
            }
        }
        up_to_8_vectors!(to, from, len; 64 "vmovdqu64" "zmm16");
        (to, from, len)
    }
}

/// The lowest `len` bits, of at most 64.
#[inline(always)]
fn lowest(len: usize) -> u64 {
    u64::MAX.checked_shr(64 - len as u32).unwrap_or(0)
}

/// Copies those of 64 bytes whose bits are set in `mask`.
///
/// # Safety
/// These bytes may be loaded and stored. The others are not touched, and need not exist. The
/// processor has AVX-512 (F and BW).
#[inline(always)]
unsafe fn masked_bytes(to: *mut u8, from: *const u8, mask: u64) {
    // SAFETY: what is accessed is the caller's part, and what changes is named.
    unsafe {
        asm!(
            "kmovq k1, {mask}",
            "vmovdqu8 zmm16 {{k1}}{{z}}, [{from}]",
            "vmovdqu8 [{to}] {{k1}}, zmm16",
            to = in(reg) to,
            from = in(reg) from,
            mask = in(reg) mask,
            out("zmm16") _,
            out("k1") _,
            options(nostack, preserves_flags),
        );
    }
}

/// Stores bytes that are 65 to 128 together with those before them in their first word.
///
/// # Safety
/// As for `store_bytes`.
#[inline(always)]
pub unsafe fn store_bytes_short(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) {
    let (first, second) = (u64::MAX << before, lowest(before + len - 64));
    // SAFETY: two vectors, one behind the other, which begin where the first word does. Their masks
    // leave out what is before the bytes and behind them.
    unsafe {
        asm!(
            "kmovq k1, {first}",
            "kmovq k2, {second}",
            "vmovdqu8 zmm16 {{k1}}{{z}}, [{from}]",
            "vmovdqu8 zmm17 {{k2}}{{z}}, [{from} + 64]",
            "vmovdqu8 [{to}] {{k1}}, zmm16",
            "vmovdqu8 [{to} + 64] {{k2}}, zmm17",
            to = in(reg) to.as_ptr().wrapping_sub(before),
            from = in(reg) from.as_ptr().wrapping_sub(before),
            first = in(reg) first,
            second = in(reg) second,
            out("zmm16") _,
            out("zmm17") _,
            out("k1") _,
            out("k2") _,
            options(nostack, preserves_flags),
        );
        wait_until_seen();
    }
}

/// Stores bytes to shared memory, wherever they begin and end.
///
/// # Safety
/// As for `any`; the processor has AVX-512 (F, VL and BW).
#[inline(always)]
pub unsafe fn store_bytes(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) {
    // SAFETY: the first vector begins where the first word does, and all are one behind the other:
    // no word is in two, and each byte is stored once. Masks leave out what is before the bytes and
    // behind them. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        let first = (to.as_ptr().wrapping_sub(before), from.as_ptr().wrapping_sub(before));
        let all = before + len;
        if all <= 64 {
            masked_bytes(first.0, first.1, lowest(all) & u64::MAX << before);
            return wait_until_seen();
        }
        masked_bytes(first.0, first.1, u64::MAX << before);
        let (to, from) = (to.add(64 - before), from.add(64 - before));
        let (to, from, len) = whole_vectors(to, from, all - 64);
        if len % 64 != 0 {
            let whole = len - len % 64;
            masked_bytes(to.add(whole).as_ptr(), from.add(whole).as_ptr(), lowest(len % 64));
        }
        wait_until_seen();
    }
}

/// Waits until all can see what this thread stored, as parts of words must be when it goes on. An
/// instruction with a lock does so, and sooner than `mfence` (Intel SDM volume 3, "locked
/// operations"; AMD APM volume 2).
#[inline(always)]
fn wait_until_seen() {
    // SAFETY: nothing is changed.
    unsafe { asm!("lock or dword ptr [rsp], 0") }
}

/// The bytes of as many whole words as have `len` bytes.
#[inline(always)]
fn whole_words(len: usize) -> usize {
    (len + WORD - 1) & !(WORD - 1)
}

/// Loads bytes that are more than 64 together with those before them in their first word: of all
/// words the first 64 bytes and the last.
///
/// # Safety
/// As for `load_bytes`.
#[inline(always)]
pub unsafe fn load_ends(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) {
    let all = whole_words(before + len);
    // SAFETY: two vectors of whole words, which begin where the first word does and end where the
    // last does. Masks leave out what is before the bytes and behind them. What is in both vectors
    // is stored twice in memory that nobody else touches.
    unsafe {
        asm!(
            "kmovq k1, {first}",
            "kmovq k2, {last}",
            "vmovdqu64 zmm16, [{from}]",
            "vmovdqu64 zmm17, [{from} + {all} - 64]",
            "vmovdqu8 [{to}] {{k1}}, zmm16",
            "vmovdqu8 [{to} + {all} - 64] {{k2}}, zmm17",
            to = in(reg) to.as_ptr().wrapping_sub(before),
            from = in(reg) from.as_ptr().wrapping_sub(before),
            all = in(reg) all,
            first = in(reg) u64::MAX << before,
            last = in(reg) u64::MAX >> (all - before - len),
            out("zmm16") _,
            out("zmm17") _,
            out("k1") _,
            out("k2") _,
            options(nostack, preserves_flags),
        );
    }
}

/// Loads bytes of shared memory, wherever they begin and end: as whole words.
///
/// # Safety
/// As for `any`; the processor has AVX-512 (F, VL and BW).
#[inline(always)]
pub unsafe fn load_bytes(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) {
    let all = before + len;
    // SAFETY: the words that have the bytes. Masks leave out what is before the bytes and behind
    // them. Some are stored twice in memory that nobody else touches. Registers from 16 on leave
    // the upper halves of the others alone.
    unsafe {
        if all > 64 {
            load_ends(to, from, len, before);
            if all > 128 {
                let (to, from) = (to.add(64 - before), from.add(64 - before));
                whole_vectors(to, from, all - 64);
            }
            return;
        }
        asm!(
            "kmovq k1, {words}",
            "kmovq k2, {bytes}",
            "vmovdqu8 zmm16 {{k1}}{{z}}, [{from}]",
            "vmovdqu8 [{to}] {{k2}}, zmm16",
            to = in(reg) to.as_ptr().wrapping_sub(before),
            from = in(reg) from.as_ptr().wrapping_sub(before),
            words = in(reg) lowest(whole_words(all)),
            bytes = in(reg) lowest(all) & u64::MAX << before,
            out("zmm16") _,
            out("k1") _,
            out("k2") _,
            options(nostack, preserves_flags),
        );
    }
}
