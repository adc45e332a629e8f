//! Buffers: exclusive pieces of a registered region.

#![allow(unsafe_code)] // hands out the bytes of registered memory

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::memory::header::{Handle, Header};
use crate::memory::slab::{Slot, put_back};
use crate::memory::{SharedBuf, Shares};

// A handle is a pointer to a header; its tags are in the bits that the header's alignment leaves
// free.
static_assertions::const_assert!(size_of::<Header>() == 64);

/// An exclusive piece of registered memory, with the user's own context `C`.
///
/// A buffer is in one place at a time: with the program, where it reads and writes like a slice, or
/// with the device. Posting moves it there, and its completion brings it back (rules
/// [R11.1](crate::guide::rules#r11-1), [R11.2](crate::guide::rules#r11-2)). A send sends
/// [`len`](Self::len) bytes. A receive may fill the whole capacity and sets the length to the
/// number of bytes that arrived. A dropped buffer returns to its [`Pool`](crate::Pool) or
/// [`Arena`](crate::Arena).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let pool = pd.pool(256).contexts(|index| index).create(1)?; // each buffer knows its index
/// let mut buf: Buf<usize> = pool.take().ok_or("no buffer")?;
/// assert_eq!((buf.capacity(), buf.len()), (256, 256));
/// buf.copy_from(b"hello")?;              // copies, and sets the length
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
    // `slot` is the only handle to its header. It counts as one strong reference to the pool's
    // slots, or the arena's, so slot and memory live as long as the handle.
    slot: NonNull<Slot<C>>,
    _context: PhantomData<C>,
}

// SAFETY: a buffer owns its bytes and its context.
unsafe impl<C: Send> Send for Buf<C> {}
// SAFETY: a shared buffer only gives shared access to its bytes and its context.
unsafe impl<C: Sync> Sync for Buf<C> {}

impl<C> Buf<C> {
    /// Copies `bytes` to the start of the buffer and sets the length to theirs.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::TooLong;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let mut buf = pd.create_pool(1, 8)?.take().ok_or("no buffer")?;
    /// buf.copy_from(b"hello")?;
    /// let error: TooLong = buf.copy_from(b"nine byte").unwrap_err();
    /// assert_eq!(error.to_string(), "9 bytes exceed the buffer's capacity of 8");
    /// assert_eq!(&buf[..], b"hello"); // as it was
    /// buf.fill(b'-');                 // a slice's own: each byte of the length
    /// assert_eq!(&buf[..], b"-----");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLong`] if they do not fit: nothing is written then, and the length stays as it was.
    pub fn copy_from(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let (asked, capacity) = (bytes.len(), self.capacity());
        if asked > capacity {
            return Err(TooLong { asked, capacity });
        }
        self.set_len(asked);
        self[..].copy_from_slice(bytes);
        Ok(())
    }

    /// Sets the length, which is cut to the capacity. The bytes stay whatever the memory holds.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        self.header().set_len(len.min(self.capacity()) as u32);
    }

    /// The number of bytes that a send of this buffer sends.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.header().len() as usize
    }

    /// The number of bytes that the buffer holds and a receive may fill.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.header().capacity() as usize
    }

    /// A slot's only handle.
    ///
    /// # Safety
    /// The handle is new, and given up here.
    pub(super) unsafe fn of(slot: &Slot<C>) -> Self {
        // INVARIANT: asked of the caller.
        Buf { slot: NonNull::from(slot), _context: PhantomData }
    }

    /// The slot whose handle this is.
    pub(super) fn slot(&self) -> &Slot<C> {
        // SAFETY: the slot lives as long as this handle.
        unsafe { self.slot.as_ref() }
    }

    /// The user's context, which stays with the buffer for the life of its pool. (In an arena it
    /// stays with the header, which has another buffer at each take.)
    #[doc(alias("qp_context", "srq_context", "cq_context"))]
    pub fn context(&self) -> &C {
        // SAFETY: the context is reached through the only handle to it, which is borrowed.
        unsafe { &*self.slot().context.get() }
    }

    /// The user's context, mutably.
    pub fn context_mut(&mut self) -> &mut C {
        // SAFETY: the context is reached through the only handle to it, which is borrowed
        // exclusively.
        unsafe { &mut *self.slot().context.get() }
    }

    /// Gives up the right to write, so that the same bytes may be posted several times at once.
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

    /// Freezes the buffer for `n` posts: gives a handle for each. They are counted together, so
    /// this costs less than [`freeze`](Self::freeze) and a clone for each.
    /// [`SharedBuf::thaw_if_last`] makes the last one that comes back the buffer again.
    ///
    /// If `n` is 0, the buffer returns to its pool. Each handle has a header in the region of the
    /// pool, two cache lines, which is used again once the handle is gone. Without memory for a new
    /// one the process ends, as it does when a `Vec` grows.
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

/// The bytes do not fit the buffer: the error of [`Buf::copy_from`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TooLong {
    /// The number of bytes to copy.
    pub asked: usize,
    /// The number of bytes that the buffer holds.
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
        // SAFETY: initialised and within the capacity, as in `deref`. The handle, the only access
        // to the bytes, is borrowed exclusively.
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
