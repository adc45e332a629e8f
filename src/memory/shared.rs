//! Read-only buffers with several handles.

#![allow(unsafe_code)] // reads bytes that several handles share

use std::iter::FusedIterator;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::counters::type_tag;
use crate::memory::Buf;
use crate::memory::chain::Chain;
use crate::memory::frozen::Frozen;
use crate::memory::header::Handle;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, OwningHandle, owning_handles};

/// A read-only buffer that can be posted several times at once, as the source of SENDs and RDMA
/// WRITEs. For example, one log entry can be sent to three followers without a copy.
///
/// Cloning a handle allocates and locks only if the region then has more handles than ever before.
/// Dropping a handle does neither. When the last clone is dropped, the buffer returns to its pool.
/// The last clone can also be [thawed](Self::thaw_if_last).
///
/// [`Buf::freeze`](crate::Buf::freeze) creates one ([R11.1](crate::guide::rules#r11-1)), and
/// [`Buf::share`](crate::Buf::share) several at once.
/// [`MemoryRegion::share`](crate::MemoryRegion::share) creates one for a part of read-only memory.
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Fanout { entry: SharedBuf } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair_of::<Fanout>()?;
/// let mut record = pool.take().ok_or("no buffer")?;
/// record.copy_from(b"log entry")?;
/// let record: SharedBuf = record.freeze();
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let follower = region.remote().write();
/// a.post_send(wr::RdmaWrite::new(record.clone(), follower))?; // to this one ...
/// a.post_send(wr::RdmaWrite::new(record.clone(), follower))?; // ... and that
/// assert_eq!(&record[..], b"log entry"); // still readable
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct SharedBuf(pub(crate) OwningHandle);

/// An iterator over handles to one buffer, one for each post. Returned by
/// [`Buf::share`](crate::Buf::share). Dropping it drops the remaining handles.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Shares;
/// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
/// let mut shares: Shares = pool.take().ok_or("no buffer")?.share(3);
/// let first = shares.next().ok_or("there are three")?;
/// assert_eq!(first.handles(), 3);
/// drop(shares);
/// assert_eq!(first.handles(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Shares(Chain<OwningHandle>);

impl Shares {
    #[inline(always)]
    pub(crate) fn new<C: Send + Sync>(buf: Buf<C>, n: usize) -> Self {
        if n == 0 {
            // The buffer returns to its pool.
            drop(buf);
            return Shares(Chain::new());
        }
        let header = buf.header();
        let (addr, len, lkey) = (header.addr(), header.len(), header.lkey());
        let loan = HandleBytes {
            addr,
            len,
            lkey,
            type_tag: type_tag::without_pool(header.type_tag(), len),
        };
        let slab = NonNull::from(buf.slots().region.slab());
        let frozen = ManuallyDrop::new(Frozen::freeze(buf, n));
        // SAFETY: each of the `n` counted shares is passed to one handle.
        let kept = || KeptAlive::Frozen(unsafe { frozen.another() });
        // SAFETY: a share keeps the slab alive.
        Shares(owning_handles(unsafe { slab.as_ref() }, n, kept, &loan))
    }
}

impl Iterator for Shares {
    type Item = SharedBuf;

    #[inline(always)]
    fn next(&mut self) -> Option<SharedBuf> {
        self.0.pop().map(SharedBuf)
    }
}

impl FusedIterator for Shares {}

impl_debug!(Shares, |_| "Shares {{ .. }}");

impl SharedBuf {
    pub(crate) fn new<C: Send + Sync>(buf: Buf<C>) -> Self {
        Shares::new(buf, 1).next().expect("there is one")
    }

    /// The number of handles to these bytes, including this one, handles that the device owns, and
    /// handles in completions. For a part of a region, it is the number of handles to the region,
    /// and the region itself.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let one = pool.take().ok_or("no buffer")?.freeze();
    /// let two = one.clone();
    /// assert_eq!(two.handles(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handles(&self) -> usize {
        self.0.sharers()
    }

    /// Returns the exclusive buffer if this is the only handle to it: no clone is in flight or in a
    /// completion, and all other clones were dropped.
    ///
    /// `C` is the context of the frozen buffer. The length is the same as when it was frozen.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// let follower = record.clone();
    /// // This fails because `follower` may be in flight.
    /// let record = record.thaw::<()>().unwrap_err();
    /// drop(follower);
    /// let mut next: Buf = record.thaw().map_err(|_| "shared")?;
    /// next.copy_from(b"the next entry")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, if there are others, or if the context has another type.
    pub fn thaw<C: 'static>(self) -> Result<Buf<C>, SharedBuf> {
        match self.0.kept() {
            // No other share can be created, because this is the only handle.
            KeptAlive::Frozen(frozen) if frozen.is_of::<C>() && frozen.is_last() => {}
            _ => return Err(self),
        }
        self.thaw_if_last().ok_or_else(|| unreachable!("it was the last"))
    }

    /// Drops the handle. If it was the last one, returns the exclusive buffer. If this is called on
    /// all handles to a buffer, on any threads, exactly one of the calls returns the buffer, as
    /// with [`Arc::into_inner`](std::sync::Arc::into_inner).
    ///
    /// `C` is the context of the frozen buffer. If it has another type, or if the handle is a part
    /// of a region, the handle is just dropped.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Fanout>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let follower = region.remote().write();
    /// let mut record: Option<Buf> = pool.take();
    /// for handle in record.take().ok_or("no buffer")?.share(3) {
    ///     a.post_send(wr::RdmaWrite::new(handle, follower))?;
    /// }
    /// while record.is_none() {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         record = completion.into_entry().and_then(SharedBuf::thaw_if_last);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn thaw_if_last<C: 'static>(self) -> Option<Buf<C>> {
        #[cold]
        #[inline(never)]
        fn other(_: KeptAlive) {}
        let kept = ManuallyDrop::new(self.0.into_kept());
        match &*kept {
            // SAFETY: it is a buffer of `C`. The kept memory is not used again.
            KeptAlive::Frozen(frozen) if frozen.is_of::<C>() => unsafe { frozen.thaw_if_last() },
            _ => {
                other(ManuallyDrop::into_inner(kept));
                None
            }
        }
    }

    /// Your own number, initially 0, which replaces C's `wr_id`. It returns with the handle in the
    /// completion. A clone starts with the same number.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Fanout { entry: SharedBuf } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Fanout>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// for follower in [7, 8] {
    ///     let mut record = record.clone();
    ///     record.set_id(follower);
    ///     a.post_send(wr::RdmaWrite::new(record, at))?;
    /// }
    /// let returned = proverbs::loopback::poll(&mut cq, 2)?;
    /// let ids: Vec<u64> = returned.iter().flatten().map(|record| record.id()).collect();
    /// assert_eq!(ids, [7, 8]);
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

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let header = self.0.header();
        // SAFETY: the memory is initialised, and is not written: the exclusive handle was given up,
        // or it is private read-only memory, which neither this program, the device nor another
        // process writes (`share`).
        unsafe { std::slice::from_raw_parts(header.addr(), header.capacity() as usize) }
    }
}

impl_debug!(SharedBuf, |it| "SharedBuf({} bytes)", it.len());
