//! Frozen buffers, and who shares them.
//!
//! # Why a frozen buffer is given back once
//!
//! Its own handle is given up as the address of its header, which counts the shares (`Link`). Each
//! share counts as one, from before it is made until it is gone. (Those that are made together are
//! counted by one store, before anybody has one.) The last one makes the buffer's own handle again:
//! it saw the count at one, so no other share is left, and none can be made. Its load or decrement
//! is after those of all others (Acquire after Release), and so after what they read.

#![allow(unsafe_code)] // gives up a handle and makes it again

use std::any::TypeId;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::memory::buf::Buf;
use crate::memory::header::{Handle, Header};
use crate::memory::slab::Head;

/// A share of a frozen buffer.
///
/// # Invariants
/// `buf` is the header of a frozen buffer. This is one of the shares that are counted there.
pub(crate) struct Frozen {
    buf: NonNull<Header>,
}

// SAFETY: the buffer and its context are `Send` and `Sync` (`freeze` asks for it), and the count is
// atomic.
unsafe impl Send for Frozen {}
// SAFETY: as above.
unsafe impl Sync for Frozen {}

/// Makes the handle of a frozen buffer again.
///
/// # Safety
/// It is a frozen buffer of `C`, and the caller gives up the last share of it, as it saw by an
/// Acquire.
unsafe fn thawed<C: 'static>(buf: NonNull<Header>) -> Buf<C> {
    // SAFETY: nobody else has a share, so the header is the caller's; `freeze` gave up the handle,
    // the only one.
    unsafe {
        buf.as_ref().link.unlink();
        Buf::from_header(buf.as_ptr())
    }
}

impl Frozen {
    /// Freezes a buffer, with so many shares, at least one. This is one of them.
    #[inline(always)]
    pub fn freeze<C: Send + Sync + 'static>(buf: Buf<C>, shares: usize) -> Self {
        let header = NonNull::from(buf.header());
        std::mem::forget(buf);
        // INVARIANT: its handle was given up, so the buffer is frozen from here on.
        let frozen = Frozen { buf: header };
        frozen.shares().store(shares, Ordering::Relaxed);
        frozen
    }

    /// Another share of those that were counted by `freeze`.
    ///
    /// # Safety
    /// There is a counted one that no value is.
    #[inline(always)]
    pub unsafe fn another(&self) -> Self {
        // INVARIANT: asked of the caller.
        Frozen { buf: self.buf }
    }

    #[inline(always)]
    fn shares(&self) -> &AtomicUsize {
        // SAFETY: the header is alive while there is a share, and of a frozen buffer.
        unsafe { self.buf.as_ref().link.shares() }
    }

    /// The type of the contexts of its pool or arena.
    #[inline(always)]
    fn head(&self) -> &Head {
        // SAFETY: the slab of a buffer's header is alive as long as the buffer.
        unsafe { &*self.buf.as_ref().slab.cast() }
    }

    /// The number of shares.
    pub fn count(&self) -> usize {
        self.shares().load(Ordering::Relaxed)
    }

    /// Whether it is a buffer of `C`.
    #[inline(always)]
    pub fn is_of<C: 'static>(&self) -> bool {
        self.head().context == TypeId::of::<C>()
    }

    /// Whether this is the only share, so that none can be made.
    pub fn is_last(&self) -> bool {
        self.shares().load(Ordering::Acquire) == 1
    }

    /// Gives up the share. True if it was the last: then the buffer is the caller's.
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

    /// Gives up the share. The buffer, if it was the last.
    ///
    /// # Safety
    /// It is a buffer of `C`. This value is not used again.
    #[inline(always)]
    pub unsafe fn thaw_if_last<C: 'static>(&self) -> Option<Buf<C>> {
        // SAFETY: asked of the caller, in the same words.
        unsafe { self.give_up().then(|| thawed(self.buf)) }
    }
}

/// Drops a frozen buffer.
///
/// # Safety
/// As for `thawed`.
pub(super) unsafe fn drop_frozen<C: 'static>(buf: NonNull<Header>) {
    // SAFETY: asked of the caller.
    drop(unsafe { thawed::<C>(buf) });
}

impl Clone for Frozen {
    #[inline(always)]
    fn clone(&self) -> Self {
        // (There are never too many to count: each is in a header.)
        self.shares().fetch_add(1, Ordering::Relaxed);
        // INVARIANT: the share just counted.
        Frozen { buf: self.buf }
    }
}

impl Drop for Frozen {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: this value goes. After the last share the buffer, of these slots, is ours.
        unsafe {
            if self.give_up() {
                (self.head().drop_frozen)(self.buf);
            }
        }
    }
}
