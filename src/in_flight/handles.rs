//! Books of a queue whose every work request completes: the handle is the `wr_id`.

#![allow(unsafe_code)] // turns handles into wr_ids and back

use std::marker::PhantomData;
use std::sync::Arc;

use super::books::{Books, SEND};
use super::ring::Released;
use super::{Rejected, SendBooks};
use crate::buf::header::word;
use crate::entry::Entry;
use crate::sys::types::{ibv_recv_wr, ibv_send_wr};
use crate::wr::chain::{self, Link};
use crate::wr::port::Queue;

/// Credits of one direction of a queue.
///
/// # Invariants
/// - `books` outlives the value.
/// - `credit` is at most `i32::MAX`, and above it only between a `spend` that said no and its `unspend`.
/// - `credit` + work requests outstanding, by what was known at the last refill, = `depth`.
/// - `no_buffer` is the word of this direction's counter in `books`.
pub struct Handles<E> {
    mark: u64,
    credit: u32,
    depth: u32,
    /// Completions known at the last refill, wrapping.
    seen: u32,
    direction: u32,
    /// The wr_id of a work request without a buffer: the counter in `books`, as a word.
    no_buffer: usize,
    poisoned: bool,
    pub(crate) books: *const Books,
    /// Room that completions of before a reset may still take.
    withheld: Withheld,
    _entries: PhantomData<E>,
}

impl<E: Entry> Handles<E> {
    /// # Safety
    /// `books` outlives the value.
    pub(crate) unsafe fn with_direction(books: *const Books, depth: u32, direction: usize) -> Self {
        // SAFETY: the caller's contract.
        let mark = unsafe { (*books).mark(direction) };
        // SAFETY: as above.
        let counter = unsafe { Books::counter(books, direction) };
        let no_buffer = word::of(counter.cast_mut(), word::NONE);
        let direction = direction as u32;
        let depth = depth.min(i32::MAX as u32);
        Handles {
            credit: depth,
            mark,
            depth,
            seen: 0,
            direction,
            no_buffer,
            poisoned: false,
            books,
            withheld: Withheld::default(),
            _entries: PhantomData,
        }
    }

    /// As if as many work requests had been posted and completed.
    #[cfg(test)]
    pub(super) fn begin_at(&mut self, count: u32) {
        self.seen = count;
    }

    /// Opens new books after a reset. The completions of `left` work requests of before it may still be in
    /// the completion queue, so their room is given out only once they cannot come any more.
    ///
    /// # Safety
    /// `books` outlives the value.
    pub(crate) unsafe fn reopen(
        &mut self,
        old: &Arc<Books>,
        left: u32,
        books: *const Books,
        depth: u32,
    ) {
        let direction = self.direction as usize;
        let mut withheld = std::mem::take(&mut self.withheld);
        withheld.add(old, left, depth);
        // SAFETY: the caller's contract.
        *self = unsafe { Handles::with_direction(books, depth, direction) };
        self.credit = depth.saturating_sub(withheld.total());
        self.depth = self.credit;
        self.withheld = withheld;
    }

    #[cold]
    #[inline(never)]
    #[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
    extern "C" fn refill(&mut self, n: u32) -> bool {
        if self.poisoned {
            return false;
        }
        // SAFETY: the books outlive the value.
        let completed = unsafe { (*self.books).completed(self.direction as usize) };
        self.credit += completed.wrapping_sub(self.seen);
        self.seen = completed;
        let back = self.withheld.recover();
        self.credit += back;
        self.depth += back;
        n <= self.credit
    }

    /// What the headers of buffers show that were posted here last and need no look.
    #[inline(always)]
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// What buffers are looked at for.
    pub(crate) fn queue(&self) -> Queue {
        Queue { books: self.books, mark: self.mark, home: std::ptr::null() }
    }

    /// How many work requests fit by what is known already.
    #[inline(always)]
    pub(crate) fn known_room(&self) -> i32 {
        self.credit as i32
    }

    /// What completes a work request without a buffer.
    #[inline(always)]
    pub(crate) fn no_buffer(&self) -> usize {
        self.no_buffer
    }

    /// Whether `n` more work requests fit.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, n: u32) -> bool {
        n <= self.credit || self.refill(n)
    }

    /// How many work requests fit now.
    pub(crate) fn free(&mut self) -> u32 {
        self.refill(0);
        if self.poisoned { 0 } else { self.credit }
    }

    /// `n` work requests are with the device, if there is room for them by what is known already. If not,
    /// `unspend` must follow.
    #[inline(always)]
    pub(crate) fn spend(&mut self, n: u32) -> bool {
        self.credit = self.credit.wrapping_sub(n);
        // The sign is a flag of the subtraction; a borrow of a constant would be a comparison of its own.
        self.credit as i32 >= 0
    }

    /// `n` of them came back without having been posted.
    pub(crate) fn unspend(&mut self, n: u32) {
        self.credit = self.credit.wrapping_add(n);
    }

    /// No more posts until the queue is reset.
    pub(crate) fn mark_poisoned(&mut self) {
        self.poisoned = true;
        // The credit is gone for good: only a reset, with new books, brings room back.
        self.depth -= self.credit;
        self.credit = 0;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.poisoned
    }

    /// Work requests posted and not known to be complete.
    pub(crate) fn outstanding(&self) -> u32 {
        // SAFETY: the books outlive the value.
        let completed = unsafe { (*self.books).completed(self.direction as usize) };
        self.count().wrapping_sub(completed)
    }

    /// Work requests posted since the books were opened, wrapping.
    pub(crate) fn count(&self) -> u32 {
        self.seen.wrapping_add(self.depth).wrapping_sub(self.credit)
    }
}

/// Room of a queue that completions of before a reset may still take.
#[derive(Default)]
pub(crate) struct Withheld {
    lives: Vec<(Arc<Books>, u32)>,
    depth: u32,
}

impl Withheld {
    /// `entries` of a queue of this depth may still complete.
    pub(crate) fn add(&mut self, old: &Arc<Books>, entries: u32, depth: u32) {
        self.depth = depth;
        if entries != 0 {
            self.lives.push((old.clone(), entries));
        }
    }

    /// At most the depth: the sentinel of a drain that was interrupted is one of the entries, and beyond it.
    pub(crate) fn total(&self) -> u32 {
        self.lives.iter().map(|(_, entries)| entries).sum::<u32>().min(self.depth)
    }

    /// The room that is free again.
    pub(crate) fn recover(&mut self) -> u32 {
        if self.lives.is_empty() {
            return 0;
        }
        let before = self.total();
        self.lives.retain(|(books, _)| !books.is_quiet());
        before - self.total()
    }
}

impl<E: Entry> SendBooks<E> for Handles<E> {
    const MARKED: bool = true;

    unsafe fn new(books: *const Books, depth: u32) -> Self {
        // SAFETY: the caller's contract.
        unsafe { Handles::with_direction(books, depth, SEND) }
    }

    #[inline(always)]
    fn books(&self) -> *const Books {
        self.books
    }

    #[inline(always)]
    fn mark(&self) -> u64 {
        self.mark
    }

    #[inline(always)]
    fn known_room(&self) -> i32 {
        self.credit as i32
    }

    #[inline(always)]
    fn spend(&mut self, n: u32) -> bool {
        Handles::spend(self, n)
    }

    fn unspend(&mut self, n: u32) {
        Handles::unspend(self, n);
    }

    fn spend_reserved(&mut self, n: u32) {
        let has_room = Handles::spend(self, n);
        debug_assert!(has_room);
    }

    #[inline(always)]
    fn reserve(&mut self, n: u32) -> bool {
        self.has_room(n)
    }

    fn room(&mut self) -> u32 {
        self.free()
    }

    type Cursor = ();

    #[inline(always)]
    fn cursor(&self) {}

    #[inline(always)]
    fn advance(_: &mut ()) {}

    #[inline(always)]
    fn wr_id(&self, _: &(), _: u32, word: usize) -> u64 {
        (if word == 0 { self.no_buffer() } else { word }) as u64
    }

    #[inline(always)]
    unsafe fn enter(&mut self, _: &(), _: u32, _: usize) {}

    unsafe fn word(&self, _: u32, wr: *mut ibv_send_wr) -> usize {
        // SAFETY: the caller's contract.
        unsafe { entry_of(wr) }
    }

    unsafe fn take_back(
        &mut self,
        n: u32,
        accepted: u32,
        rejected: *mut ibv_send_wr,
    ) -> Rejected<E> {
        Handles::unspend(self, n - accepted);
        // SAFETY: the caller's contract.
        unsafe { take_back_from(rejected) }
    }

    fn poison(&mut self) {
        self.mark_poisoned();
    }

    fn needs_sentinel(&self) -> bool {
        false
    }

    fn push_sentinel(&mut self) -> u64 {
        self.no_buffer() as u64
    }

    fn pop_sentinel(&mut self) {}

    fn release_if_owned(&mut self, _: u64) -> Option<Released<'_, E>> {
        None
    }

    fn release_dropped(&mut self) -> Option<Released<'_, E>> {
        None
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    fn posted(&self) -> u32 {
        self.count()
    }

    fn posted_as_wr_ids(&self) -> u32 {
        self.count()
    }

    fn completed(&self) -> u32 {
        // SAFETY: the books outlive the value.
        unsafe { (*self.books).completed(self.direction as usize) }
    }

    unsafe fn reopen(&mut self, old: &Arc<Books>, left: u32, books: *const Books, depth: u32) {
        // SAFETY: the caller's contract.
        unsafe { Handles::reopen(self, old, left, books, depth) };
    }

    fn release_all(&mut self) -> Vec<E> {
        // What is outstanding is in wr_ids: it comes back by its completion, or by `reclaim`.
        Vec::new()
    }
}

/// The word of the entry in the wr_id of a work request, 0 if it has no buffer.
///
/// # Safety
/// `wr` is emitted, and its entry (or that it has none) is its wr_id.
pub(crate) unsafe fn entry_of<W: Link>(wr: *mut W) -> usize {
    // SAFETY: the caller's contract.
    let id = unsafe { W::wr_id(wr) } as usize;
    if word::is_none(id) { 0 } else { id }
}

/// Turns the wr_ids of a list that was not accepted back into entries.
///
/// # Safety
/// The device has not accepted the list, whose wr_ids are words of entries of type `E`.
pub(crate) unsafe fn take_back_from<W: Link, E: Entry>(first: *mut W) -> Rejected<E> {
    let mut rejected = Rejected::new();
    // SAFETY: the caller's contract.
    for wr in unsafe { chain::iter(first) } {
        // SAFETY: as above.
        let id = unsafe { W::wr_id(wr) };
        // SAFETY: as above.
        unsafe { rejected.push(id as usize) };
    }
    rejected
}

impl<E: Entry> Handles<E> {
    /// As `take_back`, for receives.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn take_back_receives(
        &mut self,
        n: u32,
        accepted: u32,
        rejected: *mut ibv_recv_wr,
    ) -> Rejected<E> {
        self.unspend(n - accepted);
        // SAFETY: the caller's contract.
        unsafe { take_back_from(rejected) }
    }
}
