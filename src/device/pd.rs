//! Protection domains: groups of objects that can be used together.

// No model: the lock-free part is `counters::ids::mint_below`, which has one.

#![allow(unsafe_code)] // one verb

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
#[cfg(feature = "cm")]
use std::sync::Weak;

use crate::counters::ids;
use crate::device::{AddressHandle, AddressVector, Context};
use crate::sync::{AtomicU64, global};
use crate::sys::handle;
use crate::sys::refusal::{destroy, of_creation};
use crate::sys::types::ibv_pd;
use crate::terms::error::{Error, Refused};
use crate::terms::threads::{AnyThread, Threads};

/// A protection domain (`ibv_alloc_pd`). Regions, address handles, shared receive queues and queue
/// pairs can be used together if they belong to the same domain.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::PostErrorKind;
/// # let proverbs::loopback::Pair { context, mut a, .. } = proverbs::loopback::pair()?;
/// let pd: ProtectionDomain = context.alloc_pd()?;
/// let other = context.alloc_pd()?;
/// let stranger = other.create_pool(1, 64)?.take().ok_or("no buffer")?;
/// let error = a.post_send(wr::Send::new(stranger)).unwrap_err();
/// assert_eq!(error.kind(), PostErrorKind::PdMismatch);
/// drop(error);
/// other.destroy()?;
/// # drop(pd);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `L` is [`AnyThread`], or [`InLane`](crate::qp::InLane) for a [`Lane`](crate::device::Lane) of
/// the domain.
#[doc(alias = "ibv_pd")]
pub struct ProtectionDomain<L: Threads = AnyThread> {
    pd: Arc<handle::Pd>,
    id: u32,
    _threads: PhantomData<L>,
}

impl<L: Threads> Clone for ProtectionDomain<L> {
    fn clone(&self) -> Self {
        ProtectionDomain::of(self.pd.clone(), self.id)
    }
}

impl ProtectionDomain {
    /// Creates an address handle (`ibv_create_ah`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// let gid = context.roce_v2_gid(1)?;
    /// let ah = pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?)?;
    /// ah.destroy()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL: there is no global route on RoCE
    ///   ([R5.4](crate::guide::rules#r5-4)), or the GID table has no entry at the index
    ///   ([R8.5](crate::guide::rules#r8-5)).
    /// - [`ErrorKind::Limit`](crate::ErrorKind::Limit): the port has fewer LIDs
    ///   ([R24.9](crate::guide::rules#r24-9)).
    #[doc(alias = "ibv_create_ah")]
    pub fn create_ah(&self, vector: AddressVector) -> Result<AddressHandle, Error> {
        AddressHandle::new(self, vector)
    }

    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let id = mint()?;
        let control = context.handle.control();
        // SAFETY: its handle keeps the context open.
        let pd = unsafe { (control.alloc_pd)(context.handle.as_ptr()) };
        let pd = pd.map_err(|errno| of_creation(VERB, errno, String::new()))?;
        // SAFETY: the object was just created, and has no other owner.
        let pd = unsafe { handle::Pd::new(pd, control, context.handle.clone().into()) };
        Ok(ProtectionDomain::of(Arc::new(pd), id))
    }

    /// A protection domain that was allocated outside this crate, such as by C code;
    /// [`raw`](crate::raw) has an example. The crate does not deallocate it. Instead it drops
    /// `keep` when the returned value and all objects created from it are gone.
    ///
    /// # Safety
    /// `pd` is a protection domain of libibverbs, and live until `keep` is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::ContextMismatch`](crate::ErrorKind::ContextMismatch) if it belongs to another
    /// context ([R12.1](crate::guide::rules#r12-1)).
    pub unsafe fn from_raw<K: Send + Sync + 'static>(
        context: &Context,
        pd: NonNull<ibv_pd>,
        keep: K,
    ) -> Result<Self, Error> {
        let control = context.handle.control();
        // SAFETY: the domain is live (this function's contract).
        let is_one = unsafe { (*pd.as_ptr()).context } == context.handle.as_ptr();
        Error::unless_one_context(VERB, "the context and the protection domain", is_one)?;
        let id = mint()?;
        // SAFETY: the domain is live until the keeper is dropped (this function's contract), and
        // belongs to the provider of the context, because it belongs to the context.
        let pd =
            unsafe { handle::Pd::kept(pd, control, context.handle.clone().into(), Box::new(keep)) };
        Ok(ProtectionDomain::of(Arc::new(pd), id))
    }

    /// The domain of a handle that [`downgrade`](Self::downgrade) returned, if it still exists.
    #[cfg(feature = "cm")]
    pub(crate) fn upgrade((pd, id): &(Weak<handle::Pd>, u32)) -> Option<Self> {
        Some(ProtectionDomain::of(pd.upgrade()?, *id))
    }

    #[cfg(feature = "cm")]
    pub(crate) fn downgrade(&self) -> (Weak<handle::Pd>, u32) {
        (Arc::downgrade(&self.pd), self.id)
    }
}

impl<L: Threads> ProtectionDomain<L> {
    pub(crate) fn of(pd: Arc<handle::Pd>, id: u32) -> Self {
        ProtectionDomain { pd, id, _threads: PhantomData }
    }

    pub(crate) fn handle(&self) -> &Arc<handle::Pd> {
        &self.pd
    }

    /// The device of the domain. The domain keeps it open.
    ///
    /// ```
    /// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
    /// assert_eq!(pd.context().name(), context.name());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> Context {
        Context { handle: self.pd.parents().context.clone() }
    }

    /// The domain's number, unique in the process.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Deallocates the domain (`ibv_dealloc_pd`). Objects that were created from it must be
    /// destroyed first.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// The domain, with [`ErrorKind::Os`](crate::ErrorKind::Os): EBUSY if objects that were created
    /// from it exist.
    #[doc(alias = "ibv_dealloc_pd")]
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        let id = self.id;
        destroy("ibv_dealloc_pd", self.pd, "objects of it")
            .map_err(|refused| refused.map(|pd| ProtectionDomain::of(pd, id)))
    }
}

const VERB: &str = "ibv_alloc_pd";

/// Returns a number that no other protection domain of this process has.
fn mint() -> Result<u32, Error> {
    global! { static NEXT: AtomicU64 = AtomicU64::new(1); }
    let id = ids::mint_below(&NEXT, u32::MAX.into()).map(|id| id as u32);
    id.ok_or_else(|| Error::os(VERB, libc::ENOSPC, "protection domain ids are used up"))
}

impl_debug!([L: Threads] ProtectionDomain<L>, |it|
    "ProtectionDomain({}{})", it.id, if L::IS_LANE { ", a lane" } else { "" });
