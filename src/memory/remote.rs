//! Slices of the peer's memory, with the rights that the peer granted in the type.

use std::marker::PhantomData;

use crate::allows::{Allows, call};
use crate::memory::{
    Access, GrantsAtomic, GrantsRead, GrantsWrite, RemoteAddr, RemoteSpan, ToRead,
};
pub use crate::terms::bounds::{Container, OutOfBounds};

/// Implements `Clone`, `Copy`, `Eq` and `Hash` by fields, for types with a marker. (A derive would
/// require the traits of the marker, which has no values.)
macro_rules! by_fields {
    ($t:ident $(<$of:ident $(: $bound:ident)?>)?: $($field:tt),*) => {
        impl$(<$of $(: $bound)?>)? Clone for $t$(<$of>)? {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl$(<$of $(: $bound)?>)? Copy for $t$(<$of>)? {}

        impl$(<$of $(: $bound)?>)? PartialEq for $t$(<$of>)? {
            fn eq(&self, other: &Self) -> bool {
                $(self.$field == other.$field)&&*
            }
        }

        impl$(<$of $(: $bound)?>)? Eq for $t$(<$of>)? {}

        impl$(<$of $(: $bound)?>)? std::hash::Hash for $t$(<$of>)? {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                $(self.$field.hash(state);)*
            }
        }
    };
}

pub(crate) use by_fields;

/// A part of a peer's region: `remote_addr`, length and `rkey` of ibv_post_send(3), as the peer
/// exported them, with the rights `A` that it granted.
///
/// A slice limits the requests that are posted with it ([R6.7](crate::guide::rules#r6-7)): an RDMA
/// WRITE beyond its end is rejected, and an RDMA READ reads the whole slice. It is plain data that
/// you can send to other programs in any way; [`to_bytes`](Self::to_bytes) is one encoding. The
/// numbers that a peer sends are not checked here. The peer's device checks them at each access, so
/// a wrong length only affects this program's posts.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteAll>(64)?;
/// let told: [u8; 24] = region.export::<RemoteReadWrite>().to_bytes();
///
/// // At the peer, which expects these rights:
/// assert!(RemoteSlice::<RemoteRead>::from_bytes(&told).is_none());
/// let remote = RemoteSlice::<RemoteReadWrite>::from_bytes(&told).ok_or("other rights")?;
/// assert_eq!((remote.len(), remote.is_empty()), (64, false));
/// let second_half = remote.slice(32, 32)?;
/// let (_from, _to) = (second_half.read(), second_half.write()); // for RdmaRead and RdmaWrite
///
/// // From a program with another format:
/// let counters = RemoteSlice::<RemoteAtomic>::from_parts(0x7f00_0000, 16, 0x1234);
/// assert!(counters.atomic(8).is_ok());
/// assert!(counters.atomic(4).unwrap_err().misaligned);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteSlice<A: Access> {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) rkey: u32,
    pub(crate) _rights: PhantomData<A>,
}

by_fields!(RemoteSlice<A: Access>: addr, len, rkey);

impl_debug!([A: Access] RemoteSlice<A>, |RemoteSlice { addr, len, rkey, .. }|
    "RemoteSlice({} {len} bytes at {addr:#x}, rkey {rkey:#x})", A::NAME);

/// Eight aligned bytes of the peer's memory: the target of an atomic
/// ([R4.2](crate::guide::rules#r4-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteAtomic>(16)?;
/// let ticket: RemoteCell = region.remote().atomic(8)?;
/// a.post_send(wr::FetchAndAdd::new(pool.take().ok_or("no buffer")?, ticket, 1))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// assert_eq!(region.cell(8)?.load(std::sync::atomic::Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteCell {
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
}

/// Eight aligned bytes of the peer's memory with write access: the target of an
/// [`AtomicWrite`](crate::ext::persistence::AtomicWrite) ([R4.2](crate::guide::rules#r4-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::WriteCell;
/// let theirs = RemoteSlice::<RemoteWrite>::from_parts(0x7f00_0000, 16, 0x1234);
/// let tail: WriteCell = theirs.write_cell(8)?;
/// assert!(theirs.write_cell(4).unwrap_err().misaligned);
/// # let _ = tail;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteCell {
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl<U> Sealed for super::RemoteSpan<U> {}
    impl<U> Sealed for super::RemoteAddr<U> {}
    impl Sealed for super::RemoteCell {}
}

allows! {
    [A: GrantsRead] RemoteSlice<A>: ReadRemote;
    [A: GrantsWrite] RemoteSlice<A>: WriteRemote;
    [A: GrantsAtomic] RemoteSlice<A>: AtomicRemote;
}

impl<A: Access> RemoteSlice<A> {
    /// The length of the encoding that [`from_bytes`](Self::from_bytes) decodes.
    pub const WIRE_LEN: usize = 24;

    /// Returns the part of `len` bytes at `offset`.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteRead>(64)?;
    /// let half = region.remote().slice(32, 32)?;
    /// assert_eq!(half.len(), 32);
    /// assert!(half.slice(16, 32).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`] if the part is not all inside this slice.
    pub fn slice(&self, offset: u64, len: u64) -> Result<Self, OutOfBounds> {
        self.check(offset, len)?;
        Ok(RemoteSlice { addr: self.addr.wrapping_add(offset), len, ..*self })
    }

    /// Returns this slice as the source of an RDMA READ, which reads all of it.
    #[inline]
    pub fn read(&self) -> RemoteSpan<ToRead>
    where
        Self: Allows<call::ReadRemote>,
    {
        RemoteSpan::to_read(self.addr, self.rkey, self.len)
    }

    /// Returns this slice as the target of an RDMA WRITE, which cannot write beyond it.
    #[inline]
    pub fn write(&self) -> RemoteSpan
    where
        Self: Allows<call::WriteRemote>,
    {
        RemoteSpan::to_write(self.addr, self.rkey, self.len)
    }

    /// Returns the 8 bytes at `offset`, for an atomic. Their address must be a multiple of 8.
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside, or, with `misaligned` set, if the address
    /// is not a multiple of 8 ([R4.2](crate::guide::rules#r4-2)).
    pub fn atomic(&self, offset: u64) -> Result<RemoteCell, OutOfBounds>
    where
        Self: Allows<call::AtomicRemote>,
    {
        Ok(RemoteCell { addr: self.cell(offset)?, rkey: self.rkey })
    }

    /// Returns the 8 bytes at `offset`, for an
    /// [`AtomicWrite`](crate::ext::persistence::AtomicWrite). Their address must be a multiple of
    /// 8.
    ///
    /// # Errors
    /// As for [`atomic`](Self::atomic).
    pub fn write_cell(&self, offset: u64) -> Result<WriteCell, OutOfBounds>
    where
        Self: Allows<call::WriteRemote>,
    {
        Ok(WriteCell { addr: self.cell(offset)?, rkey: self.rkey })
    }

    /// Encodes the address, the length, the rkey and a code for the rights in 24 bytes, in network
    /// byte order.
    pub fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.addr.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[20..].copy_from_slice(&A::FLAGS.to_be_bytes());
        bytes
    }

    /// Decodes the slice that a peer encoded with [`to_bytes`](Self::to_bytes). Returns `None` if
    /// its rights are not `A`.
    pub fn from_bytes(bytes: &[u8; 24]) -> Option<Self> {
        let (addr, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (rkey, rights) = rest.split_first_chunk()?;
        (rights == A::FLAGS.to_be_bytes()).then(|| RemoteSlice {
            addr: u64::from_be_bytes(*addr),
            len: u64::from_be_bytes(*len),
            rkey: u32::from_be_bytes(*rkey),
            _rights: PhantomData,
        })
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte at the peer (`remote_addr` of ibv_post_send(3)). It has no
    /// meaning in this process.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The rkey of the region.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), OutOfBounds> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(OutOfBounds::new(Container::Region, offset, len, self.len)),
        }
    }

    /// The address of 8 aligned bytes.
    fn cell(&self, offset: u64) -> Result<u64, OutOfBounds> {
        self.check(offset, 8)?;
        let addr = self.addr.wrapping_add(offset);
        match addr % 8 {
            0 => Ok(addr),
            _ => Err(OutOfBounds::misaligned(offset, self.len)),
        }
    }

    /// Creates a slice from the numbers that a peer sent in another format.
    pub fn from_parts(addr: u64, len: u64, rkey: u32) -> Self {
        RemoteSlice { addr, len, rkey, _rights: PhantomData }
    }
}
