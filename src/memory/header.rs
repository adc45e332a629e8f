//! The header that a handle points to: address, length, lkey, what the buffer is, and the queue
//! that has it.
//!
//! A handle is one pointer to a `Header`, so that it can travel as a `wr_id`: as a [`word`]. The
//! first 16 bytes have the layout of an `ibv_sge`, and so have the next 16: one is the element of a
//! send, the other that of a receive. A work request of one buffer names the element there; one of
//! several copies them.
//!
//! # Why a post needs no second look at a known buffer
//!
//! `type_tag` says what the buffer is: its protection domain, its pool and its size, which do not
//! change, and whether a send must look at it. It says nothing of queues, so every queue of the
//! domain knows the buffer, in either direction. Numbers in type tags mean one thing while somebody
//! can compare them: those of domains are never reused; that of a pool is handed back when its
//! headers are freed, and the only queue that compares it, a shared receive queue, keeps its pool.
//!
//! # Why an address can say who has the buffer
//!
//! `at_queue` is the address of a counter in the queue's `QueueCounters`, and addresses are reused.
//! But counters outlive every header that names them. They are kept by the queue, and by each of
//! its completion queues until no completion of the queue can come (`Pending`). At that point
//! - what completed names no queue: the completion cleared `at_queue` (`take`) before it was
//!   counted;
//! - what was posted and not counted is orphaned, and the last part of `Pending` gives it back,
//!   which clears `at_queue` too, before it gives up the counters (`orphaned`);
//! - what was refused names no queue either (`Rejected`), nor what was put into a list that was
//!   dropped (`slab::put_back`, `HeaderSlab::put`).
//!
//! What is left are buffers of a list that safe code *forgot* before it was posted. Nobody has
//! their handles, and no device knows them. A queue knows of such a list (`InFlight::has_lists`),
//! which borrowed it, so that nothing of the list is used any more when the queue ends: they are
//! orphaned with what was posted, and go back with it.
//!
//! A debug build asserts this when counters end with nothing outstanding
//! (`orphaned::assert_unnamed`).

#![allow(unsafe_code)] // handles as pointers, and as words

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, compiler_fence};

use crate::counters::queue_counters::CompletionCounter;
use crate::counters::type_tag;
use crate::sync::{AtomicPtr, Ordering};

#[repr(C, align(64))]
pub struct Header {
    // Invariants:
    // - A header does not move. It lives as long as a handle to it exists, wherever the handle is:
    //   with the program, with the device as a `wr_id`, or in a ring.
    // - A header has one handle. Its holder may touch the `Cell`s and, if the handle is exclusive,
    //   the bytes; nothing else touches them.
    // - `slab` begins with a `u32` and lives as long as the header.
    // - `link` is null except in a free list, in a handle that is part of a list, or behind shared
    //   ones.
    // - `at_queue` is a queue's counter exactly while the handle is the `wr_id` of a posted work
    //   request, of a work request that is being built for a queue that exists, or of a completion
    //   that still holds it.
    // - If `type_tag` lacks `LOOK`, the length is not 0.
    // - The `capacity` bytes at `addr` are the handle's alone, if it is exclusive, and the length
    //   is not more. (What a narrowed buffer could have besides, `Slab` knows.) A work request for
    //   an atomic sets the length to 8 without a look; if the capacity is less, `type_tag` has
    //   `LOOK`, the work request is refused, and `cut_len` mends the length.
    /// The element of a send.
    addr: Cell<*mut u8>,
    len: Cell<u32>,
    lkey: Cell<u32>,
    /// The same address again: the element of a receive.
    fill: Cell<*mut u8>,
    capacity: Cell<u32>,
    fill_lkey: Cell<u32>,
    /// The counter of the queue that has the buffer; null if none has. (In an entry of a refused
    /// list, which no queue has: the next entry. See `next_refused`.)
    at_queue: AtomicPtr<CompletionCounter>,
    pub(crate) link: Link,
    /// What keeps header and memory alive; its type follows from the kind of handle. It begins with
    /// the number of the region's protection domain, as `Pd` numbers them.
    pub(crate) slab: *const (),
    /// What the buffer is (see [`type_tag`]).
    type_tag: Cell<u64>,
}

// A header begins with two elements.
static_assertions::const_assert!(
    std::mem::offset_of!(Header, addr) == 0
        && std::mem::offset_of!(Header, len) == 8
        && std::mem::offset_of!(Header, lkey) == 12
        && std::mem::offset_of!(Header, fill) == 16
        && std::mem::offset_of!(Header, capacity) == 24
        && std::mem::offset_of!(Header, fill_lkey) == 28
);

impl Header {
    pub(crate) fn new(
        addr: *mut u8,
        capacity: u32,
        lkey: u32,
        slab: *const (),
        type_tag: u64,
    ) -> Self {
        // The device uses the address as an integer.
        addr.expose_provenance();
        Header {
            addr: Cell::new(addr),
            len: Cell::new(capacity),
            lkey: Cell::new(lkey),
            fill: Cell::new(addr),
            capacity: Cell::new(capacity),
            fill_lkey: Cell::new(lkey),
            at_queue: AtomicPtr::new(ptr::null_mut()),
            link: Link::default(),
            slab,
            type_tag: Cell::new(type_tag),
        }
    }

    /// The first byte.
    #[inline(always)]
    pub(crate) fn addr(&self) -> *mut u8 {
        self.addr.get()
    }

    /// The number of bytes that the handle has.
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.get()
    }

    /// The key of the region.
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey.get()
    }

    /// Gives the handle other bytes: `capacity` of them at `addr`, of the same region. The first
    /// `len` are what a send sends.
    pub(crate) fn set_bytes(&self, addr: *mut u8, capacity: u32, len: u32) {
        debug_assert!(len <= capacity);
        self.addr.set(addr);
        self.fill.set(addr);
        self.capacity.set(capacity);
        self.type_tag.set(type_tag::resized(self.type_tag.get(), capacity));
        self.set_len(len);
    }

    /// Gives the handle other bytes of the same region: `len` of them at `addr`. The type tag
    /// stays, or `set_type_tag` sets it.
    #[inline(always)]
    pub(crate) fn set_place(&self, addr: *mut u8, len: u32) {
        addr.expose_provenance();
        self.addr.set(addr);
        self.len.set(len);
        self.fill.set(addr);
        self.capacity.set(len);
    }

    pub(crate) fn set_type_tag(&self, type_tag: u64) {
        self.type_tag.set(type_tag);
    }

    /// Makes the header of a handle that is gone that of a new one.
    #[inline(always)]
    pub(crate) fn renew(&self, addr: *mut u8, capacity: u32, lkey: u32, type_tag: u64) {
        self.set_place(addr, capacity);
        self.lkey.set(lkey);
        self.fill_lkey.set(lkey);
        self.type_tag.set(type_tag);
    }

    /// The number of bytes that a send sends.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// Sets the number of bytes that a send sends. A scatter/gather list leaves out elements of no
    /// bytes, so with length 0 the type tag makes the next send look at this buffer; a receive need
    /// not.
    #[inline(always)]
    pub(crate) fn set_len(&self, len: u32) {
        self.len.set(len);
        if len == 0 {
            self.type_tag.set(self.type_tag.get() | type_tag::LOOK);
        }
    }

    /// Sets the length to `len` bytes, where nothing loads the element soon. If that is 0, the
    /// caller calls `look_seldom`.
    #[inline(always)]
    pub(crate) fn set_some_len(&self, len: u32) {
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

    /// What the buffer is, for the holder of the handle.
    #[inline(always)]
    pub(crate) fn type_tag(&self) -> u64 {
        self.type_tag.get()
    }

    /// Makes the next send look at the buffer, on a cold branch: the hot path keeps the type tag as
    /// the operand of one test (2 instructions a work request).
    #[inline(always)]
    pub(crate) fn look_seldom(&self) {
        #[cold]
        fn cold_path() {}
        cold_path();
        self.type_tag.set(self.type_tag.get() | type_tag::LOOK);
        // Keeps the compiler from reusing the tested value of the type tag after this store.
        compiler_fence(Ordering::SeqCst);
    }

    /// Cuts the length to the capacity, where a work request that is given up may have set it.
    pub(crate) fn cut_len(&self) {
        if self.len() > self.capacity() {
            self.set_len(self.capacity());
        }
    }

    /// A send looked at the buffer. The next one need not, unless it is empty, or too short for an
    /// atomic.
    pub(crate) fn looked_at(&self) {
        if self.len() != 0 && self.capacity() >= type_tag::ATOMIC {
            self.type_tag.set(self.type_tag.get() & !type_tag::LOOK);
        }
    }

    /// Marks the buffer as with the device, or about to be. `counter` is that of a queue that
    /// exists.
    #[inline(always)]
    pub(crate) fn give(&self, counter: *const CompletionCounter) {
        self.at_queue.store(counter.cast_mut(), Ordering::Release);
    }

    /// Marks the buffer as back from the device. Returns the counter of the queue that had it.
    #[inline(always)]
    pub(crate) fn take(&self) -> *const CompletionCounter {
        let counter = self.counter();
        self.forget_queue();
        counter
    }

    /// The protection domain of the region, as `Pd` numbers them.
    pub(crate) fn pd(&self) -> u32 {
        // SAFETY: `slab` begins with a `u32` and lives as long as the header (invariants).
        unsafe { *self.slab.cast::<u32>() }
    }

    /// The counter of the queue that has the buffer, for the holder of the handle.
    #[inline(always)]
    pub(crate) fn counter(&self) -> *const CompletionCounter {
        self.at_queue.load(Ordering::Relaxed)
    }

    /// Marks the buffer as with no queue.
    #[inline(always)]
    pub(crate) fn forget_queue(&self) {
        self.at_queue.store(ptr::null_mut(), Ordering::Release);
    }

    /// The next entry in a list of refused ones, as a word.
    pub(crate) fn next_refused(&self) -> usize {
        self.counter().addr()
    }

    /// Links a header that is with no queue.
    pub(crate) fn set_next_refused(&self, word: usize) {
        debug_assert!(self.counter().is_null());
        self.at_queue.store(ptr::without_provenance_mut(word), Ordering::Relaxed);
    }

    /// The counter of the queue that has the handle, for any thread; null if none has. (In a list
    /// of refused entries it is the address of a header, which is no counter's.)
    pub(crate) fn posted_to(&self) -> *const CompletionCounter {
        self.at_queue.load(Ordering::Acquire)
    }
}

/// The word that ties a header to others. Its meaning follows from where the header is:
/// - in a free list or in a list of buffers: the next header there, or null;
/// - behind shared handles, so in no list: how many there are.
///
/// Elsewhere it is null.
pub(crate) struct Link(Cell<*mut Header>);

impl Default for Link {
    fn default() -> Self {
        Link(Cell::new(ptr::null_mut()))
    }
}

impl Link {
    /// The next header of the list.
    #[inline(always)]
    pub fn next(&self) -> *mut Header {
        self.0.get()
    }

    #[inline(always)]
    pub fn set_next(&self, next: *mut Header) {
        self.0.set(next);
    }

    /// The header leaves its list, or is shared no more. Returns the next one of the list.
    #[inline(always)]
    pub fn unlink(&self) -> *mut Header {
        self.0.replace(ptr::null_mut())
    }

    /// The number of handles that share the buffer.
    ///
    /// # Safety
    /// The header is behind shared handles, or its only handle is the caller's, as long as the
    /// reference is used.
    #[inline(always)]
    pub unsafe fn shares(&self) -> &AtomicUsize {
        // SAFETY: then only this touches the word.
        unsafe { AtomicUsize::from_ptr(self.0.as_ptr().cast()) }
    }
}

/// An entry as a word, for posts and completions.
#[doc(hidden)]
pub trait Word: Sized {
    /// The handle as a word with its kind in the tag bits. The entry stays the caller's.
    fn word(&self) -> usize;

    /// # Safety
    /// `word` came from `word` of the same type, and the caller gives the entry up.
    unsafe fn from_word(word: usize) -> Self;

    /// Like `from_word`, for a word that stayed in the program and never was a wr_id: its only tag
    /// is its kind.
    ///
    /// # Safety
    /// As for `from_word`, and the word has no other tag.
    #[inline(always)]
    unsafe fn from_kept(word: usize) -> Self {
        // SAFETY: this function asks for the same as `from_word`.
        unsafe { Self::from_word(word) }
    }

    /// The header of the handle; the first one's for a list.
    ///
    /// # Safety
    /// The entry is not an empty list. (A work request without a buffer has no entry.)
    unsafe fn first(&self) -> &Header;

    /// Sets the lengths of the buffers to the `len` bytes that arrived, in order.
    ///
    /// # Safety
    /// Nobody else has a reference to the entry.
    unsafe fn received(&self, len: u32);
}

/// A handle to one header.
///
/// # Safety
/// The type is, transparently, one pointer to a header. The value owns the handle, so the header
/// lives as long.
#[doc(hidden)]
pub unsafe trait Handle: Sized {
    /// One of the kinds of `word`.
    const KIND: usize;

    #[inline(always)]
    fn at(&self) -> *mut Header {
        const { assert!(size_of::<Self>() == size_of::<*mut Header>()) };
        // SAFETY: the value is one pointer to a header (this trait's contract).
        unsafe { ptr::from_ref(self).cast::<*mut Header>().read() }
    }

    /// # Safety
    /// `header` is what `at` of this type gave, and the caller gives the handle up.
    #[inline(always)]
    unsafe fn from_header(header: *mut Header) -> Self {
        // SAFETY: the value is that pointer, and the caller's handle becomes its own.
        unsafe { ptr::from_ref(&header).cast::<Self>().read() }
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as its handle, which is borrowed.
        unsafe { &*self.at() }
    }
}

impl<H: Handle> Word for H {
    #[inline(always)]
    fn word(&self) -> usize {
        word::of(self.at(), H::KIND)
    }

    #[inline(always)]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: the word is that of a handle of this type, given up by the caller.
        unsafe { H::from_header(word::address(word)) }
    }

    #[inline(always)]
    unsafe fn from_kept(word: usize) -> Self {
        // The only tag is the kind: without one the word is the header's address.
        let kind = if H::KIND == 0 { 0 } else { word::KIND | H::KIND };
        // SAFETY: the word is that of a handle of this type, given up by the caller. It has no tag
        // but the kind (this function's contract), so without that it is the header's address.
        unsafe { H::from_header(ptr::with_exposed_provenance_mut(word & !kind)) }
    }

    #[inline(always)]
    unsafe fn first(&self) -> &Header {
        self.header()
    }

    #[inline(always)]
    unsafe fn received(&self, len: u32) {
        // Others are no receives.
        if H::KIND == word::EXCLUSIVE {
            self.header().set_len(len.min(self.header().capacity()));
        }
    }
}

/// A handle as a number: the address of a header, or of a counter where there is no buffer, with
/// tags in the six bits that its alignment leaves free. Above a counter's address, in the 16 upper
/// bits, is a number of the program's.
pub(crate) mod word {
    /// No buffer: the address is that of the queue's counter, or with `RING` none.
    pub const NONE: usize = 1;
    /// Not a word but the wr_id of a ring. Only together with `NONE`, and without `RECEIVE`.
    pub const RING: usize = 1 << 1;
    /// The work request was a receive.
    pub const RECEIVE: usize = 1 << 2;
    /// The work request was a receive of a UD queue pair.
    pub const DATAGRAM: usize = 1 << 3;
    /// The bits of the kind of handle.
    pub const KIND: usize = 0b11 << 4;
    pub const EXCLUSIVE: usize = 0;
    pub const SHARED: usize = 1 << 4;
    pub const LIST: usize = 2 << 4;
    pub const OPEN: usize = 3 << 4;
    /// A memory window, which is never a receive: of the kind `OPEN`, and apart from it by a bit
    /// that has a meaning in receives only.
    pub const WINDOW: usize = OPEN | DATAGRAM;
    /// A piece of read-only memory, which is no receive: of the kind `LIST` in the same way.
    pub const READ_ONLY: usize = LIST | DATAGRAM;
    /// Memory of an implicit region, which is no receive either: of the kind `SHARED` in the same
    /// way.
    pub const IMPLICIT: usize = SHARED | DATAGRAM;

    /// Whether there is no buffer.
    #[inline(always)]
    pub fn is_none(word: usize) -> bool {
        word & NONE != 0
    }

    /// All tags: headers are aligned to one more than this.
    pub const TAGS: usize = 63;

    /// Where the program's number begins in a word without a buffer. Counters are below.
    pub const ID: u32 = crate::counters::queue_counters::ADDRESS_BITS;

    /// The word of a work request without a buffer in a ring, with the bits of its number.
    #[inline(always)]
    pub fn none(id: u64) -> usize {
        NONE | id as usize
    }

    /// The program's number in a word without a buffer.
    #[inline(always)]
    pub fn id(word: usize) -> u16 {
        (word as u64 >> ID) as u16
    }

    /// The address of the counter in a word without a buffer, which has no kind.
    #[inline(always)]
    pub fn counter<T>(word: usize) -> *mut T {
        let tags = NONE | RING | RECEIVE | DATAGRAM;
        std::ptr::with_exposed_provenance_mut(word & ((1 << ID) - 1) & !tags)
    }

    /// The word as the entry gave it, without what a receive adds.
    pub fn without_tags(word: usize) -> usize {
        let receive = if word & RECEIVE == 0 { 0 } else { RECEIVE | DATAGRAM };
        word & !receive
    }

    /// The kind of handle.
    #[inline(always)]
    pub fn kind(word: usize) -> usize {
        word & KIND
    }

    /// The address of the header (or counter) in a word.
    #[inline(always)]
    pub fn address<T>(word: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut(word & !TAGS)
    }

    /// The word of a header and a kind.
    #[inline(always)]
    pub fn of<T>(at: *mut T, kind: usize) -> usize {
        at.expose_provenance() | kind
    }

    /// The lower half of the wr_ids of a ring with this tag, with the tag bits that no handle has.
    pub fn of_ring(tag: u32) -> u32 {
        tag << 3 | (RING | NONE) as u32
    }
}
