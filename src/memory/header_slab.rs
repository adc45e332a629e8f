//! A slab of headers for the handles that share a region's memory, or that of a buffer in it.
//!
//! A slab grows to as many headers as there are handles at a time, and lives as long as the region.
//! A header without a handle is in the free list, as a slot of a pool is. So `FreeList` says why it
//! is taken once; and the search for orphaned handles looks through a slab as it does through a
//! pool.

#![allow(unsafe_code)] // hands out headers of a free list

use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::memory::free_list::FreeList;
use crate::memory::header::Header;
use crate::memory::orphaned;
use crate::memory::owning_handle::{OwningHandle, OwningHeader};
use crate::sync::{AtomicU32, Mutex, lock};

/// # Invariants
/// The headers in `chunks` do not move. Those in `free_list` have no handle, and all others one.
#[repr(C)]
pub(crate) struct HeaderSlab {
    /// The protection domain's number. It is the first field: the headers' `slab` begins with it.
    pd: u32,
    free_list: FreeList,
    chunks: Mutex<Vec<Vec<OwningHeader>>>,
}

// SAFETY: a header is reached through its only handle, which is `Send`; but for the name of the
// queue, which is atomic.
unsafe impl Send for HeaderSlab {}
// SAFETY: a shared slab hands out headers, each to one thread, and takes them back.
unsafe impl Sync for HeaderSlab {}

/// The most headers that are made at once.
const CHUNK: usize = 64;

impl HeaderSlab {
    /// A slab of a protection domain, which has no headers yet.
    pub fn new(pd: u32) -> Arc<Self> {
        Arc::new(HeaderSlab { pd, free_list: FreeList::new(), chunks: Mutex::new(Vec::new()) })
    }

    /// Takes a header that has no handle. `put` takes it back.
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

    /// As `take`, of `n` headers, at least one, which are linked.
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
            // SAFETY: the headers live as long as the slab, and are ours.
            unsafe { next.as_ref() }.link.set_next(first.as_ptr());
            first = next;
        }
        first
    }

    /// Makes as many headers as there are, while `free_list` is locked. Returns one of them.
    fn grow(&self) -> NonNull<Header> {
        let mut chunks = lock(&self.chunks);
        let made: usize = chunks.iter().map(Vec::len).sum();
        let chunk: Vec<_> =
            (0..made.clamp(2, CHUNK)).map(|_| OwningHeader::new(ptr::from_ref(self))).collect();
        let count = crate::sync::Arc::new(AtomicU32::new(chunk.len() as u32));
        // SAFETY: `drop` calls `forget` before the headers go. Their handles are `OwningHandle`.
        unsafe { orphaned::note::<_, OwningHandle>(&chunk, count, self.pd) };
        for header in &chunk[1..] {
            // SAFETY: it has no handle yet, and is new in the list.
            unsafe { self.put_later(NonNull::from(header).cast()) };
        }
        let first = NonNull::from(&chunk[0]).cast();
        chunks.push(chunk);
        first
    }

    /// The number of headers without a handle.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.free_list.count()
    }

    /// Takes back a header. If the answer is false, nothing was done, and `put_later` must be
    /// called.
    ///
    /// # Safety
    /// The header is of this slab. The caller has its only handle, and gives it up if the answer is
    /// true.
    #[inline(always)]
    #[must_use]
    pub unsafe fn put(&self, header: NonNull<Header>) -> bool {
        // SAFETY: asked of the caller.
        unsafe {
            // It names a queue if it was part of a list that was dropped before it was posted.
            header.as_ref().forget_queue();
            self.free_list.put(header)
        }
    }

    /// As `put`, whatever others do.
    ///
    /// # Safety
    /// The header is of this slab. The caller has its only handle, and gives it up.
    pub unsafe fn put_later(&self, header: NonNull<Header>) {
        // SAFETY: asked of the caller.
        let is_entered = unsafe { self.free_list.put_later(header) };
        debug_assert!(is_entered, "the list of a slab is never closed");
    }
}

impl Drop for HeaderSlab {
    fn drop(&mut self) {
        for chunk in lock(&self.chunks).iter() {
            orphaned::forget(chunk, self.pd);
        }
    }
}
