//! The header that a handle points to: address, length, lkey, type tag, and the queue that owns the
//! buffer.
//!
//! A handle is one pointer to a `Header`, so that it can travel as a `wr_id`, in the form of a
//! [`word`]. The first 16 bytes have the layout of an `ibv_sge`, and so have the next 16: one is
//! the element of a send, the other the element of a receive. A work request of one buffer points
//! to the element in the header; one of several buffers copies the elements.
//!
//! # Why a post does not check a buffer twice
//!
//! `type_tag` describes the buffer: its protection domain, its pool and its size, which do not
//! change, and whether a send must inspect it. It does not depend on a queue, so every queue of the
//! domain accepts the buffer, in either direction. A number in a type tag has one meaning while it
//! can be compared. The numbers of domains are never reused. The number of a pool is released when
//! its headers are freed, and the only queue that compares it, a shared receive queue, keeps its
//! pool alive.
//!
//! # Why an address can identify the queue
//!
//! `at_queue` is the address of a counter in the queue's `QueueCounters`, and addresses are reused.
//! But counters outlive every header that names them. They are kept by the queue, and by each of
//! its completion queues until no completion of the queue can arrive (`Pending`). At that point
//! - completed buffers name no queue: the completion cleared `at_queue` (`take`) before it was
//!   counted;
//! - buffers that were posted and not counted are orphaned, and the owner that releases the last
//!   reference (`Pending`) returns them. This clears `at_queue` too, before the counters are given
//!   up (`orphaned`);
//! - rejected buffers do not name a queue either (`Rejected`), nor do buffers of a list that was
//!   dropped (`slab::put_back`, `HeaderSlab::put`).
//!
//! This leaves the buffers of a list that safe code *forgot* before it was posted. Their handles
//! are lost, and no device has them. The queue records such a list (`InFlight::has_lists`), which
//! borrowed the queue, so the list is not used any more when the queue ends. Its buffers are
//! orphaned together with the posted ones, and returned with them.
//!
//! A debug build asserts this when counters end while no work request is outstanding
//! (`orphaned::assert_unnamed`).

// Model: src/memory/loom_tests/orphaned.rs

#![allow(unsafe_code)] // handles as pointers, and as words

use std::any::TypeId;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, compiler_fence};

use crate::counters::queue_counters::CompletionCounter;
use crate::counters::type_tag;
pub(crate) use crate::counters::word;
use crate::sync::{AtomicPtr, Ordering};

#[repr(C, align(64))]
pub struct Header {
    // Invariants:
    // - A header does not move. It lives as long as a handle to it exists, whether the program
    //   holds the handle, the device holds it as a `wr_id`, or a ring holds it.
    // - A header has one handle. The holder may access the `Cell`s and, if the handle is exclusive,
    //   the bytes; no other code accesses them.
    // - `slab` begins with a `Head` and lives as long as the header.
    // - `link` is null except in a free list, in a handle that is part of a list, or behind shared
    //   handles.
    // - `at_queue` is a queue's counter exactly while the handle is the `wr_id` of a posted work
    //   request, of a work request that is being built for a queue that exists, or of a completion
    //   that still holds it.
    // - If `type_tag` lacks `LOOK`, the length is not 0.
    // - The `capacity` bytes at `addr` belong only to the handle, if it is exclusive, and the
    //   length is not more than the capacity. (`Slab` knows the whole range of a narrowed buffer.)
    //   A work request for an atomic sets the length to 8 without a check. If the capacity is less,
    //   `type_tag` has `LOOK`, the work request is rejected, and `cut_len` corrects the length.
    /// The element of a send.
    addr: Cell<*mut u8>,
    len: Cell<u32>,
    lkey: Cell<u32>,
    /// The same address again: the element of a receive.
    fill: Cell<*mut u8>,
    capacity: Cell<u32>,
    fill_lkey: Cell<u32>,
    /// The counter of the queue that owns the buffer, or null. (In an entry of a rejected list,
    /// which no queue owns: the next entry. See `next_refused`.)
    at_queue: AtomicPtr<CompletionCounter>,
    pub(crate) link: Link,
    /// Keeps the header and the memory alive. Its type follows from the kind of handle. It begins
    /// with a [`Head`].
    pub(crate) slab: *const (),
    /// The kind of the buffer (see [`type_tag`]).
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

    /// The address of the first byte.
    #[inline(always)]
    pub(crate) fn addr(&self) -> *mut u8 {
        self.addr.get()
    }

    /// The number of bytes of the handle.
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.get()
    }

    /// The key of the region.
    pub(crate) fn lkey(&self) -> u32 {
        self.lkey.get()
    }

    /// Points the handle to other bytes of the same region: `capacity` bytes at `addr`. A send
    /// transmits the first `len`.
    pub(crate) fn set_bytes(&self, addr: *mut u8, capacity: u32, len: u32) {
        debug_assert!(len <= capacity);
        self.addr.set(addr);
        self.fill.set(addr);
        self.capacity.set(capacity);
        self.type_tag.set(type_tag::resized(self.type_tag.get(), capacity));
        self.set_len(len);
    }

    /// Points the handle to `len` other bytes of the same region, at `addr`. The type tag does not
    /// change; `set_type_tag` sets it.
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

    /// Reuses a header, whose handle is gone, for a new handle.
    #[inline(always)]
    pub(crate) fn renew(&self, addr: *mut u8, capacity: u32, lkey: u32, type_tag: u64) {
        self.set_place(addr, capacity);
        self.lkey.set(lkey);
        self.fill_lkey.set(lkey);
        self.type_tag.set(type_tag);
    }

    /// The number of bytes that a send transmits.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// Sets the number of bytes that a send transmits. A scatter/gather list omits empty elements,
    /// so with length 0 the type tag makes the next send inspect this buffer. A receive does not
    /// need this.
    #[inline(always)]
    pub(crate) fn set_len(&self, len: u32) {
        self.len.set(len);
        if len == 0 {
            self.type_tag.set(self.type_tag.get() | type_tag::LOOK);
        }
    }

    /// Sets the length to `len`, if the element will not be loaded soon. If `len` is 0, the caller
    /// calls `look_seldom`.
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

    /// The type tag of the buffer, for the holder of the handle.
    #[inline(always)]
    pub(crate) fn type_tag(&self) -> u64 {
        self.type_tag.get()
    }

    /// Makes the next send inspect the buffer, on a cold branch. This way the hot path keeps the
    /// type tag as the operand of one test, which saves 2 instructions per work request.
    #[inline(always)]
    pub(crate) fn look_seldom(&self) {
        #[cold]
        fn cold_path() {}
        cold_path();
        self.type_tag.set(self.type_tag.get() | type_tag::LOOK);
        // Keeps the compiler from reusing the tested value of the type tag after this store.
        compiler_fence(Ordering::SeqCst);
    }

    /// Cuts the length to the capacity, because a work request that was given up may have set it.
    pub(crate) fn cut_len(&self) {
        if self.len() > self.capacity() {
            self.set_len(self.capacity());
        }
    }

    /// Records that a send inspected the buffer. The next send does not have to, unless the buffer
    /// is empty or too short for an atomic.
    pub(crate) fn looked_at(&self) {
        if self.len() != 0 && self.capacity() >= type_tag::ATOMIC {
            self.type_tag.set(self.type_tag.get() & !type_tag::LOOK);
        }
    }

    /// Records that the device owns the buffer, or will soon. `counter` belongs to a queue that
    /// exists.
    #[inline(always)]
    pub(crate) fn give(&self, counter: *const CompletionCounter) {
        self.at_queue.store(counter.cast_mut(), Ordering::Release);
    }

    /// Records that the device returned the buffer. Returns the counter of the queue that owned it.
    #[inline(always)]
    pub(crate) fn take(&self) -> *const CompletionCounter {
        let counter = self.counter();
        self.forget_queue();
        counter
    }

    /// The start of the slab.
    #[inline(always)]
    pub(crate) fn slab_head(&self) -> &Head {
        // SAFETY: `slab` begins with it and lives as long as the header (invariants).
        unsafe { &*self.slab.cast() }
    }

    /// The number of the region's protection domain, as numbered by `Pd`.
    pub(crate) fn pd(&self) -> u32 {
        self.slab_head().pd
    }

    /// Whether the handle is a `Buf`, and not an `OwningHandle`.
    #[inline(always)]
    pub(crate) fn is_of_buf(&self) -> bool {
        self.slab_head().size != Head::SHARING
    }

    /// The counter of the queue that owns the buffer, for the holder of the handle.
    #[inline(always)]
    pub(crate) fn counter(&self) -> *const CompletionCounter {
        self.at_queue.load(Ordering::Relaxed)
    }

    /// Records that no queue owns the buffer.
    #[inline(always)]
    pub(crate) fn forget_queue(&self) {
        self.at_queue.store(ptr::null_mut(), Ordering::Release);
    }

    /// The next entry in a list of rejected ones, as a word.
    pub(crate) fn next_refused(&self) -> usize {
        self.counter().addr()
    }

    /// Links a header that no queue owns.
    pub(crate) fn set_next_refused(&self, word: usize) {
        debug_assert!(self.counter().is_null());
        self.at_queue.store(ptr::without_provenance_mut(word), Ordering::Relaxed);
    }

    /// The counter of the queue that owns the handle, for any thread, or null. (In a list of
    /// rejected entries it is the address of a header, which is never a counter's address.)
    pub(crate) fn posted_to(&self) -> *const CompletionCounter {
        self.at_queue.load(Ordering::Acquire)
    }
}

/// The start of a header's `slab`, for any kind of handle and any type of context.
#[repr(C)]
pub(crate) struct Head {
    /// The protection domain's number.
    pub pd: u32,
    /// The bytes of each buffer of a pool; 0 in an arena; [`SHARING`](Self::SHARING) if the handles
    /// are `OwningHandle`s.
    pub size: u32,
    /// The type of the contexts.
    pub context: TypeId,
    /// Drops the handle of a header that has no other owner: a buffer, also a frozen one whose last
    /// share was given up, or an `OwningHandle`.
    pub drop: unsafe fn(NonNull<Header>),
}

impl Head {
    /// The size of a slab that has only headers. No buffer is that large.
    pub const SHARING: u32 = u32::MAX;
}

/// The word that links a header to others. Its meaning depends on where the header is:
/// - in a free list or in a list of buffers: the next header, or null. If the list has several
///   kinds of handles, the tag bits of `word` contain the kind of this one;
/// - behind shared handles, and therefore in no list: their number.
///
/// Otherwise it is null.
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

    /// Removes the header from its list, or ends sharing. Returns the next header of the list.
    #[inline(always)]
    pub fn unlink(&self) -> *mut Header {
        self.0.replace(ptr::null_mut())
    }

    /// The number of handles that share the buffer.
    ///
    /// # Safety
    /// While the reference is used, the header is behind shared handles, or the caller has its only
    /// handle.
    #[inline(always)]
    pub unsafe fn shares(&self) -> &AtomicUsize {
        // SAFETY: under this condition, the word is accessed only through such references.
        unsafe { AtomicUsize::from_ptr(self.0.as_ptr().cast()) }
    }
}

/// An entry as a word, for posts and completions.
#[doc(hidden)]
pub trait Word: Sized {
    /// The handle as a word with its kind in the tag bits. The caller keeps the entry.
    fn word(&self) -> usize;

    /// # Safety
    /// `word` was returned by `word` of the same type, and the caller gives the entry up.
    unsafe fn from_word(word: usize) -> Self;

    /// Like `from_word`, for a word that stayed in the program and was never a wr_id: its only tag
    /// is its kind.
    ///
    /// # Safety
    /// As for `from_word`, and the word has no other tag.
    #[inline(always)]
    unsafe fn from_kept(word: usize) -> Self {
        // SAFETY: this function requires the same as `from_word`.
        unsafe { Self::from_word(word) }
    }

    /// The header of the handle, or of a list's first handle.
    ///
    /// # Safety
    /// The entry is not an empty list. (A work request without a buffer has no entry.)
    unsafe fn first(&self) -> &Header;

    /// Sets the lengths of the buffers to the `len` bytes that arrived, in order.
    ///
    /// # Safety
    /// There is no other reference to the entry.
    unsafe fn received(&self, len: u32);
}

/// A handle to one header.
///
/// # Safety
/// The type is, transparently, one pointer to a header. The value owns the handle, so the header
/// lives at least as long.
#[doc(hidden)]
pub unsafe trait Handle: Sized {
    /// One of the kinds of `word`.
    const KIND: usize;

    /// The bits of a link in a list of these handles that are not part of the next address.
    const LINK_TAGS: usize = 0;

    #[inline(always)]
    fn at(&self) -> *mut Header {
        const { assert!(size_of::<Self>() == size_of::<*mut Header>()) };
        // SAFETY: the value is one pointer to a header (this trait's contract).
        unsafe { ptr::from_ref(self).cast::<*mut Header>().read() }
    }

    /// # Safety
    /// `header` was returned by `at` of this type, and the caller gives the handle up.
    #[inline(always)]
    unsafe fn from_header(header: *mut Header) -> Self {
        // SAFETY: the value is that pointer, and takes over the caller's handle.
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
        // SAFETY: the word came from a handle of this type, which the caller gives up.
        unsafe { H::from_header(word::address(word)) }
    }

    #[inline(always)]
    unsafe fn from_kept(word: usize) -> Self {
        // The only tag is the kind. Without it the word is the header's address.
        let kind = if H::KIND == 0 { 0 } else { word::KIND | H::KIND };
        // SAFETY: the word came from a handle of this type, which the caller gives up. Its only tag
        // is the kind (this function's contract), so without the kind it is the header's address.
        unsafe { H::from_header(ptr::with_exposed_provenance_mut(word & !kind)) }
    }

    #[inline(always)]
    unsafe fn first(&self) -> &Header {
        self.header()
    }

    #[inline(always)]
    unsafe fn received(&self, len: u32) {
        // The other kinds are never posted as receives.
        if H::KIND == word::EXCLUSIVE {
            self.header().set_len(len.min(self.header().capacity()));
        }
    }
}
