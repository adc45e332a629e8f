//! The buffers of a pool or an arena: those at slab, and the memory that stays while some are not.
//!
//! A buffer is taken on one thread and given back on any other: by a drop, or by the reclaiming of
//! orphaned buffers (`orphaned`).
//!
//! # Why a buffer has one handle
//!
//! A slot is outside `free_list` exactly while it has a handle. `take` takes the slot out and makes
//! the handle. `put_back` has the handle, the only one, and enters the slot. (`FreeList` says why a
//! slot is taken once, and why what was written through the handle is visible to the next that
//! takes it.)
//!
//! # Why the memory is freed once, and after the last handle
//!
//! While there is a `SlabOwner`, which a pool and an arena are, nobody counts handles: a buffer
//! that is taken or dropped changes `free_list` alone. The last `SlabOwner` closes `free_list` and
//! learns so how many slots are out. From then on `left` counts those: each handle that is dropped
//! finds `free_list` closed and counts one less. The last of them, or the closing if none is out,
//! frees the memory. Its accesses are after those of all others, which the count makes visible
//! (AcqRel).
//!
//! `left` counts the `SlabOwner`s before. Nobody looks at it between the last of them and the
//! closing, so there it is set to as many as there are slots, and one for the closing itself.

#![allow(unsafe_code)] // owns the headers that handles point to

use std::any::TypeId;
use std::cell::UnsafeCell;
use std::collections::TryReserveError;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::cold::reserve;
use crate::counters::ids::PoolNumber;
use crate::counters::type_tag;
use crate::memory::blocks::{Blocks, Bytes};
use crate::memory::free_list::FreeList;
use crate::memory::frozen::drop_frozen;
use crate::memory::header::Header;
use crate::memory::list::BufList;
use crate::memory::orphaned;
use crate::memory::registered::Registered;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// A header with the user's context behind it.
#[repr(C)]
pub(crate) struct Slot<C> {
    header: Header,
    pub context: UnsafeCell<C>,
}

/// The beginning of a header's `slab`, for any type of contexts.
#[repr(C)]
pub(crate) struct Head {
    /// The protection domain's number. It is the first field, as of any header's `slab`.
    pd: u32,
    /// The bytes of each buffer of a pool; 0 in an arena.
    size: u32,
    /// The type of the contexts.
    pub context: TypeId,
    /// Drops a frozen buffer whose last share was given up.
    pub drop_frozen: unsafe fn(NonNull<Header>),
}

/// # Invariants
/// - `slots` do not change from `create` on. They go when the last handle and the last `SlabOwner`
///   are gone.
/// - `free_list` and the slots from `untaken` on are exactly those whose handle is neither with the
///   program nor in flight; in an arena, `free_list` are those of them that `blocks` has not yet
///   seen.
/// - The bytes of two slots with handles do not overlap: in a pool each slot has its own, in an
///   arena a block that is taken.
/// - `left` is the number of `SlabOwner`s; after the last, of handles.
#[repr(C)]
pub(crate) struct Slab<C> {
    head: Head,
    free_list: FreeList,
    slots: Vec<Slot<C>>,
    /// The pool's number in the type tags of its buffers.
    number: PoolNumber,
    /// In an arena, which bytes each handle has.
    blocks: Option<Mutex<Blocks>>,
    /// All slots from here on have never been taken. It only grows, to at most their number: the
    /// search for orphaned buffers reads all headers below it. (Whoever looks for orphaned buffers
    /// reads it at any time, also while the memory of this goes: so it is not a part of it.)
    untaken: Arc<AtomicU32>,
    left: AtomicU64,
    pub region: Registered,
}

// SAFETY: contexts are reached through handles only, which are `Send` if `C` is. All else is
// immutable or behind the lock.
unsafe impl<C: Send> Send for Slab<C> {}
// SAFETY: sharing a pool lets another thread take a buffer and with it a `C`, which is `Send`. All
// else is immutable or behind the lock.
unsafe impl<C: Send> Sync for Slab<C> {}

/// One of those for whom the slots are kept, whether they have handles or not: a pool, an arena.
///
/// # Invariants
/// It is counted in `left`, so the slots are not closed.
pub(crate) struct SlabOwner<C>(NonNull<Slab<C>>);

// SAFETY: a keeper gives `&Slab<C>`, and the last one frees them, on whichever thread it is: as an
// `Arc` does, which is `Send` if what it counts is `Send` and `Sync`. Slab are both if `C` is
// `Send`, and the count is atomic.
unsafe impl<C: Send> Send for SlabOwner<C> {}
// SAFETY: a shared keeper gives `&Slab<C>`, which is `Sync` if `C` is `Send`, and further keepers,
// which then are `Send`.
unsafe impl<C: Send> Sync for SlabOwner<C> {}

impl<C> Deref for SlabOwner<C> {
    type Target = Slab<C>;

    #[inline(always)]
    fn deref(&self) -> &Slab<C> {
        // SAFETY: this is counted in `left` (invariant), so the slots are there as long as it is.
        unsafe { self.0.as_ref() }
    }
}

impl<C> Clone for SlabOwner<C> {
    fn clone(&self) -> Self {
        self.left.fetch_add(1, Ordering::Relaxed);
        SlabOwner(self.0)
    }
}

impl<C> Drop for SlabOwner<C> {
    fn drop(&mut self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let returned = self.close();
            // SAFETY: the closing's own part, and that of each slot that is free.
            unsafe { Slab::release(self.0, returned as u64 + 1) };
        }
    }
}

impl<C> SlabOwner<C> {
    /// The region, if nobody else has the slots: no other keeper, and no handle.
    pub fn region(&mut self) -> Option<&mut Registered> {
        let is_only = self.left.load(Ordering::Acquire) == 1 && self.free_slots() == self.count();
        // SAFETY: only a keeper makes keepers and handles. This one is the only one, and is
        // borrowed; that there is no handle was seen by an Acquire.
        is_only.then(|| unsafe { &mut (*self.0.as_ptr()).region })
    }
}

/// The memory for the slots of a pool or an arena. It is allocated before the region is registered,
/// because the allocation may fail.
pub(crate) struct Headers<C> {
    count: usize,
    slots: Vec<Slot<C>>,
    blocks: Option<Blocks>,
}

impl<C> Headers<C> {
    /// For a pool of `count` buffers, at least one.
    pub fn of_pool(count: usize) -> Result<Self, TryReserveError> {
        Ok(Headers { count, slots: reserve(count)?, blocks: None })
    }

    /// For an arena of `len` bytes and at most `count` buffers, at least one of each.
    pub fn of_arena(len: usize, count: usize) -> Result<Self, TryReserveError> {
        Ok(Headers { count, slots: reserve(count)?, blocks: Some(Blocks::new(len, count)?) })
    }
}

impl<C: 'static> Slab<C> {
    /// Makes the slots, each with its context. A pool's buffers have `size` bytes each; an arena
    /// has no buffer yet, and its `size` is 0.
    pub fn create(
        region: Registered,
        size: u32,
        headers: Headers<C>,
        mut context: impl FnMut(usize) -> C,
    ) -> SlabOwner<C> {
        let Headers { count, mut slots, blocks } = headers;
        let (pd, number) = (region.pd(), PoolNumber::new());
        let type_tag = type_tag::of(pd, number.get(), size);
        let untaken = Arc::new(AtomicU32::new(0));
        let (free_list, blocks) = (FreeList::new(), blocks.map(Mutex::new));
        let (none, noted, left) = (Vec::new(), untaken.clone(), AtomicU64::new(1));
        let (of, drop_frozen) = (TypeId::of::<C>(), drop_frozen::<C> as _);
        let head = Head { pd, size, context: of, drop_frozen };
        let all = Slab { head, free_list, slots: none, number, blocks, untaken, left, region };
        // INVARIANT: it is counted.
        let shared = SlabOwner(NonNull::from(Box::leak(Box::new(all))));
        let slab = shared.0.as_ptr();
        slots.extend((0..count).map(|i| {
            let (addr, lkey) = (shared.region.at(i * size as usize), shared.region.lkey());
            let header = Header::new(addr, size, lkey, slab.cast_const().cast(), type_tag);
            Slot { header, context: UnsafeCell::new(context(i)) }
        }));
        // SAFETY: there is no handle yet, so nobody looks at the slots.
        unsafe { (*slab).slots = slots };
        // SAFETY: `drop` calls `forget`, before the slots go. Their handles are of buffers of `C`.
        unsafe { orphaned::note::<_, BufList<C>>(&shared.slots, noted, pd) };
        shared
    }
}

impl<C> Slab<C> {
    /// Takes a slot of a pool that is free and makes its only handle, which `put_back` ends. It
    /// has all of its bytes, and is as long.
    #[inline(always)]
    pub fn take(this: &SlabOwner<C>) -> Option<&Slot<C>> {
        match this.free_list.take() {
            // SAFETY: it is one of the slots, which live as long as the keeper.
            Some(slot) => this.whole_again(unsafe { slot.cast().as_ref() }),
            None => this.take_later(),
        }
    }

    /// As `take`, where no slot was found at once.
    #[cold]
    #[inline(never)]
    fn take_later(&self) -> Option<&Slot<C>> {
        #[cfg(all(test, feature = "loopback"))]
        crate::cold_calls::note();
        let slot = self.free_list.take_later(|| self.fresh())?;
        self.whole_again(&self.slots[self.index(slot)])
    }

    /// A slot of a pool that was just taken, with all of its bytes.
    #[inline(always)]
    fn whole_again<'a>(&'a self, slot: &'a Slot<C>) -> Option<&'a Slot<C>> {
        /// It was narrowed.
        #[cold]
        #[inline(never)]
        fn widened<'a, C>(slots: &Slab<C>, slot: &'a Slot<C>) -> Option<&'a Slot<C>> {
            slots.widen(slot);
            Some(slot)
        }
        if slot.header.capacity() != self.head.size {
            return widened(self, slot);
        }
        slot.header.set_some_len(self.head.size);
        Some(slot)
    }

    /// A slot of a pool that was never taken, for one thread at a time.
    fn fresh(&self) -> Option<NonNull<Header>> {
        let index = self.untaken.load(Ordering::Relaxed);
        let slot = self.slots.get(index as usize)?;
        // (As `note_taken`.)
        self.untaken.store(index + 1, Ordering::Relaxed);
        Some(NonNull::from(slot).cast())
    }

    /// What an arena knows of its bytes, after those of buffers that were dropped were given back.
    pub fn blocks(&self) -> Option<MutexGuard<'_, Blocks>> {
        let mut blocks = lock(self.blocks.as_ref()?);
        if !blocks.is_closed {
            self.free_list.all().for_each(|slot| blocks.give(self.index(slot)));
        }
        Some(blocks)
    }

    /// Takes a slot of an arena with at least `len` bytes, and makes its only handle, which
    /// `put_back` ends.
    pub fn take_bytes(this: &SlabOwner<C>, len: usize) -> Option<&Slot<C>> {
        let mut blocks = this.blocks()?;
        let index = blocks.take(len)?;
        Some(this.hand_out(index, blocks.whole(index)))
    }

    /// Gives the bytes from `at` on of the slot, of an arena and with a handle, to another one and
    /// makes its only handle. `at` is within these bytes, and there are some before it. `None` if
    /// all slots have some.
    pub fn split(&self, slot: &Slot<C>, at: usize) -> Option<&Slot<C>> {
        let mut blocks = self.blocks()?;
        let index = blocks.split(self.index(NonNull::from(slot).cast()), at)?;
        if blocks.is_closed {
            // The handle of `slot` is counted, so `left` is not 0.
            self.left.fetch_add(1, Ordering::Relaxed);
        }
        Some(self.hand_out(index, blocks.whole(index)))
    }

    /// Gives the bytes of the slot `next` to `slot`, if they are those behind it: then the handle
    /// of `next` is given up. False, and nothing changes, if they are not.
    ///
    /// # Safety
    /// The caller has the only handle to each of them. It uses that of `next` no more if the answer
    /// is true.
    pub unsafe fn join(&self, slot: &Slot<C>, next: &Slot<C>) -> bool {
        let Some(mut blocks) = self.blocks() else { return false };
        let [slot, next] = [slot, next].map(|slot| self.index(NonNull::from(slot).cast()));
        let is_joined = blocks.join(slot, next);
        if is_joined && blocks.is_closed {
            // The handle of `slot` is counted, so this is not the last.
            self.left.fetch_sub(1, Ordering::AcqRel);
        }
        is_joined
    }

    /// Makes the only handle to a slot that just got these bytes.
    fn hand_out(&self, index: usize, Bytes { start, len }: Bytes) -> &Slot<C> {
        // A thread that has the handle later, or takes it back from a queue, sees this too: a
        // handle goes from thread to thread only by what makes writes visible.
        self.untaken.fetch_max(index as u32 + 1, Ordering::Relaxed);
        let slot = &self.slots[index];
        slot.header.link.unlink();
        slot.header.set_bytes(self.region.at(start), len, len);
        slot
    }

    /// Gives a buffer all of its bytes, for the holder of its only handle, whose slot it is.
    pub fn widen(&self, slot: &Slot<C>) {
        let Bytes { start, len } = self.whole(slot);
        slot.header.set_bytes(self.region.at(start), len, len);
    }

    /// All the bytes of a buffer, for the holder of its only handle, whose slot it is.
    pub fn whole(&self, slot: &Slot<C>) -> Bytes {
        let index = self.index(NonNull::from(slot).cast());
        match &self.blocks {
            Some(blocks) => lock(blocks).whole(index),
            None => Bytes { start: index * self.head.size as usize, len: self.head.size },
        }
    }

    /// The index of a slot, by its header.
    fn index(&self, slot: NonNull<Header>) -> usize {
        (slot.addr().get() - self.slots.as_ptr().addr()) / size_of::<Slot<C>>()
    }

    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The bytes of each buffer of a pool.
    pub fn size(&self) -> u32 {
        self.head.size
    }

    /// The pool's number in the type tags of its buffers.
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// The number of slots that have no handle. They are counted on each call.
    pub fn free_slots(&self) -> usize {
        match self.blocks() {
            Some(blocks) => blocks.spare(),
            None => self.free_list.count() + self.never_taken(),
        }
    }

    fn never_taken(&self) -> usize {
        self.count() - self.untaken.load(Ordering::Relaxed) as usize
    }

    /// There is no keeper any more: from here on, handles are counted. Returns how many slots have
    /// none.
    fn close(&self) -> usize {
        // Whoever finds `free_list` closed sees this.
        self.left.store(self.count() as u64 + 1, Ordering::Relaxed);
        let Some(blocks) = &self.blocks else {
            return self.free_list.close().count() + self.never_taken();
        };
        let mut blocks = lock(blocks);
        self.free_list.close().for_each(|slot| blocks.give(self.index(slot)));
        blocks.is_closed = true;
        blocks.spare()
    }

    /// Counts `parts` of those who are left less, and frees the slots with the last.
    ///
    /// # Safety
    /// The slots are closed. The parts are the caller's, which uses the slots no more.
    unsafe fn release(this: NonNull<Self>, parts: u64) {
        // SAFETY: the parts are not given up yet, so the slots are there.
        if unsafe { (*this.as_ptr()).left.fetch_sub(parts, Ordering::AcqRel) } == parts {
            // SAFETY: they came from a `Box`, and nobody else has a part in them.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// As `put_back`, where the list was not as it was a moment ago, or is locked or closed.
    ///
    /// # Safety
    /// As for `put_back`; these are its slots.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn put_later(slot: NonNull<Slot<C>>, this: NonNull<Self>) {
        // SAFETY: the handle is given up to `free_list`, after which neither it nor the slots are
        // touched; or, if that is closed, the header is ours until it is given up as a part of what
        // is left.
        unsafe {
            if !(*this.as_ptr()).free_list.put_later(slot.cast()) {
                Slab::release(this, 1);
            }
        }
    }

    /// Where the slots begin: what they are known by.
    pub fn first(&self) -> *const Slot<C> {
        self.slots.as_ptr()
    }
}

/// The slots of a handle.
///
/// # Safety
/// `slot` is a handle of the caller's, which it keeps while it uses the result.
pub(crate) unsafe fn slots_of<'a, C>(slot: NonNull<Slot<C>>) -> &'a Slab<C> {
    // SAFETY: the header is alive while its handle is, and so are the slots.
    unsafe { &*slot.cast::<Header>().as_ref().slab.cast() }
}

/// # Safety
/// `slot` is the only handle to its slot, and the caller gives it up.
#[inline(never)]
pub(super) unsafe fn put_back<C>(slot: NonNull<Slot<C>>) {
    let header = slot.cast::<Header>();
    // SAFETY: header and slots are alive while the handle is. It is given up to `free_list`, or
    // else to `put_later`; after either nothing is touched.
    unsafe {
        // It names a queue if it was part of a list that was dropped before it was posted.
        header.as_ref().forget_queue();
        let slab = NonNull::new_unchecked(header.as_ref().slab.cast_mut().cast::<Slab<C>>());
        if !(*slab.as_ptr()).free_list.put(header) {
            Slab::put_later(slot, slab);
        }
    }
}

impl<C> Drop for Slab<C> {
    fn drop(&mut self) {
        orphaned::forget(&self.slots, self.head.pd);
    }
}
