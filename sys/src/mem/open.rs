//! Memory that others may touch at any time: a peer through the device, or another thread of this
//! program.
//!
//! Concurrent accesses must be atomic and of one size: two atomic accesses of different sizes that
//! race are undefined behaviour, like any other race. So every access to an aligned word of a
//! region is an access to the whole word, however few of its bytes are meant. Only the bytes at the
//! ends that are in no aligned word are accessed one by one.

// No model: peers and the program touch this memory at any time. No value in it says anything about
// other memory; a program's own protocol over it is the program's.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::terms::bounds::OutOfBounds;

const WORD: usize = size_of::<u64>();

/// A region that others may touch at any time.
#[derive(Clone, Copy)]
pub struct Open {
    // Invariants:
    // The `len` bytes at `base` are valid for reads and writes while the value is used. Meanwhile
    // Rust code touches them through such values only, unless it owns the bytes that it touches.
    base: NonNull<u8>,
    len: usize,
}

/// One step of an access: some bytes of one word, or a single byte.
enum Part<'a> {
    /// The word, the first byte meant, and the number of bytes.
    Word(&'a AtomicU64, usize, usize),
    Byte(&'a AtomicU8),
}

impl Open {
    /// # Safety
    /// The type's invariant holds as long as the value is used.
    #[inline]
    pub unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        // INVARIANT: asked of the caller, in the same words.
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
        // SAFETY: aligned (tested here), within the region and so valid, and touched only by
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
        // SAFETY: the byte is within the region (asked of the callers, which check it), so
        // it is valid (invariant). It is in no aligned word of the region, so all access it as a
        // byte.
        Part::Byte(unsafe { AtomicU8::from_ptr(self.base.add(offset).as_ptr()) })
    }

    /// The number of the first of `len` bytes at `offset` that are not whole aligned words.
    fn lead(&self, offset: usize, len: usize) -> usize {
        len.min(self.base.addr().get().wrapping_add(offset).wrapping_neg() % WORD)
    }

    /// Copies the bytes from `offset` on to `out`.
    pub fn copy(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, out.len(), self.len)?;
        let (lead, rest) = out.split_at_mut(self.lead(offset, out.len()));
        let (words, tail) = rest.split_at_mut(rest.len() / WORD * WORD);
        let at = offset + lead.len();
        self.copy_parts(offset, lead);
        for (i, out) in words.chunks_exact_mut(WORD).enumerate() {
            // SAFETY: an aligned word (`lead`) within the region (tested).
            let word = unsafe { self.word_at(at + i * WORD) };
            out.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        self.copy_parts(at + words.len(), tail);
        Ok(())
    }

    /// Writes `bytes` from `offset` on. Bytes that share a word with them keep their current value.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, bytes.len(), self.len)?;
        let (lead, rest) = bytes.split_at(self.lead(offset, bytes.len()));
        let (words, tail) = rest.split_at(rest.len() / WORD * WORD);
        let at = offset + lead.len();
        self.write_parts(offset, lead);
        for (i, bytes) in words.chunks_exact(WORD).enumerate() {
            // SAFETY: an aligned word (`lead`) within the region (tested).
            let word = unsafe { self.word_at(at + i * WORD) };
            word.store(u64::from_ne_bytes(bytes.try_into().expect("a chunk")), Relaxed);
        }
        self.write_parts(at + words.len(), tail);
        Ok(())
    }

    /// # Safety
    /// At `offset` is an aligned word, within the region.
    unsafe fn word_at(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(self.word(offset).is_some(), "offset {offset} of {}", self.len);
        // SAFETY: aligned and within the region (this function's contract), so valid, and touched
        // by atomics of this size only (invariant).
        unsafe { AtomicU64::from_ptr(self.base.add(offset).cast().as_ptr()) }
    }

    /// Copies out bytes that are in no whole word that is meant: at most seven, within the region.
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

    /// Writes bytes of which there are at most seven, within the region.
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

/// Puts `bytes` into the word, starting at its byte `from`, and leaves the others as they are.
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
    // `merged` never refuses.
    let _ = word.fetch_update(Relaxed, Relaxed, merged);
}

/// Copies bytes from `offset` on out of memory that only other processes write, if anybody does.
/// They are outside of Rust's memory model, as a device is, so the reads are volatile. (Atomics are
/// made of memory that can be written.)
///
/// # Safety
/// The bytes are valid for reads, and no Rust code writes them meanwhile.
pub unsafe fn read_volatile(base: NonNull<u8>, offset: usize, out: &mut [u8]) {
    // SAFETY: the first of the bytes asked for.
    let at = unsafe { base.add(offset) };
    let (lead, rest) = out.split_at_mut(at.align_offset(WORD).min(out.len()));
    let (words, tail) = rest.split_at_mut(rest.len() / WORD * WORD);
    // SAFETY: each reads a byte that was asked for.
    let byte = |i: usize| unsafe { at.add(i).read_volatile() };
    let (first, last) = (lead.len(), lead.len() + words.len());
    lead.iter_mut().enumerate().for_each(|(i, out)| *out = byte(i));
    for (i, out) in words.chunks_exact_mut(WORD).enumerate() {
        // SAFETY: eight bytes that were asked for, aligned, since those before them lead to a
        // multiple of the word's size.
        let word = unsafe { at.add(first + i * WORD).cast::<u64>().read_volatile() };
        out.copy_from_slice(&word.to_ne_bytes());
    }
    tail.iter_mut().enumerate().for_each(|(i, out)| *out = byte(last + i));
}

#[cfg(test)]
mod tests;
