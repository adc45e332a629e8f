//! Handles that share memory: each has a header of its own, and keeps the memory alive.
//!
//! # Why each is freed once, and found while it exists
//!
//! The headers are those of a slab, which lives as long as what a handle keeps alive. A handle has
//! one owner, wherever it travels as a word, until it is dropped. Its Drop clears the queue's name
//! in the header and gives the header back to the slab. The search for orphaned handles touches
//! that name alone, which is atomic: a header that is used again is written field by field, but for
//! the name. A handle that the search finds with a queue whose completions can no longer come has
//! no other owner (`orphaned`), so the search may drop it.

#![allow(unsafe_code)] // owns headers that travel as words

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::memory::chain::Chain;
use crate::memory::frozen::Frozen;
use crate::memory::header::{Handle, Header, word};
use crate::memory::header_slab::HeaderSlab;
use crate::memory::registered::Registered;

/// A header of a slab, with what its handle keeps alive.
#[repr(C)]
pub(crate) struct OwningHeader {
    header: Header,
    /// The user's word.
    id: Cell<u64>,
    /// There is one while there is a handle.
    kept: UnsafeCell<MaybeUninit<KeptAlive>>,
    /// Of a piece of a region: the most bytes that it had at a time. Its type tag is that of so
    /// many.
    longest: Cell<usize>,
}

impl OwningHeader {
    /// A header without a handle.
    pub(super) fn new(slab: *const HeaderSlab) -> Self {
        OwningHeader {
            header: Header::new(ptr::null_mut(), 0, 0, slab.cast(), 0),
            id: Cell::new(0),
            kept: UnsafeCell::new(MaybeUninit::uninit()),
            longest: Cell::new(0),
        }
    }
}

/// The memory that a handle keeps alive, and with it the slab of its header.
#[derive(Clone)]
pub(crate) enum KeptAlive {
    /// A region.
    Region(Arc<Registered>),
    /// A buffer of a pool or an arena.
    Frozen(Frozen),
    /// Memory of an implicit region, or a memory window. (In a box, so that the enum is two words.)
    Other(Arc<Box<dyn Any + Send + Sync>>),
}

impl KeptAlive {
    /// Neither a region nor a buffer.
    pub fn of<T: Any + Send + Sync>(other: T) -> Self {
        KeptAlive::Other(Arc::new(Box::new(other)))
    }

    /// The `T` that it keeps.
    ///
    /// # Panics
    /// If it is something else.
    pub fn other<T: Any>(&self) -> &T {
        match self {
            KeptAlive::Other(other) => other.downcast_ref().expect("of the type that was given"),
            _ => unreachable!("a handle keeps what it was made with"),
        }
    }
}

/// The bytes of a handle.
#[derive(Clone, Copy)]
pub(crate) struct HandleBytes {
    /// `len` bytes, registered with `lkey`.
    pub addr: *mut u8,
    pub len: u32,
    pub lkey: u32,
    /// The type tag of a buffer of this domain and length that is of no pool.
    pub type_tag: u64,
}

/// A handle with a header of its own, which says where the memory is, keeps it alive and keeps it
/// registered.
///
/// # Invariants
/// `at` is a header with its `kept` memory, which keeps its slab alive, and this is the only handle
/// to it.
#[repr(transparent)]
pub(crate) struct OwningHandle {
    at: NonNull<OwningHeader>,
}

// SAFETY: the handle owns the header, and the kept memory may be used by any thread.
unsafe impl Send for OwningHandle {}
// SAFETY: through a shared `OwningHandle` only fields of the header are read that change through an
// exclusive one alone.
unsafe impl Sync for OwningHandle {}

// SAFETY: it is one pointer to a `OwningHeader`, which begins with a header, and owns the handle.
unsafe impl Handle for OwningHandle {
    const KIND: usize = word::SHARED;
}

/// A handle to memory that `kept` keeps alive and registered, and the slab with it. (The kept
/// memory is made where nothing can unwind any more.)
#[inline(always)]
pub(crate) fn owning_handle(
    slab: &HeaderSlab,
    kept: impl FnOnce() -> KeptAlive,
    bytes: &HandleBytes,
) -> OwningHandle {
    let at = slab.take();
    fill(at, kept(), bytes);
    // INVARIANT: the header has its kept, and had no handle.
    OwningHandle { at: NonNull::from(at) }
}

/// Handles to the same memory, `n` of them, at least one, each of which keeps it alive.
#[inline(always)]
pub(crate) fn owning_handles(
    slab: &HeaderSlab,
    n: usize,
    kept: impl Fn() -> KeptAlive,
    bytes: &HandleBytes,
) -> Chain<OwningHandle> {
    let first = slab.take_chain(n);
    let mut at = first.as_ptr();
    for _ in 0..n {
        // SAFETY: there are so many headers, which live as long as the slab.
        let header = unsafe { &*at.cast::<OwningHeader>() };
        fill(header, kept(), bytes);
        at = header.header.link.next();
    }
    // SAFETY: each header has its kept, and had no handle.
    unsafe { Chain::from_first(first.as_ptr()) }
}

/// Fills a header that was just taken, and has no handle yet.
#[inline(always)]
fn fill(at: &OwningHeader, kept: KeptAlive, bytes: &HandleBytes) {
    at.header.renew(bytes.addr, bytes.len, bytes.lkey, bytes.type_tag);
    at.id.set(0);
    // SAFETY: the header has no handle yet, so nobody else touches its kept memory.
    unsafe { (*at.kept.get()).write(kept) };
}

impl OwningHandle {
    #[inline(always)]
    fn at(&self) -> &OwningHeader {
        // SAFETY: the header lives as long as its slab, which the handle keeps alive.
        unsafe { self.at.as_ref() }
    }

    /// The slab of its header.
    #[inline(always)]
    pub fn slab(&self) -> &HeaderSlab {
        // SAFETY: the `slab` of such a header is its slab, which the handle keeps alive.
        unsafe { &*self.header().slab.cast() }
    }

    /// The user's word.
    pub fn id(&self) -> u64 {
        self.at().id.get()
    }

    pub fn set_id(&mut self, id: u64) {
        self.at().id.set(id);
    }

    /// The most bytes that a piece had at a time: as `set_longest` said.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.at().longest.get()
    }

    #[inline(always)]
    pub fn set_longest(&mut self, len: usize) {
        self.at().longest.set(len);
    }

    #[inline(always)]
    pub fn kept(&self) -> &KeptAlive {
        // SAFETY: the header has its kept memory (invariant), as long as its handle.
        unsafe { (*self.at().kept.get()).assume_init_ref() }
    }

    pub fn kept_mut(&mut self) -> &mut KeptAlive {
        // SAFETY: as in `kept`; and the only handle is borrowed exclusively.
        unsafe { (*self.at().kept.get()).assume_init_mut() }
    }

    /// The number of handles that share the memory, and of other owners that it has.
    pub fn sharers(&self) -> usize {
        match self.kept() {
            KeptAlive::Region(region) => Arc::strong_count(region),
            KeptAlive::Frozen(frozen) => frozen.count(),
            KeptAlive::Other(other) => Arc::strong_count(other),
        }
    }

    /// Ends the handle. Its kept memory is the caller's.
    #[inline(always)]
    pub fn into_kept(self) -> KeptAlive {
        /// (With the kept memory, so that nothing is live across a call.)
        #[cold]
        #[inline(never)]
        fn put_later(this: ManuallyDrop<OwningHandle>, kept: KeptAlive) -> KeptAlive {
            // SAFETY: the handle was given up, and the kept memory keeps the slab alive.
            unsafe { this.slab().put_later(this.at.cast()) };
            kept
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle, the only one (invariant), was given up, so the kept memory is read
        // once, and keeps the slab alive.
        let (kept, is_put) = unsafe {
            let kept = (*this.at().kept.get()).assume_init_read();
            (kept, this.slab().put(this.at.cast()))
        };
        if is_put { kept } else { put_later(this, kept) }
    }
}

impl Clone for OwningHandle {
    /// Another header for the same memory, with the same word.
    #[inline]
    fn clone(&self) -> Self {
        let h = self.header();
        let (addr, len, lkey, type_tag) = (h.addr(), h.capacity(), h.lkey(), h.type_tag());
        let mut clone = owning_handle(
            self.slab(),
            || self.kept().clone(),
            &HandleBytes { addr, len, lkey, type_tag },
        );
        clone.set_id(self.id());
        clone
    }
}

impl Drop for OwningHandle {
    /// (In line: most handles are dropped where a completion brings them.)
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: this is the only handle, and it goes: another is made of it, once.
        drop(OwningHandle { at: self.at }.into_kept());
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::loopback;

    /// However a handle ends, its header is used again.
    #[test]
    fn headers_are_used_again() {
        let pd = loopback::Fabric::new().open_device().alloc_pd().unwrap();
        let bytes = HandleBytes { addr: ptr::null_mut(), len: 1, lkey: 0, type_tag: 0 };
        let slab = HeaderSlab::new(pd.id());
        let counted: Arc<Box<dyn Any + Send + Sync>> = Arc::new(Box::new(slab.clone()));
        let one = || owning_handle(&slab, || KeptAlive::Other(counted.clone()), &bytes);
        for end in [drop as fn(OwningHandle), |handle| drop(handle.into_kept())] {
            for count in [1, 3, 200, 200] {
                let handles: Vec<_> = (0..count).map(|_| one()).collect();
                assert_eq!(handles[0].sharers(), count + 1);
                handles.into_iter().for_each(end);
                assert_eq!(Arc::strong_count(&counted), 1);
            }
            assert_eq!(slab.count(), 256);
        }
    }
}
