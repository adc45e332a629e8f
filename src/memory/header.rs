//! The header that a handle points to: address, length, lkey, and the queue that has the buffer.
//!
//! A handle is one word, a pointer to a `Header`, so that it can travel as a `wr_id`. The first 16
//! bytes have the layout of an `ibv_sge`, and so have the next 16: one is the element of a send,
//! the other that of a receive. An element is copied, not assembled.

#![allow(unsafe_code)] // reads headers through raw pointers

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::compiler_fence;

use crate::counters::books::Counter;
use crate::counters::mark;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// # Invariants
/// - A header does not move. It lives as long as a handle to it exists, wherever the handle is:
///   with the program, with the device as a `wr_id`, or in a ring.
/// - A header has one handle. Its holder may touch the `Cell`s and, if the handle is exclusive, the
///   bytes; nothing else touches them.
/// - `home` begins with a `u32` and lives as long as the header.
/// - `next` is 0 except in a handle that is part of a list.
/// - `state` has `IN_FLIGHT` exactly while the handle is the `wr_id` of a posted work request, of a
///   work request that is being built for a queue that exists, or of a completion that still holds
///   it.
/// - If `state` is a queue's mark, `at_queue` is that queue's counter. If it is a send queue's mark
///   without `LOOK`, the length is not 0 and every send on that queue may use the buffer.
#[repr(C, align(64))]
pub struct Header {
    pub(crate) addr: *mut u8,
    /// Written by `set_len`, which adjusts the mark.
    len: Cell<u32>,
    pub(crate) lkey: u32,
    /// The whole buffer: the element of a receive.
    whole: *mut u8,
    pub(crate) capacity: u32,
    whole_lkey: u32,
    /// The counter of the queue that the buffer was last posted to. In an entry of a refused list:
    /// the next entry.
    at_queue: AtomicPtr<Counter>,
    /// The next buffer of the same work request, as a word.
    pub(crate) next: Cell<usize>,
    /// What keeps header and memory alive; its type follows from the kind of handle. It begins with
    /// the number of the region's protection domain, as `Pd` numbers them.
    pub(crate) home: *const (),
    /// The queue that the buffer was last posted to (see [`mark`]). Protection domain and size are
    /// checked when it changes.
    state: AtomicU64,
}

impl Header {
    pub(crate) fn new(addr: *mut u8, capacity: u32, lkey: u32, home: *const ()) -> Self {
        // The device uses the address as an integer.
        addr.expose_provenance();
        Header {
            addr,
            len: Cell::new(capacity),
            lkey,
            whole: addr,
            capacity,
            whole_lkey: lkey,
            at_queue: AtomicPtr::new(ptr::null_mut()),
            next: Cell::new(0),
            home,
            state: AtomicU64::new(mark::NOBODY),
        }
    }

    /// The number of bytes that a send sends.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// Sets the number of bytes that a send sends. A scatter/gather list leaves out elements of no
    /// bytes, so with length 0 the mark makes the next send look at this buffer; a receive need
    /// not.
    #[inline(always)]
    pub(crate) fn set_len(&self, len: u32) {
        self.len.set(len);
        if len == 0 && self.state() & mark::RECEIVE == 0 {
            self.forget_queue();
        }
    }

    /// Sets the length to the `len` bytes that a READ fills. If `len` is 0, the caller adjusts the
    /// mark.
    #[inline(always)]
    pub(crate) fn read(&self, len: u32) {
        self.len.set(len);
    }

    /// The element of a send: address, length, lkey.
    #[inline(always)]
    pub(crate) fn to_send(&self) -> *const [u64; 2] {
        ptr::from_ref(self).cast()
    }

    /// The element of a receive: address, capacity, lkey.
    #[inline(always)]
    pub(crate) fn to_fill(&self) -> *const [u64; 2] {
        self.to_send().wrapping_add(1)
    }

    /// The state, read by the holder of the handle.
    #[inline(always)]
    pub(crate) fn state(&self) -> u64 {
        // Not an atomic load, so that it can be the operand of an instruction.
        // SAFETY: while the handle is held only its holder writes the state; other threads only
        // read it, atomically.
        unsafe { *self.state.as_ptr() }
    }

    /// Marks the buffer as with the device, or about to be. `mark` is that of a queue that exists.
    #[inline(always)]
    pub(crate) fn give(&self, mark: u64) {
        self.state.store(mark | mark::IN_FLIGHT, Ordering::Release);
    }

    /// Like `give`, for a handle that is attached to the queue already.
    #[inline(always)]
    pub(crate) fn give_attached(&self) {
        // One instruction: load and store of the same ordering kind are merged.
        self.state.store(self.state.load(Ordering::Relaxed) | mark::IN_FLIGHT, Ordering::Release);
    }

    /// Marks the buffer as back from the device.
    #[inline(always)]
    pub(crate) fn take(&self) {
        self.state.store(self.state.load(Ordering::Relaxed) & !mark::IN_FLIGHT, Ordering::Release);
    }

    /// Attaches the handle to the queue with this counter and mark; `IN_FLIGHT` stays as it is.
    pub(crate) fn attach(&self, counter: *const Counter, mark: u64) {
        self.at_queue.store(counter.cast_mut(), Ordering::Relaxed);
        self.state.store(mark | self.state() & mark::IN_FLIGHT, Ordering::Release);
    }

    /// The protection domain of the region, as `Pd` numbers them.
    pub(crate) fn pd(&self) -> u32 {
        // SAFETY: `home` begins with a `u32` and lives as long as the header (invariants).
        unsafe { *self.home.cast::<u32>() }
    }

    /// The counter of the queue that the buffer was last posted to.
    #[inline(always)]
    pub(crate) fn counter(&self) -> *const Counter {
        self.at_queue.load(Ordering::Relaxed)
    }

    /// Detaches the buffer from every queue, so that the next queue checks it.
    #[inline(always)]
    pub(crate) fn forget_queue(&self) {
        self.state.store(mark::NOBODY, Ordering::Release);
    }

    /// Like `forget_queue`, on a cold branch: the hot path keeps the state as the operand of one
    /// comparison (2 instructions a work request).
    #[inline(always)]
    pub(crate) fn forget_queue_seldom(&self) {
        #[cold]
        fn seldom() {}
        seldom();
        self.forget_queue();
        // Keeps the compiler from reusing the compared value of the state after this store.
        compiler_fence(Ordering::SeqCst);
    }

    /// The next entry in a list of refused ones, as a word.
    pub(crate) fn link(&self) -> usize {
        self.at_queue.load(Ordering::Relaxed).addr()
    }

    /// Links a header that is with no queue.
    pub(crate) fn set_link(&self, word: usize) {
        debug_assert!(self.state() == mark::NOBODY);
        self.at_queue.store(ptr::without_provenance_mut(word), Ordering::Relaxed);
    }

    /// The id of the queue that has the handle, if one has.
    pub(crate) fn posted_to(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Acquire);
        (state & mark::IN_FLIGHT != 0).then_some(mark::id(state))
    }
}
