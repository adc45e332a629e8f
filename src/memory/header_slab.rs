//! A slab of headers for handles that share a region's memory, or the memory of a buffer in it.
//!
//! A slab grows to the largest number of handles that exist at a time, and lives as long as the
//! region. Headers without a handle are in the free list, like the slots of a pool. So each is
//! taken once (see `FreeList`), and the search for orphaned handles goes through a slab as it does
//! through a pool.

// Model: src/memory/loom_tests/owning_handle.rs

#![allow(unsafe_code)] // hands out headers of a free list

use std::any::TypeId;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::memory::free_list::FreeList;
use crate::memory::header::{Head, Header};
use crate::memory::orphaned;
use crate::memory::owning_handle::{OwningHandle, OwningHeader, drop_owning};
use crate::sync::{AtomicU32, Mutex, lock};

/// # Invariants
/// The headers in `chunks` do not move. The headers in `free_list` do not have a handle, and all
/// others have one.
#[repr(C)]
pub(crate) struct HeaderSlab {
    /// It must be the first field, because the headers' `slab` begins with it.
    head: Head,
    pub(super) free_list: FreeList,
    chunks: Mutex<Vec<Vec<OwningHeader>>>,
}

// SAFETY: a header is accessed through its only handle, which is `Send`, except for the name of the
// queue, which is atomic.
unsafe impl Send for HeaderSlab {}
// SAFETY: a shared slab hands out headers, each to one thread, and takes them back.
unsafe impl Sync for HeaderSlab {}

/// The maximum number of headers that are allocated at once.
const CHUNK: usize = 64;

impl HeaderSlab {
    /// Creates a slab of a protection domain, without headers.
    pub fn new(pd: u32) -> Arc<Self> {
        let context = TypeId::of::<OwningHandle>();
        let head = Head { pd, size: Head::SHARING, context, drop: drop_owning };
        Arc::new(HeaderSlab { head, free_list: FreeList::new(), chunks: Mutex::new(Vec::new()) })
    }

    /// Takes a header without a handle. `put` returns it.
    #[inline(always)]
    pub fn take(&self) -> &OwningHeader {
        let header = self.free_list.take().unwrap_or_else(|| self.take_later());
        // SAFETY: the headers live as long as the slab.
        unsafe { header.cast().as_ref() }
    }

    #[cold]
    #[inline(never)]
    fn take_later(&self) -> NonNull<Header> {
        self.free_list.take_later(|| Some(self.grow())).expect("there is one, or it was just made")
    }

    /// Like `take`, but takes a linked chain of `n` headers. `n` is at least 1.
    #[inline(always)]
    pub fn take_chain(&self, n: usize) -> NonNull<Header> {
        self.free_list.take_chain(n).unwrap_or_else(|| self.take_chain_later(n))
    }

    #[cold]
    #[inline(never)]
    fn take_chain_later(&self, n: usize) -> NonNull<Header> {
        let mut first = self.take_later();
        for _ in 1..n {
            let next = self.take_later();
            // SAFETY: the headers live as long as the slab, and we own them.
            unsafe { next.as_ref() }.link.set_next(first.as_ptr());
            first = next;
        }
        first
    }

    /// Doubles the number of headers, while `free_list` is locked. Returns one of the new ones.
    fn grow(&self) -> NonNull<Header> {
        let mut chunks = lock(&self.chunks);
        let made: usize = chunks.iter().map(Vec::len).sum();
        let chunk: Vec<_> =
            (0..made.clamp(2, CHUNK)).map(|_| OwningHeader::new(ptr::from_ref(self))).collect();
        let count = crate::sync::Arc::new(AtomicU32::new(chunk.len() as u32));
        // SAFETY: `drop` calls `forget` before the headers are freed.
        unsafe { orphaned::note(&chunk, count, self.head.pd) };
        for header in &chunk[1..] {
            // SAFETY: the header has no handle yet and is not in the list.
            unsafe { self.put_later(NonNull::from(header).cast()) };
        }
        let first = NonNull::from(&chunk[0]).cast();
        chunks.push(chunk);
        first
    }

    /// Returns a header. If it returns false, nothing was changed, and the caller must call
    /// `put_later`.
    ///
    /// # Safety
    /// The header belongs to this slab. The caller has its only handle, which is given up if this
    /// returns true.
    #[inline(always)]
    #[must_use]
    pub unsafe fn put(&self, header: NonNull<Header>) -> bool {
        // SAFETY: required from the caller.
        unsafe {
            // It names a queue if it was part of a list that was dropped before it was posted.
            header.as_ref().forget_queue();
            self.free_list.put(header)
        }
    }

    /// Like `put`, but handles interference from other threads.
    ///
    /// # Safety
    /// The header belongs to this slab. The caller has its only handle and gives it up.
    pub unsafe fn put_later(&self, header: NonNull<Header>) {
        // SAFETY: required from the caller.
        let is_entered = unsafe { self.free_list.put_later(header) };
        debug_assert!(is_entered, "the list of a slab is never closed");
    }
}

impl Drop for HeaderSlab {
    fn drop(&mut self) {
        for chunk in lock(&self.chunks).iter() {
            orphaned::forget(chunk, self.head.pd);
        }
    }
}
