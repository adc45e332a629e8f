//! Buffers: exclusive pieces of a registered region.

#![allow(unsafe_code)] // hands out the bytes of registered memory

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::header::{Handle, Header};
use crate::memory::slab::{Slot, put_back};
use crate::memory::{SharedBuf, Shares};

// A handle is a pointer to a header. Its tags are in the low bits, which the header's alignment
// leaves free.
static_assertions::const_assert!(size_of::<Header>() == 64 || cfg!(loom));

/// A buffer of registered memory, with your own context `C`.
///
/// It dereferences to a byte slice of [`len`](Self::len) bytes. Posting moves the buffer to the
/// device, and the completion returns it ([R11.1](crate::guide::rules#r11-1),
/// [R11.2](crate::guide::rules#r11-2)). A send transmits `len` bytes. A receive can use the whole
/// [`capacity`](Self::capacity) and sets `len` to the number of bytes that arrived.
///
/// The context stays with the buffer through posts and completions. Use it where a C program would
/// use `wr_id`.
///
/// Dropping a buffer returns it to its [`Pool`](crate::Pool) or [`Arena`](crate::Arena).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let pool = pd.pool(256).contexts(|index| index).create(1)?; // the context is the buffer's index
/// let mut buf: Buf<usize> = pool.take().ok_or("no buffer")?;
/// assert_eq!((buf.capacity(), buf.len()), (256, 256));
/// buf.copy_from(b"hello")?;              // copies and sets the length
/// assert_eq!((&buf[..], buf.len()), (&b"hello"[..], 5));
/// buf.set_len(1);                        // a send would send the `h`
/// *buf.context_mut() += 100;             // C's `wr_id`, or what it points to
/// assert_eq!(*buf.context(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("zero-copy", "zerocopy", "ibv_sge", "lkey", "ibv_mr", "ibv_qp", "ibv_qp_init_attr"))]
#[doc(alias("ibv_srq_init_attr", "ibv_srq", "ibv_cq"))]
#[repr(transparent)]
pub struct Buf<C: 'static = ()> {
    // Invariants:
    // `slot` is the only handle to its header. It counts as one strong reference to the slots of
    // the pool or arena, so slot and memory live as long as the handle.
    slot: NonNull<Slot<C>>,
    _context: PhantomData<C>,
}

// SAFETY: a buffer owns its bytes and its context.
unsafe impl<C: Send> Send for Buf<C> {}
// SAFETY: a `&Buf` only gives shared access to the bytes and the context.
unsafe impl<C: Sync> Sync for Buf<C> {}

impl<C> Buf<C> {
    /// Copies `bytes` to the start of the buffer and sets the buffer's length to their number.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::TooLong;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let mut buf = pd.create_pool(1, 8)?.take().ok_or("no buffer")?;
    /// buf.copy_from(b"hello")?;
    /// let error: TooLong = buf.copy_from(b"nine byte").unwrap_err();
    /// assert_eq!(error.to_string(), "9 bytes exceed the buffer's capacity of 8");
    /// assert_eq!(&buf[..], b"hello"); // unchanged
    /// buf.fill(b'-');                 // a method of slices
    /// assert_eq!(&buf[..], b"-----");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLong`] if `bytes` does not fit. The buffer and its length are then unchanged.
    pub fn copy_from(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let (asked, capacity) = (bytes.len(), self.capacity());
        if asked > capacity {
            return Err(TooLong { asked, capacity });
        }
        self.set_len(asked);
        self[..].copy_from_slice(bytes);
        Ok(())
    }

    /// Sets the length to `len`, or to the capacity if `len` is larger. The bytes do not change.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        self.header().set_len(len.min(self.capacity()) as u32);
    }

    /// The number of bytes that a send of this buffer transmits.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.header().len() as usize
    }

    /// The size of the buffer in bytes: the maximum number of bytes that a receive can fill.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.header().capacity() as usize
    }

    /// Creates the only handle of a slot.
    ///
    /// # Safety
    /// The handle is new. The caller gives it up.
    pub(super) unsafe fn of(slot: &Slot<C>) -> Self {
        // INVARIANT: required from the caller.
        Buf { slot: NonNull::from(slot), _context: PhantomData }
    }

    /// The slot of this handle.
    pub(super) fn slot(&self) -> &Slot<C> {
        // SAFETY: the slot lives as long as this handle.
        unsafe { self.slot.as_ref() }
    }

    /// The context, which stays with the buffer for the life of its pool. In an arena it stays with
    /// the header, and each take may combine the header with other bytes.
    #[doc(alias("qp_context", "srq_context", "cq_context"))]
    pub fn context(&self) -> &C {
        // SAFETY: the context is reached through the only handle to it, which is borrowed.
        unsafe { &*self.slot().context.get() }
    }

    /// The context, mutably.
    pub fn context_mut(&mut self) -> &mut C {
        // SAFETY: the context is reached through the only handle to it, which is borrowed
        // exclusively.
        unsafe { &mut *self.slot().context.get() }
    }

    /// Makes the buffer read-only, so that its bytes can be posted several times at once.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut entry = pool.take().ok_or("no buffer")?;
    /// entry.copy_from(b"for three followers")?;
    /// let shared: SharedBuf = entry.freeze();
    /// let [one, two, three] = [shared.clone(), shared.clone(), shared];
    /// # let _ = (one, two, three);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freeze(self) -> SharedBuf
    where
        C: Send + Sync,
    {
        SharedBuf::new(self)
    }

    /// Freezes the buffer and returns `n` handles, one for each post. This costs less than
    /// [`freeze`](Self::freeze) and a clone for each post, because all handles are counted at once.
    /// [`SharedBuf::thaw_if_last`] turns the last handle back into the buffer.
    ///
    /// If `n` is 0, the buffer returns to its pool. Each handle takes a header of two cache lines,
    /// which is reused after the handle is dropped. If there is no memory for a new header the
    /// process aborts, as when a `Vec` grows.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut entry = pool.take().ok_or("no buffer")?;
    /// entry.copy_from(b"for three followers")?;
    /// let mut handles: Vec<SharedBuf> = entry.share(3).collect();
    /// let last = handles.pop().ok_or("there are three")?;
    /// assert_eq!((last.handles(), &last[..]), (3, &b"for three followers"[..]));
    /// drop(handles);
    /// let entry: Buf = last.thaw_if_last().ok_or("others have it")?;
    /// # let _ = entry;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn share(self, n: usize) -> Shares
    where
        C: Send + Sync,
    {
        Shares::new(self, n)
    }
}

/// The error of [`Buf::copy_from`]: the bytes do not fit into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TooLong {
    /// The number of bytes to copy.
    pub asked: usize,
    /// The capacity of the buffer in bytes.
    pub capacity: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLong { asked, capacity } = self;
        write!(f, "{asked} bytes exceed the buffer's capacity of {capacity}")
    }
}

impl std::error::Error for TooLong {}

impl<C> Deref for Buf<C> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let header = self.header();
        // SAFETY: the memory is initialised, and no other process writes it (`Memory`, and
        // `CanBeSlices` of pools). `len` is within the capacity, and only this handle, which is
        // borrowed, gives access to it.
        unsafe { std::slice::from_raw_parts(header.addr(), header.len() as usize) }
    }
}

impl<C> DerefMut for Buf<C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let header = self.header();
        // SAFETY: initialised and within the capacity, as in `deref`. The handle is the only access
        // to the bytes, and it is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(header.addr(), header.len() as usize) }
    }
}

impl<C> Drop for Buf<C> {
    fn drop(&mut self) {
        // SAFETY: this is the only handle to the slot (invariant), and `drop` runs once.
        unsafe { put_back(self.slot) };
    }
}

impl_debug!([C] Buf<C>, |it| "Buf({} of {} bytes)", it.len(), it.capacity());
