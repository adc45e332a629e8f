//! Lists whose length is known at run time. They are linked while work requests are pushed, and
//! bounded by their slots.
//!
//! A list is kept in registers between two work requests, so it is small. Cold functions get
//! values, never a reference to the list.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

use crate::cold::out_of_line;
use crate::counters::queue_counters::CompletionCounter;
use crate::in_flight::InFlight;
use crate::memory::entry::Owned;
use crate::post::chain::Post;
use crate::post::list_slow::{
    Looked, drop_list, look_at_one, look_through, more_room, not_pushed, why_full,
};
use crate::post::next_slot::next_slot;
use crate::post::path::{Cursor, Posted};
use crate::post::queue::{Kind, Queue};
use crate::sys::data::Link;
use crate::sys::types::ibv_sge;
use crate::terms::transport::Transport;
use crate::work::data::Data;
use crate::work::request::{Found, Slot, Work};

/// A list of work requests for a queue.
///
/// # Invariants
/// - The `count` slots from `slots` to `at` are emitted, and each is linked to the next slot. Their
///   entries are in the in-flight table before `cursor`, and no handle owns them. There are `most`
///   slots with as much room, at most `capacity` in all.
/// - `seen` combines the type tags of their buffers with OR, without those of inspected buffers.
/// - Everything that the work requests borrow outlives `'d`.
pub(crate) struct List<'d, T: Transport, Q: Kind<Entry: Owned>, const G: usize> {
    pub(super) queue: &'d mut Queue<Q>,
    /// A copy of the address of the queue's completion counter. Otherwise the compiler would load
    /// it from the queue for each work request.
    counter: *const CompletionCounter,
    seen: u64,
    cursor: Cursor<Q>,
    slots: *mut Slot<Q::Wr, [ibv_sge; G]>,
    at: *mut Slot<Q::Wr, [ibv_sge; G]>,
    pub(super) count: u32,
    most: i32,
    capacity: u32,
    _of: PhantomData<(T, Invariant<'d>)>,
}

/// Makes the list invariant in `'d`.
type Invariant<'d> = fn(&'d ()) -> &'d ();

impl<'d, T: Transport, Q: Kind<Entry: Owned>, const G: usize> List<'d, T, Q, G> {
    /// An empty list in `capacity` slots.
    #[inline(always)]
    pub(crate) fn new(
        queue: &'d mut Queue<Q>,
        slots: *mut Slot<Q::Wr, [ibv_sge; G]>,
        capacity: u32,
    ) -> Self {
        let state = queue.in_flight.state();
        let (counter, most) = (state.counter, state.room.min(capacity as i32));
        queue.in_flight.begin_list();
        let cursor = queue.in_flight.cursor();
        let (seen, at, count, _of) = (0, slots, 0, PhantomData);
        List { queue, counter, seen, cursor, slots, at, count, most, capacity, _of }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a buffer needs inspection.
    #[inline(always)]
    fn has_mismatch(&self) -> bool {
        self.seen & self.queue.in_flight.state().mismatch != 0
    }

    /// Starts the next work request.
    #[inline(always)]
    fn begin(&mut self) -> Post<'_, T, Q> {
        let mut post = Post::at(self.queue, self.counter, Some(self.cursor));
        post.check.max_sge = post.check.max_sge.min(G as u32);
        post
    }

    /// Adds the slot before `next`, which was emitted and entered, and whose entry was given up.
    ///
    /// # Safety
    /// It is the slot at `at`.
    #[inline(always)]
    unsafe fn advance(&mut self, next: *mut Slot<Q::Wr, [ibv_sge; G]>) {
        // SAFETY: the slot before `next` belongs to the list.
        unsafe { (*Link::head(next.sub(1).cast::<Q::Wr>())).next = next.cast() };
        self.at = next;
        self.count += 1;
        Q::InFlight::advance(&mut self.cursor);
    }

    /// Adds a work request.
    ///
    /// # Safety
    /// The rules allow the work request on this queue. It has at most `G` elements, and what it
    /// borrows outlives `'d`.
    #[inline(always)]
    pub(super) unsafe fn push<W: Work<Q::Entry, Wr = Q::Wr>>(&mut self, wr: W) -> Posted<Q> {
        if self.count as i32 >= self.most {
            let i = self.count;
            let most = more_room(self.queue, i, self.capacity);
            self.most = most as i32;
            if most == i {
                let mut scratch = Slot::<Q::Wr, <W::Data as Data<Q::Entry>>::Sges>::new();
                let mut post = self.begin();
                // SAFETY: the slot is a local, and its work request is not posted. Other faults of
                // this work request do not affect the next one, which has its own check.
                let pending = unsafe { post.put(0, wr, &raw mut scratch, ptr::null_mut()) };
                let kind = why_full(self.queue, most, self.capacity);
                return Err(not_pushed::<Q>(most, kind, pending.entry));
            }
        }
        // SAFETY: a slot is left.
        let (at, next) = unsafe { next_slot(self.at) };
        self.at = at;
        let mut post = self.begin();
        // SAFETY: a slot is left, with enough room, and does not move: the list borrows the array
        // until it is posted.
        let pending = unsafe { post.put(0, wr, at, ptr::null_mut()) };
        let is_one = <W::Data as Data<Q::Entry>>::IS_ONE;
        let mismatch = post.mismatch();
        let mut found = post.check.found_in(&pending.entry, is_one, mismatch);
        // A value that is only tested can be the operand of the test.
        found.mismatch = (found.mismatch != 0) as u64;
        if found.is_clear() {
            if Q::InFlight::MARKED {
                post.check.give(&pending.entry);
            }
        } else {
            let i = self.count;
            // SAFETY: it is emitted, entered as the `i`th, and not posted.
            if let Some(kind) = unsafe { look_at_one(self.queue, found, i, at.cast(), G) } {
                return Err(not_pushed::<Q>(i, kind, pending.entry));
            }
        }
        std::mem::forget(pending.entry);
        // SAFETY: it is the slot that was emitted.
        unsafe { self.advance(next) };
        Ok(())
    }

    /// Pushes `wrs` until one is rejected.
    ///
    /// # Safety
    /// As for `push`.
    #[inline(always)]
    pub(super) unsafe fn extend<W: Work<Q::Entry, Wr = Q::Wr>>(
        &mut self,
        wrs: impl Iterator<Item = W>,
    ) -> Posted<Q> {
        let (n, most) = wrs.size_hint();
        let left = self.most - self.count as i32;
        if most != Some(n) || n > i32::MAX as usize || n as i32 > left {
            // SAFETY: the queue accepts each of `wrs`, with at most `G` elements, and what they
            // borrow outlives `'d` (the contract of this function).
            return unsafe { self.push_each(wrs) };
        }
        // There are `n` slots, whatever the iterator yields. In this order, `zip` takes nothing
        // beyond them from the iterator.
        let mut each = (0..n).zip(wrs);
        while let Some((_, wr)) = each.next() {
            // SAFETY: a slot is left.
            let (at, next) = unsafe { next_slot(self.at) };
            let seen = self.seen;
            let mut post = self.begin();
            post.check.seen = seen;
            // SAFETY: a slot is left, as in `push`.
            let pending = unsafe { post.put(0, wr, at, ptr::null_mut()) };
            if Q::InFlight::MARKED {
                post.check.give(&pending.entry);
            }
            let (seen, found) = (post.check.seen, post.check.found(post.mismatch()));
            if post.check.faults != 0 {
                // Here, where the entry is dropped if that panics. rustc leaks a returned value in
                // that case.
                drop(each);
                return self.look_back(found, pending.entry);
            }
            // Before the iterator's code may panic: from here on the list owns this entry.
            self.seen = seen;
            std::mem::forget(pending.entry);
            // SAFETY: it is the slot that was emitted.
            unsafe { self.advance(next) };
        }
        if self.has_mismatch() {
            return self.look_back(Found::MISMATCH, None);
        }
        self.seen = 0;
        Ok(())
    }

    /// Inspects each work request of the list, and keeps those before the first that is rejected.
    /// The one at `at`, with this entry, is rejected if something was `found` besides mismatched
    /// buffers.
    #[inline(always)]
    fn look_back(&mut self, found: Found, entry: Option<Q::Entry>) -> Posted<Q> {
        let (n, first) = (self.count, self.slots.cast());
        // The queue is passed by value and returned, so the hot path does not keep a register for
        // it across this call. SAFETY: the function does not unwind, and its result replaces this
        // copy.
        let queue = unsafe { ptr::read(&self.queue) };
        // SAFETY: the slots belong to the list. `out` is writable, and is written.
        let Looked { queue, kept, cursor, result } =
            unsafe { out_of_line(|out| look_through(queue, first, n, G, found, entry, out)) };
        // SAFETY: the field is overwritten, not dropped.
        unsafe { ptr::write(&mut self.queue, queue) };
        (self.at, self.count, self.cursor) = (self.slots.wrapping_add(kept as usize), kept, cursor);
        self.seen = 0;
        result
    }

    /// Pushes work requests one by one, out of line.
    ///
    /// # Safety
    /// As for `push`.
    #[inline(always)]
    unsafe fn push_each<W: Work<Q::Entry, Wr = Q::Wr>>(
        &mut self,
        wrs: impl Iterator<Item = W>,
    ) -> Posted<Q> {
        // The list is moved there and back, like the queue in `look_back`. If the iterator panics,
        // the list is dropped there, and this one is empty.
        let (slots, cursor) = (self.slots, self.queue.in_flight.cursor());
        // SAFETY: the remaining list has no entries, and is overwritten with the result.
        let list = unsafe { ptr::read(self) };
        (self.at, self.count, self.cursor, self.seen) = (slots, 0, cursor, 0);
        // SAFETY: the queue accepts each of `wrs`, with at most `G` elements, and what they borrow
        // outlives `'d` (the contract of this function). `out` is writable, and is written.
        let (list, result) = unsafe { out_of_line(|out| push_each(list, wrs, out)) };
        // SAFETY: the overwritten list has no entries.
        unsafe { ptr::write(self, ManuallyDrop::into_inner(list)) };
        // Unchanged. Stored again for the optimiser.
        (self.slots, self.seen) = (slots, 0);
        result
    }

    /// Posts the list, after calling `end` with its last work request.
    #[inline(always)]
    pub(super) fn post(self, end: impl FnOnce(*mut Q::Wr)) -> Posted<Q> {
        let mut list = ManuallyDrop::new(self);
        list.queue.in_flight.end_list();
        if list.is_empty() {
            list.queue.in_flight.give_back_held();
            return Ok(());
        }
        // SAFETY: some slots were emitted, and the last one is before `at`.
        let last = unsafe {
            let last = list.at.sub(1).cast::<Q::Wr>();
            (*Link::head(last)).next = ptr::null_mut();
            last
        };
        end(last);
        let (n, first, seen) = (list.count, list.slots.cast(), list.seen);
        let mut post = list.begin();
        // There is no mismatch, unless an iterator panicked before the inspection.
        post.check.seen = seen;
        // SAFETY: the list is complete and ends with null.
        unsafe { post.list(n, first, None::<()>) }
    }
}

impl<T: Transport, Q: Kind<Entry: Owned>, const G: usize> Drop for List<'_, T, Q, G> {
    #[inline(always)]
    fn drop(&mut self) {
        self.queue.in_flight.end_list();
        if !self.is_empty() {
            // SAFETY: these slots were emitted, and not posted.
            unsafe { drop_list(self.queue, self.slots.cast(), self.at.wrapping_sub(1).cast()) };
        }
    }
}

/// A list, and whether everything was pushed.
type Grown<'d, T, Q, const G: usize> = (ManuallyDrop<List<'d, T, Q, G>>, Posted<Q>);

/// Pushes work requests one by one. Returns the list, with all of its buffers inspected.
///
/// # Safety
/// `out` is writable; as for `push`.
#[cold]
#[inline(never)]
unsafe fn push_each<
    'd,
    T: Transport,
    Q: Kind<Entry: Owned>,
    W: Work<Q::Entry, Wr = Q::Wr>,
    const G: usize,
>(
    mut list: List<'d, T, Q, G>,
    mut wrs: impl Iterator<Item = W>,
    out: *mut Grown<'d, T, Q, G>,
) {
    // If the iterator panics, this list is dropped, and then the one that was left behind.
    list.queue.in_flight.begin_list();
    let is_known = !list.has_mismatch();
    let looked = if is_known { Ok(()) } else { list.look_back(Found::MISMATCH, None) };
    // SAFETY: the caller satisfies the contract of `push`, and `out` is writable.
    unsafe {
        let result = looked.and_then(|()| wrs.try_for_each(|wr| list.push(wr)));
        // Here, where the list is dropped if that panics.
        drop(wrs);
        list.queue.in_flight.end_list();
        out.write((ManuallyDrop::new(list), result));
    }
}
