//! What a handle points to: address, length, lkey, and where it is.
//!
//! A handle is one word, a pointer to a `Header`, so that it can travel through a `wr_id`. The first 16
//! bytes have the layout of an `ibv_sge`, and so have the second: an element is copied, not assembled.

#![allow(unsafe_code)] // reads headers through raw pointers

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::compiler_fence;

use crate::in_flight::Counter;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// # Invariants
/// - A header does not move and lives as long as a handle to it exists, wherever the handle is: with
///   the program, with the device as a `wr_id`, or in a ring.
/// - There is one handle to a header. Who holds it may touch the `Cell`s and, if it is exclusive,
///   the bytes; nobody else does.
/// - `home` begins with a `u32` and lives as long as the header.
/// - `next` is 0 except in a handle that is part of a list.
/// - `state` has `IN_FLIGHT` exactly while the handle is the `wr_id` of a posted work request, of one that is being put
///   together for a queue that is there, or of a completion from which nobody took it.
/// - If `state` is a queue's mark, `at_queue` is that queue's counter. If it is a send queue's without `LOOK`,
///   the length is not 0 and any send may have it.
#[repr(C, align(64))]
pub struct Header {
    pub(crate) addr: *mut u8,
    /// Written with `set_len`, which sees to the mark.
    len: Cell<u32>,
    pub(crate) lkey: u32,
    /// The whole buffer: what a receive fills.
    whole: *mut u8,
    pub(crate) capacity: u32,
    whole_lkey: u32,
    /// The counter of the queue that it was last posted to; or, for an entry of a refused list, the next one.
    at_queue: AtomicPtr<Counter>,
    /// The next buffer of the same work request, as a word.
    pub(crate) next: Cell<usize>,
    /// What keeps header and memory alive; its type follows from the kind of handle. It begins with the number
    /// of the region's protection domain, as `Pd` numbers them.
    pub(crate) home: *const (),
    /// Which queue it was last posted to (see [`mark`]): protection domains and sizes are compared when it
    /// changes.
    state: AtomicU64,
}

/// What `Header::state` says: the id of a queue and its direction, or `NOBODY`, and what else is said of it.
///
/// Neither of two different marks has all the bits of the other, and no mark has the bits of what else is said. So the
/// states of several buffers, or-ed together, are a queue's mark exactly if each of them is: a list compares once.
/// For this an id comes with the number of its zeros (a Berger code): an id that has all the bits of another, and more,
/// has fewer zeros, and a smaller number has not all the bits of a larger one.
pub(crate) mod mark {
    /// The device has it.
    pub const IN_FLIGHT: u64 = 1;
    /// Each send of it is looked at: it is empty (R3.3), or may be longer than a message (R3.5, R3.6).
    pub const LOOK: u64 = 1 << 1;
    const SEND: u64 = 1 << 2;
    /// The queue's receives.
    pub const RECEIVE: u64 = 1 << 3;
    /// It is with no queue.
    pub const NOBODY: u64 = 1 << 4;
    /// The mark of a queue that no buffer is ever taken for. No state has it.
    pub const NEVER: u64 = 1 << 5;
    const ID_BITS: u32 = 52;
    /// One more than the largest id.
    pub const IDS: u64 = 1 << ID_BITS;
    /// Where the number of an id's zeros begins, which has 6 bits, and where the id does.
    const ZEROS: u32 = 6;
    const ID: u32 = 64 - ID_BITS;

    /// The mark of a queue's direction: the id, and how many zeros it has.
    pub fn of(id: u64, direction: usize) -> u64 {
        debug_assert!(id < IDS);
        let zeros = ID_BITS - id.count_ones();
        let direction = if direction == 0 { SEND } else { RECEIVE };
        id << ID | (zeros as u64) << ZEROS | direction
    }

    /// The id of the queue.
    pub fn id(state: u64) -> u64 {
        state >> ID
    }
}

impl Header {
    pub(crate) fn new(addr: *mut u8, capacity: u32, lkey: u32, home: *const ()) -> Self {
        // The device will use it as an integer.
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

    /// How many bytes a send sends.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// Sets how many bytes a send sends. Elements of no bytes are left out of a list, so a send of this
    /// buffer must be looked at then; a receive need not.
    #[inline(always)]
    pub(crate) fn set_len(&self, len: u32) {
        self.len.set(len);
        if len == 0 && self.state() & mark::RECEIVE == 0 {
            self.forget_queue();
        }
    }

    /// A READ fills `len` bytes. If that is none, somebody sees to the mark.
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

    /// The state, for who holds the handle.
    #[inline(always)]
    pub(crate) fn state(&self) -> u64 {
        // Not atomic, so that it can be the operand of an instruction.
        // SAFETY: nobody else writes to it while somebody holds the handle; others only read it, atomically.
        unsafe { *self.state.as_ptr() }
    }

    /// The device has it, or is about to: `mark` is that of the queue, which is there.
    #[inline(always)]
    pub(crate) fn give(&self, mark: u64) {
        self.state.store(mark | mark::IN_FLIGHT, Ordering::Release);
    }

    /// As `give`, for a handle that was attached.
    #[inline(always)]
    pub(crate) fn give_attached(&self) {
        // One instruction: a load and a store of the same kind are merged.
        self.state.store(self.state.load(Ordering::Relaxed) | mark::IN_FLIGHT, Ordering::Release);
    }

    /// The device is done with it.
    #[inline(always)]
    pub(crate) fn take(&self) {
        self.state.store(self.state.load(Ordering::Relaxed) & !mark::IN_FLIGHT, Ordering::Release);
    }

    /// It is attached to a queue with this counter, and was or was not given to it.
    pub(crate) fn attach(&self, counter: *const Counter, mark: u64) {
        self.at_queue.store(counter.cast_mut(), Ordering::Relaxed);
        self.state.store(mark | self.state() & mark::IN_FLIGHT, Ordering::Release);
    }

    /// The protection domain of the region, as `Pd` numbers them.
    pub(crate) fn pd(&self) -> u32 {
        // SAFETY: the home begins with it, and outlives the header.
        unsafe { *self.home.cast::<u32>() }
    }

    /// The counter of the queue that it was posted to.
    #[inline(always)]
    pub(crate) fn counter(&self) -> *const Counter {
        self.at_queue.load(Ordering::Relaxed)
    }

    /// It is with no queue, and the next will have a look at it.
    #[inline(always)]
    pub(crate) fn forget_queue(&self) {
        self.state.store(mark::NOBODY, Ordering::Release);
    }

    /// As `forget_queue`, where that is seldom: the way past here stays as it is, with the state as the operand of one
    /// comparison (2 instructions a work request).
    #[inline(always)]
    pub(crate) fn forget_queue_seldom(&self) {
        #[cold]
        fn seldom() {}
        seldom();
        self.forget_queue();
        // So that the compiler does not take this value for one that the comparison may have in a register.
        compiler_fence(Ordering::SeqCst);
    }

    /// The next entry of a list of refused ones, as a word.
    pub(crate) fn link(&self) -> usize {
        self.at_queue.load(Ordering::Relaxed).addr()
    }

    /// Links a header that was made to forget its queue.
    pub(crate) fn set_link(&self, word: usize) {
        debug_assert!(self.state() == mark::NOBODY);
        self.at_queue.store(ptr::without_provenance_mut(word), Ordering::Relaxed);
    }

    /// The id of the queue that the handle is with, if it is with one.
    pub(crate) fn posted_to(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Acquire);
        (state & mark::IN_FLIGHT != 0).then_some(mark::id(state))
    }
}

/// A handle as a number: the address of a header, or of a counter where there is no buffer, with tags in
/// the six bits that its alignment leaves free.
pub(crate) mod word {
    use super::Header;

    /// No buffer: the address is that of the queue's counter, or (`RING`) there is none.
    pub const NONE: usize = 1;
    /// No word at all, but the wr_id of a ring. Never without `NONE`.
    pub const RING: usize = 1 << 1;
    /// The work request was a receive.
    pub const RECEIVE: usize = 1 << 2;
    /// It was a receive of a UD queue pair.
    pub const DATAGRAM: usize = 1 << 3;
    /// What kind of handle it is.
    pub const KIND: usize = 0b11 << 4;
    pub const EXCLUSIVE: usize = 0;
    pub const SHARED: usize = 1 << 4;
    pub const LIST: usize = 2 << 4;
    pub const OPEN: usize = 3 << 4;

    /// Whether there is no buffer.
    #[inline(always)]
    pub fn is_none(word: usize) -> bool {
        word & NONE != 0
    }

    const TAGS: usize = align_of::<Header>() - 1;

    /// The kind of handle.
    #[inline(always)]
    pub fn kind(word: usize) -> usize {
        word & KIND
    }

    /// The header (or the counter) that a word names.
    #[inline(always)]
    pub fn address<T>(word: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut(word & !TAGS)
    }

    /// The word of a header.
    #[inline(always)]
    pub fn of<T>(at: *mut T, kind: usize) -> usize {
        at.expose_provenance() | kind
    }
}
