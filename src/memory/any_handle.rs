//! Handles of any kind, to be dropped or linked.

#![allow(unsafe_code)] // owns headers of any kind

use std::ptr::NonNull;

use crate::memory::header::{Handle, Header, word};

/// A handle of any kind: a buffer with a context of any type, or an `OwningHandle`.
///
/// # Invariants
/// The value owns the handle of this header.
#[repr(transparent)]
pub(crate) struct AnyHandle(NonNull<Header>);

// SAFETY: the list that contains it is only `Send` if its kinds are, with their contexts
// (`AnyList`), or it is dropped where the queue of its buffers ended (`orphaned`).
unsafe impl Send for AnyHandle {}
// SAFETY: the same for `Sync`.
unsafe impl Sync for AnyHandle {}

// SAFETY: it is one pointer to a header, and owns the handle.
unsafe impl Handle for AnyHandle {
    const KIND: usize = word::EXCLUSIVE;
    const LINK_TAGS: usize = word::TAGS;
}

impl Drop for AnyHandle {
    fn drop(&mut self) {
        // SAFETY: this is the only handle (invariant), and it is being dropped.
        unsafe { (self.header().slab_head().drop)(self.0) };
    }
}
