//! Bounds checks of offsets and lengths.

use std::ops::{Bound, Range, RangeBounds};

/// The longest element. (The length above it marks a READ of no bytes.)
#[doc(hidden)]
pub const LONGEST_PIECE: u32 = u32::MAX - 1;

/// An access outside a region or a remote slice ([R6.7]), or to a cell
/// that is not aligned to 8 bytes ([R4.2]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::OutOfBounds;
/// let slice = RemoteSlice::<RemoteRead>::from_parts(0x7f00_0000, 64, 0x1234);
/// let error: OutOfBounds = slice.slice(60, 8).unwrap_err();
/// assert_eq!(error.to_string(), "8 bytes at offset 60 exceed the region of 64 bytes");
/// ```
///
/// [R4.2]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-2
/// [R6.7]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-7
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutOfBounds {
    /// The requested offset, in bytes.
    pub offset: u64,
    /// The requested length, in bytes.
    pub len: u64,
    /// The length of the container, in bytes.
    pub available: u64,
    /// Whether only the alignment is wrong.
    pub misaligned: bool,
    /// The container.
    pub of: Container,
}

/// The container of a range of bytes ([`OutOfBounds::of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Container {
    /// A region, or a slice of one.
    Region,
    /// A buffer.
    Buffer,
    /// The 32-bit length of an element.
    Element,
}

impl std::fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let OutOfBounds { offset, len, available, misaligned, of } = self;
        if *misaligned {
            return write!(
                f,
                "offset {offset} is not 8-byte aligned: an atomic needs an address that is a multiple of 8"
            );
        }
        write!(f, "{len} bytes at offset {offset} exceed the ")?;
        match of {
            Container::Region => write!(f, "region of {available} bytes"),
            Container::Buffer => write!(f, "buffer of {available} bytes"),
            Container::Element => write!(f, "{available} that an element can have"),
        }
    }
}

impl std::error::Error for OutOfBounds {}

impl Container {
    /// Returns the start and end of `range`, or an error if it exceeds the `available` bytes of
    /// this container.
    #[doc(hidden)]
    pub fn range(
        self,
        available: usize,
        range: impl RangeBounds<usize>,
    ) -> Result<Range<usize>, OutOfBounds> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => available,
        };
        if start <= end && end <= available {
            return Ok(start..end);
        }
        let len = end.saturating_sub(start) as u64;
        Err(OutOfBounds::new(self, start as u64, len, available as u64))
    }
}

impl OutOfBounds {
    /// Checks that `len` bytes at `offset` are within `available` bytes.
    #[inline(always)]
    #[doc(hidden)]
    pub fn check(offset: usize, len: usize, available: usize) -> Result<(), Self> {
        match offset.checked_add(len) {
            Some(end) if end <= available => Ok(()),
            _ => Err(OutOfBounds::beyond(offset, len, available)),
        }
    }

    #[cold]
    #[inline(never)]
    fn beyond(offset: usize, len: usize, available: usize) -> Self {
        Self::new(Container::Region, offset as u64, len as u64, available as u64)
    }

    /// `len` bytes at `offset` exceed the `available` bytes of `of`.
    #[cold]
    #[doc(hidden)]
    pub fn new(of: Container, offset: u64, len: u64, available: u64) -> Self {
        OutOfBounds { offset, len, available, misaligned: false, of }
    }

    /// A cell at `offset` that is not aligned.
    #[doc(hidden)]
    pub fn misaligned(offset: u64, available: u64) -> Self {
        OutOfBounds { misaligned: true, ..Self::new(Container::Region, offset, 8, available) }
    }
}
