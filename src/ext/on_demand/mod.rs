//! On-demand regions: their pages are not pinned. The device faults them in on access.
//! [`OnDemandRegion`] and [`ImplicitRegion`] have examples.
//!
//! The design is in
//! [docs/on-demand.md](https://docs.rs/crate/proverbs/latest/source/docs/on-demand.md).

// No model: it only returns a word of open memory to the program as an atomic.

mod implicit;
mod paged;

pub use crate::memory::implicit::ImplicitBuf;
pub use implicit::{Implicit, ImplicitRegion, PagedOps};
pub use paged::{Paged, PagedIn};

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

use crate::allows::{Allows, call};
use crate::device::attr_ex::sealed;
use crate::device::{Ability, Can, DeviceAttrEx, OdpOps, ProtectionDomain};
use crate::memory::own::heap::Pages;
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::{
    Access, Memory, MemoryRegion, OutOfBounds, RegionBuilder, Remote, RemoteSlice,
};
use crate::sys::memory::{FLUSH, advice};
use crate::sys::types::ibv_sge;
use crate::terms::error::{Errno, Error, ErrorKind, Refused};
use crate::terms::transport::Transport;

const REGISTER: &str = "ibv_reg_mr";
const ADVISE: &str = "ibv_advise_mr";

/// Peers can use the rights `A` over the transport `T` in on-demand memory: an
/// [`Ability`] for [`on_demand`](RegionBuilder::on_demand).
///
/// A device has this ability if its `odp_caps` for the transport include each of RDMA WRITE, READ,
/// atomics and FLUSH that `A` grants. UD does not support any of these. ATOMIC_WRITE does not have
/// its own right; see [`OdpCaps`](crate::device::OdpCaps) for whether the device supports it here.
///
/// Soft-RoCE has it only for atomics, whatever its `odp_caps` say: as of Linux 7.3, it copies READ
/// and WRITE data to and from the start of a page, whatever the offset
/// ([R20.5](crate::guide::rules#r20-5)).
pub struct OnDemand<T, A>(Infallible, PhantomData<(T, A)>);

impl<T: Transport, A: Remote> sealed::Sealed for OnDemand<T, A> {}

impl<T: Transport, A: Remote> Ability for OnDemand<T, A> {
    const NAME: &'static str = "on-demand paging";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.odp.has(T::QP_TYPE, needs(A::FLAGS))
    }
}

/// The operations that peers can post with these rights.
const fn needs(access: u32) -> OdpOps {
    let mut ops = OdpOps::empty();
    let pairs = [
        (AccessFlags::REMOTE_WRITE, OdpOps::WRITE),
        (AccessFlags::REMOTE_READ, OdpOps::READ),
        (AccessFlags::REMOTE_ATOMIC, OdpOps::ATOMIC),
        (AccessFlags::FLUSH_GLOBAL, OdpOps::FLUSH),
    ];
    let mut i = 0;
    while i < pairs.len() {
        if access & pairs[i].0.bits() != 0 {
            ops = ops.union(pairs[i].1);
        }
        i += 1;
    }
    ops
}

/// A region with the rights `A` whose pages are not pinned (`IBV_ACCESS_ON_DEMAND` of
/// ibv_reg_mr(3)).
///
/// The device faults in a page when a peer accesses it. The region does not count against
/// `ulimit -l`, and can be larger than the machine's memory.
///
/// Peers can read and write the region and perform atomics on it. This program accesses it with
/// copies and cells. The region does not have pieces to post, because posting a piece would fail on
/// a queue pair for which the device does not support on-demand paging
/// ([R20.2](crate::guide::rules#r20-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{device::Can, ext::on_demand::{Advice, OnDemand, OnDemandRegion}};
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, context, .. } =
/// #     proverbs::loopback::pair()?;
/// let can: Option<Can<OnDemand<Rc, RemoteWrite>>> = context.abilities()?.can();
/// let can = can.ok_or("no on-demand paging for WRITEs over RC")?;
/// let large: OnDemandRegion<RemoteWrite, Vec<u8>> =
///     pd.region().on_demand(&can).create_in(vec![0u8; 1 << 20])?;
/// large.prefetch(Advice::PrefetchWrite, 0, 4096)?; // the first bytes to be written
///
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"from a peer")?;
/// a.post_send(wr::RdmaWrite::new(buf, large.remote().write()))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// let mut there = [0; 11];
/// large.read_at(0, &mut there)?;
/// assert_eq!(&there, b"from a peer");
/// let memory: Vec<u8> = large.destroy()?;
/// assert_eq!(memory.len(), 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "IBV_ACCESS_ON_DEMAND")]
pub struct OnDemandRegion<A: Access, M = Pages> {
    /// A region with `ON_DEMAND`. Neither it nor a piece of it is handed out.
    region: MemoryRegion<A, M>,
}

/// The kind of prefetch (`advice` of ibv_advise_mr(3)). [`OnDemandRegion`] has an example.
#[doc(alias = "IBV_ADVISE_MR_FLAG_FLUSH")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// `IBV_ADVISE_MR_ADVICE_PREFETCH`: the bytes will be read.
    #[doc(alias = "IBV_ADVISE_MR_ADVICE_PREFETCH")]
    Prefetch,
    /// `IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE`: the bytes will be written. Their memory must be
    /// writable.
    #[doc(alias = "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE")]
    PrefetchWrite,
    /// `IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT`: only pages that are already in memory are
    /// prefetched (Linux 5.12).
    #[doc(alias = "IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT")]
    PrefetchNoFault,
}

impl Advice {
    fn to_c(self) -> u32 {
        match self {
            Advice::Prefetch => advice::PREFETCH,
            Advice::PrefetchWrite => advice::PREFETCH_WRITE,
            Advice::PrefetchNoFault => advice::PREFETCH_NO_FAULT,
        }
    }
}

impl<'a, A: Access> RegionBuilder<'a, A> {
    /// Creates an [`OnDemandRegion`], whose pages are not pinned (`IBV_ACCESS_ON_DEMAND` of
    /// ibv_reg_mr(3)). The type has an example.
    ///
    /// `can` is the ability for accesses over `T`. Accesses over another transport may fail,
    /// depending on the device's `odp_caps` ([R20.1](crate::guide::rules#r20-1)).
    #[doc(alias = "IBV_ACCESS_ON_DEMAND")]
    pub fn on_demand<T: Transport>(self, can: &'a Can<OnDemand<T, A>>) -> OnDemandBuilder<'a, T, A>
    where
        OnDemand<T, A>: Ability,
    {
        OnDemandBuilder { pd: self.pd, can }
    }
}

/// Builds an [`OnDemandRegion`]. Returned by [`RegionBuilder::on_demand`].
#[must_use = "`create` or `create_in` registers the region"]
pub struct OnDemandBuilder<'a, T, A>
where
    OnDemand<T, A>: Ability,
{
    pd: &'a ProtectionDomain,
    can: &'a Can<OnDemand<T, A>>,
}

impl<T, A: Access> OnDemandBuilder<'_, T, A>
where
    OnDemand<T, A>: Ability,
{
    /// Allocates and registers `len` bytes, initially zero (`ibv_reg_mr`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`create_in`](Self::create_in).
    pub fn create(self, len: usize) -> Result<OnDemandRegion<A>, Error> {
        Ok(self.create_in(Pages::new(REGISTER, len)?)?)
    }

    /// Registers all of `memory` (`ibv_reg_mr`). [`OnDemandRegion::destroy`] returns it.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The memory, with [`ErrorKind::ContextMismatch`] if `can` comes from another context, and
    /// otherwise as for [`register`](ProtectionDomain::register).
    pub fn create_in<M: Memory + Allows<call::Register<A>>>(
        self,
        memory: M,
    ) -> Result<OnDemandRegion<A, M>, Refused<M>> {
        let what = "the ability for on-demand paging and the protection domain";
        or_refused!(memory, self.can.check_is_of(&self.pd.context(), REGISTER, what));
        let access = AccessFlags::from_bits_retain(A::FLAGS) | AccessFlags::ON_DEMAND;
        let region = MemoryRegion::of(Registered::all(self.pd, memory, access)?);
        Ok(OnDemandRegion { region })
    }
}

impl_debug!([T: Transport, A: Remote] OnDemandBuilder<'_, T, A>, |_it|
    "OnDemandBuilder({})", A::NAME);

impl<A: Access, M: Memory> OnDemandRegion<A, M> {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// The address of the first byte: see [`MemoryRegion::as_ptr`].
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.as_ptr()
    }

    /// Always false: empty regions are rejected ([R6.4](crate::guide::rules#r6-4)).
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The key with which a peer accesses the region: see [`MemoryRegion::remote`].
    pub fn remote(&self) -> RemoteSlice<A::Key>
    where
        MemoryRegion<A, M>: Allows<call::RemoteKey>,
    {
        self.region.remote()
    }

    /// The key with the rights `B` only: see [`MemoryRegion::export`].
    pub fn export<B: Access>(&self) -> RemoteSlice<B>
    where
        MemoryRegion<A, M>: Allows<call::Export<B>>,
    {
        self.region.export()
    }

    /// Copies bytes out: see [`MemoryRegion::read_at`].
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside the region.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.region.read_at(offset, out)
    }

    /// Copies bytes in: see [`MemoryRegion::write_at`].
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside the region.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds>
    where
        MemoryRegion<A, M>: Allows<call::WriteAt>,
    {
        self.region.write_at(offset, bytes)
    }

    /// Returns the 8 bytes at `offset` as an atomic: see [`MemoryRegion::cell`].
    ///
    /// # Errors
    /// [`OutOfBounds`] if the bytes are not all inside the region, or
    /// if their address is not a multiple of 8.
    pub fn cell(&self, offset: usize) -> Result<&AtomicU64, OutOfBounds>
    where
        MemoryRegion<A, M>: Allows<call::CellAt>,
    {
        self.region.cell(offset)
    }

    /// Prefetches the pages of `len` bytes at `offset`, and returns when the device has done so
    /// (`ibv_advise_mr` with `IBV_ADVISE_MR_FLAG_FLUSH`). [`OnDemandRegion`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// - [`ErrorKind::Limit`]: the bytes exceed the region ([R20.3](crate::guide::rules#r20-3)).
    /// - [`ErrorKind::Unsupported`]: the device or its library does not support the verb or this
    ///   advice.
    /// - [`ErrorKind::Os`] with the errno: EPERM for [`PrefetchWrite`](Advice::PrefetchWrite) of a
    ///   read-only region ([R20.4](crate::guide::rules#r20-4)), EFAULT if a page is not available.
    #[doc(alias = "ibv_advise_mr")]
    pub fn prefetch(&self, advice: Advice, offset: usize, len: usize) -> Result<(), Error> {
        self.advise(advice, FLUSH, offset, len)
    }

    /// Like [`prefetch`](Self::prefetch), but does not wait for the device. The device prefetches
    /// in the background, or not at all.
    ///
    /// # Errors
    /// As for [`prefetch`](Self::prefetch), except that an unavailable page is not reported.
    #[doc(alias = "ibv_advise_mr")]
    pub fn start_prefetch(&self, advice: Advice, offset: usize, len: usize) -> Result<(), Error> {
        self.advise(advice, 0, offset, len)
    }

    fn advise(&self, advice: Advice, flags: u32, offset: usize, len: usize) -> Result<(), Error> {
        let (all, end) = (self.len(), offset.saturating_add(len));
        Error::at_most(ADVISE, "offset and length", end as u64, all as u64)?;
        if len == 0 {
            return Ok(());
        }
        let region = self.region.registered();
        let at = region.at(offset).expose_provenance() as u64;
        let mut list = elements(at, region.lkey(), len);
        let asked = || format!("{advice:?} of {len} bytes from {offset} on");
        region.advise(advice.to_c(), flags, &mut list).map_err(|errno| match errno {
            libc::EOPNOTSUPP | libc::ENOSYS => {
                let why = Errno(errno);
                let lacks = format!("the device or its library lacks this advice ({why})");
                let instead = "leave it out: the device faults in pages on access";
                let asked = asked();
                Error::new(ADVISE, ErrorKind::Unsupported { asked, lacks, instead })
            }
            libc::EPERM => {
                Error::os(ADVISE, errno, format!("{}; the region is read-only", asked()))
            }
            _ => Error::os(ADVISE, errno, asked()),
        })
    }

    /// Deregisters the memory (`ibv_dereg_mr`) and returns it.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`] with the errno, and the region, whose memory stays registered
    /// ([R6.9](crate::guide::rules#r6-9)).
    pub fn destroy(self) -> Result<M, Refused<Self>> {
        self.region.destroy().map_err(|refused| refused.map(|region| OnDemandRegion { region }))
    }
}

/// The longest range in one element of a list, whose length has 32 bits.
const LONGEST: usize = 1 << 30;

/// Splits `len` bytes into scatter/gather elements.
fn elements(at: u64, lkey: u32, len: usize) -> Vec<ibv_sge> {
    let element = |start: usize| {
        let length = (len - start).min(LONGEST) as u32;
        ibv_sge { addr: at + start as u64, length, lkey }
    };
    (0..len).step_by(LONGEST).map(element).collect()
}

impl_debug!([A: Access, M] OnDemandRegion<A, M>, |it|
    "OnDemandRegion({} {} bytes)", A::NAME, it.region.len());

#[cfg(all(test, feature = "loopback"))]
mod tests;
