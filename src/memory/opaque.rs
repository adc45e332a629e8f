//! Regions in memory that something else uses as well, of which no safe code sees a byte.

#![allow(unsafe_code)] // registers whatever the caller says

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::device::ProtectionDomain;
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::{
    Access, HasPieces, HasSources, MemoryRegion, ReadOnly, RegionBuilder, RegistersAs, Writable,
};
use crate::sys::control::Holds;
use crate::sys::types::ibv_mr;
use crate::terms::error::{Error, ErrorKind, Refused};

/// Memory that something else uses while it is registered: an allocation of the application, of
/// another library or driver, or a region that C registered.
///
/// A region in it has [pieces](MemoryRegion::piece), [keys](MemoryRegion::remote) and
/// [`as_ptr`](MemoryRegion::as_ptr) as any other, and no safe access to bytes: no `read_at`, no
/// `write_at`, no cells. So the same bytes may be registered any number of times, on any number of
/// devices and protection domains, and registrations may overlap. One `unsafe` call registers them
/// ([`RegionBuilder::opaque`]), and the keeper `K` keeps them mapped.
///
/// The keeper is dropped once, on any thread: after `ibv_dereg_mr` returned 0, and after all work
/// that names the region has completed or its queue was destroyed. Where the
/// [provider](crate::Context::provider) cannot promise that peers' requests are over by then, it is
/// never dropped, as other memory is not. [`destroy`](MemoryRegion::destroy) gives it back.
///
/// ```
/// use proverbs::prelude::*;
/// use std::ptr::NonNull;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, context, .. } =
/// #     proverbs::loopback::pair()?;
/// let table: Arc<[AtomicU64]> = (0..512).map(AtomicU64::new).collect(); // the application's
/// let base = NonNull::from(&table[..]).cast();
/// let register = |pd: &ProtectionDomain| {
///     // SAFETY: the keeper is the table, which all code touches by atomics of 8 bytes.
///     unsafe { pd.region::<RemoteReadWrite>().opaque(base, 4096, table.clone()) }
/// };
/// let other = context.alloc_pd()?;
/// let regions = [register(&pd)?, register(&other)?]; // or of another device
/// assert_eq!(regions[0].as_ptr(), regions[1].as_ptr());
///
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(&7u64.to_ne_bytes())?;
/// a.post_send(wr::RdmaWrite::new(buf, regions[0].remote().slice(8, 8)?.write()))?;
/// table[2].fetch_add(1, Ordering::Relaxed); // meanwhile
/// proverbs::loopback::poll(&mut cq, 1)?;
/// assert_eq!(table[1].load(Ordering::Relaxed), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Opaque<K, P = Writable> {
    keeper: K,
    _is: PhantomData<fn() -> P>,
}

impl<K, P> Opaque<K, P> {
    /// The keeper, once the region is gone.
    pub fn into_keeper(self) -> K {
        self.keeper
    }
}

impl_debug!([K, P] Opaque<K, P>, |_it| "Opaque");

impl<K: 'static> HasPieces for Opaque<K> {}
impl<K: 'static> HasSources for Opaque<K, ReadOnly> {}

impl<A: Access> RegionBuilder<'_, A> {
    /// Registers `len` bytes at `base`, which something else uses as well and `keeper` keeps
    /// (`ibv_reg_mr`). [`Opaque`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// All rights `A` include LOCAL_WRITE, so they let the device write: for a peer, or for this
    /// program, which can READ into a piece. [`opaque_read_only`](Self::opaque_read_only) does not.
    ///
    /// # Safety
    /// Until `keeper` is dropped, wherever it is moved:
    ///
    /// 1. The range stays mapped.
    /// 2. Every Rust access to bytes that this region's rights let a device write tolerates a
    ///    concurrent writer (atomics, or raw pointers with the program's own synchronisation; no
    ///    live reference).
    /// 3. Bytes that a device may read are not changed through a reference.
    ///
    /// The range is mapped in this process. An address that only a device can use, such as a GPU's,
    /// is [`region_from_raw`](ProtectionDomain::region_from_raw)'s. The keeper may be `()` if the
    /// range stays mapped for the rest of the program.
    ///
    /// The first clause is broken here:
    ///
    /// ```no_run
    /// # use proverbs::prelude::*;
    /// # use std::{ptr::NonNull, sync::atomic::AtomicU64};
    /// fn broken(pd: &ProtectionDomain) -> Result<MemoryRegion<RemoteWrite, Opaque>, proverbs::Error> {
    ///     let table: Box<[AtomicU64]> = (0..512).map(AtomicU64::new).collect();
    ///     let base = NonNull::from(&table[..]).cast();
    ///     // BROKEN: `()` keeps nothing, so the table is freed at the end of this function, and
    ///     // peers write to memory that has another owner by then.
    ///     Ok(unsafe { pd.region().opaque(base, 4096, ()) }?)
    /// }
    /// # type Opaque = proverbs::memory::Opaque<()>;
    /// ```
    ///
    /// The second one:
    ///
    /// ```no_run
    /// # use proverbs::prelude::*;
    /// # use std::ptr::NonNull;
    /// fn broken(pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    ///     let flags: &'static mut [u8] = Box::leak(Box::new([0; 4096]));
    ///     let base = NonNull::from(&mut *flags).cast();
    ///     let region = unsafe { pd.region::<RemoteWrite>().opaque(base, 4096, ()) }?;
    ///     // BROKEN: `flags` is a live reference. The compiler may read the byte once, before the
    ///     // loop, and never see that a peer writes it.
    ///     while flags[0] == 0 {}
    ///     # drop(region);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The third one:
    ///
    /// ```no_run
    /// # use proverbs::prelude::*;
    /// # use std::ptr::NonNull;
    /// fn broken(pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    ///     let log: &'static mut [u8] = Box::leak(Box::new([0; 4096]));
    ///     let base = NonNull::from(&mut *log).cast();
    ///     let region = unsafe { pd.region::<RemoteRead>().opaque(base, 4096, ()) }?;
    ///     // BROKEN: the bytes change through a reference while a peer may read them. The compiler
    ///     // may move the two stores, or use the first byte for other values in between.
    ///     log[1] = 7;
    ///     log[0] = 1; // "there is an entry"
    ///     # drop(region);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// On the [loopback](crate::loopback) device the accesses of the device are those of Rust code,
    /// so `base` must be a pointer that may still be used for them: a later `&mut` to the bytes
    /// ends it, and so does a move of a `Box` of them (see [`opaque_in`](Self::opaque_in)). That
    /// device touches the bytes that are transferred and none beside them, by relaxed atomic
    /// accesses to aligned units of 8, 4, 2 and 1 bytes, the largest that fits first. A program's
    /// access at the same time is free of data races in Rust's model if it is atomic and of the
    /// same size. Other devices are not part of that model.
    ///
    /// # Errors
    /// As for [`register`](ProtectionDomain::register). The keeper comes back in the error.
    #[doc(alias = "ibv_reg_mr")]
    pub unsafe fn opaque<K: Send + 'static>(
        self,
        base: NonNull<u8>,
        len: usize,
        keeper: K,
    ) -> Result<MemoryRegion<A, Opaque<K>>, Refused<K>> {
        let range = NonNull::slice_from_raw_parts(base, len);
        // SAFETY: this function's contract is the same.
        unsafe { self.opaque_in(keeper, |_| range) }
    }

    /// The same with a keeper that owns the bytes itself, such as a `Box` or a `Vec`: `range` tells
    /// them, after the keeper was moved for the last time before the region is gone. (A `Box` that
    /// is moved claims its bytes for itself alone, which ends pointers that were made before.)
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use std::ptr::NonNull;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let bytes: Box<[u8]> = vec![1; 4096].into();
    /// // SAFETY: the box is the only owner, and nothing else touches the bytes.
    /// let region = unsafe {
    ///     pd.region::<RemoteReadWrite>().opaque_in(bytes, |bytes| NonNull::from(&mut bytes[64..]))
    /// }?;
    /// assert_eq!(region.len(), 4032);
    /// let bytes: Box<[u8]> = region.destroy()?.into_keeper();
    /// # drop(bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// As for [`opaque`](Self::opaque), for the range that `range` returns.
    ///
    /// # Errors
    /// As for [`opaque`](Self::opaque).
    pub unsafe fn opaque_in<K: Send + 'static>(
        self,
        keeper: K,
        range: impl FnOnce(&mut K) -> NonNull<[u8]>,
    ) -> Result<MemoryRegion<A, Opaque<K>>, Refused<K>> {
        // SAFETY: this function's contract is the same.
        unsafe { register(self.pd, keeper, range) }
    }

    /// The same for a region that no device writes: it is registered without LOCAL_WRITE
    /// ([R6.3](crate::guide::rules#r6-3)). Its pieces are [`source`](MemoryRegion::source)s. Shared
    /// references to the bytes may live on, and the pages may be mapped read-only.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::LocalRead;
    /// # use std::{ptr::NonNull, sync::Arc};
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let weights: Arc<[u8]> = Arc::from(*b"used here, and read by peers");
    /// let base = NonNull::from(&weights[5..]).cast();
    /// // SAFETY: the keeper keeps the bytes, and nothing changes them.
    /// let region = unsafe {
    ///     pd.region::<RemoteRead>().opaque_read_only(base, 23, weights.clone())
    /// }?;
    /// assert_eq!((region.source(0, 4)?.len(), &weights[..4]), (4, &b"used"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// As for [`opaque`](Self::opaque): the first clause and the third. On the loopback device,
    /// which reads such memory without atomics, nothing in this process changes the bytes while a
    /// transfer reads them; a region of [`opaque`](Self::opaque) has no such limit.
    ///
    /// # Errors
    /// As for [`opaque`](Self::opaque).
    pub unsafe fn opaque_read_only<K: Send + 'static>(
        self,
        base: NonNull<u8>,
        len: usize,
        keeper: K,
    ) -> Result<MemoryRegion<A, Opaque<K, ReadOnly>>, Refused<K>>
    where
        ReadOnly: RegistersAs<A>,
    {
        let range = NonNull::slice_from_raw_parts(base, len);
        // SAFETY: this function's contract is the same.
        unsafe { register(self.pd, keeper, |_| range) }
    }
}

/// # Safety
/// As for [`RegionBuilder::opaque`]; if `P` is read-only, as for its `opaque_read_only`.
unsafe fn register<A: Access, K: Send + 'static, P: RegistersAs<A>>(
    pd: &ProtectionDomain,
    keeper: K,
    range: impl FnOnce(&mut K) -> NonNull<[u8]>,
) -> Result<MemoryRegion<A, Opaque<K, P>>, Refused<K>> {
    let mut memory = Box::new(Opaque::<K, P> { keeper, _is: PhantomData });
    // The box of the memory is moved from here on, and the keeper in it is not.
    let range = range(&mut memory.keeper);
    let access = (AccessFlags::from_bits_retain(A::FLAGS), P::IS_WRITABLE);
    let all = |range: NonNull<[u8]>| Ok((0, range.len(), ()));
    // SAFETY: the keeper keeps the range mapped (this function's contract). Nothing else is asked
    // of memory that is opaque: there is no safe access to its bytes.
    let region = unsafe { Registered::in_box(pd, memory, range, access, Holds::Opaque, all) };
    match region {
        Ok((region, ())) => Ok(MemoryRegion::of(region)),
        Err((memory, error)) => Err(Refused::new(memory.keeper, error)),
    }
}

impl ProtectionDomain {
    /// A region that C registered with the rights `A` or more, such as by `ibv_reg_mr_iova` or
    /// `mlx5dv_reg_dmabuf_mr`. It stays C's: `keeper` deregisters it when it is dropped, or
    /// something else does later. The memory may have bytes for the processor or none.
    ///
    /// `base` is the address of the first byte in work requests: `mr->addr` of `ibv_reg_mr`, and
    /// the iova of other verbs (`ptr::without_provenance_mut(iova)`). `len` is the length of the
    /// region, which not every verb stores in `mr->length`.
    ///
    /// ```no_run
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::Opaque;
    /// use proverbs::raw::{AsRaw, ibv_mr, ibv_pd};
    /// use std::ptr::NonNull;
    ///
    /// unsafe extern "C" {
    ///     /// Registers the cache of the library in a domain.
    ///     fn cache_reg(pd: *mut ibv_pd) -> *mut ibv_mr;
    ///     fn ibv_dereg_mr(mr: *mut ibv_mr) -> i32;
    /// }
    ///
    /// /// The cache lives as long as the program, and the region until this is dropped.
    /// struct Registration(NonNull<ibv_mr>);
    /// // SAFETY: verbs may be called on any thread.
    /// unsafe impl std::marker::Send for Registration {}
    /// impl Drop for Registration {
    ///     fn drop(&mut self) {
    ///         // SAFETY: it was registered in `share`, and no work names it any more.
    ///         unsafe { ibv_dereg_mr(self.0.as_ptr()) };
    ///     }
    /// }
    ///
    /// fn share(
    ///     pd: &ProtectionDomain,
    /// ) -> Result<MemoryRegion<RemoteRead, Opaque<Registration>>, Box<dyn std::error::Error>> {
    ///     // SAFETY: the region is live until the keeper is dropped. The library uses the cache
    ///     // from C, which orders its accesses.
    ///     unsafe {
    ///         let mr = NonNull::new(cache_reg(pd.as_raw())).ok_or("the cache is not registered")?;
    ///         let (base, len) = ((*mr.as_ptr()).addr.cast(), (*mr.as_ptr()).length);
    ///         Ok(pd.region_from_raw(mr, base, len, Registration(mr))?)
    ///     }
    /// }
    /// # let _ = share;
    /// ```
    ///
    /// # Safety
    /// - As for [`RegionBuilder::opaque`], with the rights that C registered.
    /// - `mr` is a region of libibverbs, and live until `keeper` is dropped.
    /// - The `len` bytes at `base` are the region's, as work requests address it.
    ///
    /// # Errors
    /// The keeper comes back. [`ErrorKind::PdMismatch`] if the region is of another domain
    /// ([R6.8](crate::guide::rules#r6-8)), [`ErrorKind::Os`] with EINVAL if `len` is 0
    /// ([R6.4](crate::guide::rules#r6-4)).
    #[doc(alias = "mlx5dv_reg_dmabuf_mr")]
    pub unsafe fn region_from_raw<A: Access, K: Send + 'static>(
        &self,
        mr: NonNull<ibv_mr>,
        base: *mut u8,
        len: usize,
        keeper: K,
    ) -> Result<MemoryRegion<A, Opaque<K>>, Refused<K>> {
        // SAFETY: this function's contract is the same.
        unsafe { from_raw(self, mr, base, len, keeper, false) }
    }

    /// The same for a region that C gives away: it is deregistered here (`ibv_dereg_mr`) when the
    /// region and all work that names it are gone, and then `keeper` is dropped.
    ///
    /// # Safety
    /// As for [`region_from_raw`](Self::region_from_raw), and nothing else deregisters the region.
    /// The keeper keeps the memory alone. If an error comes back, the region is still C's.
    ///
    /// # Errors
    /// As for [`region_from_raw`](Self::region_from_raw).
    pub unsafe fn owned_region_from_raw<A: Access, K: Send + 'static>(
        &self,
        mr: NonNull<ibv_mr>,
        base: *mut u8,
        len: usize,
        keeper: K,
    ) -> Result<MemoryRegion<A, Opaque<K>>, Refused<K>> {
        // SAFETY: this function's contract is the same.
        unsafe { from_raw(self, mr, base, len, keeper, true) }
    }
}

/// # Safety
/// As for [`ProtectionDomain::region_from_raw`]; if `is_ours`, as for its `owned_region_from_raw`.
unsafe fn from_raw<A: Access, K: Send + 'static>(
    pd: &ProtectionDomain,
    mr: NonNull<ibv_mr>,
    base: *mut u8,
    len: usize,
    keeper: K,
    is_ours: bool,
) -> Result<MemoryRegion<A, Opaque<K>>, Refused<K>> {
    const VERB: &str = "ibv_reg_mr";
    // SAFETY: the region is live (this function's contract).
    let error = if unsafe { (*mr.as_ptr()).pd } != pd.handle().as_ptr() {
        let what = "the region and the protection domain";
        Error::new(VERB, ErrorKind::PdMismatch { what })
    } else if len == 0 {
        Error::os(VERB, libc::EINVAL, "0 bytes: memory that is registered has some")
    } else {
        let memory = Box::new(Opaque::<K> { keeper, _is: PhantomData });
        // SAFETY: asked of the caller, in the same words.
        let region = unsafe { Registered::from_c(pd, mr, base, len, memory, is_ours) };
        return Ok(MemoryRegion::of(region));
    };
    Err(Refused::new(keeper, error))
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
