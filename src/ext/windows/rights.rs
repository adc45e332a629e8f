//! Regions to which memory windows can be bound, and the keys that a peer invalidates.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::allows::{Allows, call};
use crate::memory::registered::AccessFlags;
use crate::memory::rights::sealed::Sealed;
use crate::memory::{
    Access, GrantsAtomic, GrantsRead, GrantsWrite, Includes, Ordered, OutOfBounds, Remote,
    RemoteAll, RemoteAtomic, RemoteCell, RemoteRead, RemoteReadWrite, RemoteSlice, RemoteSpan,
    RemoteWrite, ToRead,
};

/// The rights `A` with `IBV_ACCESS_MW_BIND` ([`Access`]): memory windows can be bound to the region
/// ([R1.7](crate::guide::rules#r1-7)). The key of the region itself has the rights `A`. With
/// `Windowed<LocalWrite>` the region does not have a key for peers, and they access it only through
/// windows.
///
/// The memory must be writable: the kernel treats `IBV_ACCESS_MW_BIND` as a right to write, and
/// does not pin read-only memory for it (EFAULT).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::Windowed;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let region: MemoryRegion<Windowed<LocalWrite>> = pd.register(4096)?;
/// region.write_at(0, b"what a window will show")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "IBV_ACCESS_MW_BIND")]
pub struct Windowed<A: Access>(Infallible, PhantomData<A>);

/// Rights ([`Access`]) of a region to which memory windows can be bound: [`Windowed`] rights
/// ([R1.7](crate::guide::rules#r1-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BindsWindows, Windowed};
/// fn len<A: BindsWindows>(of: &MemoryRegion<A>) -> usize {
///     of.len()
/// }
/// let _ = (len::<Windowed<LocalWrite>>, len::<Windowed<RemoteRead>>);
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no memory window can be bound to a `{Self}` region",
    label = "the region was registered without MW_BIND",
    note = "register it for windows, as in `pd.register::<Windowed<LocalWrite>>(len)`"
)]
pub trait BindsWindows: Access {}

/// `Self: BindsTo<R>`: a memory window that grants a peer these rights can be bound to a region
/// with the rights `R` ([R18.41](crate::guide::rules#r18-41), [R1.7](crate::guide::rules#r1-7)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::windows::{BindsTo, Windowed};
/// use proverbs::memory::Relaxed;
/// fn may_be_bound<A: BindsTo<R>, R: proverbs::ext::windows::BindsWindows>() {}
/// may_be_bound::<RemoteAtomic, Windowed<LocalWrite>>();
/// may_be_bound::<RemoteWrite, Windowed<Relaxed<LocalWrite>>>();
/// ```
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "no memory window has the rights `{Self}`",
    label = "a window gives rights to a peer",
    note = "bind it as `ext::windows::BindMw::<RemoteRead>`, or with other rights of a peer"
)]
pub trait BindsTo<R: BindsWindows>: Remote {}

macro_rules! binds {
    ($($rights:ident)*) => { $(impl<R: BindsWindows> BindsTo<R> for $rights {})* };
}

binds!(RemoteRead RemoteWrite RemoteReadWrite RemoteAtomic RemoteAll);

impl<A: Access> BindsWindows for Windowed<A> {}
impl<A: Access> Sealed for Windowed<A> {}
impl<A: Access> Access for Windowed<A> {
    type Key = Windowed<A::Key>;
    const FLAGS: u32 = A::FLAGS | AccessFlags::MW_BIND.bits();
    const NAME: &'static str = A::NAME;
}
impl<A: GrantsRead> GrantsRead for Windowed<A> {}
impl<A: GrantsWrite> GrantsWrite for Windowed<A> {}
impl<A: GrantsAtomic> GrantsAtomic for Windowed<A> {}
impl<A: Remote> Remote for Windowed<A> {}
impl<A: Ordered> Ordered for Windowed<A> {}
impl<A: Includes<B>, B: Access> Includes<B> for Windowed<A> {}

/// A slice of a peer's memory that the peer has lent.
/// [`SendWithInv`](crate::ext::windows::SendWithInv) returns it: the key is then no longer valid
/// ([R1.6](crate::guide::rules#r1-6)).
///
/// It is not `Clone`, so that a key is not invalidated twice, which would crash the kernel of a
/// peer with Soft-RoCE (Linux 6.1 to 7.3). If you create a work request from the slice, then return
/// the slice, and post the work request after that, the peer's device rejects the request.
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
    /// Creates the value from a slice that the peer has lent and has sent in another format.
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

    /// Returns the source of an RDMA READ, which reads the whole slice.
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

    /// Encodes the address, the length, the rkey and a code for the rights in 24 bytes, in network
    /// byte order. The code marks the slice as lent.
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
