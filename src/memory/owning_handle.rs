//! Handles that share memory: each has its own header, and keeps the memory alive.
//!
//! # Why each is freed once, and found while it exists
//!
//! The headers belong to a slab, which lives as long as the memory that a handle keeps alive. A
//! handle has one owner until it is dropped, wherever it travels as a word. Its Drop clears the
//! queue's name in the header and returns the header to the slab. The search for orphaned handles
//! accesses only that name, which is atomic. A reused header is written field by field, except for
//! the name. If the search finds a handle that is owned by a queue whose completions can no longer
//! arrive, the handle has no other owner (`orphaned`), so the search may drop it.

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

/// A header of a slab, with the memory that its handle keeps alive.
#[repr(C)]
pub(crate) struct OwningHeader {
    header: Header,
    /// The user's number.
    id: Cell<u64>,
    /// Initialised while there is a handle.
    kept: UnsafeCell<MaybeUninit<KeptAlive>>,
    /// For a piece of a region: the largest length that it has had. Its type tag is for this
    /// length.
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

/// The memory that a handle keeps alive, together with the slab of its header.
#[derive(Clone)]
pub(crate) enum KeptAlive {
    /// A region.
    Region(Arc<Registered>),
    /// A buffer of a pool or an arena.
    Frozen(Frozen),
    /// Memory of an implicit region, or a memory window. (Boxed, so that the enum has two words.)
    Other(Arc<Box<dyn Any + Send + Sync>>),
}

impl KeptAlive {
    /// Keeps a value that is neither a region nor a buffer.
    pub fn of<T: Any + Send + Sync>(other: T) -> Self {
        KeptAlive::Other(Arc::new(Box::new(other)))
    }

    /// The `T` that it keeps.
    ///
    /// # Panics
    /// If it keeps something else.
    pub fn other<T: Any>(&self) -> &T {
        match self {
            KeptAlive::Other(other) => other.downcast_ref().expect("the kept value has this type"),
            _ => unreachable!("the kept value does not change"),
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
    /// The type tag of a buffer of this domain and length that does not belong to a pool.
    pub type_tag: u64,
}

/// A handle with its own header, which contains the address of the memory, keeps it alive and keeps
/// it registered.
///
/// # Invariants
/// `at` is a header with its `kept` memory, which keeps its slab alive. This is the only handle to
/// it.
#[repr(transparent)]
pub(crate) struct OwningHandle {
    at: NonNull<OwningHeader>,
}

// SAFETY: the handle owns the header, and the kept memory may be used by any thread.
unsafe impl Send for OwningHandle {}
// SAFETY: a shared `OwningHandle` only reads fields of the header that change only through an
// exclusive one.
unsafe impl Sync for OwningHandle {}

// SAFETY: it is one pointer to an `OwningHeader`, which begins with a header, and owns the handle.
unsafe impl Handle for OwningHandle {
    const KIND: usize = word::SHARED;
}

/// Creates a handle to memory that `kept` keeps alive and registered, together with the slab.
/// (`kept` is called after the last operation that can unwind.)
#[inline(always)]
pub(crate) fn owning_handle(
    slab: &HeaderSlab,
    kept: impl FnOnce() -> KeptAlive,
    bytes: &HandleBytes,
) -> OwningHandle {
    let at = slab.take();
    fill(at, kept(), bytes);
    // INVARIANT: the header has its kept memory, and had no handle.
    OwningHandle { at: NonNull::from(at) }
}

/// Creates `n` handles to the same memory, at least one, each of which keeps it alive.
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
        // SAFETY: there are `n` headers, which live as long as the slab.
        let header = unsafe { &*at.cast::<OwningHeader>() };
        fill(header, kept(), bytes);
        at = header.header.link.next();
    }
    // SAFETY: each header has its kept memory, and had no handle.
    unsafe { Chain::from_first(first.as_ptr()) }
}

/// Fills a header that was just taken and does not have a handle yet.
#[inline(always)]
fn fill(at: &OwningHeader, kept: KeptAlive, bytes: &HandleBytes) {
    at.header.renew(bytes.addr, bytes.len, bytes.lkey, bytes.type_tag);
    at.id.set(0);
    // SAFETY: the header has no handle yet, so no other code accesses its kept memory.
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

    /// The number that the program set with `set_id`.
    pub fn id(&self) -> u64 {
        self.at().id.get()
    }

    pub fn set_id(&mut self, id: u64) {
        self.at().id.set(id);
    }

    /// The largest length that a piece has had, as stored by `set_longest`.
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
        // SAFETY: the header has its kept memory while its handle exists (invariant).
        unsafe { (*self.at().kept.get()).assume_init_ref() }
    }

    pub fn kept_mut(&mut self) -> &mut KeptAlive {
        // SAFETY: as in `kept`. The only handle is borrowed exclusively.
        unsafe { (*self.at().kept.get()).assume_init_mut() }
    }

    /// The number of handles that share the memory, plus the number of its other owners.
    pub fn sharers(&self) -> usize {
        match self.kept() {
            KeptAlive::Region(region) => Arc::strong_count(region),
            KeptAlive::Frozen(frozen) => frozen.count(),
            KeptAlive::Other(other) => Arc::strong_count(other),
        }
    }

    /// Ends the handle and returns its kept memory.
    #[inline(always)]
    pub fn into_kept(self) -> KeptAlive {
        /// Takes and returns the kept memory, so the caller does not have to preserve it across
        /// this call.
        #[cold]
        #[inline(never)]
        fn put_later(this: ManuallyDrop<OwningHandle>, kept: KeptAlive) -> KeptAlive {
            // SAFETY: the handle was given up, and the kept memory keeps the slab alive.
            unsafe { this.slab().put_later(this.at.cast()) };
            kept
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the only handle (invariant) was given up, so the kept memory is read once. It
        // keeps the slab alive.
        let (kept, is_put) = unsafe {
            let kept = (*this.at().kept.get()).assume_init_read();
            (kept, this.slab().put(this.at.cast()))
        };
        if is_put { kept } else { put_later(this, kept) }
    }
}

/// Drops a handle.
///
/// # Safety
/// The caller gives up the handle of this header.
pub(super) unsafe fn drop_owning(header: NonNull<Header>) {
    // SAFETY: this function has the same contract.
    drop(unsafe { OwningHandle::from_header(header.as_ptr()) });
}

impl Clone for OwningHandle {
    /// Creates another header for the same memory, with the same number.
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
    /// (Inlined: most handles are dropped where a completion returns them.)
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: this is the only handle, and it is being dropped. One other is created from
        // it, once.
        drop(OwningHandle { at: self.at }.into_kept());
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::loopback;

    /// A header may have had a longer piece before.
    #[test]
    fn the_type_tag_is_for_the_longest_length_of_this_handle() {
        const LONG: usize = 1 << 24;
        let pd = loopback::Fabric::new().open_device().alloc_pd().unwrap();
        let region = pd.register::<crate::memory::LocalWrite>(LONG).unwrap();
        let mut long = region.piece(0, 1).unwrap();
        long.set_range(0, LONG).unwrap();
        let (at, type_tag) = (ptr::from_ref(long.header()), long.header().type_tag());
        drop(long);
        let mut short = region.piece(0, 1).unwrap();
        assert_eq!(ptr::from_ref(short.header()), at, "another header");
        assert_ne!(short.header().type_tag(), type_tag);
        short.set_range(0, LONG).unwrap();
        assert_eq!(short.header().type_tag(), type_tag);
    }

    /// However a handle ends, its header is reused.
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
            assert_eq!(slab.free_list.count(), 256);
        }
    }
}
