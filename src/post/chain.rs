//! One work request, or a chain of them on the stack: emitted, committed, posted.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use crate::cold::out_of_line;
use crate::counters::books::Counter;
use crate::counters::word;
use crate::ledger::{Ledger, MOST, SendMode};
use crate::memory::entry::{Entry, Owned};
use crate::post::bad_wr::BadWr;
use crate::post::queue::{Queue, RecvQueue, SendQueue, SharedQueue};
use crate::post::refusal::PostError;
use crate::post::slow::{refused_by_device, slow};
use crate::profile::Profile;
use crate::rules::{
    Addressed, FenceOn, IssuedBy, LeavesUnsignaled, PostOn, SharesReceives, SignaledOn,
};
use crate::sys::types::{ibv_recv_wr, ibv_send_wr};
use crate::terms::transport::Transport;
use crate::work::address::Address;
use crate::work::chain::head;
use crate::work::check::{Check, Found, fault};
use crate::work::data::{Data, Fits, SrqSink, peek};
use crate::work::limits::{Limit, Max};
use crate::work::recv::Recv;
use crate::work::request::{Pending, Work, WorkRequest};
use crate::work::slot::{RecvSlot, SendSlot, Slot};

/// Entries that an unsignaled post left with the device: nothing will tell when they are done but
/// the completion of a later, signaled one.
///
/// See [`QueuePair::complete`](crate::QueuePair::complete) (R2.4).
#[must_use = "nothing completes these work requests: post a signaled one after them"]
#[derive(Debug)]
pub struct Unsettled(());

impl Unsettled {
    pub(crate) fn new() -> Self {
        Unsettled(())
    }
}

/// A list of work requests on its way to a queue. The posting macros use it.
#[doc(hidden)]
pub struct Post<'q, T: Transport, Q: Queue> {
    queue: &'q mut Q,
    pub(super) check: Check,
    /// Where the list begins in the ledger, once that was asked: before, it would occupy registers.
    cursor: Option<Cursor<Q>>,
    _transport: PhantomData<T>,
}

/// Where a list begins in the ledger of a queue.
pub(super) type Cursor<Q> = <<Q as Queue>::Ledger as Ledger<<Q as Queue>::Entry>>::Cursor;

/// What a post gives.
pub(super) type Posted<Q> = Result<(), PostError<<Q as Queue>::Entry>>;

#[doc(hidden)]
pub type SendPost<'q, T, P> = Post<'q, T, SendQueue<P>>;
#[doc(hidden)]
pub type RecvPost<'q, T, P> = Post<'q, T, RecvQueue<P>>;
#[doc(hidden)]
pub type SrqPost<'q, T, E, M> = Post<'q, T, SharedQueue<E, M>>;

impl<'q, T: Transport, Q: Queue> Post<'q, T, Q> {
    #[inline(always)]
    pub(crate) fn new(queue: &'q mut Q) -> Self {
        let counter = queue.ledger().account().counter;
        Post::at(queue, counter, None)
    }

    /// What C posts to.
    #[inline(always)]
    pub(super) fn object(&self) -> *mut Q::Object {
        self.queue.object()
    }

    /// What must not be in the mark of a buffer that needs no look.
    #[inline(always)]
    pub(super) fn strange(&self) -> u64 {
        self.queue.ledger().account().strange
    }

    /// A list of the queue with this counter that begins at `cursor`, or where the ledger says.
    #[inline(always)]
    pub(super) fn at(queue: &'q mut Q, counter: *const Counter, cursor: Option<Cursor<Q>>) -> Self {
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
    /// the ledger.
    ///
    /// # Safety
    /// - The queue may have it by the rules.
    /// - `slot` is writable, has room for its elements and stays where it is until the post.
    /// - `prev` is null, or the work request emitted before.
    /// - Lists have at most `MOST` work requests, or as many as there is room for.
    #[inline(always)]
    pub(crate) unsafe fn put<W: Work<Q::Entry, Wr = Q::Wr>, S>(
        &mut self,
        i: u32,
        wr: W,
        slot: *mut Slot<Q::Wr, S>,
        prev: *mut Q::Wr,
    ) -> Pending<Q::Entry, W::Data> {
        // Anew each time: a pointer into the queue would not survive a mutable borrow of it.
        self.check.look_up_in(self.queue.address_handles());
        let at = slot.cast::<Q::Wr>();
        // SAFETY: the slot is writable and has room; the check knows the queue's address handles.
        let mut pending = unsafe { wr.emit(slot.cast(), &mut self.check) };
        let wr_id = if Q::Entry::OWNED {
            let (word, entry) = peek(pending.entry.take());
            pending.entry = entry;
            if Q::NEEDS_BUFFERS && word == 0 {
                self.check.note(fault::NO_BUFFER);
            }
            let cursor = *self.cursor.get_or_insert_with(|| self.queue.ledger().cursor());
            // SAFETY: nothing is spent before the post; lists are no longer than the ledger's.
            let wr_id = unsafe { self.queue.ledger_mut().enter(&cursor, i, word) };
            debug_assert_eq!(wr_id & Self::TAGS, 0);
            // Added, not or-ed: that is one instruction, an address.
            wr_id.wrapping_add(Self::TAGS)
        } else {
            pending.wr_id
        };
        // SAFETY: the slot is writable, and so is the one before, which was emitted in the same
        // way.
        unsafe {
            (*head(at)).wr_id = wr_id;
            if !prev.is_null() {
                (*head(prev)).next = at;
            }
        }
        pending
    }

    /// As `put`; and the buffer shows that the queue has it.
    ///
    /// # Safety
    /// As for `put`.
    #[inline(always)]
    unsafe fn put_and_give<W: Work<Q::Entry, Wr = Q::Wr>, S>(
        &mut self,
        i: u32,
        wr: W,
        slot: *mut Slot<Q::Wr, S>,
        prev: *mut Q::Wr,
    ) -> Pending<Q::Entry, W::Data> {
        if i == 0 {
            note_list(self.queue, true);
        }
        // SAFETY: the contract is the same.
        let pending = unsafe { self.put(i, wr, slot, prev) };
        if Q::Ledger::MARKED {
            self.check.give(&pending.entry);
        }
        pending
    }

    /// Posts one work request.
    ///
    /// # Safety
    /// The queue may have it by the rules.
    #[inline(always)]
    pub(crate) unsafe fn one<W: Work<Q::Entry, Wr = Q::Wr>>(mut self, wr: W) -> Posted<Q> {
        let mut slot = Slot::<Q::Wr, <W::Data as Data<Q::Entry>>::Sges>::new();
        let wr_at = (&raw mut slot).cast::<Q::Wr>();
        // SAFETY: the slot is a local for the elements of this work request, and stays until the
        // post.
        let pending = unsafe { self.put(0, wr, &raw mut slot, ptr::null_mut()) };
        // SAFETY: `put` emitted it.
        unsafe { (*head(wr_at)).next = ptr::null_mut() };
        let entry = ManuallyDrop::new(pending.entry);
        let is_one = <W::Data as Data<Q::Entry>>::IS_ONE;
        let found = self.check.found_in(&entry, is_one, self.strange());
        if !found.is_clear() || !self.queue.ledger_mut().spend(1) {
            // SAFETY: a list of one that is not spent, its entry given up.
            return unsafe { self.go_slow(found, 1, wr_at) };
        }
        if let (true, Some(entry)) = (Q::Ledger::MARKED, &*entry) {
            // SAFETY: an entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.header() }.give(self.queue.ledger().account().counter);
        }
        // SAFETY: the entry is committed and the list is linked.
        unsafe { doorbell(self.queue, 1, wr_at) }
    }

    /// Posts the chain `first..=last` of `N`.
    ///
    /// # Safety
    /// It was emitted by `emit`, in order, and these are its entries.
    ///
    /// # Errors
    /// As for the method that posts one.
    #[inline(always)]
    pub unsafe fn post<const N: usize>(
        self,
        entries: [Option<Q::Entry>; N],
        first: *mut Q::Wr,
        last: *mut Q::Wr,
    ) -> Result<(), PostError<Q::Entry>>
    where
        Q::Entry: Owned,
    {
        // What `enter` relies on.
        const { assert!(N <= MOST as usize) };
        // They live on in the wr_ids, or in the ring.
        std::mem::forget(entries);
        // SAFETY: the caller emitted the chain, and `last` is its last.
        unsafe {
            (*head(last)).next = ptr::null_mut();
            self.list(N as u32, first)
        }
    }

    /// Posts a list that is put together and ended, its entries given up and shown to be the
    /// queue's.
    ///
    /// # Safety
    /// The `n` work requests from `first` on were emitted by `put`, in order.
    #[inline(always)]
    pub(super) unsafe fn list(self, n: u32, first: *mut Q::Wr) -> Posted<Q> {
        note_list(self.queue, false);
        // In this order: once posted, another thread may poll the completion.
        let found = self.check.found(self.strange());
        if !found.is_clear() || !self.queue.ledger_mut().spend(n) {
            // SAFETY: the list is not spent, its entries given up.
            return unsafe { self.go_slow(found, n, first) };
        }
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(self.queue, n, first) }
    }

    /// # Safety
    /// As for `slow`.
    #[inline(always)]
    unsafe fn go_slow(self, found: Found, n: u32, first: *mut Q::Wr) -> Posted<Q> {
        let mut error = MaybeUninit::uninit();
        // SAFETY: the caller has the list, and `slow` writes the error when it says no.
        unsafe {
            match slow(self.queue, found, n, first, error.as_mut_ptr()) {
                true => Ok(()),
                false => Err(error.assume_init()),
            }
        }
    }
}

/// Notes, for an assertion of debug builds, that the buffers of a list that is put together name
/// the books.
#[inline(always)]
pub(super) fn note_list<Q: Queue>(_queue: &Q, _has_list: bool) {
    #[cfg(debug_assertions)]
    // SAFETY: the books outlive the ledger.
    unsafe {
        (*_queue.ledger().account().books).note_list(_has_list);
    }
}

/// Tells the device.
///
/// # Safety
/// `first` is a list of `n` emitted work requests whose entries are committed.
#[inline(always)]
pub(super) unsafe fn doorbell<Q: Queue>(queue: &mut Q, n: u32, first: *mut Q::Wr) -> Posted<Q> {
    let object = queue.object();
    let mut bad_wr = BadWr::new(queue);
    // SAFETY: the object is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { Q::verb(object, first, bad_wr.out()) } {
        0 => Ok(()),
        errno => {
            let (bad, queue) = bad_wr.read();
            // SAFETY: the device said from where on it did not take the list, which is still there.
            Err(out_of_line(|out| unsafe { refused_by_device(queue, n, first, bad, errno, out) }))
        }
    }
}

impl<'q, T: Transport, P: Profile> SendPost<'q, T, P> {
    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<O, D, A, F, G>(&self, _: &WorkRequest<O, D, A, F, G>) -> SendSlot<D::Sges>
    where
        D: Data<P::Entry>,
    {
        SendSlot::new()
    }

    /// Emits the `i`th work request of the list into `slot`, links `prev` to it, and shows in its
    /// buffer that the queue has it. That which `is_last` is signaled where not all are: to say so
    /// later would be a store more.
    ///
    /// # Safety
    /// `slot` is writable and stays where it is until the post; `prev` is null or the work request
    /// emitted before; a list has at most 128 work requests.
    #[inline(always)]
    pub unsafe fn emit<O, D, A, F, G>(
        &mut self,
        i: u32,
        is_last: bool,
        wr: WorkRequest<O, D, A, F, G>,
        slot: *mut SendSlot<D::Sges>,
        prev: *mut ibv_send_wr,
    ) -> Pending<P::Entry, D>
    where
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        G: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        let wr = wr.flagged(if is_last { P::Signaling::SIGNAL_LAST } else { 0 });
        // SAFETY: the bounds are the rules; the rest is promised.
        unsafe { self.put_and_give(i, wr, slot, prev) }
    }

    /// As `post`, but the last is signaled only if the queue would be full otherwise.
    ///
    /// # Safety
    /// As for `post`.
    ///
    /// # Errors
    /// As for `post_send_unsignaled`.
    #[inline(always)]
    pub unsafe fn post_unsignaled<const N: usize>(
        self,
        entries: [Option<P::Entry>; N],
        first: *mut ibv_send_wr,
        last: *mut ibv_send_wr,
    ) -> Result<Unsettled, PostError<P::Entry>>
    where
        P::Signaling: LeavesUnsignaled,
        P::Entry: Owned,
    {
        let flags = self.queue.signal_if_full(N as u32);
        // SAFETY: `last` was emitted; the rest is promised as for `post`.
        unsafe {
            (*last).send_flags |= flags;
            self.post(entries, first, last).map(|()| Unsettled::new())
        }
    }
}

impl<'q, T: Transport, P: Profile> RecvPost<'q, T, P> {
    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<D: Data<P::Entry>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges> {
        RecvSlot::new()
    }

    /// Emits a receive into `slot`, links `prev` to it, and shows in its buffer that the queue has
    /// it.
    ///
    /// # Safety
    /// `slot` is writable and stays where it is until the post; `prev` is null or the work request
    /// emitted before.
    #[inline(always)]
    pub unsafe fn emit<D>(
        &mut self,
        wr: Recv<D>,
        slot: *mut RecvSlot<D::Sges>,
        prev: *mut ibv_recv_wr,
    ) -> Pending<P::Entry, D>
    where
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline>,
    {
        // SAFETY: the bounds are the rules; the rest is promised. Credits need no place in the
        // list.
        unsafe { self.put_and_give(0, wr, slot, prev) }
    }
}

impl<'q, T: SharesReceives, E: Entry, M: Limit> SrqPost<'q, T, E, M> {
    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<D: Data<E>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges> {
        RecvSlot::new()
    }

    /// Emits a receive into `slot`, links `prev` to it, and shows in its buffer that the queue has
    /// it.
    ///
    /// # Safety
    /// `slot` is writable and stays where it is until the post; `prev` is null or the work request
    /// emitted before.
    #[inline(always)]
    pub unsafe fn emit<D>(
        &mut self,
        wr: Recv<D>,
        slot: *mut RecvSlot<D::Sges>,
        prev: *mut ibv_recv_wr,
    ) -> Pending<E, D>
    where
        D: Data<E> + SrqSink + Fits<M, Max<0>>,
    {
        // SAFETY: the bounds are the rules; the rest is promised. Nothing is counted here.
        unsafe { self.put_and_give(0, wr, slot, prev) }
    }
}
