//! The path of a post, for every kind of queue: emit a work request and enter it in the in-flight
//! table, commit the list, and ring the doorbell. Everything else is left to `slow`.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use crate::cold::{cold_path, out_of_line};
use crate::counters::queue_counters::CompletionCounter;
use crate::in_flight::InFlight;
use crate::memory::entry::Entry;
use crate::memory::header::{Word, word};
use crate::post::chain::Post;
use crate::post::queue::{Kind, Queue};
use crate::post::refusal::PostError;
use crate::post::slow::{refused_by_device, slow};
use crate::sys::data::{Each, Link, Verb};
use crate::terms::transport::Transport;
use crate::work::data::Data;
use crate::work::fault;
use crate::work::request::{Check, Found, Pending, Slot, Work};

/// The position at which a list starts in the in-flight table of a queue.
pub(super) type Cursor<Q> = <<Q as Kind>::InFlight as InFlight<<Q as Kind>::Entry>>::Cursor;

/// The verb's knowledge of a work request.
pub(super) type KnownBy<Q> = <<Q as Kind>::Verb as Verb>::Known;

/// The result of a post.
pub(super) type Posted<Q> = Result<(), PostError<<Q as Kind>::Entry>>;

impl<'q, T: Transport, Q: Kind> Post<'q, T, Q> {
    #[inline(always)]
    pub(crate) fn new(queue: &'q mut Queue<Q>) -> Self {
        let counter = queue.in_flight.state().counter;
        Post::at(queue, counter, None)
    }

    /// The bits that must not be in the type tag of a buffer, unless it is inspected.
    #[inline(always)]
    pub(super) fn mismatch(&self) -> u64 {
        self.queue.in_flight.state().mismatch
    }

    /// A list of the queue with this counter. It starts at `cursor`, or where the in-flight table
    /// says.
    #[inline(always)]
    pub(super) fn at(
        queue: &'q mut Queue<Q>,
        counter: *const CompletionCounter,
        cursor: Option<Cursor<Q>>,
    ) -> Self {
        let check = Check::new(counter, Q::MAX_SGE, Q::MAX_INLINE);
        Post { queue, check, cursor, _transport: PhantomData }
    }

    /// The tag bits of wr_ids.
    const TAGS: u64 = match (Q::RECEIVES, T::DATAGRAM) {
        (false, _) => 0,
        (true, false) => word::RECEIVE as u64,
        (true, true) => (word::RECEIVE | word::DATAGRAM) as u64,
    };

    /// Emits the `i`th work request of the list into `slot`, links `prev` to it, and enters it in
    /// the in-flight table.
    ///
    /// # Safety
    /// - The rules allow the work request on this queue.
    /// - `slot` is writable, has room for its elements, and does not move until the post.
    /// - `prev` is null, or the work request emitted before.
    /// - A list has at most `MOST` work requests, or as many as there is room for.
    #[inline(always)]
    pub(crate) unsafe fn put<W: Work<Q::Entry, Wr = Q::Wr>, S>(
        &mut self,
        i: u32,
        wr: W,
        slot: *mut Slot<Q::Wr, S>,
        prev: *mut Q::Wr,
    ) -> Pending<Q::Entry, W::Data, (), KnownBy<Q>> {
        // Read each time, because a pointer into the queue would not survive a mutable borrow of
        // it.
        self.check.ah = Q::ahs(self.queue);
        let at = slot.cast::<Q::Wr>();
        // SAFETY: the slot is writable and has room, and the check has the queue's address handles.
        let pending = unsafe { wr.emit(slot.cast(), &mut self.check) };
        let wr_id = if Q::Entry::OWNED {
            let word = pending.entry.as_ref().map(Word::word);
            if Q::NEEDS_BUFFERS && word.is_none() {
                self.check.note(fault::NO_BUFFER);
            }
            let cursor = self.cursor.get_or_insert_with(|| self.queue.in_flight.cursor());
            // SAFETY: nothing is spent before the post, and lists are not longer than the in-flight
            // table.
            let wr_id = unsafe { self.queue.in_flight.enter(cursor, i, word, pending.wr_id) };
            debug_assert_eq!(wr_id & Self::TAGS, 0);
            // An addition instead of an OR takes one instruction, an address computation.
            wr_id.wrapping_add(Self::TAGS)
        } else {
            pending.wr_id
        };
        // SAFETY: the slot is writable, and so is the one before, which was emitted in the same
        // way.
        unsafe {
            (*Link::head(at)).wr_id = wr_id;
            let known = Q::Verb::known(at);
            // Work requests that are posted from known values do not need memory, so the link is
            // not stored. (The `unsafe` path posts what is in memory.)
            if (!Q::Verb::KNOWS || !Q::Entry::OWNED) && !prev.is_null() {
                (*Link::head(prev)).next = at;
            }
            pending.known_as(known)
        }
    }

    /// Posts one work request.
    ///
    /// # Safety
    /// The rules allow the work request on this queue.
    #[inline(always)]
    pub(crate) unsafe fn one<W: Work<Q::Entry, Wr = Q::Wr>>(self, wr: W) -> Posted<Q> {
        let mut slot = Slot::<Q::Wr, <W::Data as Data<Q::Entry>>::Sges>::new();
        // SAFETY: the slot is a local with room for the elements of this work request, and lives
        // until the post. The rest is the contract of this function.
        unsafe { self.one_at((wr, &raw mut slot)) }
    }

    /// Posts one work request, in `slot`.
    ///
    /// # Safety
    /// The rules allow the work request on this queue, and the slot is as for `put`.
    #[inline(always)]
    pub(crate) unsafe fn one_at<W: Work<Q::Entry, Wr = Q::Wr>, S>(
        mut self,
        (wr, slot): (W, *mut Slot<Q::Wr, S>),
    ) -> Posted<Q> {
        let wr_at = slot.cast::<Q::Wr>();
        // SAFETY: the slot satisfies the contract of `put`.
        let pending = unsafe { self.put(0, wr, slot, ptr::null_mut()) };
        if !W::IS_FILLED {
            // SAFETY: `put` emitted it.
            unsafe { (*Link::head(wr_at)).next = ptr::null_mut() };
        }
        // A work request that was filled before is in memory.
        let known = (!W::IS_FILLED).then_some((pending.known, ()));
        let entry = ManuallyDrop::new(pending.entry);
        let is_one = <W::Data as Data<Q::Entry>>::IS_ONE;
        let found = self.check.found_in(&entry, is_one, self.mismatch());
        if !found.is_clear() || !self.queue.in_flight.spend(1) {
            // SAFETY: it is a list of one that is not spent, and its entry is given up. It is
            // posted now, or never.
            return unsafe {
                let posted = self.go_slow(found, 1, wr_at, &known);
                W::restore(wr_at);
                posted
            };
        }
        if let (true, Some(entry)) = (Q::InFlight::MARKED, &*entry) {
            // SAFETY: the entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.first() }.give(self.queue.in_flight.state().counter);
        }
        // SAFETY: the entry is committed and the list is linked.
        unsafe { doorbell(self.queue, 1, wr_at, known) }
    }

    /// Posts a complete list, whose entries are marked as owned by the queue. No handle owns them.
    ///
    /// # Safety
    /// `put` emitted the `n` work requests from `first` on, in order. If they are `known`, it is
    /// what `put` returned.
    #[inline(always)]
    pub(super) unsafe fn list(
        self,
        n: u32,
        first: *mut Q::Wr,
        known: Option<impl Each<KnownBy<Q>>>,
    ) -> Posted<Q> {
        // In this order, because another thread may poll the completion as soon as it is posted.
        let found = self.check.found(self.mismatch());
        if !found.is_clear() || !self.queue.in_flight.spend(n) {
            // SAFETY: the list is not spent, and its entries are given up.
            return unsafe { self.go_slow(found, n, first, &known) };
        }
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(self.queue, n, first, known) }
    }

    /// # Safety
    /// As for `slow`. If the list is `known`, it is what the verb returned for it.
    #[inline(always)]
    unsafe fn go_slow<L: Each<KnownBy<Q>>>(
        self,
        found: Found,
        n: u32,
        first: *mut Q::Wr,
        known: &Option<L>,
    ) -> Posted<Q> {
        let mut room = MaybeUninit::<L::Room<Q::Wr>>::uninit();
        let mut error = MaybeUninit::uninit();
        // SAFETY: the caller owns the list, which is where it was emitted or in a room. `slow`
        // writes the error if it returns false.
        unsafe {
            let first = match known {
                Some(known) if Q::Verb::KNOWS => known.show::<Q::Verb>(room.as_mut_ptr()),
                _ => first,
            };
            match slow(self.queue, found, n, first, &mut error) {
                true => Ok(()),
                false => Err(error.assume_init()),
            }
        }
    }
}

/// Rings the doorbell.
///
/// # Safety
/// `first` is a list of `n` emitted work requests whose entries are committed. If they are `known`,
/// it is what the verb returned for them.
#[inline(always)]
unsafe fn doorbell<Q: Kind, L: Each<KnownBy<Q>>>(
    queue: &mut Queue<Q>,
    n: u32,
    first: *mut Q::Wr,
    known: Option<L>,
) -> Posted<Q> {
    let refused = |queue, first, bad, errno| {
        // SAFETY: the device reported the first work request that it did not accept, and the list
        // still exists. The error is written.
        Err(unsafe { out_of_line(|to| refused_by_device(queue, n, first, bad, errno, to)) })
    };
    let mut room = MaybeUninit::<L::Room<Q::Wr>>::uninit();
    // SAFETY: the object is alive, the list is valid, and its buffers are owned by the device now.
    // The known values are written to a room that lives until the list was rejected.
    unsafe {
        let (mut first, mut bad) = (first, ptr::null_mut());
        queue.count_next(match &known {
            Some(known) if Q::COUNTED && Q::Verb::KNOWS => known.show::<Q::Verb>(room.as_mut_ptr()),
            _ => first,
        });
        if let (true, Some(known)) = (Q::Verb::KNOWS, &known) {
            // (Each result returns separately. Otherwise the result is kept across the session.)
            let posted = Q::Verb::post_known(queue.object, known);
            if posted == Some(0) {
                queue.count_posted(n);
                return Ok(());
            }
            cold_path();
            first = known.show::<Q::Verb>(room.as_mut_ptr());
            if let Some(errno) = posted {
                return refused(queue, first, first, errno);
            }
        }
        match Q::Verb::post(queue.object, first, &raw mut bad) {
            0 => {
                queue.count_posted(n);
                Ok(())
            }
            errno => refused(queue, first, bad, errno),
        }
    }
}
