//! Read-only buffers with several handles.

#![allow(unsafe_code)] // reads bytes that several handles lend

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

/// A read-only buffer that may be posted several times at once. It is a legal source of SEND and
/// RDMA WRITE, so one log entry goes to three followers without a copy.
///
/// Neither cloning nor dropping allocates or locks once as many handles were in use before. When
/// the last clone is gone, the buffer goes back to its pool; or the last one is
/// [thawed](Self::thaw_if_last).
///
/// [`Buf::freeze`](crate::Buf::freeze) makes it ([R11.1](crate::guide::rules#r11-1)),
/// [`Buf::share`](crate::Buf::share) several at once, and
/// [`MemoryRegion::share`](crate::MemoryRegion::share) of a part of read-only memory.
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
/// assert_eq!(&record[..], b"log entry"); // still readable meanwhile
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[repr(transparent)]
pub struct SharedBuf(pub(crate) OwningHandle);

/// Handles to one buffer, for as many posts: what [`Buf::share`](crate::Buf::share) gives, one
/// after the other. Those that were not taken are dropped with it.
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
            // It goes back.
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
        // SAFETY: each of the `n` shares that are counted is given to one handle.
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

    /// The number of handles to these bytes, with this one: those that the device has count, and so
    /// do those in completions. Of a part of a region, it is the number of handles to the region,
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

    /// The exclusive buffer again, if this is the only handle to it: all clones came back and are
    /// gone.
    ///
    /// `C` is the context of the buffer that was frozen. The length is as it was then.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
    /// let record = pool.take().ok_or("no buffer")?.freeze();
    /// let follower = record.clone();
    /// // `follower` may be with the device: refused, and back.
    /// let record = record.thaw::<()>().unwrap_err();
    /// drop(follower);
    /// let mut next: Buf = record.thaw().map_err(|_| "shared")?;
    /// next.copy_from(b"the next entry")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The handle, if there are others, or the context is of another type.
    pub fn thaw<C: 'static>(self) -> Result<Buf<C>, SharedBuf> {
        match self.0.kept() {
            // Nobody can make another share meanwhile: this handle is here.
            KeptAlive::Frozen(frozen) if frozen.is_of::<C>() && frozen.is_last() => {}
            _ => return Err(self),
        }
        self.thaw_if_last().ok_or_else(|| unreachable!("it was the last"))
    }

    /// Gives the handle up. If it was the last one, the exclusive buffer is back. Of all handles
    /// to a buffer exactly one call gives it, whichever threads make them, as with
    /// [`Arc::into_inner`](std::sync::Arc::into_inner).
    ///
    /// `C` is the context of the buffer that was frozen. If it is of another type, or the handle is
    /// one to a part of a region, the handle is dropped like any other.
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
        fn other(kept: KeptAlive) {
            drop(kept);
        }
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

    /// The program's own word, 0 at first: C's `wr_id`. The completion brings it with the handle,
    /// and a clone begins with the same.
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

    /// Sets the program's own word: see [`id`](Self::id).
    pub fn set_id(&mut self, id: u64) {
        self.0.set_id(id);
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let header = self.0.header();
        // SAFETY: the memory is initialised, and nothing writes to it: the exclusive handle was
        // given up, or it is private read-only memory, which neither this program nor the device
        // writes, nor anybody else (`share`).
        unsafe { std::slice::from_raw_parts(header.addr(), header.capacity() as usize) }
    }
}

impl_debug!(SharedBuf, |it| "SharedBuf({} bytes)", it.len());
