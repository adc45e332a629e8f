//! Regions that change while they exist (`ibv_rereg_mr`).

#![allow(unsafe_code)] // one verb

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::allows::{Allows, call};
use crate::device::ProtectionDomain;
use crate::memory::own::Invariant;
use crate::memory::region::in_use;
use crate::memory::registered::{AccessFlags, AnyMemory, NewMemory, Registered, as_given};
use crate::memory::{Access, Memory, MemoryRegion, Protection};
use crate::sys::memory::{ERR_DONT_FORK_NEW, ERR_INPUT, ReregFailed};
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::refused::drops_its_object;

const VERB: &str = "ibv_rereg_mr";

/// Why a region was not re-registered, and what became of it (`enum ibv_rereg_mr_err_code`).
///
/// `U` is what is as before, `M` the memory, and `N` the new memory if there is one. `?` keeps the
/// [`Error`] and deregisters the region, as [`Refused`] explains.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{loopback::{Fault, Script}, memory::{Pages, ReregError}};
/// # let proverbs::loopback::Pair { pd, fabric, .. } = proverbs::loopback::pair()?;
/// let region: MemoryRegion<RemoteWrite> = pd.register(64)?;
/// fabric.inject(Script::default().with(Fault::Rereg { code: -4 }.nth(0)));
/// let memory: Pages = match region.rereg_access::<RemoteRead>() {
///     Ok(region) => region.destroy()?,
///     Err(ReregError::Unchanged(refused)) => refused.into_object().destroy()?,
///     Err(ReregError::Unusable(refused)) => {
///         println!("{refused}");
///         refused.into_object().destroy()?.0 // all that can be done with it (R6.15)
///     }
/// };
/// let region = pd.region::<RemoteRead>().create_in(memory)?; // anew
/// # drop(region);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_rereg_mr_flags", "IBV_REREG_MR_ERR_INPUT", "IBV_REREG_MR_ERR_DONT_FORK_NEW"))]
#[doc(alias("IBV_REREG_MR_ERR_DO_FORK_OLD", "IBV_REREG_MR_ERR_CMD"))]
#[doc(alias("IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW", "ibv_rereg_mr_err_code"))]
pub enum ReregError<U, M, N = ()> {
    /// Nothing changed.
    Unchanged(Refused<U>),
    /// The region has neither the old properties for sure nor the new ones: it is only to be
    /// deregistered ([R6.15](crate::guide::rules#r6-15)).
    Unusable(Refused<UnusableRegion<M, N>>),
}

impl<U, M, N> ReregError<U, M, N> {
    /// The reason.
    pub fn error(&self) -> &Error {
        match self {
            ReregError::Unchanged(refused) => &refused.error,
            ReregError::Unusable(refused) => &refused.error,
        }
    }

    /// The reason. The object is dropped: the region is deregistered.
    pub fn into_error(self) -> Error {
        match self {
            ReregError::Unchanged(refused) => refused.into_error(),
            ReregError::Unusable(refused) => refused.into_error(),
        }
    }
}

impl_debug!([U, M, N] ReregError<U, M, N>, |it| "{it}");

impl<U, M, N> fmt::Display for ReregError<U, M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

drops_its_object!([U, M, N] ReregError<U, M, N>);

/// Keeps the reason and drops the object.
impl<U, M, N> From<ReregError<U, M, N>> for Error {
    fn from(error: ReregError<U, M, N>) -> Error {
        error.into_error()
    }
}

/// A region that failed to re-register: it may be neither posted nor reached, and must still be
/// deregistered ([R6.15](crate::guide::rules#r6-15)). [`ReregError`] has an example.
///
/// Dropped, it is deregistered and its memory goes; if the device refuses, both leak.
pub struct UnusableRegion<M, N = ()> {
    /// It keeps what the device may have got of the new properties, too.
    region: Registered,
    _memories: PhantomData<(Invariant<M>, Invariant<N>)>,
}

impl<M: Memory, N: 'static> UnusableRegion<M, N> {
    /// Deregisters it (`ibv_dereg_mr`), and gives back its memory and that which it was to be in.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the region is given back.
    pub fn destroy(mut self) -> Result<(M, N), Refused<Self>> {
        if let Err(error) = self.region.close_for("ibv_dereg_mr") {
            return Err(Refused::new(self, error));
        }
        Ok((self.region.give_back(), self.region.give_unknown()))
    }
}

impl_debug!([M, N] UnusableRegion<M, N>, |it| "UnusableRegion({} bytes)", it.region.len());

/// The parts of the region to be changed.
struct Change<'a> {
    /// The new rights, and whether the memory can be written.
    access: Option<(AccessFlags, bool)>,
    pd: Option<&'a ProtectionDomain>,
    memory: Option<NewMemory>,
    /// For an error.
    asked: String,
}

/// Re-registers. Returns the region, and the memory that it was in if that changed. If nothing
/// changed, `unchanged` makes what is given back of the region and the new memory.
///
/// # Safety
/// As for [`Registered::rereg`].
unsafe fn rereg<U, M, N>(
    mut region: Registered,
    change: Change<'_>,
    unchanged: impl FnOnce(Registered, Option<NewMemory>) -> U,
) -> Result<(Registered, Option<AnyMemory>), ReregError<U, M, N>> {
    let Change { access, pd, mut memory, asked } = change;
    let error = if let Some(error) = region.given_up() {
        error
    } else if region.is_elsewhere() {
        let asked = format!("{asked}; the region was registered elsewhere");
        Error::os(VERB, libc::EINVAL, asked)
    } else {
        // SAFETY: the region is in a `Memory`, the domain of the same context, and the memory
        // allows `access` (this function's contract, in the words of `Registered::rereg`).
        match unsafe { region.rereg(access, pd, &mut memory) } {
            Ok(old) => return Ok((region, old)),
            Err(ReregFailed { code: ERR_INPUT | ERR_DONT_FORK_NEW, errno }) => {
                why_not(&region, &asked, "as before", errno)
            }
            Err(ReregFailed { errno, .. }) => {
                let error = why_not(&region, &asked, "only to be deregistered", errno);
                region.keep_unknown(memory.map_or(Box::new(()), |(_, memory)| memory), pd);
                let region = UnusableRegion { region, _memories: PhantomData };
                return Err(ReregError::Unusable(Refused::new(region, error)));
            }
        }
    };
    Err(ReregError::Unchanged(Refused::new(unchanged(region, memory), error)))
}

#[cold]
fn why_not(region: &Registered, asked: &str, state: &str, errno: i32) -> Error {
    let asked = format!("{asked}; the region is {state}");
    let lacks = match errno {
        libc::ENOSYS => "this libibverbs has no such function".into(),
        libc::EOPNOTSUPP => format!("{} changes no regions", region.context().name()),
        _ => return Error::os(VERB, errno, asked),
    };
    let instead = "deregister it, and register its memory anew";
    Error::new(VERB, ErrorKind::Unsupported { asked, lacks, instead })
}

fn unchanged<U, M, N>(object: U, error: Error) -> ReregError<U, M, N> {
    ReregError::Unchanged(Refused::new(object, error))
}

impl<A: Access, M: Memory> MemoryRegion<A, M> {
    /// Gives the region the rights `B` instead (`ibv_rereg_mr` with `IBV_REREG_MR_CHANGE_ACCESS`).
    /// Pieces of it must be gone.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// This is how rights are taken back from peers: a slice that was told before is refused what
    /// `B` does not grant ([R6.7](crate::guide::rules#r6-7)). For the rest it may go on or be
    /// refused, since the keys may be others now: tell the new one.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region: MemoryRegion<RemoteReadWrite> = pd.register(64)?;
    /// let told = region.remote();
    /// let region: MemoryRegion<RemoteRead> = region.rereg_access()?; // `told` writes no more
    /// let key = region.remote();
    /// # a.post_send(wr::RdmaRead::new(pool.take().ok_or("no buffer")?, key.read()))?;
    /// # proverbs::loopback::poll(&mut cq, 1)?;
    /// # a.post_send(wr::RdmaWrite::inline(b"too late", told.write()))?;
    /// # assert!(proverbs::loopback::poll(&mut cq, 1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReregError`], with [`ErrorKind::Unsupported`] if the device has no such verb, EBUSY if
    /// pieces exist, or the device's errno.
    #[doc(alias = "IBV_REREG_MR_CHANGE_ACCESS")]
    pub fn rereg_access<B: Access>(
        self,
    ) -> Result<MemoryRegion<B, M>, ReregError<MemoryRegion<A, M>, M>>
    where
        M: Allows<call::Register<B>>,
    {
        let region = self.into_registered().map_err(|region| unchanged(region, in_use(VERB)))?;
        let asked = format!("CHANGE_ACCESS from {} to {}", A::NAME, B::NAME);
        let access = AccessFlags::from_bits_retain(B::FLAGS);
        let access = Some((access, M::Protection::IS_WRITABLE));
        let change = Change { access, pd: None, memory: None, asked };
        // SAFETY: the region is in `M`, which allows `B`.
        let done = unsafe { rereg(region, change, |region, _| MemoryRegion::of(region)) };
        Ok(MemoryRegion::of(done?.0))
    }

    /// Moves the region to another domain of its context (`ibv_rereg_mr` with
    /// `IBV_REREG_MR_CHANGE_PD`). Pieces of it must be gone. Peers reach it through queue pairs of
    /// that domain only ([R6.8](crate::guide::rules#r6-8)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// let region: MemoryRegion<RemoteRead> = pd.register(64)?;
    /// let other = context.alloc_pd()?;
    /// let region = region.rereg_pd(&other)?;
    /// assert!(other.destroy().is_err()); // the region is of it
    /// # drop(region);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`rereg_access`](Self::rereg_access), and [`ErrorKind::ContextMismatch`] if the
    /// domain is of another context ([R12.1](crate::guide::rules#r12-1)).
    #[doc(alias = "IBV_REREG_MR_CHANGE_PD")]
    pub fn rereg_pd(self, pd: &ProtectionDomain) -> Result<Self, ReregError<Self, M>> {
        if !Arc::ptr_eq(&self.registered().context().handle, &pd.handle().parents().context) {
            let what = "the region and the protection domain";
            let error = Error::new(VERB, ErrorKind::ContextMismatch { what });
            return Err(unchanged(self, error));
        }
        let region = self.into_registered().map_err(|region| unchanged(region, in_use(VERB)))?;
        let (asked, pd) = ("CHANGE_PD".into(), Some(pd));
        let change = Change { access: None, pd, memory: None, asked };
        // SAFETY: the region is in `M`, and the domain of the same context.
        let done = unsafe { rereg(region, change, |region, _| MemoryRegion::of(region)) };
        Ok(MemoryRegion::of(done?.0))
    }

    /// Puts the region over other memory (`ibv_rereg_mr` with `IBV_REREG_MR_CHANGE_TRANSLATION`),
    /// all of it, and gives back what it was over. Pieces of it must be gone. Its address, its
    /// length and perhaps its keys are others: tell peers the new slice.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.region::<RemoteRead>().create_in(vec![1u8; 64])?;
    /// let larger: Box<[u64]> = vec![2; 64].into();
    /// let (region, old): (MemoryRegion<RemoteRead, Box<[u64]>>, Vec<u8>) =
    ///     region.rereg_memory(larger)?;
    /// assert_eq!((region.len(), old), (512, vec![1; 64]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`rereg_access`](Self::rereg_access); and nothing changes if the new memory has no
    /// bytes (EINVAL, [R6.4](crate::guide::rules#r6-4)), or more than the device's `max_mr_size`
    /// ([`ErrorKind::Limit`]). [`ErrorKind::Unsupported`], always, where
    /// [`destroy`](Self::destroy) is.
    #[doc(alias("ibv_rereg_mr", "IBV_REREG_MR_CHANGE_TRANSLATION"))]
    #[allow(clippy::type_complexity)] // each of them is a value of the caller's
    pub fn rereg_memory<N: Memory + Allows<call::Register<A>>>(
        self,
        memory: N,
    ) -> Result<(MemoryRegion<A, N>, M), ReregError<(Self, N), M, N>> {
        let mut memory = Box::new(memory);
        let bytes = memory.bytes();
        let len = bytes.len();
        let asked = format!("CHANGE_TRANSLATION to {len} bytes");
        let context = self.registered().context();
        let most = context.limits().map_or(u64::MAX, |limits| limits.max_mr_size);
        let error = if len == 0 {
            Some(Error::os(VERB, libc::EINVAL, asked.clone()))
        } else if len as u64 > most {
            Some(Error::limit(VERB, "length", len as u64, most))
        } else {
            None
        };
        if let Some(error) = error {
            return Err(unchanged((self, *memory), error));
        }
        let region = match self.into_registered() {
            Ok(region) => region,
            Err(region) => return Err(unchanged((region, *memory), in_use(VERB))),
        };
        if let Some(error) = region.is_kept() {
            return Err(unchanged((MemoryRegion::of(region), *memory), error));
        }
        let access = AccessFlags::from_bits_retain(A::FLAGS);
        let access = Some((access, N::Protection::IS_WRITABLE));
        let change = Change { access, pd: None, memory: Some((bytes, memory)), asked };
        let as_before = |region, memory: Option<NewMemory>| {
            (MemoryRegion::of(region), as_given(memory.map(|(_, memory)| memory)))
        };
        // SAFETY: the region is in `M`; `N` allows `A`.
        let (region, old) = unsafe { rereg(region, change, as_before) }?;
        Ok((MemoryRegion::of(region), as_given(old)))
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
