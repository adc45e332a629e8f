//! Plain data in buffers and regions, with zerocopy's traits (feature `zerocopy`).

use std::any::type_name;
use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::allows::{Allows, call};
use crate::memory::{Access, Buf, Memory, MemoryRegion, OutOfBounds, SharedBuf, TooLong};

/// With the feature `zerocopy`: plain data, as defined by the traits of the crate `zerocopy`.
///
/// Numbers have the byte order of the machine; `zerocopy::byteorder` has types with a fixed byte
/// order. To read a type with a tail of variable length, or a header before other bytes, use
/// zerocopy's functions on `&buf[..]`.
impl<C> Buf<C> {
    /// Copies `value` (such as a struct or a slice) to the start of the buffer and sets the length
    /// to its size in bytes.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
    ///
    /// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Debug, PartialEq)]
    /// #[repr(C)]
    /// struct Request { key: u64, count: u32, flags: u32 }
    ///
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.set(&Request { key: 7, count: 1, flags: 0 })?; // 16 bytes
    /// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(wr::Send::new(buf))?;
    /// # let received = proverbs::loopback::poll(&mut cq, 2)?.pop().flatten().ok_or("nothing")?;
    /// // At the peer, without a copy:
    /// let request: &Request = received.view()?;
    /// assert_eq!(request, &Request { key: 7, count: 1, flags: 0 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLong`] if `value` does not fit. The buffer and its length are then unchanged.
    pub fn set<T: IntoBytes + Immutable + ?Sized>(&mut self, value: &T) -> Result<(), TooLong> {
        self.copy_from(value.as_bytes())
    }

    /// Borrows the bytes of the buffer, up to its length, as a `T`.
    ///
    /// A buffer starts at a multiple of 8 at least, unless it was [narrowed](Self::narrow). See
    /// [`create_pool`](crate::ProtectionDomain::create_pool) for larger alignments.
    ///
    /// # Errors
    /// [`Mismatch`] if the length is not the size of a `T`, or if the address is not a multiple of
    /// its alignment.
    pub fn view<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<&T, Mismatch> {
        T::ref_from_bytes(self).map_err(|_| Mismatch::of::<T>(self))
    }

    /// Like [`view`](Self::view), mutably. After [`set_len`](Self::set_len), use it to build a
    /// value directly in the buffer that sends it.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.set_len(32);
    /// let table: &mut [u64; 4] = buf.view_mut()?;
    /// table[3] = 9;
    /// assert_eq!(buf.view_slice::<u64>()?[3], 9);
    /// let error = buf.view::<u64>().unwrap_err();
    /// assert_eq!(error.to_string(), "32 bytes do not fit `u64`, which has 8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn view_mut<T>(&mut self) -> Result<&mut T, Mismatch>
    where
        T: FromBytes + IntoBytes + KnownLayout,
    {
        let mismatch = Mismatch::of::<T>(self);
        T::mut_from_bytes(self).map_err(|_| mismatch)
    }

    /// Borrows the bytes of the buffer, up to its length, as elements.
    ///
    /// # Errors
    /// [`Mismatch`] if the length is not a multiple of an element's size, or if the address is not
    /// a multiple of its alignment.
    pub fn view_slice<T: FromBytes + Immutable>(&self) -> Result<&[T], Mismatch> {
        <[T]>::ref_from_bytes(self).map_err(|_| Mismatch::of::<T>(self))
    }

    /// Like [`view_slice`](Self::view_slice), mutably.
    ///
    /// # Errors
    /// As for [`view_slice`](Self::view_slice).
    pub fn view_slice_mut<T: FromBytes + IntoBytes>(&mut self) -> Result<&mut [T], Mismatch> {
        let mismatch = Mismatch::of::<T>(self);
        <[T]>::mut_from_bytes(self).map_err(|_| mismatch)
    }
}

/// With the feature `zerocopy`: plain data.
impl SharedBuf {
    /// Borrows the bytes as a `T`.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let mut buf = pool.take().ok_or("no buffer")?;
    /// buf.set(&[1u32, 2])?;
    /// let shared = buf.freeze();
    /// assert_eq!(shared.view::<[u32; 2]>()?, &[1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Buf::view`].
    pub fn view<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<&T, Mismatch> {
        T::ref_from_bytes(self).map_err(|_| Mismatch::of::<T>(self))
    }
}

/// With the feature `zerocopy`: plain data, copied.
impl<A: Access, M> MemoryRegion<A, M> {
    /// Copies a `T` out of the region at `offset`, which does not have to be aligned. If a peer
    /// writes these bytes at the same time, only aligned words are consistent, as for
    /// [`read_at`](Self::read_at).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteRead>(64)?;
    /// region.write_value(16, &[1.5f64, 2.5])?;
    /// assert_eq!(region.read_value::<f64>(24)?, 2.5);
    /// assert!(region.read_value::<[f64; 8]>(24).is_err()); // beyond the region
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside the region.
    pub fn read_value<T>(&self, offset: usize) -> Result<T, OutOfBounds>
    where
        T: FromBytes + IntoBytes,
        M: Memory,
    {
        let mut value = T::new_zeroed();
        self.read_at(offset, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Copies `value` (such as a struct or a slice) into the region at `offset`, like
    /// [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside the region. Nothing is written then.
    pub fn write_value<T>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds>
    where
        T: IntoBytes + Immutable + ?Sized,
        Self: Allows<call::WriteAt>,
    {
        self.write_at(offset, value.as_bytes())
    }
}

/// The error of [`Buf::view`] and similar functions: the bytes of a buffer do not match the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Mismatch {
    /// The requested type, or the type of the elements.
    pub ty: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// The number of bytes in the buffer.
    pub len: usize,
    /// The alignment of the type in bytes.
    pub align: usize,
    /// The largest power of two that divides the buffer's address.
    pub address_align: usize,
}

impl Mismatch {
    fn of<T>(bytes: &[u8]) -> Self {
        Mismatch {
            ty: type_name::<T>(),
            size: size_of::<T>(),
            len: bytes.len(),
            align: align_of::<T>(),
            address_align: 1 << bytes.as_ptr().addr().trailing_zeros(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { ty, size, len, align, address_align } = self;
        if address_align < align {
            return write!(
                f,
                "`{ty}` is aligned to {align} bytes, and the buffer to {address_align}: make the \
                 pool's size a multiple of {align}"
            );
        }
        write!(f, "{len} bytes do not fit `{ty}`, which has {size}")
    }
}

impl std::error::Error for Mismatch {}
