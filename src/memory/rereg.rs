//! Changing regions while they exist (`ibv_rereg_mr`).

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

/// The reason why a re-registration failed, and the state of the region
/// (`enum ibv_rereg_mr_err_code`).
///
/// `U` is the unchanged object, `M` the memory, and `N` the new memory, if any. `?` keeps the
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
///         refused.into_object().destroy()?.0 // it can only be destroyed (R6.15)
///     }
/// };
/// let region = pd.region::<RemoteRead>().create_in(memory)?; // again
/// # drop(region);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_rereg_mr_flags", "IBV_REREG_MR_ERR_INPUT", "IBV_REREG_MR_ERR_DONT_FORK_NEW"))]
#[doc(alias("IBV_REREG_MR_ERR_DO_FORK_OLD", "IBV_REREG_MR_ERR_CMD"))]
#[doc(alias("IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW", "ibv_rereg_mr_err_code"))]
pub enum ReregError<U, M, N = ()> {
    /// Nothing changed.
    Unchanged(Refused<U>),
    /// The region's state is unknown: it can only be deregistered
    /// ([R6.15](crate::guide::rules#r6-15)).
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

    /// The reason. Drops the object, which deregisters the region.
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

/// A region that failed to re-register: it can be neither posted nor accessed, and must still be
/// deregistered ([R6.15](crate::guide::rules#r6-15)). [`ReregError`] has an example.
///
/// Dropping it deregisters it and drops its memory. If the device refuses, both leak.
pub struct UnusableRegion<M, N = ()> {
    /// It also keeps the memory and domain that the device may have changed to.
    region: Registered,
    _memories: PhantomData<(Invariant<M>, Invariant<N>)>,
}

impl<M: Memory, N: 'static> UnusableRegion<M, N> {
    /// Deregisters it (`ibv_dereg_mr`), and returns its old memory, and the new memory if it was to
    /// move to other memory.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno, and the region.
    pub fn destroy(mut self) -> Result<(M, N), Refused<Self>> {
        or_refused!(self, self.region.close_for("ibv_dereg_mr"));
        Ok((self.region.give_back(), self.region.give_unknown()))
    }
}

impl_debug!([M, N] UnusableRegion<M, N>, |it| "UnusableRegion({} bytes)", it.region.len());

/// The properties of the region to change.
struct Change<'a> {
    /// The new rights, and whether the memory can be written.
    access: Option<(AccessFlags, bool)>,
    pd: Option<&'a ProtectionDomain>,
    memory: Option<NewMemory>,
    /// For the error message.
    asked: String,
}

/// Re-registers. Returns the region, and its old memory if that changed. If nothing changed,
/// `unchanged` creates the object to return from the region and the new memory.
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
        let asked = format!("{asked}; other code registered the region");
        Error::os(VERB, libc::EINVAL, asked)
    } else {
        // SAFETY: the region is in a `Memory`, the domain belongs to the same context, and the
        // memory allows `access` (this function's contract, which is the contract of
        // `Registered::rereg`).
        match unsafe { region.rereg(access, pd, &mut memory) } {
            Ok(old) => return Ok((region, old)),
            Err(ReregFailed { code: ERR_INPUT | ERR_DONT_FORK_NEW, errno }) => {
                why_not(&region, &asked, "unchanged", errno)
            }
            Err(ReregFailed { errno, .. }) => {
                let error = why_not(&region, &asked, "unusable: deregister it", errno);
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
        libc::ENOSYS => "this libibverbs does not support it".into(),
        libc::EOPNOTSUPP => format!("{} does not support it", region.context().name()),
        _ => return Error::os(VERB, errno, asked),
    };
    let instead = "deregister the region and register its memory again";
    Error::new(VERB, ErrorKind::Unsupported { asked, lacks, instead })
}

fn unchanged<U, M, N>(object: U, error: Error) -> ReregError<U, M, N> {
    ReregError::Unchanged(Refused::new(object, error))
}

impl<A: Access, M: Memory> MemoryRegion<A, M> {
    /// Changes the region's rights to `B` (`ibv_rereg_mr` with `IBV_REREG_MR_CHANGE_ACCESS`). All
    /// pieces of it must be dropped first.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// Use this to revoke rights of peers. From now on, accesses that `B` does not grant fail, even
    /// with a slice that you sent earlier ([R6.7](crate::guide::rules#r6-7)). Other accesses with
    /// that slice may fail too, because the keys may change: send peers the new slice.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region: MemoryRegion<RemoteReadWrite> = pd.register(64)?;
    /// let told = region.remote();
    /// let region: MemoryRegion<RemoteRead> = region.rereg_access()?; // `told` cannot write now
    /// let key = region.remote();
    /// # a.post_send(wr::RdmaRead::new(pool.take().ok_or("no buffer")?, key.read()))?;
    /// # proverbs::loopback::poll(&mut cq, 1)?;
    /// # a.post_send(wr::RdmaWrite::inline(b"too late", told.write()))?;
    /// # assert!(proverbs::loopback::poll(&mut cq, 1).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReregError`], with [`ErrorKind::Unsupported`] if the device does not support this verb,
    /// EBUSY if pieces exist, or the device's errno.
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
    /// `IBV_REREG_MR_CHANGE_PD`). All pieces of it must be dropped first. Peers can then access it
    /// only through queue pairs of that domain ([R6.8](crate::guide::rules#r6-8)).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// let region: MemoryRegion<RemoteRead> = pd.register(64)?;
    /// let other = context.alloc_pd()?;
    /// let region = region.rereg_pd(&other)?;
    /// assert!(other.destroy().is_err()); // the region belongs to it
    /// # drop(region);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`rereg_access`](Self::rereg_access), and [`ErrorKind::ContextMismatch`] if the
    /// domain belongs to another context ([R12.1](crate::guide::rules#r12-1)).
    #[doc(alias = "IBV_REREG_MR_CHANGE_PD")]
    pub fn rereg_pd(self, pd: &ProtectionDomain) -> Result<Self, ReregError<Self, M>> {
        let context = self.registered().context();
        let is_one = Arc::ptr_eq(&context.handle, &pd.handle().parents().context);
        let what = "the region and the protection domain";
        if let Err(error) = Error::unless_one_context(VERB, what, is_one) {
            return Err(unchanged(self, error));
        }
        let region = self.into_registered().map_err(|region| unchanged(region, in_use(VERB)))?;
        let (asked, pd) = ("CHANGE_PD".into(), Some(pd));
        let change = Change { access: None, pd, memory: None, asked };
        // SAFETY: the region is in `M`, and the domain of the same context.
        let done = unsafe { rereg(region, change, |region, _| MemoryRegion::of(region)) };
        Ok(MemoryRegion::of(done?.0))
    }

    /// Moves the region to other memory (`ibv_rereg_mr` with `IBV_REREG_MR_CHANGE_TRANSLATION`),
    /// and returns its old memory. The region then covers all of `memory`. All pieces of it must be
    /// dropped first. Its address, its length and possibly its keys change: send peers the new
    /// slice.
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
    /// As for [`rereg_access`](Self::rereg_access), and
    /// - EINVAL: the new memory is empty ([R6.4](crate::guide::rules#r6-4)).
    /// - [`ErrorKind::Limit`]: it is longer than the device's `max_mr_size`.
    /// - [`ErrorKind::Unsupported`]: always, for a region for which [`destroy`](Self::destroy)
    ///   always returns it.
    #[doc(alias("ibv_rereg_mr", "IBV_REREG_MR_CHANGE_TRANSLATION"))]
    #[allow(clippy::type_complexity)] // all of these types matter to the caller
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
        let fits = match len {
            0 => Err(Error::os(VERB, libc::EINVAL, asked.clone())),
            _ => Error::at_most(VERB, "length", len as u64, most),
        };
        if let Err(error) = fits {
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
