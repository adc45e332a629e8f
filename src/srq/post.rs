//! Posting to a shared receive queue.

#![allow(unsafe_code)] // emits and posts

use std::ptr;
use std::sync::Arc;

use super::SharedReceiveQueue;
use crate::cold::out_of_line;
use crate::entry::{Entry, Owned};
use crate::in_flight::handles::take_back_from;
use crate::in_flight::{PostError, PostErrorKind, Rejected};
use crate::limits::{Limit, Max};
use crate::qp::recv::{commit, emit_recv};
use crate::rules::SharesReceives;
use crate::sys::data;
use crate::sys::types::ibv_recv_wr;
use crate::wr::chain::index_of;
use crate::wr::port::{Faults, Findings, Port};
use crate::wr::slot::RecvSlot;
use crate::wr::{Data, Fits, Pending, Recv, SrqSink};

const VERB: &str = "ibv_post_srq_recv";

/// A list of receives on its way to a shared receive queue. The posting macros use it.
#[doc(hidden)]
pub struct SrqPost<'q, T: SharesReceives, E: Entry, M: Limit> {
    srq: &'q mut SharedReceiveQueue<T, E, M>,
    pub(crate) port: Port,
}

impl<T: SharesReceives, E: Owned, M: Limit> SharedReceiveQueue<T, E, M> {
    /// Posts one receive work request (`ibv_post_srq_recv`). Its buffers are of the queue's pool, and
    /// belong to the device until its completion, or come back in the error.
    #[inline(always)]
    pub fn post_srq_recv<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<E>>
    where
        D: Data<E> + SrqSink + Fits<M, Max<0>>,
    {
        let mut post = self.begin_srq();
        let mut slot = RecvSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.emit(wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post([pending.entry], at.cast(), at.cast()) }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_srq(&mut self) -> SrqPost<'_, T, E, M> {
        let books = &self.core.books;
        // SAFETY: the books belong to the queue, which is borrowed as long as the port lives.
        let port = unsafe { Port::of_receives(Arc::as_ptr(books), books.id, M::VALUE) };
        let port = port.only_from(self.core.home);
        SrqPost { srq: self, port }
    }
}

impl<T: SharesReceives, E: Owned, M: Limit> SrqPost<'_, T, E, M> {
    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<D: Data<E>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges> {
        RecvSlot::new()
    }

    /// Emits a receive into `slot` and links `prev` to it.
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
        let books = Arc::as_ptr(&self.srq.core.books);
        // SAFETY: the caller's contract.
        let pending = unsafe { emit_recv::<T, E, D>(wr, slot, prev, &mut self.port, books) };
        if pending.entry.is_none() {
            self.port.no_buffer();
        }
        pending
    }

    /// Posts the list `first..=last` of `N`.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order, and these are its entries.
    #[inline(always)]
    pub unsafe fn post<const N: usize>(
        self,
        entries: [Option<E>; N],
        first: *mut ibv_recv_wr,
        last: *mut ibv_recv_wr,
    ) -> Result<(), PostError<E>> {
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        if !self.port.is_clear() || self.srq.poisoned {
            let findings = self.port.findings();
            // SAFETY: the caller's contract.
            return out_of_line(|out| unsafe { slow(self.srq, findings, entries, first, out) });
        }
        commit(entries);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { self.ring_doorbell(first) }
    }

    /// # Safety
    /// `first` is a list of emitted work requests whose entries are committed.
    #[inline(always)]
    pub(crate) unsafe fn ring_doorbell(self, first: *mut ibv_recv_wr) -> Result<(), PostError<E>> {
        // SAFETY: the caller's contract.
        unsafe { doorbell(self.srq, first) }
    }
}

/// The rest of a post that is not straightforward, as for sends.
///
/// # Safety
/// As for `SrqPost::post`, whose list is linked; `out` is writable.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn slow<T: SharesReceives, E: Entry, M: Limit, const N: usize>(
    srq: &mut SharedReceiveQueue<T, E, M>,
    findings: Findings,
    entries: [Option<E>; N],
    first: *mut ibv_recv_wr,
    out: *mut Result<(), PostError<E>>,
) {
    // Nothing is large for a queue that sends nothing.
    let mut mark = srq.core.books.id;
    let faults = findings.settle_receives(&entries, &mut mark);
    let result = if !faults.is_none() || srq.poisoned {
        Err(out_of_line(|out| refuse(faults, M::VALUE, entries, out)))
    } else {
        commit(entries);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(srq, first) }
    };
    // SAFETY: the caller's contract.
    unsafe { out.write(result) };
}

/// # Safety
/// `first` is a list of emitted work requests whose entries are committed.
#[inline(always)]
unsafe fn doorbell<T: SharesReceives, E: Entry, M: Limit>(
    srq: &mut SharedReceiveQueue<T, E, M>,
    first: *mut ibv_recv_wr,
) -> Result<(), PostError<E>> {
    let mut bad = ptr::null_mut();
    // SAFETY: the queue is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { data::post_srq_recv(srq.core.as_ptr(), first, &mut bad) } {
        0 => Ok(()),
        // SAFETY: as above; the device said from where on it did not take them.
        errno => Err(out_of_line(|out| unsafe { failed(srq, first, bad, errno, out) })),
    }
}

#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn refuse<E: Entry, const N: usize>(
    faults: Faults,
    max_sge: u32,
    entries: [Option<E>; N],
    out: *mut PostError<E>,
) {
    let mut rejected = Rejected::new();
    entries.into_iter().for_each(|entry| rejected.push_entry(entry));
    let kind = faults.first(max_sge, 0).unwrap_or(PostErrorKind::Poisoned);
    // SAFETY: the caller's `out` is writable.
    unsafe { out.write(PostError::new(VERB, kind, 0, rejected)) };
}

/// # Safety
/// The device refused the list `first`, from `bad` on.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn failed<T: SharesReceives, E: Entry, M: Limit>(
    srq: &mut SharedReceiveQueue<T, E, M>,
    first: *mut ibv_recv_wr,
    bad: *mut ibv_recv_wr,
    errno: i32,
    out: *mut PostError<E>,
) {
    // SAFETY: a valid list.
    let Some(accepted) = (unsafe { index_of(first, bad) }) else {
        srq.poisoned = true;
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
    let rejected = unsafe { take_back_from(bad) };
    // SAFETY: the caller's `out` is writable.
    unsafe {
        out.write(PostError::new(VERB, PostErrorKind::Refused { errno }, accepted, rejected))
    };
}
