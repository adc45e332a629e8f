//! Frozen buffers and their shares.
//!
//! # Why a frozen buffer is returned once
//!
//! `freeze` forgets the buffer's own handle and keeps the address of its header, which counts the
//! shares (`Link`). Each share is counted from before it is created until it is dropped. (Shares
//! that are created together are counted by one store, before any of them is handed out.) The last
//! share recreates the buffer's own handle. It read a count of one, so no other share is left, and
//! none can be created. Its load or decrement comes after the decrements of all others (Acquire
//! after Release), and therefore after their reads of the bytes.

// No model: one count, as in `std::sync::Arc`.

#![allow(unsafe_code)] // gives up a handle and makes it again

use std::any::TypeId;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::memory::buf::Buf;
use crate::memory::header::{Handle, Head, Header};

/// A share of a frozen buffer.
///
/// # Invariants
/// `buf` is the header of a frozen buffer. This value is one of the shares that are counted there.
pub(crate) struct Frozen {
    buf: NonNull<Header>,
}

// SAFETY: the buffer and its context are `Send` and `Sync` (`freeze` requires it), and the count is
// atomic.
unsafe impl Send for Frozen {}
// SAFETY: as above.
unsafe impl Sync for Frozen {}

/// Recreates the handle of a frozen buffer.
///
/// # Safety
/// It is a frozen buffer of `C`, and the caller gives up its last share, which it detected with an
/// Acquire.
unsafe fn thawed<C: 'static>(buf: NonNull<Header>) -> Buf<C> {
    // SAFETY: there is no other share, so the caller owns the header. `freeze` gave up the only
    // handle.
    unsafe {
        buf.as_ref().link.unlink();
        Buf::from_header(buf.as_ptr())
    }
}

impl Frozen {
    /// Freezes a buffer with `shares` shares, at least one. The returned value is one of them.
    #[inline(always)]
    pub fn freeze<C: Send + Sync + 'static>(buf: Buf<C>, shares: usize) -> Self {
        let header = NonNull::from(buf.header());
        std::mem::forget(buf);
        // INVARIANT: the handle of the buffer was given up, so it is frozen from here on.
        let frozen = Frozen { buf: header };
        frozen.shares().store(shares, Ordering::Relaxed);
        frozen
    }

    /// Returns another of the shares that `freeze` counted.
    ///
    /// # Safety
    /// A counted share remains for which there is no value.
    #[inline(always)]
    pub unsafe fn another(&self) -> Self {
        // INVARIANT: required from the caller.
        Frozen { buf: self.buf }
    }

    #[inline(always)]
    fn shares(&self) -> &AtomicUsize {
        // SAFETY: the header is alive while there is a share, and its buffer is frozen.
        unsafe { self.buf.as_ref().link.shares() }
    }

    /// The start of the slab, which names the type of its contexts.
    #[inline(always)]
    fn head(&self) -> &Head {
        // SAFETY: the slab of a buffer's header is alive as long as the buffer.
        unsafe { &*self.buf.as_ref().slab.cast() }
    }

    /// The number of shares.
    pub fn count(&self) -> usize {
        self.shares().load(Ordering::Relaxed)
    }

    /// Whether it is a buffer with a context of type `C`.
    #[inline(always)]
    pub fn is_of<C: 'static>(&self) -> bool {
        self.head().context == TypeId::of::<C>()
    }

    /// Whether this is the only share, so that no more can be created.
    pub fn is_last(&self) -> bool {
        self.shares().load(Ordering::Acquire) == 1
    }

    /// Ends the share. Returns true if it was the last: the caller then owns the buffer.
    ///
    /// # Safety
    /// This value is not used again.
    #[inline(always)]
    unsafe fn give_up(&self) -> bool {
        let is_last = self.shares().fetch_sub(1, Ordering::Release) == 1;
        if is_last {
            fence(Ordering::Acquire);
        }
        is_last
    }

    /// Ends the share. Returns the buffer if it was the last.
    ///
    /// # Safety
    /// It is a buffer of `C`. This value is not used again.
    #[inline(always)]
    pub unsafe fn thaw_if_last<C: 'static>(&self) -> Option<Buf<C>> {
        // SAFETY: this function has the same contract.
        unsafe { self.give_up().then(|| thawed(self.buf)) }
    }
}

/// Drops a buffer, frozen or not.
///
/// # Safety
/// As for `thawed`, or the caller gives up the handle of a buffer of `C`.
pub(super) unsafe fn drop_buf<C: 'static>(buf: NonNull<Header>) {
    // SAFETY: this function has the same contract.
    drop(unsafe { thawed::<C>(buf) });
}

impl Clone for Frozen {
    #[inline(always)]
    fn clone(&self) -> Self {
        // (The count cannot overflow: each share is in a header.)
        self.shares().fetch_add(1, Ordering::Relaxed);
        // INVARIANT: the share that was just counted.
        Frozen { buf: self.buf }
    }
}

impl Drop for Frozen {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this value is being dropped. After the last share we own the buffer, which
        // belongs to these slots.
        unsafe {
            if self.give_up() {
                (self.head().drop)(self.buf);
            }
        }
    }
}
