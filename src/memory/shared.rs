//! Read-only buffers with several handles.
//!
//! # Why a frozen buffer is given back once
//!
//! Its own handle is given up as the address of its header, which counts the handles that share it,
//! in `next`, the field of lists, which it is in no longer. Each handle counts as one, from before
//! it is made until it is gone. The last one makes the buffer's own handle again: it saw the count
//! at one, so no other handle is left, and none can be made. Its load or decrement is after those
//! of all others (Acquire after Release), and so after what they read.

#![allow(unsafe_code)] // reads bytes that several handles lend

use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::counters::mark;
use crate::memory::buf::Buf;
use crate::memory::header::{Handle, Header};
use crate::memory::lent::{Home, Kind, Lent, Loan, lend};

/// A read-only buffer that may be posted several times at once. It is a legal source of SEND and
/// RDMA WRITE, so one log entry goes to three followers without a copy.
///
/// Neither cloning nor dropping allocates or locks once as many handles were in use before. When
/// the last clone is gone, the buffer goes back to its pool; or the last one is
/// [thawed](Self::thaw).
///
/// [`Buf::freeze`](crate::Buf::freeze) makes it (R11.1), and
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

impl SharedBuf {
    pub(crate) fn new<C: Send + Sync>(buf: Buf<C>) -> Self {
        let header = buf.header();
        let (addr, len, lkey, pd) = (header.addr(), header.len(), header.lkey(), header.pd());
        let mark = mark::lent(header.mark(), len);
        let at = buf.at().cast_const().cast::<()>();
        std::mem::forget(buf);
        // SAFETY: the handle was given up, so the buffer is frozen, and this is its only share.
        unsafe { shares(at) }.store(1, Ordering::Relaxed);
        // SAFETY: that share is given up, and counted by this kind. What is behind it is `Send` and
        // `Sync`, as `C` is.
        let home = || unsafe { Home::new(at, Frozen::<C>::KIND) };
        SharedBuf(lend(home, &Loan { addr, len, lkey, pd, mark }))
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
        let is_c = home.kind().context.is_some_and(|context| context() == TypeId::of::<C>());
        // SAFETY: this handle has a share, so the buffer is frozen and its header alive.
        if !is_c || unsafe { shares(home.at()) }.load(Ordering::Acquire) != 1 {
            return Err(self);
        }
        let home = self.0.into_home();
        let at = home.at();
        std::mem::forget(home);
        // SAFETY: the only share, seen by an Acquire, was given up; nobody could make another
        // meanwhile, since the handle was here. The buffer's context is `C`.
        Ok(unsafe { own(at) })
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
