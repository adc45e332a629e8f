//! The slots that have no handle: a list that is linked through their headers.
//!
//! # Why each is taken once
//!
//! A slot in the list is nobody's. Whoever enters one has its only handle; the slot is linked, and
//! then made the first by one compare-and-swap. That may be done by any thread at any time. If the
//! first slot is another by then, it fails and is done again; if it is the same, the link is right,
//! whatever happened between.
//!
//! Only one thread at a time takes slots out, or a slot could be gone and back between the look at
//! its link and the swap that relies on it. That thread puts `LOCKED` in the place of the first
//! slot, and so knows that nobody else has it; its store of another first slot ends this. Whoever
//! comes back meanwhile is entered into a second list, so a drop waits for nobody. The second list
//! is taken as a whole, under the same lock, when the first is empty.
//!
//! What was written through a handle is visible to whoever takes the slot: entering releases,
//! taking acquires, and a slot that was left in the list is passed on by a store that releases.
//!
//! # Why the end is seen
//!
//! `close` leaves `CLOSED` in both lists for good, and counts the slots that were there. So each
//! slot is counted there, or told by `put` to have come later.

#![allow(unsafe_code)] // follows the links between headers

use std::ptr::{self, NonNull};

use crate::memory::header::Header;
use crate::sync::{AtomicPtr, Ordering, wait};

/// In the place of the first slot: somebody takes some out.
const LOCKED: usize = 1;
/// In the place of the first slot, for good: nobody takes some any more.
const CLOSED: usize = 3;
/// Of both, and of no header's address.
const TAG: usize = 1;

/// # Invariants
/// - Each list is empty (null), `LOCKED` (only the first one), `CLOSED`, or the first of
///   initialised headers without a handle. They are linked, ended by null, and live as long as
///   this.
/// - The thread that put `LOCKED` into `first` has all links, until it stores something else.
pub(crate) struct FreeList {
    first: AtomicPtr<Header>,
    /// What came back while `first` was locked.
    late: AtomicPtr<Header>,
}

impl FreeList {
    pub fn new() -> Self {
        FreeList { first: AtomicPtr::new(ptr::null_mut()), late: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Takes the slot that came back last. `None`, and nothing was done, if there is none, or
    /// others are in the way: `take_later` tells. It is not called after `close`, nor while `all`
    /// may be.
    #[inline(always)]
    pub fn take(&self) -> Option<NonNull<Header>> {
        self.take_chain(1)
    }

    /// As `take`, of `n` slots, at least one, which stay linked. `None` if there are fewer.
    #[inline(always)]
    pub fn take_chain(&self, n: usize) -> Option<NonNull<Header>> {
        let first = self.first.load(Ordering::Relaxed);
        if first.addr() <= LOCKED || !self.locks(first) {
            return None;
        }
        let mut last = first;
        for _ in 1..n {
            // SAFETY: a header of the list, which is ours.
            let next = unsafe { (*last).link.next() };
            if next.is_null() {
                self.first.store(first, Ordering::Release);
                return None;
            }
            last = next;
        }
        // SAFETY: the last of them is a header of the list, too.
        let rest = unsafe { (*last).link.unlink() };
        self.first.store(rest, Ordering::Release);
        NonNull::new(first)
    }

    /// Locks `first`, if it is still this.
    #[inline(always)]
    fn locks(&self, first: *mut Header) -> bool {
        let locked = ptr::without_provenance_mut(LOCKED);
        self.first.compare_exchange(first, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the first of a list, the rest of which becomes `first`.
    ///
    /// # Safety
    /// The list is locked by the caller and has the header first.
    #[inline(always)]
    unsafe fn pop(&self, first: *mut Header) -> NonNull<Header> {
        // SAFETY: a header of the list, which is ours.
        let next = unsafe { (*first).link.unlink() };
        self.first.store(next, Ordering::Release);
        // SAFETY: the address of a header.
        unsafe { NonNull::new_unchecked(first) }
    }

    /// As `take`, whatever others do. If there is no slot, it takes one of `fresh`, which nobody
    /// else asks meanwhile.
    pub fn take_later(
        &self,
        fresh: impl FnOnce() -> Option<NonNull<Header>>,
    ) -> Option<NonNull<Header>> {
        let mut found = self.lock();
        if found.is_null() {
            found = self.late.swap(ptr::null_mut(), Ordering::Acquire);
        }
        if !found.is_null() {
            // SAFETY: `first` is locked by us, and this is its list, or that of `late`, which is
            // ours now.
            return Some(unsafe { self.pop(found) });
        }
        let fresh = fresh();
        self.first.store(ptr::null_mut(), Ordering::Release);
        fresh
    }

    /// Locks `first`, and says what it was. Another thread has it for some instructions only.
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

    /// Enters a slot. If the answer is false, nothing was done, and `put_later` must be called.
    ///
    /// # Safety
    /// The caller has the only handle to the slot. If the answer is true, it is given up, and
    /// neither the slot nor this may be touched any more.
    #[inline(always)]
    #[must_use]
    pub unsafe fn put(&self, slot: NonNull<Header>) -> bool {
        let first = self.first.load(Ordering::Relaxed);
        // SAFETY: the caller has the only handle to the slot, and gives it up if it is entered
        // (this function's contract). `first` was tested for the tag.
        first.addr() & TAG == 0 && unsafe { enter(&self.first, first, slot) }.is_ok()
    }

    /// Enters a slot, whatever others do. False, and nothing is done, if the list is closed.
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
                // is at most once (this function's contract). `first` is neither of the two values
                // with a tag.
                _ => match unsafe { enter(list, first, slot) } {
                    Ok(_) => return true,
                    Err(now) => first = now,
                },
            }
        }
    }

    /// Takes all slots, for a caller who is the only one to take some. It is not called after
    /// `close`.
    pub fn all(&self) -> impl Iterator<Item = NonNull<Header>> {
        let first = self.first.swap(ptr::null_mut(), Ordering::Acquire);
        debug_assert_eq!(first.addr() & TAG, 0);
        // SAFETY: the list is ours.
        unsafe { each(first) }
    }

    /// The number of slots. They are counted on each call.
    pub fn count(&self) -> usize {
        let first = self.lock();
        let late = self.late.load(Ordering::Acquire);
        // SAFETY: as long as it is locked nobody takes some out, so both lists stay as they are
        // from these on.
        let count = unsafe { each(first).count() + each(late).count() };
        self.first.store(first, Ordering::Release);
        count
    }

    /// Closes both lists and returns the slots that were there. Nobody takes some any more.
    pub fn close(&self) -> impl Iterator<Item = NonNull<Header>> {
        let close = |list: &AtomicPtr<Header>| {
            let first = list.swap(ptr::without_provenance_mut(CLOSED), Ordering::AcqRel);
            debug_assert_eq!(first.addr() & TAG, 0);
            // SAFETY: the list is ours.
            unsafe { each(first) }
        };
        close(&self.first).chain(close(&self.late))
    }
}

/// Enters a slot before `first`. The error is what is the first instead.
///
/// # Safety
/// As for `FreeList::put`. `first` has no tag.
#[inline(always)]
unsafe fn enter(
    list: &AtomicPtr<Header>,
    first: *mut Header,
    slot: NonNull<Header>,
) -> Result<*mut Header, *mut Header> {
    // SAFETY: the slot is the caller's until it is entered.
    unsafe { (*slot.as_ptr()).link.set_next(first) };
    list.compare_exchange(first, slot.as_ptr(), Ordering::Release, Ordering::Acquire)
}

/// The headers of a list.
///
/// # Safety
/// It is a list as those of `FreeList` are. A link is changed by nobody but the one to whom its
/// header was shown.
unsafe fn each(first: *mut Header) -> impl Iterator<Item = NonNull<Header>> {
    let mut at = NonNull::new(first);
    std::iter::from_fn(move || {
        let header = at?;
        // SAFETY: a header of the list, not shown yet.
        at = NonNull::new(unsafe { (*header.as_ptr()).link.next() });
        Some(header)
    })
}

#[cfg(all(test, feature = "loopback"))] // not in the models, whose atomics are loom's
mod tests {
    use super::*;

    /// While a thread has the list, it is nobody else's: one asks and leaves, and one waits.
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
                // What is found is what the other left: nothing.
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
