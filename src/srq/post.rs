//! Posting to a shared receive queue.

#![allow(unsafe_code)] // emits and posts

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::Arc;

use super::{POISONED, SharedReceiveQueue};
use crate::buf::header::word;
use crate::cold::{Outcome, out_of_line};
use crate::entry::{Entry, Owned};
use crate::in_flight::handles::take_back_from;
use crate::in_flight::{PostError, PostErrorKind, Rejected};
use crate::limits::{Limit, Max};
use crate::qp::Begun;
use crate::qp::recv::{emit_recv, give_all, words};
use crate::rules::SharesReceives;
use crate::sys::data;
use crate::sys::types::ibv_recv_wr;
use crate::wr::chain::index_of;
use crate::wr::port::{Findings, Port, Queue};
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
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, pool, .. } = proverbs::guide::ends()?;
    /// let mut srq: SharedReceiveQueue<Ud> = pd.create_srq(&pool)?;
    /// srq.post_srq_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
    ///
    /// let foreign = pd.create_pool(1, 256)?.take().ok_or("no buffer")?;
    /// let error = srq.post_srq_recv(Recv::new(foreign)).unwrap_err();
    /// assert_eq!(error.kind(), PostErrorKind::ForeignPool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError`] with the buffers: [`ForeignPool`](PostErrorKind::ForeignPool), [`NoBuffer`](PostErrorKind::NoBuffer),
    /// [`TooManySge`](PostErrorKind::TooManySge) (R3.1), [`Refused`](PostErrorKind::Refused) by the device (R9.1),
    /// [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown) and [`Poisoned`](PostErrorKind::Poisoned) after it (R8.20).
    #[inline(always)]
    pub fn post_srq_recv<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<E>>
    where
        D: Data<E> + SrqSink + Fits<M, Max<0>>,
    {
        let mut post = SrqPost::new(self);
        let mut slot = RecvSlot::<D::Sges>::new();
        let at = &raw mut slot;
        // SAFETY: the slot is a local that lives until the post.
        let pending = unsafe { post.put(wr, at, ptr::null_mut()) };
        // SAFETY: one work request was emitted into the slot.
        unsafe { post.post_one::<D>(pending.entry, at.cast()) }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_srq(&mut self) -> Begun<SrqPost<'_, T, E, M>> {
        Begun::new(SrqPost::new(self))
    }
}

impl<'q, T: SharesReceives, E: Entry, M: Limit> SrqPost<'q, T, E, M> {
    #[inline(always)]
    fn new(srq: &'q mut SharedReceiveQueue<T, E, M>) -> Self {
        let port = Port::new(srq.mark, M::VALUE, 0);
        SrqPost { srq, port }
    }

    /// Room for the work request's C form.
    #[inline(always)]
    pub fn slot<D: Data<E>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges> {
        RecvSlot::new()
    }

    /// Emits a receive into `slot`, links `prev` to it, and shows in its buffer that the queue has it.
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
    unsafe fn put<D: Data<E>>(
        &mut self,
        wr: Recv<D>,
        slot: *mut RecvSlot<D::Sges>,
        prev: *mut ibv_recv_wr,
    ) -> Pending<E, D> {
        // What has no buffer is not posted, so it needs no wr_id.
        let no_buffer = || word::NONE;
        // SAFETY: the caller's contract.
        let pending = unsafe { emit_recv::<T, E, D>(wr, slot, prev, &mut self.port, no_buffer) };
        if pending.entry.is_none() {
            self.port.no_buffer();
        }
        pending
    }

    /// Posts the list `first..=last` of `N`.
    ///
    /// # Safety
    /// The list was emitted by `emit`, in order, and these are its entries.
    ///
    /// # Errors
    /// As for `post_srq_recv`.
    #[inline(always)]
    pub unsafe fn post<const N: usize>(
        self,
        entries: [Option<E>; N],
        first: *mut ibv_recv_wr,
        last: *mut ibv_recv_wr,
    ) -> Result<(), PostError<E>> {
        // They live on in the wr_ids.
        std::mem::forget(entries);
        // SAFETY: `last` was emitted.
        unsafe { (*last).next = ptr::null_mut() };
        let findings = self.port.findings();
        if !findings.is_clear() {
            // SAFETY: the caller's contract.
            return unsafe { self.post_slowly(findings, first) };
        }
        // SAFETY: the entries are committed and the list is linked.
        unsafe { doorbell(self.srq, first) }
    }

    /// # Safety
    /// As for `slow`.
    #[inline(always)]
    unsafe fn post_slowly(
        self,
        findings: Findings,
        first: *mut ibv_recv_wr,
    ) -> Result<(), PostError<E>> {
        let mut error = MaybeUninit::uninit();
        // SAFETY: the caller's contract.
        match unsafe { slow(self.srq, findings, first, error.as_mut_ptr()) } {
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
    unsafe fn post_one<D: Data<E>>(
        self,
        entry: Option<E>,
        wr: *mut ibv_recv_wr,
    ) -> Result<(), PostError<E>> {
        // SAFETY: it was emitted.
        unsafe { (*wr).next = ptr::null_mut() };
        let entry = ManuallyDrop::new(entry);
        let findings = self.port.findings_of(&entry, D::IS_ONE);
        if !findings.is_clear() {
            // SAFETY: the caller's contract.
            return unsafe { self.post_slowly(findings, wr) };
        }
        if let Some(entry) = &*entry {
            // SAFETY: an entry of a work request has a buffer (`Data::emit`).
            unsafe { entry.header() }.give_attached();
        }
        // SAFETY: the entry is committed and the list is linked.
        unsafe { doorbell(self.srq, wr) }
    }
}

/// The rest of a post that is not straightforward, as for sends.
///
/// # Safety
/// As for `SrqPost::post`, whose list is linked; `out` is writable, and written if the answer is no.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn slow<T: SharesReceives, E: Entry, M: Limit>(
    srq: &mut SharedReceiveQueue<T, E, M>,
    findings: Findings,
    first: *mut ibv_recv_wr,
    out: *mut PostError<E>,
) -> bool {
    let books = Arc::as_ptr(&srq.core.books);
    let queue = Queue { books, mark: srq.mark, home: srq.core.home };
    let kind = if srq.mark == POISONED {
        Some(PostErrorKind::Poisoned)
    } else {
        // SAFETY: the caller's contract.
        let entries = unsafe { words(first) };
        // SAFETY: as above.
        unsafe { findings.settle_receives::<E>(queue, entries) }.first(M::VALUE, 0)
    };
    let error = match kind {
        // SAFETY: as above; the list was not posted.
        Some(kind) => PostError::new(VERB, kind, 0, unsafe { take_back_from(first) }),
        None => {
            // SAFETY: as above.
            unsafe { give_all(first) };
            // SAFETY: the entries are committed and the list is linked.
            match unsafe { doorbell(srq, first) } {
                Ok(()) => return true,
                Err(error) => error,
            }
        }
    };
    // SAFETY: the caller's contract.
    unsafe { out.write(error) };
    false
}

/// # Safety
/// `first` is a list of emitted work requests whose entries are committed.
#[inline(always)]
unsafe fn doorbell<T: SharesReceives, E: Entry, M: Limit>(
    srq: &mut SharedReceiveQueue<T, E, M>,
    first: *mut ibv_recv_wr,
) -> Result<(), PostError<E>> {
    let raw = srq.raw;
    let mut outcome = Outcome::new(srq);
    // SAFETY: the queue is alive, the list valid, and the buffers in it are the device's now.
    match unsafe { data::post_srq_recv(raw, first, outcome.bad()) } {
        0 => Ok(()),
        errno => {
            let (bad, srq) = outcome.read();
            // SAFETY: as above; the device said from where on it did not take them.
            Err(out_of_line(|out| unsafe { failed(srq, first, bad, errno, out) }))
        }
    }
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
        srq.mark = POISONED;
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
