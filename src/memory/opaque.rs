//! Regions in memory that other code uses as well. Safe code cannot access the bytes.

#![allow(unsafe_code)] // registers whatever the caller says

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::allows::Seal;
use crate::device::ProtectionDomain;
use crate::memory::registered::{AccessFlags, Registered};
use crate::memory::{
    Access, HasPieces, HasSources, MemoryRegion, ReadOnly, RegionBuilder, RegistersAs, Writable,
};
use crate::sys::control::Holds;
use crate::sys::types::ibv_mr;
use crate::terms::error::{Error, Refused};

/// Memory that other code uses while it is registered: an allocation of the application, of another
/// library or driver, or a region that C registered.
///
/// A region in it has [pieces](MemoryRegion::piece), [keys](MemoryRegion::remote) and
/// [`as_ptr`](MemoryRegion::as_ptr) like any other, but no safe access to its bytes: no `read_at`,
/// no `write_at`, no cells. So you can register the same bytes any number of times, on any number
/// of devices and protection domains, and registrations can overlap. One `unsafe` call registers
/// them ([`RegionBuilder::opaque`]), and the keeper `K` keeps them mapped.
///
/// The keeper is dropped once, on any thread. This happens after `ibv_dereg_mr` has returned 0, and
/// after each work request that names the region has completed or its queue was destroyed. If the
/// [provider](crate::Context::provider) cannot guarantee that peers' requests are finished by then,
/// the keeper is never dropped, as with other memory. [`destroy`](MemoryRegion::destroy) returns
/// it.
///
/// ```
/// use proverbs::prelude::*;
/// use std::ptr::NonNull;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, context, .. } =
/// #     proverbs::loopback::pair()?;
/// let table: Arc<[AtomicU64]> = (0..512).map(AtomicU64::new).collect(); // application data
/// let base = NonNull::from(&table[..]).cast();
/// let register = |pd: &ProtectionDomain| {
///     // SAFETY: the keeper is the table, which all code accesses with 8-byte atomics.
///     unsafe { pd.region::<RemoteReadWrite>().opaque(base, 4096, table.clone()) }
/// };
/// let other = context.alloc_pd()?;
/// let regions = [register(&pd)?, register(&other)?]; // or of another device
/// assert_eq!(regions[0].as_ptr(), regions[1].as_ptr());
///
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(&7u64.to_ne_bytes())?;
/// a.post_send(wr::RdmaWrite::new(buf, regions[0].remote().slice(8, 8)?.write()))?;
/// table[2].fetch_add(1, Ordering::Relaxed); // at the same time
/// proverbs::loopback::poll(&mut cq, 1)?;
/// assert_eq!(table[1].load(Ordering::Relaxed), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Opaque<K, P = Writable> {
    keeper: K,
    _is: PhantomData<fn() -> P>,
}

impl<K, P> Opaque<K, P> {
    /// Returns the keeper, after the region was destroyed.
    pub fn into_keeper(self) -> K {
        self.keeper
    }
}

impl_debug!([K, P] Opaque<K, P>, |_it| "Opaque");

impl<K: 'static> HasPieces for Opaque<K> {}
impl<K: 'static> HasSources for Opaque<K, ReadOnly> {
    const SEAL: Seal = Seal;
}

impl<A: Access> RegionBuilder<'_, A> {
    /// Registers `len` bytes at `base` that other code uses as well and that `keeper` keeps mapped
    /// (`ibv_reg_mr`). [`Opaque`] has an example.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// The region has LOCAL_WRITE with any rights `A`. So the device may write its bytes, for a
    /// peer or for a READ of this program into a piece.
    /// [`opaque_read_only`](Self::opaque_read_only) registers without LOCAL_WRITE.
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
    /// The range is mapped in this process. For an address that only a device can use, such as an
    /// address in a GPU, use [`region_from_raw`](ProtectionDomain::region_from_raw). The keeper can
    /// be `()` if the range stays mapped for the rest of the program.
    ///
    /// This example breaks the first clause:
    ///
    /// ```no_run
    /// # use proverbs::prelude::*;
    /// # use std::{ptr::NonNull, sync::atomic::AtomicU64};
    /// fn broken(pd: &ProtectionDomain) -> Result<MemoryRegion<RemoteWrite, Opaque>, proverbs::Error> {
    ///     let table: Box<[AtomicU64]> = (0..512).map(AtomicU64::new).collect();
    ///     let base = NonNull::from(&table[..]).cast();
    ///     // BROKEN: `()` does not keep the table. It is freed at the end of this function, and
    ///     // peers then write to memory that has another owner.
    ///     Ok(unsafe { pd.region().opaque(base, 4096, ()) }?)
    /// }
    /// # type Opaque = proverbs::memory::Opaque<()>;
    /// ```
    ///
    /// This example breaks the second clause:
    ///
    /// ```no_run
    /// # use proverbs::prelude::*;
    /// # use std::ptr::NonNull;
    /// fn broken(pd: &ProtectionDomain) -> Result<(), proverbs::Error> {
    ///     let flags: &'static mut [u8] = Box::leak(Box::new([0; 4096]));
    ///     let base = NonNull::from(&mut *flags).cast();
    ///     let region = unsafe { pd.region::<RemoteWrite>().opaque(base, 4096, ()) }?;
    ///     // BROKEN: `flags` is a live reference. The compiler may read the byte once, before the
    ///     // loop, and never see the write of a peer.
    ///     while flags[0] == 0 {}
    ///     # drop(region);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// This example breaks the third clause:
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
    ///     log[0] = 1; // "an entry exists"
    ///     # drop(region);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The [loopback](crate::loopback) device accesses the bytes as Rust code, so `base` must be a
    /// pointer that stays valid for that. A later `&mut` to the bytes invalidates it, and so does a
    /// move of a `Box` that owns them (see [`opaque_in`](Self::opaque_in)). That device accesses
    /// only the transferred bytes, with relaxed atomic accesses to aligned units of 8, 4, 2 and 1
    /// bytes, the largest that fits first. A concurrent access of the program is free of data races
    /// in Rust's memory model if it is atomic and has the same size. Other devices are not part of
    /// that model.
    ///
    /// # Errors
    /// The keeper, with the error as for [`register`](ProtectionDomain::register).
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

    /// Like [`opaque`](Self::opaque), for a keeper that owns the bytes itself, such as a `Box` or a
    /// `Vec`. `range` returns the bytes. It is called when the keeper has reached the place where
    /// it stays until the region is destroyed. (Moving a `Box` asserts unique access to its bytes,
    /// which invalidates earlier pointers.)
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # use std::ptr::NonNull;
    /// # let proverbs::loopback::Pair { pd, .. } = proverbs::loopback::pair()?;
    /// let bytes: Box<[u8]> = vec![1; 4096].into();
    /// // SAFETY: the box is the only owner, and no other code accesses the bytes.
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

    /// Like [`opaque`](Self::opaque), for a region that no device writes: it is registered without
    /// LOCAL_WRITE ([R6.3](crate::guide::rules#r6-3)). [`source`](MemoryRegion::source) creates its
    /// pieces. Shared references to the bytes may continue to exist, and the pages may be mapped
    /// read-only.
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
    /// // SAFETY: the keeper keeps the bytes, and no code changes them.
    /// let region = unsafe {
    ///     pd.region::<RemoteRead>().opaque_read_only(base, 23, weights.clone())
    /// }?;
    /// assert_eq!((region.source(0, 4)?.len(), &weights[..4]), (4, &b"used"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// The first and third clause of [`opaque`](Self::opaque). The loopback device reads such
    /// memory without atomics, so there no code of this process may change the bytes while a
    /// transfer reads them. A region of [`opaque`](Self::opaque) does not have this limit.
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
    // From here on the box is moved, but the keeper inside it is not.
    let range = range(&mut memory.keeper);
    let access = (AccessFlags::from_bits_retain(A::FLAGS), P::IS_WRITABLE);
    let all = |range: NonNull<[u8]>| Ok((0, range.len(), ()));
    // SAFETY: the keeper keeps the range mapped (this function's contract). Opaque memory has no
    // other requirement, because there is no safe access to its bytes.
    let region = unsafe { Registered::in_box(pd, memory, range, access, Holds::Opaque, all) };
    match region {
        Ok((region, ())) => Ok(MemoryRegion::of(region)),
        Err((memory, error)) => Err(Refused::new(memory.keeper, error)),
    }
}

impl ProtectionDomain {
    /// Wraps a region that C code registered with at least the rights `A`, for example with
    /// `ibv_reg_mr_iova` or `mlx5dv_reg_dmabuf_mr`.
    ///
    /// C code still owns the region: dropping `keeper` deregisters it, or other code does so later.
    /// The memory may be memory that the processor cannot access.
    ///
    /// `base` is the address of the first byte in work requests: `mr->addr` for `ibv_reg_mr`, and
    /// the iova for other verbs (`ptr::without_provenance_mut(iova)`). `len` is the length of the
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
    ///         // SAFETY: it was registered in `share`, and no work request uses it any more.
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
    /// - The `len` bytes at `base` belong to the region, as work requests address it.
    ///
    /// # Errors
    /// The keeper, with [`PdMismatch`](crate::ErrorKind::PdMismatch) if the region belongs to
    /// another domain ([R6.8](crate::guide::rules#r6-8)), or [`Os`](crate::ErrorKind::Os) with
    /// EINVAL if `len` is 0 ([R6.4](crate::guide::rules#r6-4)).
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

    /// Like [`region_from_raw`](Self::region_from_raw), but takes ownership of the region. The
    /// region is deregistered (`ibv_dereg_mr`) after the returned value was dropped and all work
    /// requests that name the region have finished. Then `keeper` is dropped.
    ///
    /// # Safety
    /// As for [`region_from_raw`](Self::region_from_raw), and no other code deregisters the region.
    /// The keeper keeps only the memory. If this fails, C still owns the region.
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
    let is_one = unsafe { (*mr.as_ptr()).pd } == pd.handle().as_ptr();
    let what = "the region and the protection domain";
    or_refused!(keeper, Error::unless_one_pd(VERB, what, is_one));
    if len == 0 {
        let error = Error::os(VERB, libc::EINVAL, "cannot register 0 bytes");
        return Err(Refused::new(keeper, error));
    }
    let memory = Box::new(Opaque::<K> { keeper, _is: PhantomData });
    // SAFETY: this function has the same contract.
    let region = unsafe { Registered::from_c(pd, mr, base, len, memory, is_ours) };
    Ok(MemoryRegion::of(region))
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
