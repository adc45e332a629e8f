//! Handles that share memory: each has a header of its own, and keeps the memory alive.
//!
//! # Why each is freed once, and found while it exists
//!
//! The headers are those of a slab, which lives as long as what a handle keeps alive. A handle has
//! one owner, wherever it travels as a word, until it is dropped. Its Drop clears the queue's name
//! in the header and gives the header back to the slab. The search for stranded handles touches
//! that name alone, which is atomic: a header that is used again is written field by field, but for
//! the name. A handle that the search finds with a queue whose completions can no longer come has
//! no other owner (`stranded`), so the search may drop it.

#![allow(unsafe_code)] // owns headers that travel as words

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::memory::chain::Chain;
use crate::memory::frozen::Frozen;
use crate::memory::header::{Handle, Header, word};
use crate::memory::registered::Registered;
use crate::memory::slab::Slab;

/// A header of a slab, with what its handle keeps alive.
#[repr(C)]
pub(crate) struct LentHeader {
    header: Header,
    /// The user's word.
    id: Cell<u64>,
    /// There is one while there is a handle.
    home: UnsafeCell<MaybeUninit<Home>>,
    /// Of a piece of a region: the most bytes that it had at a time. Its mark is that of so many.
    longest: Cell<usize>,
}

impl LentHeader {
    /// A header without a handle.
    pub(super) fn new(slab: *const Slab) -> Self {
        LentHeader {
            header: Header::new(ptr::null_mut(), 0, 0, slab.cast(), 0),
            id: Cell::new(0),
            home: UnsafeCell::new(MaybeUninit::uninit()),
            longest: Cell::new(0),
        }
    }
}

/// The memory that a handle keeps alive, and with it the slab of its header.
#[derive(Clone)]
pub(crate) enum Home {
    /// A region.
    Region(Arc<Registered>),
    /// A buffer of a pool or an arena.
    Frozen(Frozen),
    /// Memory of an implicit region, or a memory window. (In a box, so that a home is two words.)
    Other(Arc<Box<dyn Any + Send + Sync>>),
}

impl Home {
    /// Neither a region nor a buffer.
    pub fn of<T: Any + Send + Sync>(other: T) -> Self {
        Home::Other(Arc::new(Box::new(other)))
    }

    /// The `T` that it keeps.
    ///
    /// # Panics
    /// If it is something else.
    pub fn other<T: Any>(&self) -> &T {
        match self {
            Home::Other(other) => other.downcast_ref().expect("of the type that was given"),
            _ => unreachable!("a handle keeps what it was made with"),
        }
    }
}

/// The bytes of a handle.
#[derive(Clone, Copy)]
pub(crate) struct Loan {
    /// `len` bytes, registered with `lkey`.
    pub addr: *mut u8,
    pub len: u32,
    pub lkey: u32,
    /// The mark of a buffer of this domain and length that is of no pool.
    pub mark: u64,
}

/// A handle with a header of its own, which says where the memory is, keeps it alive and keeps it
/// registered.
///
/// # Invariants
/// `at` is a header with a home, which keeps its slab alive, and this is the only handle to it.
#[repr(transparent)]
pub(crate) struct Lent {
    at: NonNull<LentHeader>,
}

// SAFETY: the handle owns the header, and the home may be used by any thread.
unsafe impl Send for Lent {}
// SAFETY: through a shared `Lent` only fields of the header are read that change through an
// exclusive one alone.
unsafe impl Sync for Lent {}

// SAFETY: it is one pointer to a `LentHeader`, which begins with a header, and owns the handle.
unsafe impl Handle for Lent {
    const KIND: usize = word::SHARED;
}

/// A handle to memory that `home` keeps alive and registered, and the slab with it. (The home is
/// made where nothing can unwind any more.)
#[inline(always)]
pub(crate) fn lend(slab: &Slab, home: impl FnOnce() -> Home, loan: &Loan) -> Lent {
    let at = slab.take();
    fill(at, home(), loan);
    // INVARIANT: the header has its home, and had no handle.
    Lent { at: NonNull::from(at) }
}

/// Handles to the same memory, `n` of them, at least one, with a home each.
#[inline(always)]
pub(crate) fn lend_several(
    slab: &Slab,
    n: usize,
    home: impl Fn() -> Home,
    loan: &Loan,
) -> Chain<Lent> {
    let first = slab.take_chain(n);
    let mut at = first.as_ptr();
    for _ in 0..n {
        // SAFETY: there are so many headers, which live as long as the slab.
        let header = unsafe { &*at.cast::<LentHeader>() };
        fill(header, home(), loan);
        at = header.header.link.next();
    }
    // SAFETY: each header has its home, and had no handle.
    unsafe { Chain::from_first(first.as_ptr()) }
}

/// Fills a header that was just taken, and has no handle yet.
#[inline(always)]
fn fill(at: &LentHeader, home: Home, loan: &Loan) {
    at.header.renew(loan.addr, loan.len, loan.lkey, loan.mark);
    at.id.set(0);
    // SAFETY: the header has no handle yet, so nobody else touches its home.
    unsafe { (*at.home.get()).write(home) };
}

impl Lent {
    #[inline(always)]
    fn at(&self) -> &LentHeader {
        // SAFETY: the header lives as long as its slab, which the handle keeps alive.
        unsafe { self.at.as_ref() }
    }

    /// The slab of its header.
    #[inline(always)]
    pub fn slab(&self) -> &Slab {
        // SAFETY: the home of such a header is its slab, which the handle keeps alive.
        unsafe { &*self.header().home.cast() }
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
    pub fn home(&self) -> &Home {
        // SAFETY: the header has its home (invariant), as long as its handle.
        unsafe { (*self.at().home.get()).assume_init_ref() }
    }

    pub fn home_mut(&mut self) -> &mut Home {
        // SAFETY: as in `home`; and the only handle is borrowed exclusively.
        unsafe { (*self.at().home.get()).assume_init_mut() }
    }

    /// The number of handles that share the memory, and of other owners that it has.
    pub fn sharers(&self) -> usize {
        match self.home() {
            Home::Region(region) => Arc::strong_count(region),
            Home::Frozen(frozen) => frozen.count(),
            Home::Other(other) => Arc::strong_count(other),
        }
    }

    /// Ends the handle. Its home is the caller's.
    #[inline(always)]
    pub fn into_home(self) -> Home {
        /// (With the home, so that nothing needs to be kept over a call.)
        #[cold]
        #[inline(never)]
        fn put_later(this: ManuallyDrop<Lent>, home: Home) -> Home {
            // SAFETY: the handle was given up, and the home keeps the slab alive.
            unsafe { this.slab().put_later(this.at.cast()) };
            home
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle, the only one (invariant), was given up, so the home is read once, and
        // keeps the slab alive.
        let (home, is_put) = unsafe {
            let home = (*this.at().home.get()).assume_init_read();
            (home, this.slab().put(this.at.cast()))
        };
        if is_put { home } else { put_later(this, home) }
    }
}

impl Clone for Lent {
    /// Another header for the same memory, with the same word.
    #[inline]
    fn clone(&self) -> Self {
        let h = self.header();
        let (addr, len, lkey, mark) = (h.addr(), h.capacity(), h.lkey(), h.mark());
        let mut clone = lend(self.slab(), || self.home().clone(), &Loan { addr, len, lkey, mark });
        clone.set_id(self.id());
        clone
    }
}

impl Drop for Lent {
    /// (In line: most handles are dropped where a completion brings them.)
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: this is the only handle, and it goes: another is made of it, once.
        drop(Lent { at: self.at }.into_home());
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
        let loan = Loan { addr: ptr::null_mut(), len: 1, lkey: 0, mark: 0 };
        let slab = Slab::new(pd.id());
        let counted: Arc<Box<dyn Any + Send + Sync>> = Arc::new(Box::new(slab.clone()));
        let one = || lend(&slab, || Home::Other(counted.clone()), &loan);
        for end in [drop as fn(Lent), |handle| drop(handle.into_home())] {
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
