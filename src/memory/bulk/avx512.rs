//! Vectors of 64 bytes, for processors that have AVX-512.

use std::arch::asm;
use std::ptr::NonNull;

use super::super::WORD;
use super::{LONG, by_string};
use crate::cold::seldom;

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
        masked!(to, from, len, last_words(len - 64, 64); "zmm17" ["{len} - 64"] "k1");
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
pub unsafe extern "C" fn store_by_64(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: the loop copies whole vectors, and leaves less than 576 bytes, at least 64. Of these
    // all whole vectors are copied, and then those of the last 64 bytes that are not among these:
    // each word is stored once, and none beyond the last. Registers from 16 on leave the upper
    // halves of the others alone.
    unsafe {
        if len <= 128 {
            seldom(); // `store` does so itself, when it knows the processor
            return store_short(to, from, len);
        }
        if len >= 576 {
            seldom();
            if len >= LONG {
                return by_string(to, from, len);
            }
            while len >= 576 {
                vectors!(to, from; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                    "zmm18" ["128"] "zmm19" ["192"]);
                (to, from, len) = (to.byte_add(256), from.byte_add(256), len - 256);
            }
        }
        up_to_8_vectors!(to, from, len; 64 "vmovdqu64" "zmm16");
        if len % 64 != 0 {
            masked!(to, from, len, last_words(len % 64, 64); "zmm17" ["{len} - 64"] "k1");
        }
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
/// These bytes may be copied as `bytes_by_64` does. The others are not touched, and need not exist.
/// The processor has AVX-512 (F and BW).
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

/// Copies bytes that are 65 to 128 together with those before them in their first word.
///
/// # Safety
/// As for `bytes_by_64`.
#[inline(always)]
pub unsafe fn bytes_short(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) {
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
    }
}

/// Copies bytes, wherever they begin and end.
///
/// # Safety
/// As for `any`; the processor has AVX-512 (F, VL and BW).
#[inline(always)]
pub unsafe fn bytes_by_64(to: NonNull<u8>, from: NonNull<u8>, len: usize, before: usize) {
    // SAFETY: the first vector begins where the first word does, and all are one behind the other:
    // no word is in two, and each byte is stored once. Masks leave out what is before the bytes and
    // behind them. Registers from 16 on leave the upper halves of the others alone.
    unsafe {
        let first = (to.as_ptr().wrapping_sub(before), from.as_ptr().wrapping_sub(before));
        let all = before + len;
        if all <= 64 {
            return masked_bytes(first.0, first.1, lowest(all) & u64::MAX << before);
        }
        masked_bytes(first.0, first.1, u64::MAX << before);
        let (mut to, mut from, mut len) = (to.add(64 - before), from.add(64 - before), all - 64);
        if len >= 576 {
            seldom();
            if len >= LONG {
                let words = len - len % WORD;
                by_string(to.cast(), from.cast(), words);
                (to, from, len) = (to.add(words), from.add(words), len - words);
            }
            while len >= 576 {
                vectors!(to, from; "vmovdqu64" "zmm16" ["0"] "zmm17" ["64"]
                    "zmm18" ["128"] "zmm19" ["192"]);
                (to, from, len) = (to.byte_add(256), from.byte_add(256), len - 256);
            }
        }
        up_to_8_vectors!(to, from, len; 64 "vmovdqu64" "zmm16");
        if len % 64 != 0 {
            let whole = len - len % 64;
            masked_bytes(to.add(whole).as_ptr(), from.add(whole).as_ptr(), lowest(len % 64));
        }
    }
}
