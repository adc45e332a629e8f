//! Handles that lend memory without owning it alone: read-only buffers with several handles, and
//! pieces of regions that are open to the fabric.

#![allow(unsafe_code)] // owns boxed headers that travel as words

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Buf;
use super::header::Header;
use crate::in_flight::Quiet;

/// A header of its own, and what keeps the memory alive.
#[repr(C)]
struct LentHeader {
    header: Header,
    /// The protection domain: the header's `home` is this field.
    pd: u32,
    home: Arc<dyn Any + Send + Sync>,
}

/// A handle with a boxed header: it keeps memory alive and registered, and says where it is.
///
/// # Invariants
/// `at` is a `LentHeader` from `lend`, and this is the only handle to it.
pub(crate) struct Lent {
    at: NonNull<LentHeader>,
}

// SAFETY: the header is owned, and the home is Send + Sync.
unsafe impl Send for Lent {}
// SAFETY: through a shared `Lent` only immutable fields of the header are read.
unsafe impl Sync for Lent {}

/// A handle to `len` bytes at `addr`, which `home` keeps alive and registered with `lkey`.
pub(crate) fn lend(
    home: Arc<dyn Any + Send + Sync>,
    addr: *mut u8,
    len: u32,
    lkey: u32,
    pd: u32,
) -> Lent {
    let header = Header::new(addr, len, lkey, ptr::null());
    let at = Box::into_raw(Box::new(LentHeader { header, pd, home }));
    // SAFETY: a fresh box; no reference is made.
    let home = unsafe { &raw const (*at).pd }.cast();
    // SAFETY: as above.
    unsafe { (*at).header.home = home };
    // SAFETY: a box is not null.
    let at = unsafe { NonNull::new_unchecked(at) };
    register().insert(at.as_ptr().expose_provenance());
    // INVARIANT: a fresh box, whose only handle this is.
    Lent { at }
}

/// The boxed headers that exist, by address: pools know their headers, these have no other list.
fn register() -> MutexGuard<'static, BTreeSet<usize>> {
    static ALL: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    ALL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The boxed handles that are with one of the queues in `quiet`.
pub(super) fn lent_with(quiet: &Quiet) -> Vec<Lent> {
    let mut stranded = Vec::new();
    // Under the lock no other thread reclaims, and no header that is listed goes away.
    for &address in register().iter() {
        let header = std::ptr::with_exposed_provenance_mut::<Header>(address);
        // SAFETY: listed headers are alive; the fields read here are atomics.
        let posted_to = unsafe { (*header).posted_to() };
        if posted_to.is_some_and(|queue| quiet.has(queue)) {
            // SAFETY: as above.
            unsafe { (*header).forget_queue() };
            // SAFETY: the handle was with a queue that is gone, and no completion can bring it back
            // any more, so it is ours.
            stranded.push(unsafe { Lent::from_header(header) });
        }
    }
    // To be dropped outside the lock, which their Drop takes.
    stranded
}

impl Lent {
    pub fn header(&self) -> &Header {
        // SAFETY: the header lives as long as its handle.
        unsafe { self.at.cast().as_ref() }
    }

    fn home(&self) -> &Arc<dyn Any + Send + Sync> {
        // SAFETY: the header lives as long as its handle.
        unsafe { &(*self.at.as_ptr()).home }
    }

    #[inline(always)]
    pub fn into_header(self) -> *mut Header {
        let header = self.at.as_ptr().cast();
        std::mem::forget(self);
        header
    }

    /// # Safety
    /// `header` came from `into_header`, and the caller gives up the only handle to it.
    pub unsafe fn from_header(header: *mut Header) -> Self {
        // SAFETY: `into_header` gave the address of a live box.
        Lent { at: unsafe { NonNull::new_unchecked(header.cast()) } }
    }
}

impl Clone for Lent {
    /// Another header for the same memory.
    fn clone(&self) -> Self {
        let h = self.header();
        lend(self.home().clone(), h.addr, h.capacity, h.lkey, h.pd())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        register().remove(&self.at.as_ptr().addr());
        // SAFETY: made by `lend`, and the only handle to it is given up here.
        drop(unsafe { Box::from_raw(self.at.as_ptr()) });
    }
}

/// A read-only buffer that may be posted several times at once: a legal source of SEND and RDMA
/// WRITE, so that one log entry goes to three followers without a copy.
///
/// Cloning allocates a small header; posting and completing do not. When the last clone is gone, the
/// buffer goes back to its pool.
///
/// It is made by [`Buf::freeze`](crate::Buf::freeze) (R11.1).
///
/// ```
/// # use proverbs::*;
/// profile! { Fanout { entry: SharedBuf } }
///
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends_of::<Fanout>()?;
/// let mut record = pool.take().ok_or("no buffer")?;
/// record.copy_from(b"log entry")?;
/// let record: SharedBuf = record.freeze();
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let follower = region.remote().write();
/// a.post_send(RdmaWrite::new(record.clone(), follower))?; // to this one ...
/// a.post_send(RdmaWrite::new(record.clone(), follower))?; // ... and that
/// assert_eq!(&record[..], b"log entry"); // still readable meanwhile
/// # proverbs::guide::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedBuf(pub(crate) Lent);

impl SharedBuf {
    pub(super) fn new<C: Send + Sync>(buf: Buf<C>) -> Self {
        let header = buf.header();
        let (addr, len, lkey, pd) = (header.addr, header.len(), header.lkey, header.pd());
        SharedBuf(lend(Arc::new(buf), addr, len, lkey, pd))
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let header = self.0.header();
        // SAFETY: the memory is initialised, and nobody writes to it: the exclusive handle is
        // locked away in the home of this one.
        unsafe { std::slice::from_raw_parts(header.addr, header.capacity as usize) }
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len())
    }
}
