//! Parts of buffers: narrowed to a range, split in two, and joined again.

#![allow(unsafe_code)] // makes and ends handles

use std::fmt;
use std::ops::{Range, RangeBounds};
use std::ptr::NonNull;

use crate::memory::arena::LONGEST;
use crate::memory::blocks::Bytes;
use crate::memory::header::Handle;
use crate::memory::slab::{Slab, slots_of};
use crate::memory::{Buf, Container, OutOfBounds};
use crate::terms::error::Refused;

impl<C> Buf<C> {
    /// Narrows the buffer to a range of its bytes: it is what `&buf[range]` is, and has no room for
    /// more. So a part of it is sent, read or received into where it lies. [`widen`](Self::widen)
    /// ends it, and so does dropping the buffer.
    ///
    /// Ranges are counted from where the buffer begins now; the end of an open one is its length.
    /// An empty range leaves room for one byte, since devices may take a receive of no bytes for
    /// one of 2^31 ([R3.3](crate::guide::rules#r3-3)).
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
    /// a.post_send(wr::RdmaWrite::new(buf, region.remote().write()))?; // 7 bytes
    /// let mut buf = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had a buffer")?;
    /// buf.widen();
    /// assert_eq!((&buf[..15], buf.len()), (&b"header: payload"[..], 64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`] if the range goes beyond the buffer's length, or ends before it begins. The
    /// buffer is as it was.
    pub fn narrow(&mut self, range: impl RangeBounds<usize>) -> Result<(), OutOfBounds> {
        let Range { start, end } = Container::Buffer.range(self.len(), range)?;
        // At least one byte, and it is one of the buffer's, which has some.
        let first = start.min(self.capacity() - 1);
        let len = (end - start) as u32;
        self.header().set_bytes(self.header().addr().wrapping_add(first), len.max(1), len);
        Ok(())
    }

    /// Gives a buffer that was narrowed all of its bytes again. Its length is its capacity then.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.narrow(16..32)?;
    /// buf.narrow(8..)?; // of those
    /// assert_eq!(buf.capacity(), 8);
    /// buf.widen();
    /// assert_eq!((buf.capacity(), buf.len()), (256, 256));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn widen(&mut self) {
        self.slots().widen(self.slot());
    }

    /// Splits a buffer of an [`Arena`](crate::Arena): it keeps its bytes before `at`, and those
    /// from `at` on are a buffer of their own. Each goes to the device and back by itself;
    /// [`join`](Self::join) makes one of them again.
    ///
    /// The length is split too. A narrowed buffer is split where it is narrowed; widened, each part
    /// then has the rest on its side. The new buffer has the context that its last use left in its
    /// header.
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
    /// a.post_send(wr::RdmaWrite::new(one, region.remote().write()))?; // is with the device
    /// two[0] = b'S';                                                  // is not
    /// # let mut one = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had a buffer")?;
    /// one.join(two)?;
    /// assert_eq!((&one[..], one.capacity()), (&b"first Second"[..], 256));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SplitError`]: one part would have no bytes, all headers of the arena are in use, or the
    /// buffer is a pool's. It is as it was.
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
        // The slots have the bytes on either side of `at`; of those, what the buffer had.
        self.header().set_bytes(addr, at as u32, len.min(at) as u32);
        let there = (capacity - at) as u32;
        rest.header().set_bytes(addr.wrapping_add(at), there, len.saturating_sub(at) as u32);
        Ok(rest)
    }

    /// Joins the buffer with the one that begins where it ends, in the same
    /// [`Arena`](crate::Arena).
    ///
    /// The length reaches to the end of what `next` holds. If they were narrowed, what lay between
    /// them belongs to the buffer again. The context is this one's.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let arena = pd.create_arena(4096, 8)?;
    /// let mut one = arena.take(96).ok_or("no room")?;
    /// let mut two = one.split_off(32)?;
    /// let three = two.split_off(32)?;
    /// let three = one.join(three).unwrap_err().into_object(); // `two` is between them
    /// two.join(three)?;
    /// one.join(two)?;
    /// assert_eq!(one.capacity(), 128);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`JoinError`] if `next` is no neighbour, or both together exceed 2^31 - 64 bytes. Both are
    /// as they were, and `next` is in the [`Refused`].
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
        // SAFETY: these are handles of the same slots, as both keep their slab alive. If they are
        // joined, `next` is forgotten below.
        let is_joined = is_of_same && unsafe { slots.join(self.slot(), next.slot()) };
        if !is_joined {
            return Err(Refused::new(next, JoinError::NotAdjacent));
        }
        std::mem::forget(next);
        here.set_bytes(here.addr(), offset + capacity, offset + len);
        Ok(())
    }

    /// The slots that this handle keeps alive.
    pub(super) fn slots(&self) -> &Slab<C> {
        // SAFETY: the handle is borrowed.
        unsafe { slots_of(NonNull::from(self.slot())) }
    }

    /// The number of bytes that a narrowed buffer has before it begins.
    fn bytes_before(&self) -> usize {
        let slots = self.slots();
        let Bytes { start, .. } = slots.whole(self.slot());
        self.header().addr().addr() - slots.region.at(start).addr()
    }
}

/// Why a buffer is not split: the error of [`Buf::split_off`], which leaves it as it was.
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
    /// One of the parts would have no bytes.
    NoBytes {
        /// Where it was to be split.
        at: usize,
        /// The number of bytes that the buffer has.
        capacity: usize,
    },
    /// All headers of the arena have a buffer: drop or join some, or make it with more.
    NoHeader {
        /// The number of headers.
        count: usize,
    },
    /// It is a pool's, which has as many headers as buffers.
    OfPool,
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::NoBytes { at, capacity } => {
                write!(f, "a split of {capacity} bytes at {at} leaves a part without bytes")
            }
            SplitError::NoHeader { count } => {
                write!(
                    f,
                    "all {count} headers of the arena are in use: drop or join buffers, or make it with more"
                )
            }
            SplitError::OfPool => {
                f.write_str("a pool's buffers are not split: take it of an arena")
            }
        }
    }
}

impl std::error::Error for SplitError {}

/// Why two buffers are not joined: the reason of the [`Refused`] of [`Buf::join`], which has the
/// second.
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
///     "the second buffer does not begin where the first ends, in the same arena"
/// );
/// # drop((one_again, other));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JoinError {
    /// The second does not begin where the first ends, in the same arena.
    NotAdjacent,
    /// Together they would exceed 2^31 - 64 bytes.
    TooLong {
        /// The number of bytes that both have together.
        asked: usize,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::NotAdjacent => f.write_str(
                "the second buffer does not begin where the first ends, in the same arena",
            ),
            JoinError::TooLong { asked } => {
                write!(f, "{asked} bytes exceed what a buffer may have, {LONGEST}")
            }
        }
    }
}

impl std::error::Error for JoinError {}
