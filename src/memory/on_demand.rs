//! Regions on demand: their pages are not pinned, and come when the device touches them.

// No model: it only lends a word of open memory to the program as an atomic.

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

/// Peers may use the rights `A` over the transport `T` in memory on demand: an
/// [`Ability`](crate::device::Ability), which
/// [`on_demand`](RegionBuilder::on_demand) takes.
///
/// It is there if `odp_caps` names RDMA WRITE, READ, atomics and FLUSH for the transport, as far as
/// `A` grants them. UD carries none of these. ATOMIC_WRITE has no right of its own: whether it may
/// come too, [`OdpCaps`](crate::device::OdpCaps) says.
///
/// Soft-RoCE has it for atomics alone, whatever its `odp_caps` say: as of Linux 7.3 it copies to
/// and from the beginning of a page, wherever in it the bytes are
/// ([R20.5](crate::guide::rules#r20-5)).
pub struct OnDemand<T, A>(Infallible, PhantomData<(T, A)>);

impl<T: Transport, A: Remote> sealed::Sealed for OnDemand<T, A> {}

impl<T: Transport, A: Remote> Ability for OnDemand<T, A> {
    const NAME: &'static str = "on-demand paging";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.odp.has(T::QP_TYPE, needs(A::FLAGS))
    }
}

/// The operations that peers may post with these rights.
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
/// ibv_reg_mr(3)): the device asks for them when a peer touches them. It does not count against
/// `ulimit -l`, and may be larger than the machine's memory.
///
/// It is for peers: they read it, write it and do atomics, and this program copies. Nothing of it
/// is posted here, because a queue pair on which the device has no such operation would fail; so it
/// has no pieces ([R20.2](crate::guide::rules#r20-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{device::Can, memory::{Advice, OnDemand, OnDemandRegion}};
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, context, .. } =
/// #     proverbs::loopback::pair()?;
/// let can: Option<Can<OnDemand<Rc, RemoteWrite>>> = context.abilities()?.can();
/// let can = can.ok_or("no WRITEs over RC to memory on demand")?;
/// let large: OnDemandRegion<RemoteWrite, Vec<u8>> =
///     pd.region().on_demand(&can).create_in(vec![0u8; 1 << 20])?;
/// large.prefetch(Advice::PrefetchWrite, 0, 4096)?; // what is written first
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
    /// A region with `ON_DEMAND`. Nothing hands it out, nor a piece of it.
    region: MemoryRegion<A, M>,
}

/// What a device is told of memory on demand (`advice` of ibv_advise_mr(3)). [`OnDemandRegion`] has
/// an example.
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
    /// `IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT`: only pages that are in memory are meant, so that
    /// none is made (Linux 5.12).
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
    /// The region's pages are not pinned (`IBV_ACCESS_ON_DEMAND` of ibv_reg_mr(3)): it becomes an
    /// [`OnDemandRegion`], which has an example.
    ///
    /// The proof is for peers that come over `T`. Over another transport their accesses may fail,
    /// as the device's `odp_caps` say ([R20.1](crate::guide::rules#r20-1)).
    #[doc(alias = "IBV_ACCESS_ON_DEMAND")]
    pub fn on_demand<T: Transport>(self, can: &'a Can<OnDemand<T, A>>) -> OnDemandBuilder<'a, T, A>
    where
        OnDemand<T, A>: Ability,
    {
        OnDemandBuilder { pd: self.pd, can }
    }
}

/// An [`OnDemandRegion`] to be created ([`RegionBuilder::on_demand`]).
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
    /// Registers `len` bytes, zeroed, that the region allocates (`ibv_reg_mr`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// As for [`create_in`](Self::create_in).
    pub fn create(self, len: usize) -> Result<OnDemandRegion<A>, Error> {
        Ok(self.create_in(Pages::new(REGISTER, len)?)?)
    }

    /// Registers all of `memory` (`ibv_reg_mr`). [`OnDemandRegion::destroy`] gives it back.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The memory comes back in the error. [`ErrorKind::ContextMismatch`] if the proof is another
    /// context's; otherwise as for [`register`](ProtectionDomain::register).
    pub fn create_in<M: Memory + Allows<call::Register<A>>>(
        self,
        memory: M,
    ) -> Result<OnDemandRegion<A, M>, Refused<M>> {
        let what = "the proof of on-demand paging and the protection domain";
        if let Err(error) = self.can.check_is_of(&self.pd.context(), REGISTER, what) {
            return Err(Refused::new(memory, error));
        }
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

    /// Always false: empty regions are refused ([R6.4](crate::guide::rules#r6-4)).
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The key with which a peer reaches the region: see [`MemoryRegion::remote`].
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
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.region.read_at(offset, out)
    }

    /// Copies bytes in: see [`MemoryRegion::write_at`].
    ///
    /// # Errors
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds>
    where
        MemoryRegion<A, M>: Allows<call::WriteAt>,
    {
        self.region.write_at(offset, bytes)
    }

    /// The 8 bytes at `offset` as an atomic: see [`MemoryRegion::cell`].
    ///
    /// # Errors
    /// [`OutOfBounds`](crate::memory::OutOfBounds) if the bytes are not all inside the region, or
    /// not at a multiple of 8.
    pub fn cell(&self, offset: usize) -> Result<&AtomicU64, OutOfBounds>
    where
        MemoryRegion<A, M>: Allows<call::CellAt>,
    {
        self.region.cell(offset)
    }

    /// Has the device fetch the pages of `len` bytes from `offset` on before they are touched, and
    /// returns when it has (`ibv_advise_mr` with `IBV_ADVISE_MR_FLAG_FLUSH`). [`OnDemandRegion`]
    /// has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] if the bytes end beyond the region
    /// ([R20.3](crate::guide::rules#r20-3)). [`ErrorKind::Unsupported`] if the device or its
    /// library has no such verb, or not this advice. Otherwise [`ErrorKind::Os`] with the errno:
    /// EPERM if what is read-only is to be written ([R20.4](crate::guide::rules#r20-4)), EFAULT if
    /// a page cannot be had.
    #[doc(alias = "ibv_advise_mr")]
    pub fn prefetch(&self, advice: Advice, offset: usize, len: usize) -> Result<(), Error> {
        self.advise(advice, FLUSH, offset, len)
    }

    /// Like [`prefetch`](Self::prefetch), but it does not wait for the device: pages come in the
    /// background, or do not.
    ///
    /// # Errors
    /// As for [`prefetch`](Self::prefetch), but that nothing tells of a page that cannot be had.
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
                let lacks = format!("this device or its library has no such advice ({why})");
                let instead = "leave it out: pages come when they are touched";
                let asked = asked();
                Error::new(ADVISE, ErrorKind::Unsupported { asked, lacks, instead })
            }
            libc::EPERM => {
                Error::os(ADVISE, errno, format!("{}; the region is read-only", asked()))
            }
            _ => Error::os(ADVISE, errno, asked()),
        })
    }

    /// Deregisters the memory (`ibv_dereg_mr`) and gives it back.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`] with the errno, and the region is given back: its
    /// memory stays registered ([R6.9](crate::guide::rules#r6-9)).
    pub fn destroy(self) -> Result<M, Refused<Self>> {
        self.region.destroy().map_err(|refused| refused.map(|region| OnDemandRegion { region }))
    }
}

/// The longest piece of a range in one element of a list, which has 32 bits for a length.
const LONGEST: usize = 1 << 30;

/// So many bytes as a list of scatter/gather elements.
fn elements(at: u64, lkey: u32, len: usize) -> Vec<ibv_sge> {
    let element = |start: usize| {
        let length = (len - start).min(LONGEST) as u32;
        ibv_sge { addr: at + start as u64, length, lkey }
    };
    (0..len).step_by(LONGEST).map(element).collect()
}

impl_debug!([A: Access, M] OnDemandRegion<A, M>, |it|
    "OnDemandRegion({} {} bytes)", A::NAME, it.region.len());

#[cfg(test)]
mod tests;
