//! Whole words between memory that others may touch meanwhile and memory of this program's own, at
//! the speed of memcpy.
//!
//! Short runs, and all under Miri and on other processors, are accesses to one word after the
//! other. LLVM never makes wider ones of them, so longer runs are copied by vector instructions in
//! inline assembly, which Rust does not see through: what it must do for Rust is what Rust code
//! could have done. It does what relaxed accesses to each word would, in some order:
//!
//! - It touches the same bytes: whole words, and parts of them at its ends. Each is stored once, so
//!   that what another stores there next stays; some are loaded twice. Where a word is no part of
//!   the region as a whole, its bytes beyond the region may be loaded too. They are on the same
//!   page, and nothing is done with them, so the Rust code has no such load.
//! - No word is torn. On aarch64 a vector of 128 bits at a multiple of 8 is two words, each of
//!   which is accessed at once (Arm ARM, "single-copy atomicity"). On x86-64 processors with AVX
//!   access 16 aligned bytes at once (Intel SDM volume 3, AMD APM volume 2). Of other vectors the
//!   manuals do not speak; processors access what lies in one cache line at once, or in aligned
//!   halves of 16 bytes, and no aligned word lies in two lines. (`rep movsq` moves words, and says
//!   only that their order is any.) Java's virtual machines copy arrays of references in this way,
//!   which must not tear either. A vector that is stored with a mask is stored where the mask has a
//!   bit, and the other bytes are not touched (Intel SDM volume 1, "opmask registers").
//! - A part of a word is changed by a compare-and-swap of the word, which keeps the rest. Where
//!   x86-64 has masks it is stored, and nothing else is done until all can see it: all see the
//!   stores to a word in one order, each leaves the bytes that are not its own, and each is a
//!   release, so what others released before is still acquired with the word. Without the wait, a
//!   load of the word by the same thread could have the bytes that were just stored, and the others
//!   as they were before another thread's store that comes first for all others. No
//!   compare-and-swaps of one word do that, and processors of today do (AMD's family 1Ah: in
//!   a program of two threads that store a byte each and load all eight, both missed the other's
//!   byte in 1 of 50 turns, and in none of 4 million with the wait). A byte that is in
//!   no whole word of the region is a byte of its own, and is stored as one.
//! - It orders nothing else, as relaxed accesses do not.
//!
//! Miri sees none of this, and Rust's own documents speak neither of assembly that is atomic nor of
//! accesses of several sizes. Should a compiler or a processor be found that breaks it, the words
//! one by one are what is left; they are what runs under Miri.

#![allow(unsafe_code)] // accesses raw memory

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cold::seldom;

pub(super) const WORD: usize = size_of::<u64>();

/// Which side of a copy others may touch meanwhile.
#[derive(Clone, Copy)]
pub(super) enum Shared {
    From,
    To,
}

/// Copies words from `at` on to `out`, each with `word` or as `word` does.
///
/// # Safety
/// `at` is aligned and `out` as long as a number of words; as many words at `at` may be passed to
/// `word`. `word` accesses the word that it is given, once.
#[inline(always)]
pub(super) unsafe fn load(at: NonNull<u64>, out: &mut [u8], word: impl Fn(NonNull<u64>) -> u64) {
    // SAFETY: `out` may be written, and what is loaded is the caller's part.
    unsafe {
        let to = NonNull::from(&mut *out).cast::<u64>();
        if out.len() >= vectors::LEAST {
            return vectors::load(to, at, out.len());
        }
        seldom(); // or not: the short ways of vectors are to have no jump
        each_word(out.len(), |i| to.add(i).write_unaligned(word(at.add(i))));
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
        let from = NonNull::from(bytes).cast::<u64>();
        if bytes.len() >= vectors::LEAST {
            return vectors::store(at, from, bytes.len());
        }
        seldom(); // or not: the short ways of vectors are to have no jump
        each_word(bytes.len(), |i| word(at.add(i), from.add(i).read_unaligned()));
    }
}

/// Puts `bytes` into the word, starting at its byte `from`, and leaves the others as they are.
///
/// # Panics
/// If the word has not as many bytes from there on.
#[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
pub(super) fn merge(word: &AtomicU64, from: usize, bytes: &[u8]) {
    let merged = |old: u64| {
        let mut whole = old.to_ne_bytes();
        whole[from..from + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(whole))
    };
    // `merged` never refuses.
    let _ = word.fetch_update(Relaxed, Relaxed, merged);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) use vectors::{any, any_short, find_masks};

/// Copies bytes that are not whole words, if the processor can: it does not.
///
/// # Safety
/// None is asked.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) unsafe fn any(_: NonNull<u8>, _: NonNull<u8>, _: usize, _: usize, _: Shared) -> bool {
    false
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) use any as any_short;

/// What `any` asks for: nothing.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn find_masks() {}

/// Calls `one` with the index of each word of `len` bytes.
#[inline(always)]
fn each_word(len: usize, one: impl Fn(usize)) {
    debug_assert!(len % WORD == 0);
    (0..len / WORD).for_each(one);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "bulk/x86_64.rs"]
mod vectors;

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod vectors {
    use std::arch::asm;
    use std::ptr::NonNull;

    /// From so many bytes on they are faster than words.
    pub const LEAST: usize = 32;

    pub use copy as load;
    pub use copy as store;

    /// # Safety
    /// The words of `len` bytes, at least 32, may be loaded at `from` and stored at `to`; those on
    /// the shared side are aligned.
    #[inline(never)]
    pub unsafe fn copy(to: NonNull<u64>, from: NonNull<u64>, len: usize) {
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

    pub use copy as load;
    pub use copy as store;

    /// # Safety
    /// It is not called.
    pub unsafe fn copy(_: NonNull<u64>, _: NonNull<u64>, _: usize) {
        unreachable!("words, and no vectors")
    }
}
