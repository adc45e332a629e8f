//! The buffers of a pool or an arena: those at home, and the memory that stays while some are not.
//!
//! A buffer is taken on one thread and given back on any other: by a drop, or by the reclaiming of
//! stranded buffers (`stranded`).
//!
//! # Why a buffer has one handle
//!
//! A slot is outside `free` exactly while it has a handle. `take` takes the slot out under the lock
//! and makes the handle. `put_back` has the handle, the only one, and enters the slot under the
//! lock. What was written through the handle is visible to the next thread that takes the slot,
//! since it has the lock later.
//!
//! # Why the memory is freed once, and after the last handle
//!
//! Each handle counts as one strong reference to `Slots`, from before it is made until after its
//! slot is back in `free`; each `Pool` counts as one too. Nothing uses the memory that the last
//! reference frees: all others were given up after their last access, and the count makes that
//! visible to the last.

#![allow(unsafe_code)] // owns the headers that handles point to

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use crate::cold::drop_each;
use crate::counters::ids::PoolNumber;
use crate::counters::mark;
use crate::memory::cuts::{Bytes, Cuts};
use crate::memory::header::Header;
use crate::memory::ranges::Ranges;
use crate::memory::registered::Registered;
use crate::memory::stranded;
use crate::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, lock};

/// A header with the user's context behind it.
#[repr(C)]
pub(crate) struct Slot<C> {
    header: Header,
    pub context: UnsafeCell<C>,
}

/// # Invariants
/// - `slots` are `count` initialised slots, freed when the last handle and the last `Pool` are
///   gone.
/// - `free` names exactly the slots whose handle is neither with the program nor in flight; in an
///   arena, those of them that `cuts` has not yet seen.
/// - The bytes of two slots with handles do not overlap: in a pool each slot has its own, in an
///   arena a block that is taken.
/// - Each handle outside `free` counts as one strong reference.
#[repr(C)]
pub(crate) struct Slots<C> {
    /// The protection domain's number. It is the first field: the headers' `home` begins with it.
    pd: u32,
    /// The pool's number in the marks of its buffers.
    number: PoolNumber,
    slots: NonNull<Slot<C>>,
    count: usize,
    free: Mutex<Vec<u32>>,
    /// The bytes of each buffer of a pool; 0 in an arena.
    size: u32,
    /// In an arena, who has which bytes.
    cuts: Option<Cuts>,
    /// All slots from here on have never been taken. It only grows. (Whoever looks for stranded
    /// buffers reads it at any time, also while the last reference to this goes: so it is not a
    /// part of it.)
    untaken: Arc<AtomicU32>,
    pub region: Registered,
}

// SAFETY: contexts are reached through handles only, which are `Send` if `C` is. All else is
// immutable or behind the lock.
unsafe impl<C: Send> Send for Slots<C> {}
// SAFETY: sharing a pool lets another thread take a buffer and with it a `C`, which is `Send`. All
// else is immutable or behind the lock.
unsafe impl<C: Send> Sync for Slots<C> {}

impl<C: 'static> Slots<C> {
    /// Makes a slot for each of `contexts`, of which there is at least one, and as many buffers of
    /// `size` bytes. Without memory for them it ends the process, as `Vec` does.
    pub fn new(region: Registered, size: u32, contexts: Vec<C>) -> Arc<Self> {
        let free = (0..contexts.len() as u32).rev().collect();
        Self::of(region, size, None, free, contexts)
    }

    /// Makes a slot for each of `contexts`, of which there is at least one, and no buffer yet.
    pub fn arena(region: Registered, contexts: Vec<C>) -> Arc<Self> {
        let cuts = Cuts::new(region.len(), contexts.len());
        let free = Vec::with_capacity(contexts.len());
        Self::of(region, 0, Some(cuts), free, contexts)
    }

    fn of(
        region: Registered,
        size: u32,
        cuts: Option<Cuts>,
        free: Vec<u32>,
        contexts: Vec<C>,
    ) -> Arc<Self> {
        let count = contexts.len();
        let layout = Layout::array::<Slot<C>>(count).expect("fewer bytes than there are addresses");
        // SAFETY: `Slot` is never zero-sized, and `count` is not 0, as asked of the caller.
        let slots = NonNull::new(unsafe { alloc(layout) }.cast::<Slot<C>>());
        let slots = slots.unwrap_or_else(|| handle_alloc_error(layout));
        let free = Mutex::new(free);
        let (pd, number) = (region.pd(), PoolNumber::new());
        let mark = mark::of(pd, number.get(), size);
        let untaken = Arc::new(AtomicU32::new(0));
        let noted = untaken.clone();
        let shared =
            Arc::new(Slots { pd, number, slots, count, free, size, cuts, untaken, region });
        let home = Arc::as_ptr(&shared).cast::<()>();
        for (i, context) in contexts.into_iter().enumerate() {
            let region = &shared.region;
            let addr = region.at(i * size as usize);
            let header = Header::new(addr, size, region.lkey(), home, mark);
            // SAFETY: slot `i` is within the allocation, and is written once, before a handle to it
            // exists.
            unsafe {
                let slot = slots.as_ptr().add(i);
                slot.write(Slot { header, context: UnsafeCell::new(context) });
            }
        }
        // SAFETY: all slots are initialised, and `drop` calls `forget_pool` before it frees them.
        unsafe { stranded::note_pool(slots.as_ptr(), noted, pd) };
        shared
    }
}

impl<C> Slots<C> {
    /// Takes a slot that is at home and makes its only handle, which `put_back` ends.
    pub fn take(this: &Arc<Self>) -> Option<NonNull<Slot<C>>> {
        let mut free = this.free();
        let index = free.pop()?;
        // (As `note_taken`, under the lock of all who take from a pool.)
        if index >= this.untaken.load(Ordering::Relaxed) {
            this.untaken.store(index + 1, Ordering::Relaxed);
        }
        drop(free);
        // The strong reference that the handle holds; `put_back` gives it up.
        std::mem::forget(this.clone());
        NonNull::new(this.slot(index as usize))
    }

    /// Takes a slot of an arena with at least `len` bytes, and makes its only handle, which
    /// `put_back` ends.
    pub fn take_bytes(this: &Arc<Self>, len: usize) -> Option<NonNull<Slot<C>>> {
        let cuts = this.cuts.as_ref()?;
        let index = cuts.take(&mut cuts.settle(&this.free), len)?;
        Some(Self::hand_out(this, index))
    }

    /// Gives the bytes from `at` on of the slot, of an arena and with a handle, to another one and
    /// makes its only handle. `at` is within these bytes, and there are some before it. `None` if
    /// all slots have some.
    pub fn split(this: &Arc<Self>, slot: NonNull<Slot<C>>, at: usize) -> Option<NonNull<Slot<C>>> {
        let cuts = this.cuts.as_ref()?;
        let mut book = cuts.settle(&this.free);
        let index = cuts.split(&mut book, this.index(slot) as u32, at)?;
        Some(Self::hand_out(this, index))
    }

    /// Gives the bytes of the slot `next` to `slot`, if they are those behind it: then the handle of
    /// `next` is given up, without its reference. False, and nothing changes, if they are not.
    ///
    /// # Safety
    /// The caller has the only handle to each of them. It uses that of `next` no more if the answer
    /// is true.
    pub unsafe fn join(&self, slot: NonNull<Slot<C>>, next: NonNull<Slot<C>>) -> bool {
        let [slot, next] = [slot, next].map(|slot| self.index(slot) as u32);
        self.cuts.as_ref().is_some_and(|cuts| cuts.join(slot, next))
    }

    /// Makes the only handle to a slot that `cuts` just gave bytes.
    fn hand_out(this: &Arc<Self>, index: u32) -> NonNull<Slot<C>> {
        // The strong reference that the handle holds; `put_back` gives it up.
        std::mem::forget(this.clone());
        this.note_taken(index);
        // SAFETY: not null, as a part of the allocation.
        let slot = unsafe { NonNull::new_unchecked(this.slot(index as usize)) };
        this.widen(slot);
        slot
    }

    /// Notes that a slot is handed out. Who has the handle later, and whoever takes it back from a
    /// queue, sees this, too: a handle goes from thread to thread only by what makes writes
    /// visible.
    fn note_taken(&self, index: u32) {
        self.untaken.fetch_max(index + 1, Ordering::Relaxed);
    }

    /// Gives a buffer all of its bytes, for the holder of its only handle, whose slot it is.
    pub fn widen(&self, slot: NonNull<Slot<C>>) {
        let Bytes { start, len } = self.whole(slot);
        // SAFETY: the slots are initialised, and live as long as `self`.
        let header = unsafe { slot.cast::<Header>().as_ref() };
        header.set_bytes(self.region.at(start), len, len);
    }

    /// All the bytes of a buffer, for the holder of its only handle, whose slot it is.
    pub fn whole(&self, slot: NonNull<Slot<C>>) -> Bytes {
        let index = self.index(slot);
        match &self.cuts {
            Some(cuts) => cuts.whole(index),
            None => Bytes { start: index * self.size as usize, len: self.size },
        }
    }

    /// The index of a slot of this allocation.
    fn index(&self, slot: NonNull<Slot<C>>) -> usize {
        (slot.addr().get() - self.slots.addr().get()) / size_of::<Slot<C>>()
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes of each buffer of a pool.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What nobody has of an arena, and how many slots have no bytes.
    pub fn look<T>(&self, look: impl FnOnce(&Ranges, usize) -> T) -> Option<T> {
        let cuts = self.cuts.as_ref()?;
        let book = cuts.settle(&self.free);
        Some(look(&book.ranges, book.spare()))
    }

    /// The pool's number in the marks of its buffers.
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// The number of slots at home.
    pub fn available(&self) -> usize {
        self.free().len()
    }

    /// The first slot.
    pub fn first(&self) -> *mut Slot<C> {
        self.slots.as_ptr()
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        lock(&self.free)
    }

    fn slot(&self, index: usize) -> *mut Slot<C> {
        debug_assert!(index < self.count);
        // SAFETY: the callers, all in this file, pass an index below `count`, as the assertion
        // says.
        unsafe { self.slots.as_ptr().add(index) }
    }
}

/// The slots of a handle. They do not count as a reference.
///
/// # Safety
/// `slot` is a handle of the caller's, which it keeps while it uses the result.
pub(crate) unsafe fn slots_of<C>(slot: NonNull<Slot<C>>) -> ManuallyDrop<Arc<Slots<C>>> {
    // SAFETY: the header is alive while its handle is. The strong reference that its `home` counts
    // as stays with the handle.
    ManuallyDrop::new(unsafe { Arc::from_raw(slot.cast::<Header>().as_ref().home.cast()) })
}

/// # Safety
/// `slot` is the only handle to its slot, and the caller gives it up.
pub(super) unsafe fn put_back<C>(slot: NonNull<Slot<C>>) {
    // SAFETY: the header is alive while its handle is, and the handle is given up below.
    let header = unsafe { slot.cast::<Header>().as_ref() };
    if !header.counter().is_null() {
        // It was part of a list that was dropped before it was posted.
        header.forget_queue();
    }
    let home = header.home.cast::<Slots<C>>();
    // SAFETY: `take` left this strong reference for the handle (invariant of `Slots`).
    let shared = unsafe { Arc::from_raw(home) };
    // SAFETY: both are slots of this pool's allocation.
    let index = unsafe { slot.as_ptr().offset_from(shared.slots.as_ptr()) };
    shared.free().push(index as u32);
    // Last: dropping the reference may free the header.
    drop(shared);
}

impl<C> Drop for Slots<C> {
    fn drop(&mut self) {
        stranded::forget_pool(self.slots.as_ptr());
        /// Frees the slots' memory at the end, even if a context panics when dropped.
        struct Free(*mut u8, Option<Layout>);

        impl Drop for Free {
            fn drop(&mut self) {
                if let Some(layout) = self.1 {
                    // SAFETY: allocated in `new` with this layout. Its slots have been dropped.
                    unsafe { dealloc(self.0, layout) };
                }
            }
        }

        let layout = Layout::array::<Slot<C>>(self.count).ok();
        let _free = Free(self.slots.as_ptr().cast(), layout);
        // SAFETY: each slot was initialised in `new` and is dropped once. No handle is left, since
        // each would be a strong reference.
        drop_each(&mut (0..self.count).map(|i| unsafe { ptr::drop_in_place(self.slot(i)) }));
    }
}
