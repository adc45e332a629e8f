//! Posting receives: one work request, or a chain of them on the stack.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::{Begun, Core, QueuePair};
use crate::buf::header::{Header, word};
use crate::cold::{Outcome, out_of_line};
use crate::entry::{Entry, Owned};
use crate::in_flight::handles::{Handles, entry_of, take_back_from};
use crate::in_flight::{PostError, PostErrorKind, Rejected};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::rules::{CanPostRecv, HasRecvQueue};
use crate::state::State;
use crate::sys::data;
use crate::sys::types::ibv_recv_wr;
use crate::transport::Transport;
use crate::wr::chain::{self, index_of};
use crate::wr::data::peek;
use crate::wr::port::{Findings, Port};
use crate::wr::slot::{RecvSlot, Slot};
use crate::wr::{Data, Fits, Pending, Recv};

const VERB: &str = "ibv_post_recv";

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Posts one receive work request (`ibv_post_recv`).
    ///
    /// Its buffers belong to the device until its completion, or come back in the error. For several at
    /// once see [`post_recv!`](crate::post_recv!) and [`recv_list`](Self::recv_list).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`QueueFull`](crate::PostErrorKind::QueueFull) (R9.6), and the other
    /// [kinds](crate::PostErrorKind).
    #[inline(always)]
    pub fn post_recv<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<P::Entry>>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
        P::Entry: Owned,
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline>,
    {
        let mut post = RecvPost::<T, P>::new(&mut self.core);
        let mut slot = RecvSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.put(wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post_one::<D>(pending.entry, at.cast()) }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_recv(&mut self) -> Begun<RecvPost<'_, T, P>>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
    {
        Begun::new(RecvPost::new(&mut self.core))
    }
}

/// A list of receives on its way to a queue pair. The posting macros use it.
#[doc(hidden)]
pub struct RecvPost<'q, T: Transport, P: Profile> {
    pub(super) core: &'q mut Core<P>,
    pub(super) port: Port,
    _transport: PhantomData<T>,
}

/// The tag bits of a receive's wr_id.
#[inline(always)]
pub(crate) const fn receive_tags<T: Transport>() -> usize {
    if T::DATAGRAM { word::RECEIVE | word::DATAGRAM } else { word::RECEIVE }
}

/// Emits one receive and links it.
///
/// # Safety
/// As for `SendPost::emit`.
#[inline(always)]
pub(crate) unsafe fn emit_recv<T: Transport, E: Entry, D: Data<E>>(
    wr: Recv<D>,
    slot: *mut RecvSlot<D::Sges>,
    prev: *mut ibv_recv_wr,
    port: &mut Port,
    no_buffer: impl FnOnce() -> usize,
) -> Pending<E, D> {
    // SAFETY: the caller's contract.
    let mut pending = unsafe { wr.emit(slot, port) };
    // SAFETY: the slot is writable.
    let at = unsafe { Slot::wr(slot) };
    let wr_id = if E::OWNED {
        let (word, entry) = peek(pending.entry.take());
        pending.entry = entry;
        let word = if word == 0 { no_buffer() } else { word };
        debug_assert_eq!(word & receive_tags::<T>(), 0);
        // Added, not or-ed: that is one instruction, an address.
        word.wrapping_add(receive_tags::<T>()) as u64
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

impl<'q, T: Transport, P: Profile> RecvPost<'q, T, P> {
    #[inline(always)]
    pub(super) fn new(core: &'q mut Core<P>) -> Self {
        let mark = core.recv.mark();
        RecvPost::of(core, mark)
    }

    /// As `new`, with the mark of the queue.
    #[inline(always)]
    pub(super) fn of(core: &'q mut Core<P>, mark: u64) -> Self {
        let port = Port::new(mark, P::MaxRecvSge::VALUE, 0);
        RecvPost { core, port, _transport: PhantomData }
    }

    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<D: Data<P::Entry>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges> {
        RecvSlot::new()
    }

    /// Emits a receive into `slot`, links `prev` to it, and shows in its buffer that the queue has it.
    ///
    /// # Safety
    /// As for `SendPost::emit`.
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
        // SAFETY: the caller's contract.
        let pending = unsafe { self.put(wr, slot, prev) };
        self.port.give(&pending.entry);
        pending
    }

    /// As `emit`, but the buffer shows nothing.
    ///
    /// # Safety
    /// As for `emit`.
    #[inline(always)]
    pub(super) unsafe fn put<D: Data<P::Entry>>(
        &mut self,
        wr: Recv<D>,
        slot: *mut RecvSlot<D::Sges>,
        prev: *mut ibv_recv_wr,
    ) -> Pending<P::Entry, D> {
        let books = &self.core.recv;
        // SAFETY: the caller's contract.
        unsafe { emit_recv::<T, P::Entry, D>(wr, slot, prev, &mut self.port, || books.no_buffer()) }
    }

    /// Posts the list `first..=last` of `N`.
    ///
    /// # Safety
    /// As for `SendPost::post`.
    ///
    /// # Errors
    /// As for `post_recv`.
    #[inline(always)]
    pub unsafe fn post<const N: usize>(
        self,
        entries: [Option<P::Entry>; N],
        first: *mut ibv_recv_wr,
        last: *mut ibv_recv_wr,
    ) -> Result<(), PostError<P::Entry>>
    where
        P::Entry: Owned,
    {
        // They live on in the wr_ids.
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
        first: *mut ibv_recv_wr,
    ) -> Result<(), PostError<P::Entry>> {
        let findings = self.port.findings();
        if !findings.is_clear() || !self.core.recv.spend(n) {
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
        first: *mut ibv_recv_wr,
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
        wr: *mut ibv_recv_wr,
    ) -> Result<(), PostError<P::Entry>> {
        // SAFETY: it was emitted.
        unsafe { (*wr).next = ptr::null_mut() };
        let entry = ManuallyDrop::new(entry);
        let findings = self.port.findings_of(&entry, D::IS_ONE);
        if !findings.is_clear() || !self.core.recv.spend(1) {
            // SAFETY: the caller's contract.
            return unsafe { self.post_slowly(findings, 1, wr) };
        }
        if let Some(entry) = &*entry {
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
unsafe fn doorbell<P: Profile>(
    core: &mut Core<P>,
    n: u32,
    first: *mut ibv_recv_wr,
) -> Result<(), PostError<P::Entry>> {
    let qp = core.qp;
    let mut outcome = Outcome::new(core);
    // SAFETY: the queue pair is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { data::post_recv(qp, first, outcome.bad()) } {
        0 => Ok(()),
        errno => {
            let (bad, core) = outcome.read();
            // SAFETY: as above; the device said from where on it did not take them.
            Err(out_of_line(|out| unsafe {
                recv_failed(&mut core.recv, n, first, bad, errno, out)
            }))
        }
    }
}

/// The rest of a post that is not straightforward, as for sends.
///
/// # Safety
/// As for `post_list`; what `spend` took is still spent if there is nothing to look at. `out` is writable, and
/// written if the answer is no.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn slow<P: Profile>(
    core: &mut Core<P>,
    findings: Findings,
    n: u32,
    first: *mut ibv_recv_wr,
    out: *mut PostError<P::Entry>,
) -> bool {
    let is_clear = findings.is_clear();
    if is_clear {
        core.recv.unspend(n);
    }
    // Most often there is only room to be found.
    if !(is_clear && core.recv.has_room(n)) {
        let queue = core.recv.queue();
        // SAFETY: the caller's contract.
        let entries = unsafe { words(first) };
        // SAFETY: as above.
        let faults = unsafe { findings.settle_receives::<P::Entry>(queue, entries) };
        if !faults.is_none() || !core.recv.has_room(n) {
            let kind = match faults.first(P::MaxRecvSge::VALUE, 0) {
                Some(kind) => kind,
                None if core.recv.is_stopped() => PostErrorKind::Poisoned,
                None => PostErrorKind::QueueFull { asked: n, room: core.recv.free() },
            };
            // SAFETY: as above; the list was not posted.
            let error = PostError::new(VERB, kind, 0, unsafe { take_back_from(first) });
            // SAFETY: the caller's contract.
            unsafe { out.write(error) };
            return false;
        }
    }
    // SAFETY: the caller's contract.
    unsafe { give_all(first) };
    let has_room = core.recv.spend(n);
    debug_assert!(has_room);
    // SAFETY: the entries are committed and the list is linked.
    match unsafe { doorbell(core, n, first) } {
        Ok(()) => true,
        Err(error) => {
            // SAFETY: the caller's contract.
            unsafe { out.write(error) };
            false
        }
    }
}

/// The words of the entries of a list of receives, 0 where there is none.
///
/// # Safety
/// The list was put together.
pub(crate) unsafe fn words(first: *mut ibv_recv_wr) -> impl Iterator<Item = usize> {
    // SAFETY: the caller's contract.
    let list = unsafe { chain::iter(first) };
    // SAFETY: as above.
    list.map(|wr| unsafe { entry_of(wr) })
}

/// Shows in the headers of a list's entries, which were attached, that the queue has them.
///
/// # Safety
/// The list was put together, and its entries are the caller's.
pub(crate) unsafe fn give_all(first: *mut ibv_recv_wr) {
    // SAFETY: the caller's contract.
    for word in unsafe { words(first) }.filter(|&word| word != 0) {
        // SAFETY: the list's entries are the caller's, so the header is alive.
        unsafe { (*word::address::<Header>(word)).give_attached() };
    }
}

/// # Safety
/// The device refused the list `first` of `n`, from `bad` on.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn recv_failed<E: Entry>(
    books: &mut Handles<E>,
    n: u32,
    first: *mut ibv_recv_wr,
    bad: *mut ibv_recv_wr,
    errno: i32,
    out: *mut PostError<E>,
) {
    // SAFETY: a valid list.
    let Some(accepted) = (unsafe { index_of(first, bad) }) else {
        books.mark_poisoned();
        // SAFETY: the caller's `out` is writable.
        unsafe {
            out.write(PostError::new(
                VERB,
                PostErrorKind::OutcomeUnknown { errno },
                0,
                Rejected::new(),
            ))
        };
        return;
    };
    // SAFETY: the device has not accepted those from `bad` on.
    let rejected = unsafe { books.take_back_receives(n, accepted, bad) };
    // SAFETY: the caller's `out` is writable.
    unsafe {
        out.write(PostError::new(VERB, PostErrorKind::Refused { errno }, accepted, rejected))
    };
}
