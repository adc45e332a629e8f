//! Memory that a peer lends through a memory window, until the key is returned.

use crate::allows::{Allows, call};
use crate::memory::{Access, OutOfBounds, RemoteCell, RemoteSlice, RemoteSpan, ToRead};

/// A slice of a peer's memory that the peer has lent.
/// [`SendWithInv`](crate::ext::windows::SendWithInv) returns it: the key is then no longer valid
/// ([R1.6](crate::guide::rules#r1-6)).
///
/// It is not `Clone`, so that a key is not invalidated twice, which would crash the kernel of a
/// peer with Soft-RoCE (Linux 6.1 to 7.3). If a work request is created from it before and posted
/// after it is returned, the peer's device rejects the request.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::Revocable;
/// let told = Revocable::new(RemoteSlice::<RemoteWrite>::from_parts(0x7f00_0000, 64, 0x1234)).to_bytes();
/// assert!(RemoteSlice::<RemoteWrite>::from_bytes(&told).is_none()); // it is lent
/// let lent = Revocable::<RemoteWrite>::from_bytes(&told).ok_or("other rights")?;
/// assert_eq!((lent.addr(), lent.len(), lent.rkey()), (0x7f00_0000, 64, 0x1234));
/// assert!(!lent.is_empty());
///
/// let buf_to = lent.write(); // for RdmaWrite
/// let second_half_to = lent.slice(32, 32)?.write();
/// let back = ext::windows::SendWithInv::inline(b"done", lent);
/// # let _ = (buf_to, second_half_to, back);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use proverbs::prelude::*;
/// # use proverbs::ext::windows::Revocable;
/// fn late(lent: Revocable<RemoteWrite>) {
///     let _ = ext::windows::SendWithInv::inline(b"done", lent);
///     let _ = lent.write(); // it was returned
/// }
/// ```
pub struct Revocable<A: Access>(RemoteSlice<A>);

/// A bit in the code for the rights: the slice is lent.
const LENT: u32 = 1 << 31;

impl<A: Access> Revocable<A> {
    /// Creates one from a slice that the peer has lent, sent in another format.
    pub fn new(lent: RemoteSlice<A>) -> Self {
        Revocable(lent)
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The address of the first byte at the peer, as for [`RemoteSlice::addr`].
    pub fn addr(&self) -> u64 {
        self.0.addr()
    }

    /// The rkey of the window, until it is returned.
    pub fn rkey(&self) -> u32 {
        self.0.rkey()
    }

    /// Returns the part of `len` bytes at `offset`, to be read or written before the whole slice is
    /// returned.
    ///
    /// # Errors
    /// [`OutOfBounds`] if the part is not all inside.
    pub fn slice(&self, offset: u64, len: u64) -> Result<RemoteSlice<A>, OutOfBounds> {
        self.0.slice(offset, len)
    }

    /// Returns the source of an RDMA READ, which reads all of it.
    #[inline]
    pub fn read(&self) -> RemoteSpan<ToRead>
    where
        RemoteSlice<A>: Allows<call::ReadRemote>,
    {
        self.0.read()
    }

    /// Returns the target of an RDMA WRITE, which cannot write beyond it.
    #[inline]
    pub fn write(&self) -> RemoteSpan
    where
        RemoteSlice<A>: Allows<call::WriteRemote>,
    {
        self.0.write()
    }

    /// Returns the 8 bytes at `offset`, for an atomic.
    ///
    /// # Errors
    /// As for [`RemoteSlice::atomic`].
    pub fn atomic(&self, offset: u64) -> Result<RemoteCell, OutOfBounds>
    where
        RemoteSlice<A>: Allows<call::AtomicRemote>,
    {
        self.0.atomic(offset)
    }

    /// Encodes address, length and rkey in network byte order, and a code for the rights and for
    /// lending, in 24 bytes.
    pub fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = self.0.to_bytes();
        bytes[20..].copy_from_slice(&(A::FLAGS | LENT).to_be_bytes());
        bytes
    }

    /// Decodes the slice that a peer encoded with [`to_bytes`](Self::to_bytes). Returns `None` if
    /// its rights are not `A`, or if it is not lent.
    pub fn from_bytes(bytes: &[u8; 24]) -> Option<Self> {
        let mut bytes = *bytes;
        if bytes[20..] != (A::FLAGS | LENT).to_be_bytes() {
            return None;
        }
        bytes[20..].copy_from_slice(&A::FLAGS.to_be_bytes());
        RemoteSlice::from_bytes(&bytes).map(Revocable)
    }
}

impl_debug!([A: Access] Revocable<A>, |it| "Revocable({:?})", it.0);
