//! Buffers: exclusive pieces of a registered region.

#![allow(unsafe_code)] // hands out the bytes of registered memory

pub(crate) mod header;
mod list;
mod pool;
mod shared;
mod stranded;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

pub use list::BufList;
pub use pool::Pool;
pub use shared::SharedBuf;
use shared::lent_with;
pub(crate) use shared::{Lent, lend};
pub(crate) use stranded::{Home, count_posted, reclaim_everything};

use header::Header;
use pool::Slot;

// A handle is a pointer to one, with tags in the bits that its alignment leaves free.
static_assertions::const_assert!(size_of::<Header>() == 64);

/// An exclusive piece of registered memory, with the user's own context `C`.
///
/// A buffer is in one place at a time: here, where it reads and writes like a slice, or with the
/// device, to which posting moves it and from which its completion brings it back (rules R11.1, R11.2).
/// Its length says how much a send sends; a receive uses the whole capacity, and leaves the length
/// at what arrived. Dropped, it goes back to its [`Pool`].
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
/// let pool = pd.create_pool_with(1, 256, |index| index)?; // each buffer knows its index
/// let mut buf: Buf<usize> = pool.take().ok_or("no buffer")?;
/// assert_eq!((buf.capacity(), buf.len()), (256, 256));
/// buf.copy_from(b"hello")?;              // copies, and sets the length
/// assert_eq!((&buf[..], buf.len()), (&b"hello"[..], 5));
/// buf.set_len(1);                        // a send would send the `h`
/// *buf.context_mut() += 100;             // C's `wr_id`, or what it points to
/// assert_eq!(*buf.context(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// `slot` is the only handle to its header, and counts as one reference to the pool.
pub struct Buf<C: 'static = ()> {
    slot: NonNull<Slot<C>>,
    _context: PhantomData<C>,
}

// SAFETY: a buffer owns its bytes and its context.
unsafe impl<C: Send> Send for Buf<C> {}
// SAFETY: a shared buffer only gives shared access to its bytes and its context.
unsafe impl<C: Sync> Sync for Buf<C> {}

impl<C> Buf<C> {
    /// # Safety
    /// `header` is that of a pool of `C`, and the caller gives up the only handle to it.
    pub(crate) unsafe fn from_header(header: *mut Header) -> Self {
        // SAFETY: headers of a pool are the first field of a `Slot`, and never null.
        Buf { slot: unsafe { NonNull::new_unchecked(header.cast()) }, _context: PhantomData }
    }

    /// Gives up the handle as the address of its header.
    #[inline(always)]
    pub(crate) fn into_header(self) -> *mut Header {
        let header = self.slot.as_ptr().cast();
        std::mem::forget(self);
        header
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the header lives as long as its handle.
        unsafe { self.slot.cast().as_ref() }
    }

    /// How many bytes the buffer can hold, and a receive of it takes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.header().capacity as usize
    }

    /// How many bytes a send of this buffer sends.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.header().len() as usize
    }

    /// Sets the length; the bytes are whatever the memory holds. What exceeds the capacity is cut.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        self.header().set_len(len.min(self.capacity()) as u32);
    }

    /// Copies `bytes` to the start and makes them the length.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
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
    /// [`TooLong`] if they do not fit; nothing is written then, and the length stays (ibv_post_send(3) would have sent a part).
    pub fn copy_from(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let (asked, capacity) = (bytes.len(), self.capacity());
        if asked > capacity {
            return Err(TooLong { asked, capacity });
        }
        self.set_len(asked);
        self[..].copy_from_slice(bytes);
        Ok(())
    }

    /// The user's context, which stays with the buffer from the creation of its pool on.
    pub fn context(&self) -> &C {
        // SAFETY: the slot lives as long as its handle.
        let slot = unsafe { self.slot.as_ref() };
        // SAFETY: the context is only reached through the handle, which is borrowed.
        unsafe { &*slot.context.get() }
    }

    /// The user's context, to change it.
    pub fn context_mut(&mut self) -> &mut C {
        // SAFETY: the slot lives as long as its handle.
        let slot = unsafe { self.slot.as_ref() };
        // SAFETY: as in `context`, and the handle is borrowed exclusively.
        unsafe { &mut *slot.context.get() }
    }

    /// Gives up the right to write, so that the bytes may be posted several times at once.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pool, .. } = proverbs::guide::ends()?;
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
}

/// Bytes that do not fit a buffer: [`Buf::copy_from`] (ibv_post_send(3) sends from buffers of one size).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// How many there are.
    pub asked: usize,
    /// How many the buffer takes.
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
        // SAFETY: the memory is initialised (zeroed when registered), `len` is within the capacity,
        // and only this handle, which is borrowed, gives access to it.
        unsafe { std::slice::from_raw_parts(header.addr, header.len() as usize) }
    }
}

impl<C> DerefMut for Buf<C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let header = self.header();
        // SAFETY: as in `deref`, and the handle is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(header.addr, header.len() as usize) }
    }
}

impl<C> Drop for Buf<C> {
    fn drop(&mut self) {
        // SAFETY: the handle is given up here, once.
        unsafe { pool::put_back(self.slot) };
    }
}

impl<C> fmt::Debug for Buf<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len(), self.capacity())
    }
}
