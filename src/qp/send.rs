//! Posting sends: one work request, or a chain of them on the stack.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::send_slow::{send_failed, slow};
use super::{Begun, Core, QueuePair, SendQueue};
use crate::cold::{Outcome, out_of_line};
use crate::entry::{Entry, Owned};
use crate::in_flight::{MOST, PostError, SendBooks, SendMode};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::rules::{
    Addressed, CanPostSend, FenceOn, IssuedBy, LeavesUnsignaled, PostOn, SignaledOn,
};
use crate::state::State;
use crate::sys::data;
use crate::sys::types::{ibv_send_flags, ibv_send_wr};
use crate::transport::Transport;
use crate::wr::data::peek;
use crate::wr::port::{Findings, Port};
use crate::wr::slot::{SendSlot, Slot};
use crate::wr::{Address, Data, Fits, Opcode, Pending, WorkRequest};

/// Entries that an unsignaled post left with the device: nothing will tell when they are done but the
/// completion of a later, signaled one.
///
/// See [`QueuePair::complete`] (R2.4).
#[must_use = "nothing completes these work requests: post a signaled one after them"]
#[derive(Debug)]
pub struct Unsettled(());

impl Unsettled {
    pub(super) fn new() -> Self {
        Unsettled(())
    }
}

/// Where a list begins in the books of a profile's send queue.
pub(super) type Cursor<P> = <SendQueue<P> as SendBooks<<P as Profile>::Entry>>::Cursor;

/// A list of sends on its way to a queue pair. The posting macros use it.
#[doc(hidden)]
pub struct SendPost<'q, T: Transport, P: Profile> {
    pub(crate) core: &'q mut Core<P>,
    pub(super) port: Port,
    /// Where the list begins in the books, once that was asked: before, it would occupy registers.
    cursor: Option<Cursor<P>>,
    _transport: PhantomData<T>,
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Posts one send work request (`ibv_post_send`). On a queue pair with selective signaling it is
    /// signaled.
    ///
    /// What it carries belongs to the device until its completion, or comes back in the error. For several at
    /// once see [`post_send!`](crate::post_send!) and [`send_list`](Self::send_list).
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
    /// let region = pd.register::<RemoteWrite>(256)?;
    /// a.post_send(RdmaWrite::new(pool.take().ok_or("no buffer")?, region.remote().write()))?;
    /// assert_eq!(a.sends_outstanding(), 1);
    /// # proverbs::guide::poll(&mut cq, 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`QueueFull`](crate::PostErrorKind::QueueFull) (R9.6), and the other
    /// [kinds](crate::PostErrorKind).
    #[inline(always)]
    pub fn post_send<O, D, A, F, G>(
        &mut self,
        wr: WorkRequest<O, D, A, F, G>,
    ) -> Result<(), PostError<P::Entry>>
    where
        S: CanPostSend,
        P::Entry: Owned,
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        G: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        let mut post = SendPost::<T, P>::new(&mut self.core);
        let wr = wr.flagged(P::Signaling::SIGNAL_LAST);
        let mut slot = SendSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.put(0, wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post_one::<D>(pending.entry, at.cast()) }
    }

    /// As [`post_send`](Self::post_send), not signaled: the entry comes back with the completion of a
    /// later signaled work request. The one that fills the queue is signaled all the same (R9.8).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_send_unsignaled<O, D, A, F, G>(
        &mut self,
        wr: WorkRequest<O, D, A, F, G>,
    ) -> Result<Unsettled, PostError<P::Entry>>
    where
        S: CanPostSend,
        P::Signaling: LeavesUnsignaled,
        P::Entry: Owned,
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        let mut post = SendPost::<T, P>::new(&mut self.core);
        let wr = wr.flagged(post.signal_if_full(1));
        let mut slot = SendSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.put(0, wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post_one::<D>(pending.entry, at.cast()) }.map(|()| Unsettled::new())
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_send(&mut self) -> Begun<SendPost<'_, T, P>>
    where
        S: CanPostSend,
    {
        Begun::new(SendPost::new(&mut self.core))
    }
}

impl<'q, T: Transport, P: Profile> SendPost<'q, T, P> {
    #[inline(always)]
    pub(super) fn new(core: &'q mut Core<P>) -> Self {
        let mark = core.send.mark();
        SendPost::at(core, mark, None)
    }

    /// A list of the queue with this mark that begins at `cursor`, at the end of the books if there is none.
    #[inline(always)]
    pub(super) fn at(core: &'q mut Core<P>, mark: u64, cursor: Option<Cursor<P>>) -> Self {
        let port = Port::new(mark, P::MaxSendSge::VALUE, P::MaxInline::VALUE);
        SendPost { core, port, cursor, _transport: PhantomData }
    }

    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<O, D, A, F, G>(&self, _: &WorkRequest<O, D, A, F, G>) -> SendSlot<D::Sges>
    where
        D: Data<P::Entry>,
    {
        SendSlot::new()
    }

    /// Emits the `i`th work request of the list into `slot`, links `prev` to it, and shows in its buffer that
    /// the queue has it. That which `is_last` is signaled where not all are: to say so later would be a store more.
    ///
    /// # Safety
    /// `slot` is writable and stays where it is until the post; `prev` is null or the work request emitted before.
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
        O: PostOn<T> + IssuedBy<P::Initiator> + Opcode,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        G: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        let wr = wr.flagged(if is_last { P::Signaling::SIGNAL_LAST } else { 0 });
        // SAFETY: the caller's contract.
        let pending = unsafe { self.put(i, wr, slot, prev) };
        if SendQueue::<P>::MARKED {
            self.port.give(&pending.entry);
        }
        pending
    }

    /// As `emit`, but the buffer shows nothing.
    ///
    /// # Safety
    /// As for `emit`.
    #[inline(always)]
    pub(super) unsafe fn put<O, D, A, F, G>(
        &mut self,
        i: u32,
        wr: WorkRequest<O, D, A, F, G>,
        slot: *mut SendSlot<D::Sges>,
        prev: *mut ibv_send_wr,
    ) -> Pending<P::Entry, D>
    where
        O: Opcode,
        A: Address,
        D: Data<P::Entry>,
    {
        // SAFETY: the slot is writable.
        let at = unsafe { Slot::wr(slot) };
        // SAFETY: as above.
        let sges = unsafe { Slot::sges(slot) };
        // Anew each time: a pointer into the core would not survive a mutable borrow of it.
        self.port.look_up_in(&raw const self.core.ah);
        // SAFETY: as above; the port has the queue pair's table.
        let mut pending = unsafe { wr.emit(at, sges, &mut self.port) };
        let wr_id = if <P::Entry as Entry>::OWNED {
            let (word, entry) = peek(pending.entry.take());
            pending.entry = entry;
            let cursor = *self.cursor.get_or_insert_with(|| self.core.send.cursor());
            // SAFETY: lists have at most `MOST` work requests, or as many as there is room for.
            unsafe { self.core.send.enter(&cursor, i, word) };
            self.core.send.wr_id(&cursor, i, word)
        } else {
            pending.wr_id
        };
        // SAFETY: the slot is writable.
        unsafe { (*at).wr_id = wr_id };
        if !prev.is_null() {
            // SAFETY: the caller's contract.
            unsafe { (*prev).next = at };
        }
        pending
    }

    /// What the last of `n` carries, where the queue would be full of unsignaled ones otherwise (R9.8).
    #[inline(always)]
    pub(super) fn signal_if_full(&mut self, n: u32) -> u32 {
        let has_more = self.core.send.reserve(n + 1);
        if has_more { 0 } else { ibv_send_flags::IBV_SEND_SIGNALED.0 }
    }

    /// Posts the list `first..=last` of `N`.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order, and these are its entries.
    ///
    /// # Errors
    /// As for `post_send`.
    #[inline(always)]
    pub unsafe fn post<const N: usize>(
        self,
        entries: [Option<P::Entry>; N],
        first: *mut ibv_send_wr,
        last: *mut ibv_send_wr,
    ) -> Result<(), PostError<P::Entry>>
    where
        P::Entry: Owned,
    {
        // SAFETY: the caller's contract.
        unsafe { self.finish(entries, first, last) }
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
        mut self,
        entries: [Option<P::Entry>; N],
        first: *mut ibv_send_wr,
        last: *mut ibv_send_wr,
    ) -> Result<Unsettled, PostError<P::Entry>>
    where
        P::Signaling: LeavesUnsignaled,
        P::Entry: Owned,
    {
        let flags = self.signal_if_full(N as u32);
        // SAFETY: `last` was emitted.
        unsafe { (*last).send_flags |= flags };
        // SAFETY: the caller's contract.
        unsafe { self.finish(entries, first, last) }.map(|()| Unsettled::new())
    }

    /// # Safety
    /// As for `post`.
    #[inline(always)]
    unsafe fn finish<const N: usize>(
        self,
        entries: [Option<P::Entry>; N],
        first: *mut ibv_send_wr,
        last: *mut ibv_send_wr,
    ) -> Result<(), PostError<P::Entry>> {
        // What `enter` relies on.
        const { assert!(N <= MOST as usize) };
        // They live on in the wr_ids, or in the ring.
        std::mem::forget(entries);
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        // SAFETY: the caller's contract.
        unsafe { self.post_list(N as u32, first) }
    }

    /// Posts a list that is put together and ended, its entries given up and shown to be the queue's.
    ///
    /// # Safety
    /// The `n` work requests from `first` on were emitted by `emit`, in order.
    #[inline(always)]
    pub(super) unsafe fn post_list(
        self,
        n: u32,
        first: *mut ibv_send_wr,
    ) -> Result<(), PostError<P::Entry>> {
        // In this order: once posted, another thread may poll the completion.
        let findings = self.port.findings();
        if !findings.is_clear() || !self.core.send.spend(n) {
            // SAFETY: the caller's contract.
            return unsafe { self.post_slowly(findings, n, first) };
        }
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(self.core, n, first) }
    }

    /// # Safety
    /// As for `slow`.
    #[inline(always)]
    unsafe fn post_slowly(
        self,
        findings: Findings,
        n: u32,
        first: *mut ibv_send_wr,
    ) -> Result<(), PostError<P::Entry>> {
        let mut error = MaybeUninit::uninit();
        // SAFETY: the caller's contract.
        match unsafe { slow(self.core, findings, n, first, error.as_mut_ptr()) } {
            true => Ok(()),
            // SAFETY: the error was written.
            false => Err(unsafe { error.assume_init() }),
        }
    }

    /// Posts the one work request that `put` put together.
    ///
    /// # Safety
    /// It was emitted, and this is its entry.
    #[inline(always)]
    unsafe fn post_one<D: Data<P::Entry>>(
        self,
        entry: Option<P::Entry>,
        wr: *mut ibv_send_wr,
    ) -> Result<(), PostError<P::Entry>> {
        // SAFETY: it was emitted.
        unsafe { (*wr).next = ptr::null_mut() };
        let entry = ManuallyDrop::new(entry);
        let findings = self.port.findings_of(&entry, D::IS_ONE);
        if !findings.is_clear() || !self.core.send.spend(1) {
            // SAFETY: the caller's contract.
            return unsafe { self.post_slowly(findings, 1, wr) };
        }
        if let (true, Some(entry)) = (SendQueue::<P>::MARKED, &*entry) {
            // SAFETY: an entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.header() }.give_attached();
        }
        // SAFETY: the entry is committed and the list is linked.
        unsafe { doorbell(self.core, 1, wr) }
    }
}

/// # Safety
/// `first` is a list of `n` emitted work requests whose entries are committed.
#[inline(always)]
pub(super) unsafe fn doorbell<P: Profile>(
    core: &mut Core<P>,
    n: u32,
    first: *mut ibv_send_wr,
) -> Result<(), PostError<P::Entry>> {
    let qp = core.qp;
    let mut outcome = Outcome::new(core);
    // SAFETY: the queue pair is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { data::post_send(qp, first, outcome.bad()) } {
        0 => Ok(()),
        errno => {
            let (bad, core) = outcome.read();
            // SAFETY: as above; the device said from where on it did not take them.
            Err(out_of_line(|out| unsafe { send_failed(core, n, first, bad, errno, out) }))
        }
    }
}
