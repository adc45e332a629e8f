//! Handles that share memory: each has a header in a box of its own, and keeps the memory's home
//! alive.
//!
//! # Why each is freed once, and found while it exists
//!
//! A pool knows its headers; these are in one register. A handle has one owner, wherever it travels
//! as a word, until it is dropped. Its Drop removes the header from the register under the lock and
//! then frees it. The search for stranded handles looks at headers under the lock, so no header in
//! the register is freed meanwhile. A handle that it finds with a queue whose completions can no
//! longer come has no other owner (`stranded`), so the search may drop it, after it released the
//! lock.

#![allow(unsafe_code)] // owns boxed headers that travel as words

use std::any::Any;
use std::collections::BTreeSet;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::counters::books::Quiet;
use crate::counters::mark;
use crate::memory::header::Header;
use crate::sync::{Mutex, MutexGuard, global};

/// A header in a box of its own, with what keeps the memory alive.
#[repr(C)]
struct LentHeader {
    header: Header,
    /// The protection domain's number: the header's `home` points to this field.
    pd: u32,
    home: Arc<dyn Any + Send + Sync>,
}

/// A handle with a boxed header, which says where the memory is, keeps it alive and keeps it
/// registered.
///
/// # Invariants
/// `at` is a box made by `lend`, and this is the only handle to it.
#[repr(transparent)]
pub(crate) struct Lent {
    at: NonNull<LentHeader>,
}

// SAFETY: the handle owns the header, and the home is Send + Sync.
unsafe impl Send for Lent {}
// SAFETY: through a shared `Lent` only immutable fields of the header are read.
unsafe impl Sync for Lent {}

/// A handle to `len` bytes at `addr`, which `home` keeps alive and registered with `lkey`.
pub(crate) fn lend(
    home: Arc<dyn Any + Send + Sync>,
    addr: *mut u8,
    len: u32,
    lkey: u32,
    pd: u32,
) -> Lent {
    let mark = mark::of(pd, mark::NO_POOL, len);
    let header = Header::new(addr, len, lkey, ptr::null(), mark);
    let at = Box::into_raw(Box::new(LentHeader { header, pd, home }));
    // SAFETY: `at` is a fresh box, so not null and alive. No reference to it exists.
    let at = unsafe {
        (*at).header.home = (&raw const (*at).pd).cast();
        NonNull::new_unchecked(at)
    };
    register().insert(at.as_ptr().expose_provenance());
    // INVARIANT: a fresh box with no other handle.
    Lent { at }
}

/// The addresses of all boxed headers: pools know their headers, but these are in no other list.
fn register() -> MutexGuard<'static, BTreeSet<usize>> {
    global! {
        static ALL: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    }
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes the boxed handles that are with one of the queues in `quiet`.
pub(super) fn lent_with(quiet: &Quiet) -> Vec<Lent> {
    let mut stranded = Vec::new();
    // The lock keeps other threads from reclaiming, and keeps each listed header alive.
    for &address in register().iter() {
        let header = std::ptr::with_exposed_provenance_mut::<Header>(address);
        // SAFETY: a listed header is alive, and only atomic fields are touched here.
        let seen = unsafe { &*header };
        if quiet.has(seen.posted_to()) {
            seen.forget_queue();
            // SAFETY: the queue that had the handle is gone, and no completion can bring the handle
            // back any more (`Quiet`), so it is ours. That its header says so was taken back under
            // the lock, so no other thread finds it.
            stranded.push(unsafe { Lent::from_header(header) });
        }
    }
    // They are dropped outside the lock, because their Drop takes it.
    stranded
}

/// Whether the queue of these books has a boxed handle.
#[cfg(debug_assertions)]
pub(super) fn is_lent_to(books: &crate::counters::books::Books) -> bool {
    register().iter().any(|&address| {
        let header = std::ptr::with_exposed_provenance::<Header>(address);
        // SAFETY: a listed header is alive, and only atomic fields are touched here.
        books.has(unsafe { &*header }.posted_to())
    })
}

impl Lent {
    pub fn header(&self) -> &Header {
        // SAFETY: the box lives as long as its handle.
        unsafe { self.at.cast().as_ref() }
    }

    fn home(&self) -> &Arc<dyn Any + Send + Sync> {
        // SAFETY: the box lives as long as its handle.
        unsafe { &(*self.at.as_ptr()).home }
    }

    /// # Safety
    /// `header` is that of a handle that `lend` made, and the caller has the only one to it.
    unsafe fn from_header(header: *mut Header) -> Self {
        // SAFETY: the address of a box is not null.
        Lent { at: unsafe { NonNull::new_unchecked(header.cast()) } }
    }
}

impl Clone for Lent {
    /// Another header for the same memory.
    fn clone(&self) -> Self {
        let h = self.header();
        lend(self.home().clone(), h.addr(), h.capacity(), h.lkey(), h.pd())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        register().remove(&self.at.as_ptr().addr());
        // SAFETY: `lend` made the box, and this is the only handle to it (invariant).
        drop(unsafe { Box::from_raw(self.at.as_ptr()) });
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::counters::books::{Books, SEND};
    use crate::memory::header::Handle;
    use crate::{loopback, prelude::*};

    /// Two threads may look for what is stranded before either drops what it found: each handle is
    /// one thread's.
    #[test]
    fn a_stranded_handle_is_found_once() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let books = Books::new(pd.id()).unwrap();
        let region = pd.register::<RemoteRead>(64).unwrap();
        let piece = region.piece(0, 8).unwrap();
        let piece = std::mem::ManuallyDrop::new(piece);
        // SAFETY: the books are there.
        piece.header().give(unsafe { Books::counter(Arc::as_ptr(&books), SEND) });
        let mut quiet = Quiet::default();
        quiet.add(books);
        let found = lent_with(&quiet);
        assert_eq!((found.len(), lent_with(&quiet).len()), (1, 0));
        assert!(found[0].header().posted_to().is_null());
    }
}
