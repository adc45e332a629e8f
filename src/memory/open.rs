//! Memory that others may touch at any time: a peer through the device, or another thread of this
//! program.
//!
//! Concurrent accesses must be atomic and of one size: two atomic accesses of different sizes that
//! race are undefined behaviour, like any other race. So every access to an aligned word of a
//! region is an access to the whole word, however few of its bytes are meant. Only the bytes at the
//! ends that are in no aligned word are accessed one by one.

#![allow(unsafe_code)] // makes atomics of raw memory

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::cold::seldom;
use crate::memory::bulk::{self, Shared, WORD};
use crate::memory::remote::OutOfBounds;

/// A region that others may touch at any time.
///
/// # Invariants
/// The `len` bytes at `base` are valid for reads and writes while the value is used. Meanwhile Rust
/// code touches them through such values only, unless it owns the bytes that it touches.
#[derive(Clone, Copy)]
pub(crate) struct Open {
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
    pub(crate) unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        // INVARIANT: asked of the caller, in the same words.
        Open { base, len }
    }

    /// The word at `offset`; `None` unless it is aligned and within the region.
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU64> {
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
    #[inline(always)]
    pub(crate) fn copy(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, out.len(), self.len)?;
        match self.are_words(offset, out.len()) {
            // SAFETY: aligned words within the region (tested).
            true => unsafe { self.load_words(offset, out) },
            false => {
                seldom(); // one jump less for whole words
                self.copy_bytes(offset, out)
            }
        }
        Ok(())
    }

    /// As `copy`, within the region.
    #[inline(always)]
    fn copy_bytes(&self, offset: usize, out: &mut [u8]) {
        let to = NonNull::from(&mut *out).cast();
        let (from, before) = self.at(offset);
        // SAFETY: the bytes are within the region (asked of the callers, which check it), and so
        // valid (invariant); `bulk` says why they are accessed as parts of their words.
        if !unsafe { bulk::any_short(to, from, out.len(), before, Shared::From) } {
            self.copy_called(offset, out);
        }
    }

    #[inline(never)]
    fn copy_called(self, offset: usize, out: &mut [u8]) {
        let to = NonNull::from(&mut *out).cast();
        let (from, before) = self.at(offset);
        // SAFETY: the bytes are within the region (`copy_bytes`, which alone calls this, is asked
        // for that), and so valid (invariant). `out` is as long.
        if !unsafe { bulk::any(to, from, out.len(), before, Shared::From) } {
            self.copy_any(offset, out);
        }
    }

    /// As `write`, within the region.
    #[inline(always)]
    fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        let (to, before) = self.at(offset);
        let from = NonNull::from(bytes).cast();
        // SAFETY: the bytes are within the region (asked of the callers, which check it), and so
        // may be written (invariant); `bulk` says why they are accessed as parts of their words.
        if !unsafe { bulk::any_short(to, from, bytes.len(), before, Shared::To) } {
            self.write_called(offset, bytes);
        }
    }

    #[inline(never)]
    fn write_called(self, offset: usize, bytes: &[u8]) {
        let (to, before) = self.at(offset);
        let from = NonNull::from(bytes).cast();
        // SAFETY: the bytes are within the region (`write_bytes`, which alone calls this, is asked
        // for that), and so may be written (invariant).
        if !unsafe { bulk::any(to, from, bytes.len(), before, Shared::To) } {
            self.write_any(offset, bytes);
        }
    }

    /// The byte at `offset`, which is within the region, and how many are before it in its word.
    #[inline(always)]
    fn at(&self, offset: usize) -> (NonNull<u8>, usize) {
        // SAFETY: within the region, or its end (asked of the callers, which check it).
        let at = unsafe { self.base.add(offset) };
        (at, at.addr().get() % WORD)
    }

    /// # Safety
    /// At `offset` are as many aligned words within the region as `out` has room for.
    #[inline(always)]
    unsafe fn load_words(&self, offset: usize, out: &mut [u8]) {
        debug_assert!(self.are_words(offset, out.len()));
        // SAFETY: aligned words within the region (this function's contract), which are valid and
        // touched by atomics of this size only (invariant).
        unsafe {
            let word = |at: NonNull<u64>| AtomicU64::from_ptr(at.as_ptr()).load(Relaxed);
            bulk::load(self.base.add(offset).cast(), out, word);
        }
    }

    /// # Safety
    /// `bytes` are as long as aligned words that are within the region at `offset`.
    #[inline(always)]
    unsafe fn store_words(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(self.are_words(offset, bytes.len()));
        // SAFETY: aligned words within the region (this function's contract), which are valid and
        // touched by atomics of this size only (invariant).
        unsafe {
            let word = |at: NonNull<u64>, new| AtomicU64::from_ptr(at.as_ptr()).store(new, Relaxed);
            bulk::store(self.base.add(offset).cast(), bytes, word);
        }
    }

    /// Whether these bytes are aligned whole words: what programs copy most, without ends. (A read
    /// of 64 bytes takes 70 instructions less.)
    #[inline(always)]
    fn are_words(&self, offset: usize, len: usize) -> bool {
        (self.base.addr().get().wrapping_add(offset) | len) % WORD == 0
    }

    /// As `copy`, within the region.
    #[inline(never)]
    fn copy_any(self, offset: usize, out: &mut [u8]) {
        bulk::find_masks();
        let (lead, rest) = out.split_at_mut(self.lead(offset, out.len()));
        let (words, tail) = rest.split_at_mut(rest.len() / WORD * WORD);
        let at = offset + lead.len();
        if !lead.is_empty() {
            self.copy_parts(offset, lead);
        }
        if !words.is_empty() {
            // SAFETY: aligned words (`lead`), within the region as the caller says.
            unsafe { self.load_words(at, words) };
        }
        if !tail.is_empty() {
            self.copy_parts(at + words.len(), tail);
        }
    }

    /// Writes `bytes` from `offset` on. Bytes that share a word with them keep their current value.
    #[inline(always)]
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(offset, bytes.len(), self.len)?;
        match self.are_words(offset, bytes.len()) {
            // SAFETY: aligned words within the region (tested).
            true => unsafe { self.store_words(offset, bytes) },
            false => {
                seldom(); // one jump less for whole words
                self.write_bytes(offset, bytes)
            }
        }
        Ok(())
    }

    /// As `write`, within the region.
    #[inline(never)]
    fn write_any(self, offset: usize, bytes: &[u8]) {
        bulk::find_masks();
        let (lead, rest) = bytes.split_at(self.lead(offset, bytes.len()));
        let (words, tail) = rest.split_at(rest.len() / WORD * WORD);
        let at = offset + lead.len();
        if !lead.is_empty() {
            self.write_parts(offset, lead);
        }
        if !words.is_empty() {
            // SAFETY: aligned words (`lead`), within the region as the caller says.
            unsafe { self.store_words(at, words) };
        }
        if !tail.is_empty() {
            self.write_parts(at + words.len(), tail);
        }
    }

    /// Copies out bytes that are in no whole word that is meant: at most seven, within the region.
    #[inline(never)]
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
    #[inline(never)]
    fn write_parts(&self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            match self.part(offset + done, bytes.len() - done) {
                Part::Word(word, from, count) => {
                    bulk::merge(word, from, &bytes[done..done + count]);
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

/// Copies bytes from `offset` on out of memory that only other processes write, if anybody does.
/// They are outside of Rust's memory model, as a device is, so the reads are volatile. (Atomics are
/// made of memory that can be written.)
///
/// # Safety
/// The bytes are valid for reads, and no Rust code writes them meanwhile.
pub(crate) unsafe fn read_volatile(base: NonNull<u8>, offset: usize, out: &mut [u8]) {
    // SAFETY: the first of the bytes asked for.
    let mut at = unsafe { base.add(offset) };
    let lead = at.align_offset(WORD).min(out.len());
    let (lead, rest) = out.split_at_mut(lead);
    let (words, tail) = rest.split_at_mut(rest.len() / WORD * WORD);
    // SAFETY: each step reads what `out` has room for, in its order, and what was asked for. Words
    // are aligned, since the bytes before them lead to a multiple of their size.
    unsafe {
        for byte in lead {
            *byte = at.read_volatile();
            at = at.add(1);
        }
        if !words.is_empty() {
            bulk::load(at.cast(), words, |at| at.read_volatile());
            at = at.add(words.len());
        }
        for byte in tail {
            *byte = at.read_volatile();
            at = at.add(1);
        }
    }
}

#[cfg(test)]
mod tests;
