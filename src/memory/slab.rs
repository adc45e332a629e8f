//! The slab of a pool or an arena: the free buffers, and the memory, which outlives all buffers.
//!
//! A buffer is taken on one thread and returned on any other: by a drop, or when orphaned buffers
//! are reclaimed (`orphaned`).
//!
//! # Why a buffer has one handle
//!
//! A slot of a pool is outside `free_list` exactly while it has a handle. `take` takes the slot out
//! and creates the handle. `put_back` has the only handle, and enters the slot. (`FreeList`
//! explains why a slot is taken once, and why writes through the handle are visible to the thread
//! that takes it next.) In an arena, the same is true for three places together: the lists of
//! `kept`, the spare slots of `blocks`, whose lock orders the accesses, and `free_list`, for slots
//! that are dropped while another thread holds that lock.
//!
//! # Why the memory is freed once, and after the last handle
//!
//! While a `SlabOwner` exists, which is part of a pool or an arena, handles are not counted: taking
//! or dropping a buffer only changes these places. The last `SlabOwner` closes them and so
//! determines how many slots are out. From then on `left` counts them: each handle that is dropped
//! finds them closed and decrements the count. The last of them, or the closing if no slot is out,
//! frees the memory. Its accesses come after the accesses of all others, which the count makes
//! visible (AcqRel).
//!
//! Before that, `left` counts the `SlabOwner`s. It is not read between the drop of the last of them
//! and the closing, so it is set there to the number of slots, plus one for the closing itself.

// Model: src/memory/loom_tests/pools.rs

#![allow(unsafe_code)] // owns the headers that handles point to

use std::any::TypeId;
use std::cell::UnsafeCell;
use std::collections::TryReserveError;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::cold::reserve;
use crate::counters::ids::PoolNumber;
use crate::counters::type_tag;
use crate::memory::blocks::{Blocks, Bytes, LONGEST};
use crate::memory::free_list::FreeList;
use crate::memory::frozen::drop_buf;
use crate::memory::header::{Head, Header};
use crate::memory::kept::{Kept, lines};
use crate::memory::orphaned::{self, Reclaimed};
use crate::memory::ranges::ALIGN;
use crate::memory::registered::Registered;
use crate::sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};

/// A header, followed by the user's context.
#[repr(C)]
pub(crate) struct Slot<C> {
    header: Header,
    pub context: UnsafeCell<C>,
}

/// The bytes of an arena's slots.
struct ArenaBytes {
    kept: Kept,
    blocks: Mutex<Blocks>,
}

/// # Invariants
/// - `slots` do not change after `create`. They are freed when the last handle and the last
///   `SlabOwner` are gone.
/// - `free_list` and the slots from `untaken` on are exactly those whose handle is neither held by
///   the program nor in flight. In an arena these are the slots in `kept`, the spare ones of
///   `blocks`, and in `free_list` the ones that neither of them could accept yet.
/// - The bytes of two slots with handles do not overlap: in a pool each slot has its own, in an
///   arena each has a block that is taken.
/// - `left` is the number of `SlabOwner`s; after the last is dropped, the number of handles.
#[repr(C)]
pub(crate) struct Slab<C> {
    head: Head,
    free_list: FreeList,
    slots: Vec<Slot<C>>,
    /// The pool's number in the type tags of its buffers.
    number: PoolNumber,
    /// In an arena, the bytes of each slot.
    arena: Option<ArenaBytes>,
    /// All slots from here on have never been taken. It only grows, to at most their number. The
    /// search for orphaned buffers reads all headers below it. (The search may read it at any time,
    /// also while this slab is being freed. So it is stored separately.)
    untaken: Arc<AtomicU32>,
    left: AtomicU64,
    pub region: Registered,
}

// SAFETY: contexts are accessed only through handles, which are `Send` if `C` is. All other fields
// are immutable or behind the lock.
unsafe impl<C: Send> Send for Slab<C> {}
// SAFETY: sharing a pool lets another thread take a buffer and with it a `C`, which is `Send`. All
// other fields are immutable or behind the lock.
unsafe impl<C: Send> Sync for Slab<C> {}

/// An owner that keeps the slab alive, whether its slots have handles or not: a pool or an arena.
///
/// # Invariants
/// It is counted in `left`, so the slab is not closed.
pub(crate) struct SlabOwner<C>(NonNull<Slab<C>>);

// SAFETY: an owner returns `&Slab<C>`, and the last one frees the slab, on any thread. This is like
// an `Arc`, which is `Send` if its content is `Send` and `Sync`. A slab is both if `C` is `Send`,
// and the count is atomic.
unsafe impl<C: Send> Send for SlabOwner<C> {}
// SAFETY: a shared owner returns `&Slab<C>`, which is `Sync` if `C` is `Send`, and further owners,
// which are `Send` then.
unsafe impl<C: Send> Sync for SlabOwner<C> {}

impl<C> Deref for SlabOwner<C> {
    type Target = Slab<C>;

    #[inline(always)]
    fn deref(&self) -> &Slab<C> {
        // SAFETY: this is counted in `left` (invariant), so the slab exists as long as this value.
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
            if returned < self.count() {
                orphaned::give_up(&self.slots, self.head.pd);
            }
            // SAFETY: the part of the closing itself, and the parts of the free slots.
            unsafe { Slab::release(self.0, returned as u64 + 1) };
        }
    }
}

impl<C> SlabOwner<C> {
    /// The region, if the slab has no other owner and no handle.
    pub fn region(&mut self) -> Option<&mut Registered> {
        let is_only = self.left.load(Ordering::Acquire) == 1 && self.free_slots() == self.count();
        // SAFETY: only an owner creates owners and handles. This is the only owner, and is borrowed
        // exclusively. An Acquire load showed that there is no handle.
        is_only.then(|| unsafe { &mut (*self.0.as_ptr()).region })
    }
}

/// The memory for the slots of a pool or an arena. It is allocated before the region is registered,
/// because the allocation may fail.
pub(crate) struct Headers<C> {
    count: usize,
    slots: Vec<Slot<C>>,
    arena: Option<ArenaBytes>,
}

impl<C> Headers<C> {
    /// For a pool of `count` buffers, at least one.
    pub fn of_pool(count: usize) -> Result<Self, TryReserveError> {
        Ok(Headers { count, slots: reserve(count)?, arena: None })
    }

    /// For an arena of `len` bytes and at most `count` buffers, at least one of each.
    pub fn of_arena(len: usize, count: usize) -> Result<Self, TryReserveError> {
        let slots = reserve(count)?; // first, because it is the largest and the others are filled
        let (kept, blocks) = (Kept::new(len, count)?, Mutex::new(Blocks::new(len, count)?));
        Ok(Headers { count, slots, arena: Some(ArenaBytes { kept, blocks }) })
    }
}

impl<C: 'static> Slab<C> {
    /// Creates the slots, each with its context. A pool's buffers have `size` bytes each. An arena
    /// has no buffers yet, and its `size` is 0.
    pub fn create(
        region: Registered,
        size: u32,
        headers: Headers<C>,
        mut context: impl FnMut(usize) -> C,
    ) -> SlabOwner<C> {
        let Headers { count, mut slots, arena } = headers;
        let (pd, number) = (region.pd(), PoolNumber::new());
        let type_tag = type_tag::of(pd, number.get(), size);
        let untaken = Arc::new(AtomicU32::new(0));
        let free_list = if arena.is_some() { FreeList::locked() } else { FreeList::new() };
        let (none, noted, left) = (Vec::new(), untaken.clone(), AtomicU64::new(1));
        let head = Head { pd, size, context: TypeId::of::<C>(), drop: drop_buf::<C> };
        let all = Slab { head, free_list, slots: none, number, arena, untaken, left, region };
        // INVARIANT: it is counted.
        let shared = SlabOwner(NonNull::from(Box::leak(Box::new(all))));
        let slab = shared.0.as_ptr();
        slots.extend((0..count).map(|i| {
            let (addr, lkey) = (shared.region.at(i * size as usize), shared.region.lkey());
            let header = Header::new(addr, size, lkey, slab.cast_const().cast(), type_tag);
            Slot { header, context: UnsafeCell::new(context(i)) }
        }));
        // SAFETY: there is no handle yet, so no other code accesses the slots.
        unsafe { (*slab).slots = slots };
        // SAFETY: `drop` calls `forget` before the slots are freed.
        unsafe { orphaned::note(&shared.slots, noted, pd) };
        shared
    }
}

impl<C> Slab<C> {
    /// Takes a free slot of a pool and creates its only handle, which `put_back` ends. The buffer
    /// has its full capacity and length.
    #[inline(always)]
    pub fn take(this: &SlabOwner<C>) -> Option<&Slot<C>> {
        match this.free_list.take() {
            // SAFETY: it is one of the slots, which live as long as the owner.
            Some(slot) => this.whole_again(unsafe { slot.cast().as_ref() }),
            None => this.take_later(),
        }
    }

    /// Like `take`, if no slot was found at once.
    #[cold]
    #[inline(never)]
    fn take_later(&self) -> Option<&Slot<C>> {
        #[cfg(all(test, feature = "loopback"))]
        crate::cold_calls::note();
        let slot = self.or_search(|| self.free_list.take_later(|| self.fresh()))?;
        self.whole_again(&self.slots[self.index(slot)])
    }

    /// Restores the capacity and length of a pool slot that was just taken.
    #[inline(always)]
    fn whole_again<'a>(&'a self, slot: &'a Slot<C>) -> Option<&'a Slot<C>> {
        /// Widens a buffer that was narrowed.
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

    /// Returns a slot of a pool that was never taken, for one thread at a time.
    fn fresh(&self) -> Option<NonNull<Header>> {
        let index = self.untaken.load(Ordering::Relaxed);
        let slot = self.slots.get(index as usize)?;
        // The search for orphaned buffers may read this concurrently; see `hand_out`.
        self.untaken.store(index + 1, Ordering::Relaxed);
        Some(NonNull::from(slot).cast())
    }

    /// Like `search`. The result is the number of buffers of this pool.
    pub fn reclaim(&self) -> usize {
        self.search().count_of(self.first().addr())
    }

    /// Returns the buffers that ended queues still own.
    fn search(&self) -> Reclaimed {
        orphaned::search_waiting(&self.slots, self.head.pd)
    }

    /// Tries to take something. Before it fails, it searches for the buffers of ended queues.
    fn or_search<T>(&self, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let taken = take();
            if taken.is_some() || self.search().is_empty() {
                return taken;
            }
        }
    }

    /// The blocks of an arena.
    fn blocks(&self) -> Option<MutexGuard<'_, Blocks>> {
        Some(lock(&self.arena.as_ref()?.blocks))
    }

    /// Frees and merges the bytes of dropped buffers, and returns the blocks of the arena. Before
    /// that, it puts back the buffers that ended queues still own. For a pool it does only that,
    /// and returns `None`.
    pub fn merged(&self) -> Option<MutexGuard<'_, Blocks>> {
        let _ = self.search();
        let mut blocks = self.blocks()?;
        self.free_dropped(&mut blocks);
        Some(blocks)
    }

    /// Frees the bytes of at most `most` buffers that were dropped while another thread had locked
    /// the blocks.
    fn free_late(&self, blocks: &mut MutexGuard<'_, Blocks>, most: usize) {
        // SAFETY: only code that has locked the blocks takes slots of an arena's `free_list`.
        let late = unsafe { self.free_list.late() };
        late.take(most).for_each(|slot| blocks.give(self.index(slot)));
    }

    /// Frees the bytes of all dropped buffers.
    fn free_dropped(&self, blocks: &mut MutexGuard<'_, Blocks>) {
        if let Some(arena) = self.arena.as_ref().filter(|_| !blocks.is_closed) {
            arena.kept.all().for_each(|slot| blocks.give(self.index(slot)));
            self.free_late(blocks, usize::MAX);
        }
    }

    /// Takes a slot of an arena for `len` bytes, and creates its only handle, which `put_back`
    /// ends.
    #[inline(always)]
    pub fn take_bytes(this: &SlabOwner<C>, len: usize) -> Option<&Slot<C>> {
        let arena = this.arena.as_ref()?;
        let slot = match arena.kept.take(len) {
            // SAFETY: it is one of the slots, which live as long as the owner.
            Some(slot) => unsafe { slot.cast::<Slot<C>>().as_ref() },
            None => this.cut(len)?,
        };
        if slot.header.capacity() as usize != lines(len) * ALIGN {
            this.widen(slot); // it was narrowed
        }
        slot.header.set_len(len as u32);
        Some(slot)
    }

    /// Like `take_bytes`, if no slot is kept for this length.
    #[cold]
    #[inline(never)]
    fn cut(&self, len: usize) -> Option<&Slot<C>> {
        if len > LONGEST {
            return None;
        }
        self.or_search(|| {
            let mut blocks = self.blocks()?;
            let index = blocks.take(len).or_else(|| {
                self.free_dropped(&mut blocks);
                blocks.take(len)
            })?;
            Some(self.hand_out(index, blocks.whole(index)))
        })
    }

    /// Splits the bytes of an arena's slot that has a handle: moves the bytes that start at `at` to
    /// another slot and creates its only handle. Neither part is empty. Returns `None` if no slot
    /// is free.
    pub fn split(&self, slot: &Slot<C>, at: usize) -> Option<&Slot<C>> {
        self.or_search(|| {
            let (mut blocks, this) = (self.blocks()?, self.index(NonNull::from(slot).cast()));
            let index = blocks.split(this, at).or_else(|| {
                self.free_dropped(&mut blocks);
                blocks.split(this, at)
            })?;
            self.note_bytes(this, blocks.whole(this));
            if blocks.is_closed {
                // The handle of `slot` is counted, so `left` is not 0.
                self.left.fetch_add(1, Ordering::Relaxed);
            }
            Some(self.hand_out(index, blocks.whole(index)))
        })
    }

    /// Appends the bytes of the slot `next` to `slot`, if they are adjacent. The handle of `next`
    /// is then given up. Returns false, and changes nothing, if they are not.
    ///
    /// # Safety
    /// The caller has the only handle to each slot. If this returns true, the caller does not use
    /// the handle of `next` again.
    pub unsafe fn join(&self, slot: &Slot<C>, next: &Slot<C>) -> bool {
        let Some(mut blocks) = self.blocks() else { return false };
        let [slot, next] = [slot, next].map(|slot| self.index(NonNull::from(slot).cast()));
        let is_joined = blocks.join(slot, next);
        self.note_bytes(slot, blocks.whole(slot));
        if is_joined && blocks.is_closed {
            // The handle of `slot` is counted, so this is not the last.
            self.left.fetch_sub(1, Ordering::AcqRel);
        }
        is_joined
    }

    /// Creates the only handle to a slot that was just assigned these bytes.
    fn hand_out(&self, index: usize, bytes: Bytes) -> &Slot<C> {
        // A thread that has the handle later, or takes it back from a queue, sees this too: a
        // handle moves between threads only with synchronisation that makes writes visible.
        self.untaken.fetch_max(index as u32 + 1, Ordering::Relaxed);
        self.note_bytes(index, bytes);
        let slot = &self.slots[index];
        slot.header.link.unlink();
        slot.header.set_bytes(self.region.at(bytes.start), bytes.len, bytes.len);
        slot
    }

    /// Records the bytes of a slot of an arena, for the time when it is dropped.
    fn note_bytes(&self, index: usize, Bytes { start, len }: Bytes) {
        if let Some(arena) = &self.arena {
            arena.kept.set_bytes(index, start, len as usize);
        }
    }

    /// Undoes narrowing, for the holder of the only handle of the slot.
    pub fn widen(&self, slot: &Slot<C>) {
        let Bytes { start, len } = self.whole(slot);
        slot.header.set_bytes(self.region.at(start), len, len);
    }

    /// All bytes of a slot without narrowing, for the holder of its only handle.
    pub fn whole(&self, slot: &Slot<C>) -> Bytes {
        let index = self.index(NonNull::from(slot).cast());
        match self.blocks() {
            Some(blocks) => blocks.whole(index),
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

    /// The size of each buffer of a pool in bytes.
    pub fn size(&self) -> u32 {
        self.head.size
    }

    /// The pool's number in the type tags of its buffers.
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// The number of slots without a handle. Each call counts them.
    pub fn free_slots(&self) -> usize {
        match self.merged() {
            Some(blocks) => blocks.spare(),
            None => self.free_list.count() + self.never_taken(),
        }
    }

    fn never_taken(&self) -> usize {
        self.count() - self.untaken.load(Ordering::Relaxed) as usize
    }

    /// Handles are counted from here on, because no owner is left. Returns the number of slots
    /// without a handle.
    fn close(&self) -> usize {
        // A thread that finds `free_list` closed sees this.
        self.left.store(self.count() as u64 + 1, Ordering::Relaxed);
        let Some(ArenaBytes { kept, blocks }) = &self.arena else {
            return self.free_list.close().count() + self.never_taken();
        };
        let mut blocks = lock(blocks);
        kept.close().chain(self.free_list.close()).for_each(|slot| blocks.give(self.index(slot)));
        blocks.is_closed = true;
        // (Without slots, if the program's function for their contexts panicked.)
        blocks.spare().min(self.count())
    }

    /// Subtracts `parts` from the count, and frees the slab with the last part.
    ///
    /// # Safety
    /// The slab is closed. The caller owns the parts and does not use the slots again.
    unsafe fn release(this: NonNull<Self>, parts: u64) {
        // SAFETY: the parts are not given up yet, so the slab exists.
        if unsafe { (*this.as_ptr()).left.fetch_sub(parts, Ordering::AcqRel) } == parts {
            // SAFETY: the slab came from a `Box`, and no other part is left.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Like `put_back`, if the free list changed, is locked or is closed. An arena's is always
    /// locked.
    ///
    /// # Safety
    /// As for `put_back`. `this` is the slab of the slot.
    #[inline(never)]
    pub(super) unsafe fn put_later(slot: NonNull<Slot<C>>, this: NonNull<Self>) {
        // SAFETY: the slab exists until the handle is given up.
        let slab = unsafe { this.as_ref() };
        if let Some(ArenaBytes { kept, .. }) = &slab.arena {
            if let Some(list) = kept.list(slab.index(slot.cast())) {
                // SAFETY: the caller has the only handle, and gives it up if it is entered. Then
                // nothing is accessed any more.
                if unsafe { list.put(slot.cast()) || list.put_later(slot.cast()) } {
                    return;
                }
                kept.undo();
            }
        }
        // SAFETY: the contract of this function.
        unsafe { Self::put_last(slot, this) }
    }

    /// Returns a slot, like `put_later`, if the cache of the arena did not take it.
    ///
    /// # Safety
    /// As for `put_later`.
    #[cold]
    #[inline(never)]
    unsafe fn put_last(slot: NonNull<Slot<C>>, this: NonNull<Self>) {
        // SAFETY: the slab exists until the handle is given up.
        let slab = unsafe { this.as_ref() };
        if let Some(ArenaBytes { kept, blocks }) = &slab.arena {
            if let Some(mut blocks) = try_lock(blocks).filter(|blocks| !blocks.is_closed) {
                // The handle is given up here. The slab exists until the lock is released, because
                // closing it takes the lock.
                blocks.give(slab.index(slot.cast()));
                if kept.is_full() {
                    kept.all().for_each(|slot| blocks.give(slab.index(slot)));
                }
                // More than one, so that they become fewer.
                return slab.free_late(&mut blocks, 16);
            }
        }
        // SAFETY: the handle is given up to `free_list`, after which neither it nor the slab is
        // accessed. If `free_list` is closed, we own the header until it is given up as a part of
        // the count.
        unsafe {
            if !(*this.as_ptr()).free_list.put_later(slot.cast()) {
                Slab::release(this, 1);
            }
        }
    }

    /// The address of the first slot, which identifies the slab.
    pub fn first(&self) -> *const Slot<C> {
        self.slots.as_ptr()
    }
}

/// The slab of a handle.
///
/// # Safety
/// `slot` is a handle that the caller owns and keeps while it uses the result.
pub(crate) unsafe fn slots_of<'a, C>(slot: NonNull<Slot<C>>) -> &'a Slab<C> {
    // SAFETY: the header is alive while its handle is, and so is the slab.
    unsafe { &*slot.cast::<Header>().as_ref().slab.cast() }
}

/// # Safety
/// `slot` is the only handle to its slot, and the caller gives it up.
#[inline(never)]
pub(super) unsafe fn put_back<C>(slot: NonNull<Slot<C>>) {
    let header = slot.cast::<Header>();
    // SAFETY: the header and the slab are alive while the handle is. It is given up to `free_list`
    // or `put_later`, and nothing is accessed after that.
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
