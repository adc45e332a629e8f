//! What a handle points to: address, length, lkey, and where it is.
//!
//! A handle is one word, a pointer to a `Header`, so that it can travel through a `wr_id`. The first 16
//! bytes have the layout of an `ibv_sge`: a gather element is copied, not assembled.

#![allow(unsafe_code)] // reads headers through raw pointers

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use static_assertions::const_assert;

use crate::in_flight::Books;

/// # Invariants
/// - A header does not move and lives as long as a handle to it exists, wherever the handle is: with
///   the program, with the device as a `wr_id`, or in a ring.
/// - There is one handle to a header. Who holds it may touch the `Cell`s and, if it is exclusive,
///   the bytes; nobody else does.
/// - `next` is 0 except in a handle that is part of a list.
/// - `in_flight` is 1 exactly while the handle is the `wr_id` of a posted work request.
#[repr(C, align(64))]
pub struct Header {
    pub(crate) addr: *mut u8,
    pub(crate) len: Cell<u32>,
    pub(crate) lkey: u32,
    pub(crate) capacity: u32,
    /// The protection domain of the region, as `Pd` numbers them.
    pub(crate) pd: u32,
    /// The queue it was last posted to: protection domains and sizes are compared when it changes.
    pub(crate) queue: AtomicPtr<Books>,
    /// The next buffer of the same work request, as a word.
    pub(crate) next: Cell<usize>,
    /// The next entry of a list of rejected ones, as a word.
    pub(crate) link: Cell<usize>,
    /// What keeps header and memory alive; its type follows from the kind of handle.
    pub(crate) home: *const (),
    pub(crate) in_flight: AtomicU32,
    /// The id of that queue's books, which no other queue ever has, and perhaps [`LARGE`]; 0 for none.
    pub(crate) queue_id: AtomicU32,
}

/// Set in `queue_id` if a send of that queue with such a buffer may be longer than a message may be, so
/// that each is looked at (R3.5, R3.6). Ids have it clear.
pub(crate) const LARGE: u32 = 1 << 31;

const_assert!(size_of::<Header>() == 64);

impl Header {
    pub(crate) fn new(addr: *mut u8, capacity: u32, lkey: u32, pd: u32, home: *const ()) -> Self {
        Header {
            addr,
            len: Cell::new(capacity),
            lkey,
            capacity,
            pd,
            queue: AtomicPtr::new(ptr::null_mut()),
            next: Cell::new(0),
            link: Cell::new(0),
            home,
            in_flight: AtomicU32::new(0),
            queue_id: AtomicU32::new(0),
        }
    }

    /// The mark that tells a posted handle from one in the program's hands.
    #[inline(always)]
    pub(crate) fn mark(&self, in_flight: bool) {
        // Release: who sees the mark sees the queue that was noted before it (`posted_to`).
        self.in_flight.store(in_flight as u32, Ordering::Release);
    }

    /// The id of the queue that the handle is with, if it is with one.
    pub(crate) fn posted_to(&self) -> Option<u32> {
        // Acquire, and the queue after it: a handle that is being posted to another queue right now
        // shows either no mark, or that queue.
        let queue = || self.queue_id.load(Ordering::Relaxed) & !LARGE;
        (self.in_flight.load(Ordering::Acquire) == 1).then(queue)
    }
}

/// A handle as a number: the address of a header, or of books where there is no buffer, with tags in
/// the six bits that its alignment leaves free.
pub(crate) mod word {
    use super::Header;

    /// The work request was a receive.
    pub const RECEIVE: usize = 1;
    /// It was a receive of a UD queue pair.
    pub const DATAGRAM: usize = 1 << 1;
    /// What kind of handle it is.
    pub const KIND: usize = 0b111 << 2;
    pub const EXCLUSIVE: usize = 0;
    pub const SHARED: usize = 1 << 2;
    pub const LIST: usize = 2 << 2;
    pub const OPEN: usize = 3 << 2;
    /// No buffer: the address is that of the queue's books.
    pub const NONE: usize = 4 << 2;
    /// Whether there is no buffer: no other kind has this bit.
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

    /// The header (or the books) that a word names.
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
