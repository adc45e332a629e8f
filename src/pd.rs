//! Protection domains: what may work together.

#![allow(unsafe_code)] // one verb

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use crate::ah::{AddressHandle, AddressVector};
use crate::buf::Pool;
use crate::context::Context;
use crate::error::{Error, Refused};
use crate::mr::{Access, MemoryRegion};
use crate::registered::{AccessFlags, Registered};
use crate::sys::handle;

/// A protection domain (`ibv_alloc_pd`). Regions, address handles, shared receive queues and queue pairs of one domain may be
/// used together.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { context, mut a, .. } = proverbs::guide::ends()?;
/// let pd: ProtectionDomain = context.alloc_pd()?;
/// let other = context.alloc_pd()?;
/// let stranger = other.create_pool(1, 64)?.take().ok_or("no buffer")?;
/// let error = a.post_send(Send::new(stranger)).unwrap_err();
/// assert_eq!(error.kind(), PostErrorKind::PdMismatch);
/// drop(error);
/// other.destroy()?;
/// # drop(pd);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ProtectionDomain {
    pd: Arc<handle::Pd>,
    id: u32,
}

impl ProtectionDomain {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        const VERB: &str = "ibv_alloc_pd";
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1))
            .map_err(|_| Error::os(VERB, libc::ENOSPC, "protection domain ids are used up"))?;
        let control = context.handle.control();
        // SAFETY: the context is live.
        match unsafe { (control.alloc_pd)(context.handle.as_ptr()) } {
            Ok(pd) => {
                // SAFETY: just created, and owned by nobody else.
                let pd = unsafe { handle::Pd::new(pd, control, context.handle.clone()) };
                Ok(ProtectionDomain { pd: Arc::new(pd), id })
            }
            Err(errno) => Err(Error::os(VERB, errno, "")),
        }
    }

    /// The domain of a handle that [`downgrade`](Self::downgrade) gave, if it is still there.
    pub(crate) fn upgrade((pd, id): &(Weak<handle::Pd>, u32)) -> Option<Self> {
        Some(ProtectionDomain { pd: pd.upgrade()?, id: *id })
    }

    pub(crate) fn downgrade(&self) -> (Weak<handle::Pd>, u32) {
        (Arc::downgrade(&self.pd), self.id)
    }

    pub(crate) fn handle(&self) -> &Arc<handle::Pd> {
        &self.pd
    }

    pub(crate) fn context(&self) -> Context {
        Context { handle: self.pd.parents().clone() }
    }

    /// Unique in the process.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Registers a region of `count` buffers of `size` bytes each, for sends and receives
    /// (`ibv_reg_mr` with LOCAL_WRITE). A buffer has at least 8 bytes, so that it can hold the result of
    /// an atomic (R4.1).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
    /// let pool = pd.create_pool(64, 4096)?; // 64 buffers of 4096 bytes: one region of 256 KiB
    /// assert_eq!(pool.available(), 64);
    /// assert!(pd.create_pool(0, 4096).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if a number exceeds 2^31 - 1, [`ErrorKind::Os`](crate::ErrorKind::Os)
    /// otherwise: EINVAL if there would be no byte (R6.4), ENOMEM if memory or `ulimit -l` do not suffice.
    pub fn create_pool(&self, count: usize, size: usize) -> Result<Pool, Error> {
        self.create_pool_with(count, size, |_| ())
    }

    /// As [`create_pool`](Self::create_pool), with a context of the user's in each buffer: what C keeps
    /// behind `wr_id`.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
    /// let pool = pd.create_pool_with(3, 64, |index| format!("buffer {index}"))?;
    /// let buf = pool.take().ok_or("no buffer")?;
    /// assert!(buf.context().starts_with("buffer ")); // stays with it, through posts and completions
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`create_pool`](Self::create_pool).
    pub fn create_pool_with<C: 'static>(
        &self,
        count: usize,
        size: usize,
        context: impl FnMut(usize) -> C,
    ) -> Result<Pool<C>, Error> {
        const VERB: &str = "ibv_reg_mr";
        let max = u32::MAX as u64 / 2;
        if count as u64 > max {
            return Err(Error::limit(VERB, "count", count as u64, max));
        }
        if size as u64 > max {
            return Err(Error::limit(VERB, "buffer size", size as u64, max));
        }
        // Eight bytes at least, and aligned to them, so that any buffer may take an atomic's result.
        let size = size.max(8).next_multiple_of(8);
        let len = size * count;
        let region = Registered::new(self, len, AccessFlags::LOCAL_WRITE)?;
        Pool::new(region, count as u32, size as u32, context)
    }

    /// Registers a region of `len` bytes with the rights `A` (`ibv_reg_mr`).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
    /// let counters = pd.register::<RemoteAtomic>(64)?;
    /// counters.cell(8)?.store(1, std::sync::atomic::Ordering::Relaxed);
    /// let at_peer = counters.remote().atomic(8)?; // for FETCH_AND_ADD, once the peer knows it
    /// # let _ = at_peer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if `len` is 0 (R6.4), ENOMEM if memory or `ulimit -l` do not suffice.
    pub fn register<A: Access>(&self, len: usize) -> Result<MemoryRegion<A>, Error> {
        MemoryRegion::new(self, len)
    }

    /// Creates an address handle (`ibv_create_ah`).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, context, .. } = proverbs::guide::ends()?;
    /// let gid = context.query_gid(1, 1)?;
    /// let ah = pd.create_ah(AddressVector::roce(1, gid, 1))?;
    /// ah.destroy()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL on RoCE if there is no global route (R5.4), or if the GID index is not filled
    /// (R8.5).
    pub fn create_ah(&self, vector: AddressVector) -> Result<AddressHandle, Error> {
        AddressHandle::new(self, vector)
    }

    /// Deallocates it (`ibv_dealloc_pd`). Objects made from it must be gone, or the domain comes back.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os), and the domain comes back: EBUSY if objects made from it exist.
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        let id = self.id;
        match Arc::try_unwrap(self.pd) {
            Ok(mut pd) => match pd.close() {
                Ok(()) => Ok(()),
                Err(errno) => {
                    let error = Error::os("ibv_dealloc_pd", errno, "");
                    Err(Refused::new(ProtectionDomain { pd: Arc::new(pd), id }, error))
                }
            },
            Err(pd) => {
                let error = Error::os("ibv_dealloc_pd", libc::EBUSY, "objects of it exist");
                Err(Refused::new(ProtectionDomain { pd, id }, error))
            }
        }
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtectionDomain({})", self.id)
    }
}
