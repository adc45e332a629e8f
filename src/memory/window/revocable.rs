//! What a peer lends through a memory window, until it is given back.

use crate::allows::{Allows, call};
use crate::memory::{Access, OutOfBounds, RemoteCell, RemoteSlice, RemoteSpan, ToRead};

/// A slice of a peer's memory that the peer lent, and that [`SendWithInv`](crate::wr::SendWithInv)
/// gives back: the key is then no longer valid ([R1.6](crate::guide::rules#r1-6)).
///
/// It is not `Clone`, so that no key is given back twice: where Soft-RoCE has the window, that
/// crashes the peer's kernel (Linux 6.1 to 7.3). A work request that was made of it before, and is
/// posted after, is refused by the peer's device.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Revocable;
/// let told = Revocable::new(RemoteSlice::<RemoteWrite>::from_parts(0x7f00_0000, 64, 0x1234)).to_bytes();
/// assert!(RemoteSlice::<RemoteWrite>::from_bytes(&told).is_none()); // it is lent, not given
/// let lent = Revocable::<RemoteWrite>::from_bytes(&told).ok_or("other rights")?;
/// assert_eq!((lent.len(), lent.is_empty(), lent.rkey()), (64, false, 0x1234));
///
/// let buf_to = lent.write(); // for RdmaWrite
/// let second_half_to = lent.slice(32, 32)?.write();
/// let back = wr::SendWithInv::inline(b"done", lent);
/// # let _ = (buf_to, second_half_to, back);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail,E0382
/// # use proverbs::prelude::*;
/// # use proverbs::memory::Revocable;
/// fn late(lent: Revocable<RemoteWrite>) {
///     let _ = wr::SendWithInv::inline(b"done", lent);
///     let _ = lent.write(); // it was given back
/// }
/// ```
pub struct Revocable<A: Access>(RemoteSlice<A>);

/// In the code for the rights: the slice is lent.
const LENT: u32 = 1 << 31;

impl<A: Access> Revocable<A> {
    /// A slice that the peer said to be lent, in a format of its own.
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

    /// The key that opens it, until it is given back.
    pub fn rkey(&self) -> u32 {
        self.0.rkey()
    }

    /// The part of `len` bytes from `offset` on, to be read or written before all of it is given
    /// back.
    ///
    /// # Errors
    /// [`OutOfBounds`] if the part is not all inside.
    pub fn slice(&self, offset: u64, len: u64) -> Result<RemoteSlice<A>, OutOfBounds> {
        self.0.slice(offset, len)
    }

    /// The source of an RDMA READ, which reads all of it.
    #[inline]
    pub fn read(&self) -> RemoteSpan<ToRead>
    where
        RemoteSlice<A>: Allows<call::ReadRemote>,
    {
        self.0.read()
    }

    /// The target of an RDMA WRITE, which writes no byte beyond it.
    #[inline]
    pub fn write(&self) -> RemoteSpan
    where
        RemoteSlice<A>: Allows<call::WriteRemote>,
    {
        self.0.write()
    }

    /// The 8 bytes at `offset`, for an atomic.
    ///
    /// # Errors
    /// As for [`RemoteSlice::atomic`].
    pub fn atomic(&self, offset: u64) -> Result<RemoteCell, OutOfBounds>
    where
        RemoteSlice<A>: Allows<call::AtomicRemote>,
    {
        self.0.atomic(offset)
    }

    /// Address, length and rkey in network order, and a code for the rights, which says that it is
    /// lent: 24 bytes.
    pub fn to_bytes(&self) -> [u8; 24] {
        let mut bytes = self.0.to_bytes();
        bytes[20..].copy_from_slice(&(A::FLAGS | LENT).to_be_bytes());
        bytes
    }

    /// What a peer's [`to_bytes`](Self::to_bytes) encoded; `None` if it grants other rights than
    /// `A`, or is not lent.
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
