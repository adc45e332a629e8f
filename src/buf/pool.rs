//! Pools: one registered region cut into equal buffers.

#![allow(unsafe_code)] // owns the headers that handles point to

use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

use super::header::Header;
use super::{Buf, stranded};
use crate::cold::drop_each;
use crate::cq::CompletionQueue;
use crate::entry::Entry;
use crate::error::{Error, Refused};
use crate::registered::Registered;

/// A header with the user's context behind it.
#[repr(C)]
pub(crate) struct Slot<C> {
    header: Header,
    pub context: UnsafeCell<C>,
}

/// A region registered for local access only (`ibv_reg_mr` with `IBV_ACCESS_LOCAL_WRITE`), cut into `count`
/// buffers of `size` bytes.
///
/// Taking and dropping buffers takes a lock and is meant for set-up; in the steady state buffers
/// go from a completion straight to the next post. The region stays registered while a buffer of it
/// exists, wherever it is (rules R6.9, R6.10).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
/// let pool = pd.create_pool(4, 100)?;
/// let buf = pool.take().ok_or("no buffer")?;
/// assert_eq!((buf.capacity(), pool.count(), pool.available()), (104, 4, 3)); // sizes are multiples of 8
/// let pool = pool.destroy().unwrap_err().object; // `buf` is in use: refused, and back
/// drop(buf);
/// pool.destroy()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<C: 'static = ()> {
    shared: Arc<Shared<C>>,
}

/// # Invariants
/// - `slots` are `count` initialised slots, freed when the last handle and the last `Pool` are gone.
/// - `free` names exactly the slots whose handle is neither with the program nor in flight.
/// - Each handle outside `free` counts as one strong reference.
#[repr(C)]
pub(crate) struct Shared<C> {
    /// The protection domain: the headers' home begins with it.
    pd: u32,
    slots: NonNull<Slot<C>>,
    count: usize,
    free: Mutex<Vec<u32>>,
    region: Registered,
}

// SAFETY: contexts are reached through handles only, which are `Send` if `C` is; the rest is
// immutable or behind the lock.
unsafe impl<C: Send> Send for Shared<C> {}
// SAFETY: as for Send: sharing a pool lets another thread take a buffer, and with it a context.
unsafe impl<C: Send> Sync for Shared<C> {}

impl<C> Pool<C> {
    pub(crate) fn new(
        region: Registered,
        count: u32,
        size: u32,
        mut context: impl FnMut(usize) -> C,
    ) -> Result<Self, Error> {
        let no_memory = || Error::os("register", libc::ENOMEM, format!("{count} buffer headers"));
        let layout = Layout::array::<Slot<C>>(count as usize).map_err(|_| no_memory())?;
        // A context that panics must leave nothing half made: make them all first.
        let contexts: Vec<C> = (0..count as usize).map(&mut context).collect();
        // SAFETY: `Slot` is never zero-sized, and `count` is not 0 (checked by the caller).
        let slots =
            NonNull::new(unsafe { alloc(layout) }.cast::<Slot<C>>()).ok_or_else(no_memory)?;
        let shared = Arc::new(Shared {
            pd: region.pd(),
            slots,
            count: count as usize,
            free: Mutex::new((0..count).rev().collect()),
            region,
        });
        let home = Arc::as_ptr(&shared).cast::<()>();
        for (i, context) in contexts.into_iter().enumerate() {
            let region = &shared.region;
            let addr = region.at(i * size as usize);
            let header = Header::new(addr, size, region.lkey(), home);
            // SAFETY: slot `i` is inside the allocation.
            let slot = unsafe { slots.as_ptr().add(i) };
            // SAFETY: written once, before anybody has a handle to it.
            unsafe { slot.write(Slot { header, context: UnsafeCell::new(context) }) };
        }
        // SAFETY: all slots are initialised; `Shared` forgets them before they go.
        unsafe { stranded::note_pool(slots.as_ptr(), count as usize) };
        Ok(Pool { shared })
    }

    /// A buffer, its length set to its capacity; `None` if all are in use.
    ///
    /// Its bytes are whatever its last use left.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, .. } = proverbs::guide::ends()?;
    /// let pool = pd.create_pool(1, 64)?;
    /// let buf = pool.take();
    /// assert!(buf.is_some() && pool.take().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take(&self) -> Option<Buf<C>> {
        let index = self.shared.free().pop()?;
        let slot = self.shared.slot(index as usize);
        // The reference that the handle holds; `put_back` gives it up.
        std::mem::forget(self.shared.clone());
        // SAFETY: a slot taken out of `free` has no other handle.
        let buf = unsafe { Buf::<C>::from_header(slot.cast()) };
        buf.header().set_len(buf.header().capacity);
        Some(buf)
    }

    /// How many buffers the pool has in all.
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// How many buffers can be taken now.
    pub fn available(&self) -> usize {
        self.shared.free().len()
    }

    /// Takes back the buffers that a destroyed or reset queue pair left stranded: posted, and
    /// without a completion that could still come (rules R7.16, R8.18, R10.15). Gives their number.
    ///
    /// They come home without this, too, with a poll of the completion queue `cq` that the queue pair completed into: with the
    /// one that finds nothing after the queue pair was gone; or with the next one after a
    /// [`poll`](CompletionQueue::poll) that brought fewer than 16, or after as many completions as `cq`
    /// holds. (So also on a completion queue that is never empty.) This is for who wants to know, or cannot
    /// wait for that next poll. If the queue pair completed into two completion queues, both must have got as far.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { mut a, mut b, mut cq, pool, .. } = proverbs::guide::ends()?;
    /// b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?; // nothing will arrive
    /// b.destroy()?;                                             // and nobody drained it
    /// assert_eq!((pool.reclaim(&mut cq), pool.available()), (0, 15)); // a completion may still come
    /// assert!(cq.poll_one()?.is_none());
    /// assert_eq!(pool.available(), 16); // none can
    ///
    /// # a.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
    /// a.post_send(Send::inline(b"nobody listens"))?;
    /// let a = a.to_error()?;
    /// a.destroy()?;
    /// cq.poll()?.for_each(drop); // fewer than 16
    /// pool.reclaim(&mut cq); // in the place of one more poll
    /// assert_eq!(pool.available(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reclaim<E: Entry>(&self, cq: &mut CompletionQueue<E>) -> usize {
        let slots = self.shared.slots.as_ptr();
        cq.settle_now().send_home().count_of(slots)
    }

    /// Deregisters and frees (`ibv_dereg_mr`). Its buffers, and other handles to the pool, must be gone, or it comes back.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os), and the pool comes back: EBUSY if a buffer of it is somewhere else, or the
    /// device's errno, and then the memory stays registered (R6.9).
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

    /// Where its headers begin.
    pub(crate) fn slots(&self) -> usize {
        self.shared.slots.addr().get()
    }

    /// What the headers of this pool have as their home.
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

impl<C> Shared<C> {
    fn free(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn slot(&self, index: usize) -> *mut Slot<C> {
        debug_assert!(index < self.count);
        // SAFETY: callers give an index of this pool.
        unsafe { self.slots.as_ptr().add(index) }
    }
}

/// # Safety
/// `slot` is the only handle to its slot, and is given up.
pub(super) unsafe fn put_back<C>(slot: NonNull<Slot<C>>) {
    // SAFETY: the header is alive while its handle is.
    let header = unsafe { slot.cast::<Header>().as_ref() };
    if header.posted_to().is_some() {
        // It was part of a list that was given up while it was put together.
        header.forget_queue();
    }
    let home = header.home.cast::<Shared<C>>();
    // SAFETY: `take` left this reference behind for the handle (invariant of `Shared`).
    let shared = unsafe { Arc::from_raw(home) };
    // SAFETY: both are slots of this pool.
    let index = unsafe { slot.as_ptr().offset_from(shared.slots.as_ptr()) };
    shared.free().push(index as u32);
    // The reference is given up last: dropping it may free the header.
    drop(shared);
}

impl<C> Drop for Shared<C> {
    fn drop(&mut self) {
        stranded::forget_pool(self.slots.as_ptr());
        /// The slots' memory, given back at the end, even if a context panics as it is dropped.
        struct Free(*mut u8, Option<Layout>);

        impl Drop for Free {
            fn drop(&mut self) {
                if let Some(layout) = self.1 {
                    // SAFETY: allocated in `Pool::new` with this layout, and nothing is in it any more.
                    unsafe { dealloc(self.0, layout) };
                }
            }
        }

        let layout = Layout::array::<Slot<C>>(self.count).ok();
        let _free = Free(self.slots.as_ptr().cast(), layout);
        // SAFETY: initialised in `Pool::new`, each dropped once; no handle is left.
        drop_each(&mut (0..self.count).map(|i| unsafe { ptr::drop_in_place(self.slot(i)) }));
    }
}
