//! Vectors of 32 bytes, for processors that have AVX.

use std::arch::asm;
use std::ptr::NonNull;

use super::{LONG, by_string};
use crate::cold::seldom;

/// # Safety
/// As for a `Copy`; the processor has AVX.
pub unsafe extern "C" fn load_by_32(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: each vector is between the first word and the last: there are at least 64 bytes, as a
    // `Copy` asks, or as many as has been tested; and where the last 128 are copied at the end, the
    // loop has copied others before. A word in two vectors is loaded twice, and stored twice in
    // memory that nobody else touches. The upper halves of all registers are 0 afterwards.
    unsafe {
        if len <= 128 {
            vectors!(to, from, len; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"]
                "ymm2" ["{len} - 64"] "ymm3" ["{len} - 32"]);
            return zero_upper();
        }
        if len <= 256 {
            vectors!(to, from, len; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"] "ymm2" ["64"] "ymm3" ["96"]
                "ymm4" ["{len} - 128"] "ymm5" ["{len} - 96"]
                "ymm6" ["{len} - 64"] "ymm7" ["{len} - 32"]);
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
pub unsafe extern "C" fn store_by_32(mut to: NonNull<u64>, mut from: NonNull<u64>, mut len: usize) {
    // SAFETY: the loop copies whole multiples of 128 bytes, and leaves less than 288. Of these all
    // whole vectors are copied, and then 16 bytes and 8, if there are: each word is stored once,
    // and none beyond the last. The upper halves of all registers are 0 afterwards.
    unsafe {
        if len >= 288 {
            seldom();
            if len >= LONG {
                return by_string(to, from, len);
            }
            while len >= 288 {
                vectors!(to, from; "vmovdqu" "ymm0" ["0"] "ymm1" ["32"] "ymm2" ["64"] "ymm3" ["96"]);
                (to, from, len) = (to.byte_add(128), from.byte_add(128), len - 128);
            }
        }
        up_to_8_vectors!(to, from, len; 32 "vmovdqu" "ymm0");
        zero_upper();
        if len & 24 == 0 {
            return;
        }
        seldom();
        if len & 16 != 0 {
            let whole = len & !31;
            vectors!(to, from, whole; "movdqu" "xmm0" ["{whole}"]);
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
    // SAFETY: the compiler is told that no vector register keeps its value. (`clobber_abi` would
    // name others too, of which this function's caller then saves some.)
    unsafe {
        asm!(
            "vzeroupper",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nomem, nostack, preserves_flags)
        )
    }
}
