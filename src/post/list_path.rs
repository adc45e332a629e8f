//! Lists whose length is known at run time: linked while they are pushed, bounded by their slots.
//!
//! What a list keeps is in registers between two work requests, so it is little, and cold functions
//! get values, never the list.

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
/// - The `count` slots from `slots` to `at` are emitted, their entries entered in the in-flight
///   table before `cursor` and given up; each is linked to the next slot. There are `most` slots
///   and as much room, at most `capacity` in all.
/// - `seen` is what their buffers' marks are, or-ed; nothing of those that were looked at.
/// - `'d` is outlived by everything that the work requests borrow.
pub(crate) struct List<'d, T: Transport, Q: Kind<Entry: Owned>, const G: usize> {
    pub(super) queue: &'d mut Queue<Q>,
    /// The address of the queue's counter of completions, a copy: the compiler would load it from
    /// the queue again for each work request.
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

/// `'d` is no other lifetime.
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

    /// Whether a buffer needs a look.
    #[inline(always)]
    fn has_mismatch(&self) -> bool {
        self.seen & self.queue.in_flight.state().mismatch != 0
    }

    /// For the next work request.
    #[inline(always)]
    fn begin(&mut self) -> Post<'_, T, Q> {
        let mut post = Post::at(self.queue, self.counter, Some(self.cursor));
        post.check.max_sge = post.check.max_sge.min(G as u32);
        post
    }

    /// The slot before `next` was emitted and entered, its entry given up.
    ///
    /// # Safety
    /// It is the slot at `at`.
    #[inline(always)]
    unsafe fn advance(&mut self, next: *mut Slot<Q::Wr, [ibv_sge; G]>) {
        // SAFETY: the slot before `next` is one of the list's.
        unsafe { (*Link::head(next.sub(1).cast::<Q::Wr>())).next = next.cast() };
        self.at = next;
        self.count += 1;
        Q::InFlight::advance(&mut self.cursor);
    }

    /// Adds a work request.
    ///
    /// # Safety
    /// The queue may have it by the rules; it has at most `G` elements; what it borrows outlives
    /// `'d`.
    #[inline(always)]
    pub(super) unsafe fn push<W: Work<Q::Entry, Wr = Q::Wr>>(&mut self, wr: W) -> Posted<Q> {
        if self.count as i32 >= self.most {
            let i = self.count;
            let most = more_room(self.queue, i, self.capacity);
            self.most = most as i32;
            if most == i {
                let mut scratch = Slot::<Q::Wr, <W::Data as Data<Q::Entry>>::Sges>::new();
                let mut post = self.begin();
                // SAFETY: a slot of its own, whose work request is not posted. What else is wrong
                // with it is not the next one's fault: that has a check of its own.
                let pending = unsafe { post.put(0, wr, &raw mut scratch, ptr::null_mut()) };
                let kind = why_full(self.queue, most, self.capacity);
                return Err(not_pushed::<Q>(most, kind, pending.entry));
            }
        }
        // SAFETY: a slot is left.
        let (at, next) = unsafe { next_slot(self.at) };
        self.at = at;
        let mut post = self.begin();
        // SAFETY: a slot is left, with room enough, and stays where it is: the list borrows the
        // array until it is posted.
        let pending = unsafe { post.put(0, wr, at, ptr::null_mut()) };
        let is_one = <W::Data as Data<Q::Entry>>::IS_ONE;
        let mismatch = post.mismatch();
        let mut found = post.check.found_in(&pending.entry, is_one, mismatch);
        // What is only tested can be the operand of the test.
        found.mismatch = (found.mismatch != 0) as u64;
        if found.is_clear() {
            if Q::InFlight::MARKED {
                post.check.give(&pending.entry);
            }
        } else {
            let i = self.count;
            // SAFETY: emitted, entered as the `i`th, and not posted.
            if let Some(kind) = unsafe { look_at_one(self.queue, found, i, at.cast(), G) } {
                return Err(not_pushed::<Q>(i, kind, pending.entry));
            }
        }
        std::mem::forget(pending.entry);
        // SAFETY: the slot that was emitted.
        unsafe { self.advance(next) };
        Ok(())
    }

    /// Pushes each of `wrs`, up to the first that is refused.
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
            // SAFETY: the queue may have each of `wrs`, which has at most `G` elements, and what it
            // borrows outlives `'d` (this function's contract).
            return unsafe { self.push_each(wrs) };
        }
        // Whatever the iterator gives: there are `n` slots. In this order, so that nothing is taken
        // from it beyond.
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
                // Here, where the entry goes if that panics: rustc forgets what is returned then.
                drop(each);
                return self.look_back(found, pending.entry);
            }
            // Before the iterator's code may panic: the list has this one from now on.
            self.seen = seen;
            std::mem::forget(pending.entry);
            // SAFETY: the slot that was emitted.
            unsafe { self.advance(next) };
        }
        if self.has_mismatch() {
            return self.look_back(Found::MISMATCH, None);
        }
        self.seen = 0;
        Ok(())
    }

    /// Looks at each work request of the list, and keeps those before the first that is refused.
    /// The one at `at`, which has this entry, is refused, if something was `found` besides
    /// mismatched buffers.
    #[inline(always)]
    fn look_back(&mut self, found: Found, entry: Option<Q::Entry>) -> Posted<Q> {
        let (n, first) = (self.count, self.slots.cast());
        // The queue is passed by value and comes back: so the hot path keeps no register for it
        // over this call. SAFETY: the function does not unwind, and what it gives back takes the
        // place of this.
        let queue = unsafe { ptr::read(&self.queue) };
        // SAFETY: the list's slots; `out` is writable, and written.
        let Looked { queue, kept, cursor, result } =
            unsafe { out_of_line(|out| look_through(queue, first, n, G, found, entry, out)) };
        // SAFETY: the place is written over, not dropped.
        unsafe { ptr::write(&mut self.queue, queue) };
        (self.at, self.count, self.cursor) = (self.slots.wrapping_add(kept as usize), kept, cursor);
        self.seen = 0;
        result
    }

    /// Pushes one after the other, out of line.
    ///
    /// # Safety
    /// As for `push`.
    #[inline(always)]
    unsafe fn push_each<W: Work<Q::Entry, Wr = Q::Wr>>(
        &mut self,
        wrs: impl Iterator<Item = W>,
    ) -> Posted<Q> {
        // The list goes there and back, as the queue does in `look_back`. If the iterator panics it
        // is dropped there, and this one is empty.
        let (slots, cursor) = (self.slots, self.queue.in_flight.cursor());
        // SAFETY: what is left behind has no entries, and a list is put in its place.
        let list = unsafe { ptr::read(self) };
        (self.at, self.count, self.cursor, self.seen) = (slots, 0, cursor, 0);
        // SAFETY: the queue may have each of `wrs`, with at most `G` elements, and what it borrows
        // outlives `'d` (this function's contract). `out` is writable, and written.
        let (list, result) = unsafe { out_of_line(|out| push_each(list, wrs, out)) };
        // SAFETY: the list that is written over has no entries.
        unsafe { ptr::write(self, ManuallyDrop::into_inner(list)) };
        // Unchanged; restated for the optimiser.
        (self.slots, self.seen) = (slots, 0);
        result
    }

    /// Posts the list, after `end` was given its last work request.
    #[inline(always)]
    pub(super) fn post(self, end: impl FnOnce(*mut Q::Wr)) -> Posted<Q> {
        let mut list = ManuallyDrop::new(self);
        list.queue.in_flight.end_list();
        if list.is_empty() {
            return Ok(());
        }
        // SAFETY: some slots were emitted, the last of them before `at`.
        let last = unsafe {
            let last = list.at.sub(1).cast::<Q::Wr>();
            (*Link::head(last)).next = ptr::null_mut();
            last
        };
        end(last);
        let (n, first, seen) = (list.count, list.slots.cast(), list.seen);
        let mut post = list.begin();
        // No mismatch, unless an iterator panicked before it was looked at.
        post.check.seen = seen;
        // SAFETY: the list is put together and ended.
        unsafe { post.list(n, first, None::<()>) }
    }
}

impl<T: Transport, Q: Kind<Entry: Owned>, const G: usize> Drop for List<'_, T, Q, G> {
    #[inline(always)]
    fn drop(&mut self) {
        self.queue.in_flight.end_list();
        if !self.is_empty() {
            // SAFETY: those slots were emitted, and not posted.
            unsafe { drop_list(self.queue, self.slots.cast(), self.at.wrapping_sub(1).cast()) };
        }
    }
}

/// A list, and whether all was pushed.
type Grown<'d, T, Q, const G: usize> = (ManuallyDrop<List<'d, T, Q, G>>, Posted<Q>);

/// Pushes one after the other, and says what became of the list, whose buffers were all looked at
/// then.
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
    // If the iterator panics, this list ends, and then the one that it left behind.
    list.queue.in_flight.begin_list();
    let is_known = !list.has_mismatch();
    let looked = if is_known { Ok(()) } else { list.look_back(Found::MISMATCH, None) };
    // SAFETY: the caller promises what `push` asks for, and that `out` is writable.
    unsafe {
        let result = looked.and_then(|()| wrs.try_for_each(|wr| list.push(wr)));
        // Here, where the list goes if that panics.
        drop(wrs);
        list.queue.in_flight.end_list();
        out.write((ManuallyDrop::new(list), result));
    }
}
