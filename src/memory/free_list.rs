//! The free list of a slab: slots without a handle, linked through their headers.
//!
//! # Why each slot is taken once
//!
//! A slot in the list has no owner. The thread that enters a slot has its only handle. It links the
//! slot to the first one, and then makes it the first with one compare-and-swap. Any thread may do
//! this at any time. If another slot became the first in between, the compare-and-swap fails and is
//! repeated. If the first slot is the same, the link is correct, whatever happened in between.
//!
//! Only one thread at a time takes slots out. Otherwise a slot could be taken and returned between
//! the read of its link and the compare-and-swap that relies on it. The thread that takes replaces
//! the first slot with `LOCKED`, and unlocks the list by storing another first slot. Slots that are
//! returned while the list is locked are entered into a second list, so a drop never waits. When
//! the first list is empty, the second list is taken as a whole, under the same lock.
//!
//! Writes through a handle are visible to the thread that takes the slot next: entering releases,
//! taking acquires, and a slot that was left in the list is passed on by a store that releases.
//!
//! # Why the last slot is detected
//!
//! `close` leaves `CLOSED` in both lists forever, and counts the slots that it found. So each slot
//! is either counted there, or `put` reports that it came later.

// Model: src/memory/loom_tests/pools.rs

#![allow(unsafe_code)] // follows the links between headers

use std::ptr::{self, NonNull};

use crate::memory::header::Header;
use crate::sync::{AtomicPtr, Ordering, wait};

/// Stored instead of the first slot while a thread takes slots out.
const LOCKED: usize = 1;
/// Stored instead of the first slot, forever, after `close`: no slot is taken any more.
const CLOSED: usize = 3;
/// Set in both values, and in no address of a header.
const TAG: usize = 1;

/// # Invariants
/// - Each list is empty (null), `LOCKED` (only the first one), `CLOSED`, or the first of a list of
///   initialised headers without a handle. They are linked, the last link is null, and they live as
///   long as this value.
/// - The thread that stored `LOCKED` in `first` owns all links, until it stores something else.
pub(crate) struct FreeList {
    first: AtomicPtr<Header>,
    /// Slots that were returned while `first` was locked.
    late: AtomicPtr<Header>,
}

impl FreeList {
    pub fn new() -> Self {
        FreeList { first: AtomicPtr::new(ptr::null_mut()), late: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A list that stays locked: `put` returns false, and `put_later` enters slots for `late`.
    pub fn locked() -> Self {
        let first = AtomicPtr::new(ptr::without_provenance_mut(LOCKED));
        FreeList { first, late: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Takes the slot that was returned last. Returns `None`, and changes nothing, if the list is
    /// empty or another thread interferes; `take_later` handles both. Must not be called after
    /// `close`.
    #[inline(always)]
    pub fn take(&self) -> Option<NonNull<Header>> {
        self.take_chain(1)
    }

    /// Like `take`, but takes `n` slots, at least one, which stay linked. `None` if there are
    /// fewer.
    #[inline(always)]
    pub fn take_chain(&self, n: usize) -> Option<NonNull<Header>> {
        let first = self.first.load(Ordering::Relaxed);
        if first.addr() <= LOCKED || !self.locks(first) {
            return None;
        }
        let mut last = first;
        for _ in 1..n {
            // SAFETY: a header of the list, which we have locked.
            let next = unsafe { (*last).link.next() };
            if next.is_null() {
                self.first.store(first, Ordering::Release);
                return None;
            }
            last = next;
        }
        // SAFETY: the last of them is a header of the list too.
        let rest = unsafe { (*last).link.unlink() };
        self.first.store(rest, Ordering::Release);
        NonNull::new(first)
    }

    /// Locks `first`, if it still has this value.
    #[inline(always)]
    fn locks(&self, first: *mut Header) -> bool {
        let locked = ptr::without_provenance_mut(LOCKED);
        self.first.compare_exchange(first, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Like `take`, but handles interference from other threads. If the list is empty, returns the
    /// slot of `fresh`, which runs under the lock.
    pub fn take_later(
        &self,
        fresh: impl FnOnce() -> Option<NonNull<Header>>,
    ) -> Option<NonNull<Header>> {
        let mut found = self.lock();
        if found.is_null() {
            found = self.late.swap(ptr::null_mut(), Ordering::Acquire);
        }
        let Some(slot) = NonNull::new(found) else {
            let fresh = fresh();
            self.first.store(ptr::null_mut(), Ordering::Release);
            return fresh;
        };
        // SAFETY: we have locked `first`. `slot` is a header of its list, or of the former list of
        // `late`, which we own now.
        let rest = unsafe { slot.as_ref().link.unlink() };
        self.first.store(rest, Ordering::Release);
        Some(slot)
    }

    /// Locks `first` and returns its value. Other threads hold the lock for a few instructions
    /// only.
    fn lock(&self) -> *mut Header {
        let mut turns = 0;
        loop {
            let found = self.first.load(Ordering::Relaxed);
            if found.addr() == LOCKED {
                wait(turns);
                turns += 1;
            } else if self.locks(found) {
                return found;
            }
        }
    }

    /// Enters a slot. If it returns false, nothing was changed, and the caller must call
    /// `put_later`.
    ///
    /// # Safety
    /// The caller has the only handle to the slot. If this returns true, the list owns the slot,
    /// and the caller may not touch the slot or this list any more.
    #[inline(always)]
    #[must_use]
    pub unsafe fn put(&self, slot: NonNull<Header>) -> bool {
        let first = self.first.load(Ordering::Relaxed);
        // SAFETY: the caller has the only handle to the slot, and gives it up if it is entered
        // (this function's contract). `first` was tested for the tag.
        first.addr() & TAG == 0 && unsafe { enter(&self.first, first, slot) }.is_ok()
    }

    /// Enters a slot, and handles interference from other threads. Returns false, and changes
    /// nothing, if the list is closed.
    ///
    /// # Safety
    /// As for `put`.
    #[must_use]
    pub unsafe fn put_later(&self, slot: NonNull<Header>) -> bool {
        let mut list = &self.first;
        let mut first = list.load(Ordering::Acquire);
        loop {
            match first.addr() {
                CLOSED => return false,
                LOCKED => {
                    list = &self.late;
                    first = list.load(Ordering::Acquire);
                }
                // SAFETY: the caller has the only handle to the slot until it is entered, which
                // happens at most once (this function's contract). `first` is neither of the two
                // values with a tag.
                _ => match unsafe { enter(list, first, slot) } {
                    Ok(_) => return true,
                    Err(now) => first = now,
                },
            }
        }
    }

    /// Takes the slots that were returned while `first` was locked.
    ///
    /// # Safety
    /// Until the iterator is dropped, no other thread takes slots.
    pub unsafe fn late(&self) -> impl Iterator<Item = NonNull<Header>> {
        std::iter::from_fn(|| {
            let mut first = self.late.load(Ordering::Acquire);
            while first.addr() & TAG == 0 {
                let slot = NonNull::new(first)?;
                // SAFETY: a header of the list. No other thread takes it out (the contract).
                let next = unsafe { slot.as_ref().link.next() };
                match self.late.compare_exchange(first, next, Ordering::Acquire, Ordering::Acquire)
                {
                    Ok(_) => return Some(slot),
                    Err(now) => first = now,
                }
            }
            None
        })
    }

    /// The number of slots. Each call counts them.
    pub fn count(&self) -> usize {
        let first = self.lock();
        let late = self.late.load(Ordering::Acquire);
        // SAFETY: no slot is taken out while the list is locked, so both lists stay as they are
        // from these headers on.
        let count = unsafe { each(first).count() + each(late).count() };
        self.first.store(first, Ordering::Release);
        count
    }

    /// Closes both lists and returns the slots that were there. No slot is taken from now on.
    pub fn close(&self) -> impl Iterator<Item = NonNull<Header>> {
        let close = |list: &AtomicPtr<Header>| {
            let first = list.swap(ptr::without_provenance_mut(CLOSED), Ordering::AcqRel);
            let first = if first.addr() & TAG == 0 { first } else { ptr::null_mut() };
            // SAFETY: we have taken the list.
            unsafe { each(first) }
        };
        close(&self.first).chain(close(&self.late))
    }
}

/// Enters a slot before `first`. The error is the header that became the first instead.
///
/// # Safety
/// As for `FreeList::put`. `first` has no tag.
#[inline(always)]
unsafe fn enter(
    list: &AtomicPtr<Header>,
    first: *mut Header,
    slot: NonNull<Header>,
) -> Result<*mut Header, *mut Header> {
    // SAFETY: the caller owns the slot until it is entered.
    unsafe { (*slot.as_ptr()).link.set_next(first) };
    list.compare_exchange(first, slot.as_ptr(), Ordering::Release, Ordering::Acquire)
}

/// The headers of a list.
///
/// # Safety
/// `first` is a list like those of `FreeList`. Only the code that received a header from this
/// iterator changes its link.
unsafe fn each(first: *mut Header) -> impl Iterator<Item = NonNull<Header>> {
    let mut at = NonNull::new(first);
    std::iter::from_fn(move || {
        let header = at?;
        // SAFETY: a header of the list that was not yet returned.
        at = NonNull::new(unsafe { (*header.as_ptr()).link.next() });
        Some(header)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// While one thread has locked the list, a second one leaves with `None`, and a third one
    /// waits.
    #[test]
    fn a_list_that_is_locked_is_left_alone() {
        let free = FreeList::new();
        assert!(free.lock().is_null());
        assert!(free.take().is_none(), "it is locked");
        std::thread::scope(|threads| {
            let (asks, asked) = std::sync::mpsc::channel();
            let free = &free;
            let waits = threads.spawn(move || {
                asks.send(()).unwrap();
                // The list is empty, as the other thread left it.
                assert!(free.take_later(|| None).is_none());
            });
            asked.recv().unwrap();
            assert!(free.take().is_none());
            free.first.store(ptr::null_mut(), Ordering::Release);
            waits.join().unwrap();
        });
        assert!(free.first.load(Ordering::Relaxed).is_null());
    }
}
