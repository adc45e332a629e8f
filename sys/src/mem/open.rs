//! Memory that others may access at any time: a peer through the device, or another thread of this
//! program.
//!
//! Concurrent accesses must be atomic and of one size: two atomic accesses of different sizes that
//! race are undefined behaviour, like any other race. So every access to an aligned word of a
//! region is an access to the whole word, even for a few of its bytes. Only the bytes at the ends
//! that do not belong to a whole aligned word are accessed one by one.

// No model: peers and the program access this memory at any time. No value in it guards other
// memory; a protocol that a program runs over it is the program's responsibility.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::terms::bounds::OutOfBounds;

const WORD: usize = size_of::<u64>();

/// A region that others may access at any time.
#[derive(Clone, Copy)]
pub struct Open {
    // Invariants: the `len` bytes at `base` are valid for reads and writes while the value is used.
    // Rust code then accesses them only through such values, unless it owns the accessed bytes.
    base: NonNull<u8>,
    len: usize,
}

/// One step of an access: some bytes of one word, or a single byte.
enum Part<'a> {
    /// The word, the first byte used, and the number of bytes.
    Word(&'a AtomicU64, usize, usize),
    Byte(&'a AtomicU8),
}

impl Open {
    /// # Safety
    /// The type's invariant holds as long as the value is used.
    #[inline]
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        // INVARIANT: the caller guarantees it, in the same words.
        Open { base, len }
    }

    /// The word at `offset`; `None` unless it is aligned and within the region.
    #[inline]
    pub fn word(&self, offset: usize) -> Option<&AtomicU64> {
        if offset.checked_add(WORD)? > self.len {
            return None;
        }
        // SAFETY: the word is within the region (tested above).
        let at = unsafe { self.base.add(offset) }.cast::<u64>();
        // SAFETY: aligned (tested here), within the region and so valid, and accessed only by
        // atomics of this size or by the owner of the bytes (invariant).
        at.is_aligned().then(|| unsafe { AtomicU64::from_ptr(at.as_ptr()) })
    }

    /// The first step of an access to `left` bytes at `offset`. `left` is not 0, and the bytes are
    /// within the region.
    fn part(&self, offset: usize, left: usize) -> Part<'_> {
        let lead = self.base.addr().get().wrapping_add(offset) % WORD;
        if let Some(word) = offset.checked_sub(lead).and_then(|start| self.word(start)) {
            return Part::Word(word, lead, left.min(WORD - lead));
        }
        // SAFETY: the byte is within the region (the callers check this), so it is valid
        // (invariant). It is in no aligned word of the region, so every access to it is one byte
        // wide.
        Part::Byte(unsafe { AtomicU8::from_ptr(self.base.add(offset).as_ptr()) })
    }

    /// The number of the first of `len` bytes at `offset` that are not whole aligned words.
    fn lead(&self, offset: usize, len: usize) -> usize {
        len.min(self.base.addr().get().wrapping_add(offset).wrapping_neg() % WORD)
    }

    /// Copies the bytes at `offset` to `out`.
    pub fn copy(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, out.len(), self.len)?;
        let (lead, rest) = out.split_at_mut(self.lead(offset, out.len()));
        let at = offset + lead.len();
        self.copy_parts(offset, lead);
        // SAFETY: aligned (`lead`) and within the region (tested).
        let words = unsafe { self.words(at, rest.len() / WORD) };
        let (whole, tail) = rest.split_at_mut(words.len() * WORD);
        // SAFETY: the same bytes; arrays of bytes have no alignment.
        let whole = unsafe { slice::from_raw_parts_mut(whole.as_mut_ptr().cast(), words.len()) };
        let mut i = 0; // (a debug build executes iterators call by call)
        while i < words.len() {
            whole[i] = words[i].load(Relaxed).to_ne_bytes();
            i += 1;
        }
        self.copy_parts(at + words.len() * WORD, tail);
        Ok(())
    }

    /// Writes `bytes` at `offset`. Bytes that share a word with them keep their current value.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, bytes.len(), self.len)?;
        let (lead, rest) = bytes.split_at(self.lead(offset, bytes.len()));
        let at = offset + lead.len();
        self.write_parts(offset, lead);
        // SAFETY: aligned (`lead`) and within the region (tested).
        let words = unsafe { self.words(at, rest.len() / WORD) };
        let (whole, tail) = rest.split_at(words.len() * WORD);
        // SAFETY: the same bytes; arrays of bytes have no alignment.
        let whole = unsafe { slice::from_raw_parts(whole.as_ptr().cast(), words.len()) };
        let mut i = 0; // (as in `copy`)
        while i < words.len() {
            words[i].store(u64::from_ne_bytes(whole[i]), Relaxed);
            i += 1;
        }
        self.write_parts(at + words.len() * WORD, tail);
        Ok(())
    }

    /// # Safety
    /// There are `count` aligned words at `offset`, within the region.
    unsafe fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        // SAFETY: within the region (this function's contract).
        let base = unsafe { self.base.add(offset) }.cast::<AtomicU64>();
        debug_assert!(count == 0 || base.is_aligned() && offset + count * WORD <= self.len);
        if count == 0 {
            return &[];
        }
        // SAFETY: aligned and within the region (this function's contract), so valid, and accessed
        // only by atomics of this size (invariant).
        unsafe { slice::from_raw_parts(base.as_ptr(), count) }
    }

    /// Copies bytes that do not fill a word: at most seven, within the region.
    fn copy_parts(&self, offset: usize, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            match self.part(offset + done, out.len() - done) {
                Part::Word(word, from, count) => {
                    let mut word = word.load(Relaxed).to_le() >> (8 * from);
                    for byte in &mut out[done..done + count] {
                        *byte = word as u8;
                        word >>= 8;
                    }
                    done += count;
                }
                Part::Byte(byte) => {
                    out[done] = byte.load(Relaxed);
                    done += 1;
                }
            }
        }
    }

    /// Writes bytes that do not fill a word: at most seven, within the region.
    fn write_parts(&self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            match self.part(offset + done, bytes.len() - done) {
                Part::Word(word, from, count) => {
                    merge(word, from, &bytes[done..done + count]);
                    done += count;
                }
                Part::Byte(byte) => {
                    byte.store(bytes[done], Relaxed);
                    done += 1;
                }
            }
        }
    }
}

/// Puts `bytes` into the word from its byte `from` on, and leaves the other bytes unchanged.
///
/// # Panics
/// If the word has fewer bytes from there on.
#[allow(deprecated)] // `try_update`, as Rust 1.99 calls it, is not in 1.85
fn merge(word: &AtomicU64, from: usize, bytes: &[u8]) {
    let merged = |old: u64| {
        let mut whole = old.to_ne_bytes();
        whole[from..from + bytes.len()].copy_from_slice(bytes);
        Some(u64::from_ne_bytes(whole))
    };
    // `merged` never returns `None`.
    let _ = word.fetch_update(Relaxed, Relaxed, merged);
}

/// Copies bytes at `offset` out of memory that only other processes may write. They are outside of
/// Rust's memory model, as a device is, so the reads are volatile. (An atomic requires memory that
/// can be written.)
///
/// # Safety
/// The bytes are valid for reads, and no Rust code writes them at the same time.
pub unsafe fn read_volatile(base: NonNull<u8>, offset: usize, out: &mut [u8]) {
    // SAFETY: the first of the requested bytes.
    let at = unsafe { base.add(offset) };
    let (lead, rest) = out.split_at_mut(at.align_offset(WORD).min(out.len()));
    let (words, tail) = rest.split_at_mut(rest.len() / WORD * WORD);
    // SAFETY: each call reads a requested byte.
    let byte = |i: usize| unsafe { at.add(i).read_volatile() };
    let (first, last) = (lead.len(), lead.len() + words.len());
    lead.iter_mut().enumerate().for_each(|(i, out)| *out = byte(i));
    for (i, out) in words.chunks_exact_mut(WORD).enumerate() {
        // SAFETY: eight requested bytes, aligned, since `first` leads to a multiple of the word's
        // size.
        let word = unsafe { at.add(first + i * WORD).cast::<u64>().read_volatile() };
        out.copy_from_slice(&word.to_ne_bytes());
    }
    tail.iter_mut().enumerate().for_each(|(i, out)| *out = byte(last + i));
}

#[cfg(test)]
mod tests;
