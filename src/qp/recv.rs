//! Posting receives: one work request, or a chain of them on the stack.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;

use super::{Core, QueuePair};
use crate::buf::header::word;
use crate::cold::out_of_line;
use crate::entry::{Entry, Owned};
use crate::in_flight::handles::Handles;
use crate::in_flight::{Books, PostError, PostErrorKind, Rejected};
use crate::limits::Limit;
use crate::profile::Profile;
use crate::rules::{CanPostRecv, HasRecvQueue};
use crate::state::State;
use crate::sys::data;
use crate::sys::types::ibv_recv_wr;
use crate::transport::Transport;
use crate::wr::chain::index_of;
use crate::wr::data::peek;
use crate::wr::port::{Faults, Findings, Port};
use crate::wr::slot::{RecvSlot, Slot};
use crate::wr::{Data, Fits, Pending, Recv};

const VERB: &str = "ibv_post_recv";

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Posts one receive work request (`ibv_post_recv`).
    ///
    /// Its buffers belong to the device until its completion, or come back in the error. For several at
    /// once see [`post_recv!`](crate::post_recv!) and [`recv_list`](Self::recv_list).
    #[inline(always)]
    pub fn post_recv<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<P::Entry>>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
        P::Entry: Owned,
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline>,
    {
        let mut post = self.begin_recv();
        let mut slot = RecvSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.emit(wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post([pending.entry], at.cast(), at.cast()) }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_recv(&mut self) -> RecvPost<'_, T, P>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
    {
        RecvPost::new(&mut self.core)
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

/// The wr_id of a receive: its entry, or the books where it has none.
#[inline(always)]
fn receive_id<T: Transport>(word: usize, books: *const Books) -> u64 {
    let word = if word == 0 { word::of(books.cast_mut(), word::NONE) } else { word };
    (word | receive_tags::<T>()) as u64
}

/// Emits one receive and links it.
///
/// # Safety
/// As for [`SendPost::emit`].
#[inline(always)]
pub(crate) unsafe fn emit_recv<T: Transport, E: Entry, D: Data<E>>(
    wr: Recv<D>,
    slot: *mut RecvSlot<D::Sges>,
    prev: *mut ibv_recv_wr,
    port: &mut Port,
    books: *const Books,
) -> Pending<E, D> {
    // SAFETY: the caller's contract.
    let mut pending = unsafe { wr.emit(slot, port) };
    // SAFETY: the slot is writable.
    let at = unsafe { Slot::wr(slot) };
    let wr_id = if E::OWNED {
        let (word, entry) = peek(pending.entry.take());
        pending.entry = entry;
        receive_id::<T>(word, books)
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
        // SAFETY: the books belong to the core, which is borrowed as long as the port lives.
        let port =
            unsafe { Port::of_receives(core.recv.books, core.recv.mark, P::MaxRecvSge::VALUE) };
        RecvPost { core, port, _transport: PhantomData }
    }

    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<D: Data<P::Entry>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges> {
        RecvSlot::new()
    }

    /// Emits a receive into `slot` and links `prev` to it.
    ///
    /// # Safety
    /// As for [`SendPost::emit`].
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
        let books = self.core.recv.books;
        // SAFETY: the caller's contract.
        unsafe { emit_recv::<T, P::Entry, D>(wr, slot, prev, &mut self.port, books) }
    }

    /// Posts the list `first..=last` of `N`.
    ///
    /// # Safety
    /// As for [`SendPost::post`].
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
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        if !self.port.is_clear() || !self.core.recv.has_credit(N as u32) {
            let findings = self.port.findings();
            // SAFETY: the caller's contract.
            return out_of_line(|out| unsafe { slow(self.core, findings, entries, first, out) });
        }
        commit(entries);
        self.core.recv.spend(N as u32);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { self.ring_doorbell(N as u32, first) }
    }

    /// # Safety
    /// As for [`SendPost::ring_doorbell`].
    #[inline(always)]
    pub(super) unsafe fn ring_doorbell(
        self,
        n: u32,
        first: *mut ibv_recv_wr,
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
    first: *mut ibv_recv_wr,
) -> Result<(), PostError<P::Entry>> {
    let mut bad = ptr::null_mut();
    // SAFETY: the queue pair is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { data::post_recv(core.qp, first, &mut bad) } {
        0 => Ok(()),
        // SAFETY: as above; the device said from where on it did not take them.
        errno => Err(out_of_line(|out| unsafe {
            recv_failed(&mut core.recv, n, first, bad, errno, out)
        })),
    }
}

/// The rest of a post that is not straightforward, as for sends.
///
/// # Safety
/// As for `RecvPost::post`, whose list is linked; `out` is writable.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn slow<P: Profile, const N: usize>(
    core: &mut Core<P>,
    findings: Findings,
    entries: [Option<P::Entry>; N],
    first: *mut ibv_recv_wr,
    out: *mut Result<(), PostError<P::Entry>>,
) {
    let faults = findings.settle_receives(&entries, &mut core.recv.mark);
    let result = if !faults.is_none() || !core.recv.has_room(N as u32) {
        let most = P::MaxRecvSge::VALUE;
        Err(out_of_line(|out| refuse_recv(&mut core.recv, faults, most, entries, out)))
    } else {
        commit(entries);
        core.recv.spend(N as u32);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(core, N as u32, first) }
    };
    // SAFETY: the caller's contract.
    unsafe { out.write(result) };
}

/// The handles live on as wr_ids.
#[inline(always)]
pub(crate) fn commit<E: Entry, const N: usize>(entries: [Option<E>; N]) {
    let entries = ManuallyDrop::new(entries);
    for entry in entries.iter().flatten() {
        // SAFETY: an entry of a work request has a buffer (`Data::emit`).
        unsafe { entry.header() }.mark(true);
    }
}

#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn refuse_recv<E: Entry, const N: usize>(
    books: &mut Handles<E>,
    faults: Faults,
    max_sge: u32,
    entries: [Option<E>; N],
    out: *mut PostError<E>,
) {
    let mut rejected = Rejected::new();
    entries.into_iter().for_each(|entry| rejected.push_entry(entry));
    let kind = match faults.first(max_sge, 0) {
        Some(kind) => kind,
        None if books.is_stopped() => PostErrorKind::Poisoned,
        None => PostErrorKind::QueueFull { asked: N as u32, room: books.free() },
    };
    // SAFETY: the caller's `out` is writable.
    unsafe { out.write(PostError::new(VERB, kind, 0, rejected)) };
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
