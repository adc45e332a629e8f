//! The implicit region: one key for all memory that the program gives to it.
//!
//! # Why the key covers only adopted memory
//!
//! The C object covers the whole address space, so the device does not check the addresses in work
//! requests with its key against a region of ours. The key is only in headers, which `adopt` and
//! `part` create for memory that moved into the region. The memory stays there until the last
//! header is gone. The region does not grant rights to peers, nor local write access: the device
//! can only read.

#![allow(unsafe_code)] // owns memory that the device reads

use std::any::Any;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::{Deref, Range, RangeBounds};
use std::ptr;
use std::sync::Arc;

use crate::allows::{Allows, call};
use crate::counters::type_tag;
use crate::device::attr_ex::sealed;
use crate::device::{Ability, Can, DeviceAttrEx, OdpOps, ProtectionDomain};
use crate::memory::header::Handle;
use crate::memory::header_slab::HeaderSlab;
use crate::memory::implicit::ImplicitBuf;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, owning_handle};
use crate::memory::registered::AccessFlags;
use crate::memory::{CanBeSlices, Container, Memory, OutOfBounds};
use crate::sys::control::Holds;
use crate::sys::handle;
use crate::terms::error::{Error, Refused};
use crate::terms::transport::Transport;

const REGISTER: &str = "ibv_reg_mr";

/// The device supports a region of the whole address space (`IBV_ODP_SUPPORT_IMPLICIT`), and queue
/// pairs of `T` can post the operations `O` on it. It is an [`Ability`](crate::device::Ability) for
/// [`register_implicit`](ProtectionDomain::register_implicit).
///
/// `O` is `wr::Send`, `wr::RdmaWrite` or `(wr::Send, wr::RdmaWrite)`. Each of the two operations
/// includes its form with immediate data.
#[doc(alias = "IBV_ODP_SUPPORT_IMPLICIT")]
pub struct Implicit<T, O>(Infallible, PhantomData<(T, O)>);

impl<T: Transport, O: PagedOps> sealed::Sealed for Implicit<T, O> {}

impl<T: Transport, O: PagedOps> Ability for Implicit<T, O> {
    const NAME: &'static str = "implicit on-demand paging";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.odp.is_implicit && attr.odp.has(T::QP_TYPE, O::OPS)
    }
}

/// The operations that can be posted with memory of an [`ImplicitRegion`]: `wr::Send`,
/// `wr::RdmaWrite`, or both as a tuple.
pub trait PagedOps: of_ops::Sealed + 'static {
    #[doc(hidden)]
    const OPS: OdpOps;
}

pub(super) mod of_ops {
    pub trait Sealed {}
}

/// The implicit region of a protection domain (`ibv_reg_mr` with NULL, `SIZE_MAX` and
/// `IBV_ACCESS_ON_DEMAND`). Its single key lets the device send memory of the program without
/// registering it.
///
/// Give it memory with [`adopt`](Self::adopt), and take the memory back later. Neither calls the
/// device, and nothing is pinned. The key is valid for all memory of the process, so the region
/// grants peers no rights, and the device can only read.
///
/// The type contains the transports and operations for which the device supports on-demand paging
/// ([R20.6](crate::guide::rules#r20-6)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{device::Can, ext::on_demand::{Implicit, ImplicitBuf, ImplicitRegion}};
/// profile! { Writer { entry: ImplicitBuf<Rc, wr::RdmaWrite> } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, context, .. } =
/// #     proverbs::loopback::pair_of::<Writer>()?;
/// let can: Option<Can<Implicit<Rc, wr::RdmaWrite>>> = context.abilities()?.can();
/// let can = can.ok_or("no implicit region, or no WRITEs from it over RC")?;
/// let all: ImplicitRegion<Rc, wr::RdmaWrite> = pd.register_implicit(&can)?; // once per domain
///
/// # let region = pd.register::<RemoteWrite>(64)?;
/// # let at = region.remote().write();
/// let buf = all.adopt(b"in a vector".to_vec())?; // the device is not called
/// a.post_send(wr::RdmaWrite::paged(buf, at))?;
/// let buf = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("it had a buffer")?;
/// assert_eq!(&buf[5..], b"vector");
/// let vector: Vec<u8> = buf.into_memory().map_err(|_| "other handles have it")?;
/// # let mut there = [0; 11];
/// # region.read_at(0, &mut there)?;
/// # assert_eq!(&there[..], vector);
/// all.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "IBV_ACCESS_ON_DEMAND")]
pub struct ImplicitRegion<T, O> {
    key: Arc<Key>,
    _of: PhantomData<fn() -> (T, O)>,
}

/// The C object, and the data that headers contain about it.
struct Key {
    mr: handle::Mr,
    /// The headers of handles.
    slab: Arc<HeaderSlab>,
    /// The type tag of a buffer, without its length.
    type_tag: u64,
}

impl ProtectionDomain {
    /// Creates the implicit region of this domain. [`ImplicitRegion`] has an example.
    ///
    /// # Errors
    /// - [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch): `can` comes from
    ///   another context.
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn register_implicit<T, O>(
        &self,
        can: &Can<Implicit<T, O>>,
    ) -> Result<ImplicitRegion<T, O>, Error>
    where
        Implicit<T, O>: Ability,
    {
        let what = "the ability for implicit on-demand paging and the protection domain";
        can.check_is_of(&self.context(), REGISTER, what)?;
        let (handle, access) = (self.handle(), AccessFlags::ON_DEMAND);
        let register = handle.control().reg_mr;
        // SAFETY: the domain is live. The region as such does not require that any memory stays
        // valid: the device accesses the memory that work requests name, and those with its key
        // name only the memory that `Adopted` keeps.
        let mr = unsafe {
            register(handle.as_ptr(), ptr::null_mut(), usize::MAX, access.bits(), Holds::Buffers)
        };
        let mr = mr.map_err(|errno| Error::os(REGISTER, errno, "all memory, on demand"))?;
        // SAFETY: the object was just created and has no other owner.
        let mr = unsafe { handle::Mr::new(mr, handle.control(), handle.clone()) };
        let type_tag = type_tag::of(self.id(), type_tag::NO_POOL, 0);
        let key = Arc::new(Key { mr, slab: HeaderSlab::new(self.id()), type_tag });
        Ok(ImplicitRegion { key, _of: PhantomData })
    }
}

allows! { [M: Memory<Sharing: CanBeSlices>] M: Adopt; }

impl<T, O> ImplicitRegion<T, O> {
    /// Moves `memory` into the region and returns a handle to all of its bytes. The device is not
    /// called.
    ///
    /// [`into_memory`](ImplicitBuf::into_memory) returns the memory. Otherwise it is dropped with
    /// the last handle.
    ///
    /// # Errors
    /// The memory, with
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if it is empty.
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): it has 2^32 bytes or more. Register a
    ///   region instead.
    pub fn adopt<M: Memory + Allows<call::Adopt>>(
        &self,
        memory: M,
    ) -> Result<ImplicitBuf<T, O>, Refused<M>> {
        let mut memory = Box::new(memory);
        let bytes = memory.bytes();
        let fits = match bytes.len() as u64 {
            0 => Err(Error::os(REGISTER, libc::EINVAL, "cannot adopt 0 bytes")),
            len => Error::at_most(REGISTER, "length of one buffer", len, u64::from(u32::MAX)),
        };
        or_refused!(*memory, fits);
        let (addr, len) = (bytes.as_ptr().cast::<u8>(), bytes.len() as u32);
        // Work requests contain only the address.
        addr.expose_provenance();
        // INVARIANT: the value was moved for the last time, and then its `bytes` was called.
        let memory = Adopted { memory, key: self.key.clone() };
        let Key { mr, slab, type_tag } = &*self.key;
        // SAFETY: the region is registered while `key` lives.
        let lkey = unsafe { (*mr.as_ptr()).lkey };
        let loan =
            HandleBytes { addr, len, lkey, type_tag: type_tag::without_pool(*type_tag, len) };
        Ok(ImplicitBuf(owning_handle(slab, || KeptAlive::of(memory), &loan), PhantomData))
    }

    /// Restores the type parameters `T` and `O` of a handle, which an
    /// [`AnyBuf`](crate::memory::AnyBuf) from a completion lacks.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use proverbs::ext::on_demand::Implicit;
    /// profile! { Mixed { entry: AnyBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, context, pool, .. } =
    /// #     proverbs::loopback::pair_of::<Mixed>()?;
    /// # let can = context.abilities()?.can::<Implicit<Rc, wr::Send>>().ok_or("no")?;
    /// let all = pd.register_implicit::<Rc, wr::Send>(&can)?;
    /// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(wr::Send::paged(all.adopt(vec![7u8; 64])?))?;
    /// for entry in proverbs::loopback::poll(&mut cq, 2)?.into_iter().flatten() {
    ///     if let AnyBuf::Implicit(buf) = entry {
    ///         let buf = all.recognize(buf).map_err(|_| "it belongs to another region")?;
    /// #       b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    ///         a.post_send(wr::Send::paged(buf))?; // again
    ///     }
    /// }
    /// # proverbs::loopback::poll(&mut cq, 2)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, if it belongs to another region.
    pub fn recognize(&self, buf: ImplicitBuf) -> Result<ImplicitBuf<T, O>, ImplicitBuf> {
        match Arc::ptr_eq(&buf.adopted().key, &self.key) {
            true => Ok(ImplicitBuf(buf.0, PhantomData)),
            false => Err(buf),
        }
    }

    /// Deregisters the region (`ibv_dereg_mr`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the region: EBUSY if a handle to
    /// adopted memory still exists.
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_dereg_mr";
        const IN_USE: &str =
            "handles to adopted memory exist: drop them, including those in completions";
        let key = Arc::get_mut(&mut self.key).ok_or((libc::EBUSY, IN_USE));
        let closed = key.and_then(|key| key.mr.close().map_err(|errno| (errno, "")));
        closed.map_err(|(errno, why)| Refused::new(self, Error::os(VERB, errno, why)))
    }
}

/// Memory that was moved into an implicit region.
///
/// # Invariants
/// The handles that keep it alive point to bytes of `memory`, as returned by [`Memory::bytes`]
/// after the last move, so the guarantees of `Memory` hold for them. The memory is neither accessed
/// nor moved out of its box while there is such a handle.
struct Adopted {
    memory: Box<dyn Any + Send>,
    key: Arc<Key>,
}

// SAFETY: the memory is `Send`, and shared access only reads its type.
unsafe impl Sync for Adopted {}

impl<T, O> ImplicitBuf<T, O> {
    fn adopted(&self) -> &Adopted {
        self.0.kept().other()
    }

    /// Returns a handle to a range of these bytes.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use proverbs::ext::on_demand::Implicit;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let can = context.abilities()?.can::<Implicit<Rc, wr::Send>>().ok_or("no")?;
    /// let all = pd.register_implicit::<Rc, wr::Send>(&can)?;
    /// let table = all.adopt(b"one two three".to_vec())?;
    /// let (two, rest) = (table.part(4..7)?, table.part(8..)?);
    /// assert_eq!((&two[..], &rest[..]), (&b"two"[..], &b"three"[..]));
    /// let error = rest.part(..6).unwrap_err(); // relative to its start
    /// assert_eq!(error.to_string(), "6 bytes at offset 0 exceed the buffer of 5 bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfBounds`] if the range exceeds this handle's bytes, or ends before it starts.
    pub fn part(&self, range: impl RangeBounds<usize>) -> Result<Self, OutOfBounds> {
        let Range { start, end } = Container::Buffer.range(self.len(), range)?;
        let (header, len) = (self.0.header(), (end - start) as u32);
        // (If the range is empty, this may be the end of the bytes. No element uses it then.)
        let addr = header.addr().wrapping_add(start);
        let type_tag = type_tag::without_pool(header.type_tag(), len);
        let loan = HandleBytes { addr, len, lkey: header.lkey(), type_tag };
        Ok(ImplicitBuf(owning_handle(self.0.slab(), || self.0.kept().clone(), &loan), PhantomData))
    }

    /// The number of handles to the memory, including this one, handles that the device owns, and
    /// handles in completions.
    pub fn handles(&self) -> usize {
        self.0.sharers()
    }

    /// Returns the memory, if this is the only handle to it.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use proverbs::ext::on_demand::Implicit;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let can = context.abilities()?.can::<Implicit<Rc, wr::Send>>().ok_or("no")?;
    /// let all = pd.register_implicit::<Rc, wr::Send>(&can)?;
    /// let buf = all.adopt(vec![1u64, 2, 3])?;
    /// let part = buf.part(..8)?;
    /// let buf = buf.into_memory::<Vec<u64>>().unwrap_err(); // `part` is still alive
    /// assert_eq!(buf.handles(), 2);
    /// drop(part);
    /// let buf = buf.into_memory::<Vec<u8>>().unwrap_err(); // another type
    /// let vector: Vec<u64> = buf.into_memory().map_err(|_| "other handles have it")?;
    /// assert_eq!(vector, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, if other handles to the memory exist, or if the memory has another type.
    pub fn into_memory<M: Memory>(self) -> Result<M, Self> {
        if !self.adopted().memory.is::<M>() || self.handles() != 1 {
            return Err(self);
        }
        let adopted = match self.0.into_kept() {
            KeptAlive::Other(other) => Arc::into_inner(other).and_then(|it| it.downcast().ok()),
            _ => None,
        };
        match adopted.map(|adopted: Box<Adopted>| adopted.memory.downcast()) {
            Some(Ok(memory)) => Ok(*memory),
            // The reference is the only one, since other references are only created from handles.
            // The type was checked above.
            _ => unreachable!("the only reference, of this type"),
        }
    }

    /// Your own number, initially 0, which replaces C's `wr_id`. It returns with the handle in the
    /// completion. A clone starts with the same number.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use proverbs::ext::on_demand::Implicit;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let can = context.abilities()?.can::<Implicit<Rc, wr::Send>>().ok_or("no")?;
    /// # let all = pd.register_implicit::<Rc, wr::Send>(&can)?;
    /// let mut buf = all.adopt(vec![7u8; 64])?;
    /// buf.set_id(42);
    /// assert_eq!((buf.clone().id(), buf.part(..8)?.id()), (42, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> u64 {
        self.0.id()
    }

    /// Sets the number that [`id`](Self::id) returns.
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl<T, O> Clone for ImplicitBuf<T, O> {
    fn clone(&self) -> Self {
        ImplicitBuf(self.0.clone(), PhantomData)
    }
}

impl<T, O> Deref for ImplicitBuf<T, O> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let header = self.0.header();
        // SAFETY: bytes of private memory that was moved away, initialised and valid for reads from
        // any thread (`Memory`). They are not written while a handle exists: the memory promises
        // that no other process writes them, and the region does not grant write access.
        unsafe { std::slice::from_raw_parts(header.addr(), header.capacity() as usize) }
    }
}

impl_debug!([T, O] ImplicitBuf<T, O>, |it| "ImplicitBuf({} bytes)", it.len());

impl_debug!([T, O] ImplicitRegion<T, O>, |_| "ImplicitRegion {{ .. }}");

#[cfg(all(test, feature = "loopback"))]
mod tests;
