//! Parts of buffers: narrowing to a range, splitting in two, and joining.

#![allow(unsafe_code)] // makes and ends handles

use std::fmt;
use std::ops::{Range, RangeBounds};
use std::ptr::NonNull;

use crate::memory::blocks::{Bytes, LONGEST};
use crate::memory::header::Handle;
use crate::memory::slab::{Slab, slots_of};
use crate::memory::{Buf, Container, OutOfBounds};
use crate::terms::error::Refused;

impl<C> Buf<C> {
    /// Narrows the buffer to a range of its bytes. It then has the bytes of `&buf[range]`, and no
    /// capacity for more. Use this to send, read or receive a part of the buffer in place.
    /// [`widen`](Self::widen) undoes it, and so does dropping the buffer.
    ///
    /// The range is relative to the current start of the buffer; an open range ends at its length.
    /// An empty range has a capacity of one byte, because some devices treat an empty receive as a
    /// receive of 2^31 bytes ([R3.3](crate::guide::rules#r3-3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let pool = pd.create_pool(1, 64)?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.copy_from(b"header: payload")?;
    /// buf.narrow(8..)?;
    /// assert_eq!((&buf[..], buf.capacity()), (&b"payload"[..], 7));
    /// let error = buf.narrow(..8).unwrap_err();
    /// assert_eq!(error.to_string(), "8 bytes at offset 0 exceed the buffer of 7 bytes");
    ///
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// a.post_send(wr::RdmaWrite::new(buf, region.remote().write()))?; // transmits 7 bytes
    /// let mut buf = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had a buffer")?;
    /// buf.widen();
    /// assert_eq!((&buf[..15], buf.len()), (&b"header: payload"[..], 64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`] if the range exceeds the buffer's length, or ends before it starts. The
    /// buffer is then unchanged.
    pub fn narrow(&mut self, range: impl RangeBounds<usize>) -> Result<(), OutOfBounds> {
        let Range { start, end } = Container::Buffer.range(self.len(), range)?;
        // At least one byte, unless the message of a receive used none (`with_context`).
        let first = start.min(self.capacity().saturating_sub(1));
        let len = (end - start) as u32;
        let capacity = len.max(1).min(self.header().capacity());
        self.header().set_bytes(self.header().addr().wrapping_add(first), capacity, len);
        Ok(())
    }

    /// Undoes all narrowing. The length is then the capacity.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.narrow(16..32)?;
    /// buf.narrow(8..)?; // relative to the first
    /// assert_eq!(buf.capacity(), 8);
    /// buf.widen();
    /// assert_eq!((buf.capacity(), buf.len()), (256, 256));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn widen(&mut self) {
        self.slots().widen(self.slot());
    }

    /// Splits a buffer of an [`Arena`](crate::Arena): it keeps the bytes before `at`, and the bytes
    /// from `at` on become a new buffer, which is returned. Each can be posted separately.
    /// [`join`](Self::join) merges them again.
    ///
    /// The length is split too. A narrowed buffer is split inside its range. Widening then gives
    /// each part the bytes on its side of the split that narrowing had removed. The new buffer has
    /// the context that the last use of its header left there.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(4096, 8)?;
    /// let mut one = arena.take(256).ok_or("no room")?;
    /// one.copy_from(b"first second")?;
    /// let mut two = one.split_off(6)?;
    /// assert_eq!((&one[..], one.capacity()), (&b"first "[..], 6));
    /// assert_eq!((&two[..], two.capacity()), (&b"second"[..], 250));
    ///
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// a.post_send(wr::RdmaWrite::new(one, region.remote().write()))?; // the device owns it
    /// two[0] = b'S';                                                  // ours
    /// # let mut one = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had a buffer")?;
    /// one.join(two)?;
    /// assert_eq!((&one[..], one.capacity()), (&b"first Second"[..], 256));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SplitError`]: one part would be empty, all headers of the arena are in use, or the buffer
    /// belongs to a pool. The buffer is then unchanged.
    pub fn split_off(&mut self, at: usize) -> Result<Buf<C>, SplitError> {
        let (len, capacity) = (self.len(), self.capacity());
        let slots = self.slots();
        if slots.size() != 0 {
            return Err(SplitError::OfPool);
        }
        if at == 0 || at >= capacity {
            return Err(SplitError::NoBytes { at, capacity });
        }
        let addr = self.header().addr();
        let rest = slots
            .split(self.slot(), self.bytes_before() + at)
            .ok_or_else(|| SplitError::NoHeader { count: slots.count() })?;
        // SAFETY: the handle is new, and given up here.
        let rest = unsafe { Buf::of(rest) };
        // The slots have the bytes on either side of `at`, limited to the bytes of the buffer.
        self.header().set_bytes(addr, at as u32, len.min(at) as u32);
        let there = (capacity - at) as u32;
        rest.header().set_bytes(addr.wrapping_add(at), there, len.saturating_sub(at) as u32);
        Ok(rest)
    }

    /// Joins the buffer with `next`, which must start where it ends in the same
    /// [`Arena`](crate::Arena).
    ///
    /// The new length includes the bytes up to the length of `next`. If the buffers were narrowed,
    /// the bytes between them belong to the buffer again. The context of `next` is not kept.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(4096, 8)?;
    /// let mut one = arena.take(96).ok_or("no room")?;
    /// let mut two = one.split_off(32)?;
    /// let three = two.split_off(32)?;
    /// let three = one.join(three).unwrap_err().into_object(); // fails: `two` is between them
    /// two.join(three)?;
    /// one.join(two)?;
    /// assert_eq!(one.capacity(), 128);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`JoinError`] if `next` is not adjacent, or if both together exceed 2^31 - 64 bytes. Both
    /// are then unchanged, and the [`Refused`] contains `next`.
    pub fn join(&mut self, next: Buf<C>) -> Result<(), Refused<Buf<C>, JoinError>> {
        let slots = self.slots();
        let whole = slots.whole(self.slot());
        let (here, there) = (self.header(), next.header());
        let is_of_same = here.slab == there.slab;
        let asked = whole.len as usize + next.slots().whole(next.slot()).len as usize;
        if is_of_same && asked > LONGEST {
            return Err(Refused::new(next, JoinError::TooLong { asked }));
        }
        let offset = there.addr().addr().wrapping_sub(here.addr().addr()) as u32;
        let (capacity, len) = (there.capacity(), there.len());
        // SAFETY: these are handles of the same slots, since both keep their slab alive. If they
        // are joined, `next` is forgotten below.
        let is_joined = is_of_same && unsafe { slots.join(self.slot(), next.slot()) };
        if !is_joined {
            return Err(Refused::new(next, JoinError::NotAdjacent));
        }
        std::mem::forget(next);
        here.set_bytes(here.addr(), offset + capacity, offset + len);
        Ok(())
    }

    /// The slab that this handle keeps alive.
    pub(super) fn slots(&self) -> &Slab<C> {
        // SAFETY: the handle is borrowed.
        unsafe { slots_of(NonNull::from(self.slot())) }
    }

    /// The number of bytes between the start of the whole buffer and the start of its narrowed
    /// range.
    fn bytes_before(&self) -> usize {
        let slots = self.slots();
        let Bytes { start, .. } = slots.whole(self.slot());
        self.header().addr().addr() - slots.region.at(start).addr()
    }
}

/// The reason why a buffer cannot be split: the error of [`Buf::split_off`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::SplitError;
/// # let proverbs::loopback::Pair { pd, pool, .. } = proverbs::loopback::pair()?;
/// let arena = pd.create_arena(4096, 1)?; // one header
/// let mut buf = arena.take(64).ok_or("no room")?;
/// assert_eq!(buf.split_off(64).unwrap_err(), SplitError::NoBytes { at: 64, capacity: 64 });
/// assert_eq!(buf.split_off(32).unwrap_err(), SplitError::NoHeader { count: 1 });
/// let mut buf = pool.take().ok_or("no buffer")?;
/// assert_eq!(buf.split_off(32).unwrap_err(), SplitError::OfPool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SplitError {
    /// One of the parts would be empty.
    NoBytes {
        /// The position of the split.
        at: usize,
        /// The capacity of the buffer in bytes.
        capacity: usize,
    },
    /// All headers of the arena are in use: drop or join buffers, or create the arena with more
    /// headers.
    NoHeader {
        /// The number of headers.
        count: usize,
    },
    /// The buffer belongs to a pool, which has only one header per buffer.
    OfPool,
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::NoBytes { at, capacity } => {
                write!(f, "splitting {capacity} bytes at {at} leaves an empty part")
            }
            SplitError::NoHeader { count } => {
                write!(
                    f,
                    "all {count} headers of the arena are in use: drop or join buffers, or create \
                     the arena with more headers"
                )
            }
            SplitError::OfPool => {
                f.write_str("cannot split a buffer of a pool: take it from an arena")
            }
        }
    }
}

impl std::error::Error for SplitError {}

/// The reason why two buffers cannot be joined. [`Buf::join`] returns it in a [`Refused`] with the
/// second buffer.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::JoinError;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let arena = pd.create_arena(4096, 8)?;
/// let (mut one, other) = (arena.take(64).ok_or("no room")?, arena.take(64).ok_or("no room")?);
/// let one_again = one.split_off(32)?;
/// let (other, error) = one.join(other).unwrap_err().into_parts();
/// assert_eq!(error, JoinError::NotAdjacent);
/// assert_eq!(
///     error.to_string(),
///     "the second buffer does not start where the first ends, in the same arena"
/// );
/// # drop((one_again, other));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JoinError {
    /// The second buffer does not start where the first ends, in the same arena.
    NotAdjacent,
    /// Together they would exceed 2^31 - 64 bytes.
    TooLong {
        /// The total number of bytes.
        asked: usize,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::NotAdjacent => f.write_str(
                "the second buffer does not start where the first ends, in the same arena",
            ),
            JoinError::TooLong { asked } => {
                write!(f, "{asked} bytes exceed the {LONGEST} bytes of the longest buffer")
            }
        }
    }
}

impl std::error::Error for JoinError {}
