//! Read-only buffers with several handles.
//!
//! # Why a frozen buffer is given back once
//!
//! Its own handle is given up as the address of its header, which counts the handles that share it,
//! in `next`, the field of lists, which it is in no longer. Each handle counts as one, from before
//! it is made until it is gone. (Those that are made together are counted by one store, before
//! anybody has one.) The last one makes the buffer's own handle again: it saw the count
//! at one, so no other handle is left, and none can be made. Its load or decrement is after those
//! of all others (Acquire after Release), and so after what they read.

#![allow(unsafe_code)] // reads bytes that several handles lend

use std::any::TypeId;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::counters::mark;
use crate::memory::buf::Buf;
use crate::memory::header::{Handle, Header};
use crate::memory::lent::{Home, Kind, Lent, Loan, Several, lend, lend_several};

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
pub struct SharedBuf(pub(crate) Lent);

/// The number of handles that share a frozen buffer.
///
/// # Safety
/// `at` is the header of a frozen buffer, alive as long as the reference is used.
unsafe fn shares<'a>(at: *const ()) -> &'a AtomicUsize {
    // SAFETY: the header is alive, and of a frozen buffer only this touches the field.
    unsafe { AtomicUsize::from_ptr((*at.cast::<Header>()).next.as_ptr()) }
}

/// Makes the handle of a frozen buffer again.
///
/// # Safety
/// `at` is the header of a frozen buffer of `C`, and the caller gives up the last share of it, as
/// it saw by an Acquire.
unsafe fn own<C: 'static>(at: *const ()) -> Buf<C> {
    let header = at.cast::<Header>().cast_mut();
    // SAFETY: nobody else has a share, so the header is the caller's; `freeze` gave up the handle,
    // the only one.
    unsafe {
        (*header).next.set(0);
        Buf::from_header(header)
    }
}

/// How the shares of buffers of `C` are counted.
struct Frozen<C>(C);

impl<C: 'static> Frozen<C> {
    const KIND: &'static Kind = &Kind {
        share: |at| {
            // SAFETY: a share exists, so the buffer is frozen. (There are never too many to count:
            // each has a header.)
            unsafe { shares(at) }.fetch_add(1, Ordering::Relaxed);
        },
        release: |at| {
            // SAFETY: the share is given up after this.
            if unsafe { shares(at) }.fetch_sub(1, Ordering::Release) == 1 {
                fence(Ordering::Acquire);
                // SAFETY: it was the last one, of a buffer of `C`.
                drop(unsafe { own::<C>(at) });
            }
        },
        // SAFETY: a share exists, so the buffer is frozen.
        count: |at| unsafe { shares(at) }.load(Ordering::Relaxed),
        context: Some(TypeId::of::<C>),
    };
}

/// Whether the home is a frozen buffer of `C`.
#[inline(always)]
fn is_of<C: 'static>(home: &Home) -> bool {
    #[cold]
    #[inline(never)]
    fn is_same(one: &Kind, of: TypeId) -> bool {
        one.context.is_some_and(|context| context() == of)
    }
    // One such constant is of one type, since what it says of the type differs; but one type may
    // have several.
    ptr::eq(home.kind(), Frozen::<C>::KIND) || is_same(home.kind(), TypeId::of::<C>())
}

/// Freezes a buffer for `n` handles: their homes, of which exactly so many are made, and what they
/// are made of.
#[inline(always)]
fn frozen<C: Send + Sync>(buf: Buf<C>, n: usize) -> (impl Fn() -> Home, Loan) {
    let header = buf.header();
    let (addr, len, lkey, pd) = (header.addr(), header.len(), header.lkey(), header.pd());
    let mark = mark::lent(header.mark(), len);
    let at = buf.at().cast_const().cast::<()>();
    std::mem::forget(buf);
    // SAFETY: the handle was given up, so the buffer is frozen, and these are its only shares.
    unsafe { shares(at) }.store(n, Ordering::Relaxed);
    // SAFETY: one of those shares is given up, and counted by this kind. What is behind it is
    // `Send` and `Sync`, as `C` is.
    let home = move || unsafe { Home::new(at, Frozen::<C>::KIND) };
    (home, Loan { addr, len, lkey, pd, mark })
}

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
pub struct Shares(Several);

impl Shares {
    #[inline(always)]
    pub(crate) fn new<C: Send + Sync>(buf: Buf<C>, n: usize) -> Self {
        if n == 0 {
            // It goes home.
            drop(buf);
            return Shares(Several::default());
        }
        let (home, loan) = frozen(buf, n);
        Shares(lend_several(n, home, &loan))
    }
}

impl Iterator for Shares {
    type Item = SharedBuf;

    #[inline(always)]
    fn next(&mut self) -> Option<SharedBuf> {
        self.0.next().map(SharedBuf)
    }
}

impl FusedIterator for Shares {}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

impl SharedBuf {
    pub(crate) fn new<C: Send + Sync>(buf: Buf<C>) -> Self {
        let (home, loan) = frozen(buf, 1);
        SharedBuf(lend(home, &loan))
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
        let home = self.0.home();
        // SAFETY: this handle has one of the references that are counted.
        unsafe { (home.kind().count)(home.at()) }
    }

    /// The exclusive buffer again, if this is the only handle to it: all clones came home and are
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
        let home = self.0.home();
        // SAFETY: this handle has a share, so the buffer is frozen and its header alive.
        if !is_of::<C>(home) || unsafe { shares(home.at()) }.load(Ordering::Acquire) != 1 {
            return Err(self);
        }
        let home = self.0.into_home();
        let at = home.at();
        std::mem::forget(home);
        // SAFETY: the only share, seen by an Acquire, was given up; nobody could make another
        // meanwhile, since the handle was here. The buffer's context is `C`.
        Ok(unsafe { own(at) })
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
    #[inline]
    pub fn thaw_if_last<C: 'static>(self) -> Option<Buf<C>> {
        /// (By its value, so that it need not be in memory.)
        #[cold]
        #[inline(never)]
        fn other(handle: SharedBuf) {
            drop(handle);
        }
        if !is_of::<C>(self.0.home()) {
            other(self);
            return None;
        }
        let home = self.0.into_home();
        let at = home.at();
        std::mem::forget(home);
        // SAFETY: the share is this handle's, and is given up after this.
        if unsafe { shares(at) }.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        fence(Ordering::Acquire);
        // SAFETY: it was the last one, of a buffer of `C`.
        Some(unsafe { own(at) })
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
    /// let home = proverbs::loopback::poll(&mut cq, 2)?;
    /// let ids: Vec<u64> = home.iter().flatten().map(|record| record.id()).collect();
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

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len())
    }
}
