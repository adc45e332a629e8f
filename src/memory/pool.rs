//! Pools: one registered region cut into equal buffers.

#![allow(unsafe_code)] // makes buffers of slots

use std::fmt;

use crate::device::pd::ProtectionDomain;
use crate::memory::buf::Buf;
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::slots::Slots;
use crate::sync::Arc;
use crate::terms::error::{Error, Refused};

/// A region registered for local access only (`ibv_reg_mr` with `IBV_ACCESS_LOCAL_WRITE`), cut into
/// `count` buffers of `size` bytes.
///
/// Taking and dropping buffers takes a lock and is meant for set-up. In the steady state a buffer
/// goes from its completion straight to the next post. The region stays registered while a buffer
/// of it exists, wherever that buffer is (rules R6.9, R6.10).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
/// let pool = pd.create_pool(4, 100)?;
/// let buf = pool.take().ok_or("no buffer")?;
/// assert_eq!((buf.capacity(), pool.count(), pool.available()), (104, 4, 3)); // sizes are multiples of 8
/// let pool = pool.destroy().unwrap_err().object; // `buf` is in use: refused, and back
/// drop(buf);
/// pool.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<C: 'static = ()> {
    shared: Arc<Slots<C>>,
}

impl ProtectionDomain {
    /// Registers a region of `count` buffers of `size` bytes each, for sends and receives
    /// (`ibv_reg_mr` with LOCAL_WRITE). A buffer has at least 8 bytes, so that it can hold the
    /// result of an atomic (R4.1).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.create_pool(64, 4096)?; // 64 buffers of 4096 bytes: one region of 256 KiB
    /// assert_eq!(pool.available(), 64);
    /// assert!(pd.create_pool(0, 4096).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if a number exceeds 2^31 - 1. Otherwise
    /// [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if the region would be empty (R6.4), ENOMEM
    /// if memory or `ulimit -l` does not suffice.
    pub fn create_pool(&self, count: usize, size: usize) -> Result<Pool, Error> {
        self.create_pool_with(count, size, |_| ())
    }

    /// Like [`create_pool`](Self::create_pool), with a context of the user's in each buffer: what C
    /// keeps behind `wr_id`.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
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
        // A multiple of eight bytes, so that every buffer is aligned for an atomic's result.
        let size = size.max(8).next_multiple_of(8);
        let len = size * count;
        let region = Registered::new(self, len, AccessFlags::LOCAL_WRITE)?;
        Pool::new(region, count as u32, size as u32, context)
    }
}

impl<C> Pool<C> {
    pub(crate) fn new(
        region: Registered,
        count: u32,
        size: u32,
        mut context: impl FnMut(usize) -> C,
    ) -> Result<Self, Error> {
        let no_memory = || Error::os("register", libc::ENOMEM, format!("{count} buffer headers"));
        // A context that panics must leave nothing half made: make them all first.
        let contexts = (0..count as usize).map(&mut context).collect();
        Ok(Pool { shared: Slots::new(region, size, contexts).ok_or_else(no_memory)? })
    }

    /// Takes a buffer, its length set to its capacity; `None` if all are in use.
    ///
    /// Its bytes are whatever its last use left there.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let pool = pd.create_pool(1, 64)?;
    /// let buf = pool.take();
    /// assert!(buf.is_some() && pool.take().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take(&self) -> Option<Buf<C>> {
        let slot = Slots::take(&self.shared)?;
        // SAFETY: the handle is new, and given up here.
        let buf = unsafe { Buf::<C>::from_header(slot.as_ptr().cast()) };
        buf.header().set_len(buf.header().capacity);
        Some(buf)
    }

    /// The number of buffers, taken or not.
    pub fn count(&self) -> usize {
        self.shared.count()
    }

    /// The number of buffers that can be taken now.
    pub fn available(&self) -> usize {
        self.shared.available()
    }

    /// Deregisters and frees the memory (`ibv_dereg_mr`). Buffers of the pool and other handles to
    /// it must be gone.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os), and the pool is given back: EBUSY if a buffer or
    /// another handle exists, or else the device's errno; then the memory stays registered (R6.9).
    pub fn destroy(mut self) -> Result<(), Refused<Self>> {
        const VERB: &str = "ibv_dereg_mr";
        let error = match Arc::get_mut(&mut self.shared).map(|shared| shared.region.close()) {
            Some(Ok(())) => return Ok(()),
            Some(Err(errno)) => Error::os(VERB, errno, ""),
            None => Error::os(VERB, libc::EBUSY, "buffers of the pool are in use"),
        };
        Err(Refused::new(self, error))
    }

    pub(crate) fn region(&self) -> &Registered {
        &self.shared.region
    }

    /// The address of the first header, which identifies the pool.
    pub(crate) fn slots(&self) -> usize {
        self.shared.first().addr()
    }

    /// The `home` of this pool's headers.
    pub(crate) fn home(&self) -> *const () {
        Arc::as_ptr(&self.shared).cast()
    }
}

impl<C> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of {} buffers free)", self.available(), self.count())
    }
}

impl<C> Clone for Pool<C> {
    /// Another handle to the same buffers.
    fn clone(&self) -> Self {
        Pool { shared: self.shared.clone() }
    }
}
