//! Posting sends: one work request, or a chain of them on the stack.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::ptr;

use super::{Core, QueuePair};
use crate::cold::out_of_line;
use crate::entry::{Entry, Owned};
use crate::in_flight::{PostError, PostErrorKind, Rejected, SendBooks, SendMode};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::rules::{
    Addressed, CanPostSend, FenceOn, IssuedBy, LeavesUnsignaled, PostOn, SignaledOn,
};
use crate::state::State;
use crate::sys::data;
use crate::sys::types::{ibv_send_flags, ibv_send_wr};
use crate::transport::Transport;
use crate::wr::chain::index_of;
use crate::wr::data::peek;
use crate::wr::port::{Faults, Findings, Port};
use crate::wr::slot::{SendSlot, Slot};
use crate::wr::{Address, Data, Fits, Opcode, Pending, WorkRequest};

const VERB: &str = "ibv_post_send";

/// Entries that an unsignaled post left with the device: nothing will tell when they are done but the
/// completion of a later, signaled one.
#[must_use = "nothing completes these work requests: post a signaled one after them"]
#[derive(Debug)]
pub struct Unsettled(());

impl Unsettled {
    pub(super) fn new() -> Self {
        Unsettled(())
    }
}

/// A list of sends on its way to a queue pair. The posting macros use it.
#[doc(hidden)]
pub struct SendPost<'q, T: Transport, P: Profile> {
    pub(crate) core: &'q mut Core<P>,
    pub(super) port: Port,
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
        let mut post = self.begin_send();
        let mut slot = SendSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.emit(0, wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post([pending.entry], at.cast(), at.cast()) }
    }

    /// As [`post_send`](Self::post_send), not signaled: the entry comes back with the completion of a
    /// later signaled work request. The one that fills the queue is signaled all the same (R9.8).
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
        G: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        let mut post = self.begin_send();
        let mut slot = SendSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.emit(0, wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post_unsignaled([pending.entry], at.cast(), at.cast()) }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_send(&mut self) -> SendPost<'_, T, P>
    where
        S: CanPostSend,
    {
        SendPost::new(&mut self.core)
    }
}

impl<'q, T: Transport, P: Profile> SendPost<'q, T, P> {
    #[inline(always)]
    pub(super) fn new(core: &'q mut Core<P>) -> Self {
        let books = core.send.books();
        let (sge, inline) = (P::MaxSendSge::VALUE, P::MaxInline::VALUE);
        // SAFETY: they belong to the core, which is borrowed as long as the port lives.
        let port = unsafe { Port::new(books, sge, inline) };
        SendPost { core, port, _transport: PhantomData }
    }

    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<O, D, A, F, G>(&self, _: &WorkRequest<O, D, A, F, G>) -> SendSlot<D::Sges>
    where
        D: Data<P::Entry>,
    {
        SendSlot::new()
    }

    /// Emits the `i`th work request of the list into `slot` and links `prev` to it.
    ///
    /// # Safety
    /// `slot` is writable and stays where it is until the post; `prev` is null or the work request emitted before.
    #[inline(always)]
    pub unsafe fn emit<O, D, A, F, G>(
        &mut self,
        i: u32,
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
            self.core.send.wr_id(i, word)
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

    /// Posts the list `first..=last` of `N`, the last of them signaled where not all are.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order, and these are its entries.
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
        let flags = <P::Signaling as SendMode>::SIGNAL_LAST;
        // SAFETY: `last` was emitted.
        unsafe { (*last).send_flags |= flags };
        // SAFETY: as above.
        unsafe { self.finish(entries, first, last) }
    }

    /// As `post`, but the last is signaled only if the queue would be full otherwise.
    ///
    /// # Safety
    /// As for `post`.
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
        if !self.core.send.reserve(N as u32 + 1) {
            // SAFETY: `last` was emitted.
            unsafe { (*last).send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0 };
        }
        // SAFETY: the caller's contract.
        unsafe { self.finish(entries, first, last) }.map(|()| Unsettled(()))
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
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        if !self.port.is_clear() || !self.core.send.fits(N as u32) {
            let findings = self.port.findings();
            // SAFETY: the caller's contract.
            return out_of_line(|out| unsafe { slow(self.core, findings, entries, first, out) });
        }
        // In this order: once posted, another thread may poll the completion.
        self.core.send.commit(entries);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { self.ring_doorbell(N as u32, first) }
    }

    /// # Safety
    /// `first` is a list of `n` emitted work requests whose entries are committed.
    #[inline(always)]
    pub(super) unsafe fn ring_doorbell(
        self,
        n: u32,
        first: *mut ibv_send_wr,
    ) -> Result<(), PostError<P::Entry>> {
        // SAFETY: the caller's contract.
        unsafe { doorbell(self.core, n, first) }
    }
}

/// # Safety
/// `first` is a list of `n` emitted work requests whose entries are committed.
#[inline(always)]
unsafe fn doorbell<P: Profile>(
    core: &mut Core<P>,
    n: u32,
    first: *mut ibv_send_wr,
) -> Result<(), PostError<P::Entry>> {
    let mut bad = ptr::null_mut();
    // SAFETY: the queue pair is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { data::post_send(core.qp, first, &mut bad) } {
        0 => Ok(()),
        // SAFETY: as above; the device said from where on it did not take them.
        errno => Err(out_of_line(|out| unsafe { send_failed(core, n, first, bad, errno, out) })),
    }
}

/// The rest of a post that is not straightforward: a buffer that was posted elsewhere last, a queue that
/// may be full, or something that is wrong. All of it, so that the hot path calls nothing but the provider.
///
/// # Safety
/// As for `SendPost::finish`, whose list is linked; `out` is writable.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn slow<P: Profile, const N: usize>(
    core: &mut Core<P>,
    findings: Findings,
    entries: [Option<P::Entry>; N],
    first: *mut ibv_send_wr,
    out: *mut Result<(), PostError<P::Entry>>,
) {
    let faults = findings.settle_sends(&entries);
    let result = if !faults.is_none() || !core.send.reserve(N as u32) {
        Err(out_of_line(|out| refuse(core, faults, entries, out)))
    } else {
        core.send.commit(entries);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(core, N as u32, first) }
    };
    // SAFETY: the caller's contract.
    unsafe { out.write(result) };
}

/// The list was not posted: no room, or something is wrong with it.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn refuse<P: Profile, const N: usize>(
    core: &mut Core<P>,
    faults: Faults,
    entries: [Option<P::Entry>; N],
    out: *mut PostError<P::Entry>,
) {
    let mut rejected = Rejected::new();
    entries.into_iter().for_each(|entry| rejected.push_entry(entry));
    let kind = match faults.first(P::MaxSendSge::VALUE, P::MaxInline::VALUE) {
        Some(kind) => kind,
        None if core.send.is_poisoned() => PostErrorKind::Poisoned,
        None => PostErrorKind::QueueFull { asked: N as u32, room: core.send.room() },
    };
    // SAFETY: the caller's `out` is writable.
    unsafe { out.write(PostError::new(VERB, kind, 0, rejected)) };
}

/// # Safety
/// The device refused the list `first` of `n`, from `bad` on.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn send_failed<P: Profile>(
    core: &mut Core<P>,
    n: u32,
    first: *mut ibv_send_wr,
    bad: *mut ibv_send_wr,
    errno: i32,
    out: *mut PostError<P::Entry>,
) {
    // SAFETY: a valid list.
    let Some(accepted) = (unsafe { index_of(first, bad) }) else {
        core.send.poison();
        let kind = PostErrorKind::OutcomeUnknown { errno };
        // SAFETY: the caller's `out` is writable.
        unsafe { out.write(PostError::new(VERB, kind, 0, Rejected::new())) };
        return;
    };
    // SAFETY: the device has not accepted those from `bad` on.
    let rejected = unsafe { core.send.take_back(n, accepted, bad) };
    // SAFETY: the caller's `out` is writable.
    unsafe {
        out.write(PostError::new(VERB, PostErrorKind::Refused { errno }, accepted, rejected))
    };
}
