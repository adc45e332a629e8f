//! Chains on the stack, for the posting macros.

#![allow(unsafe_code)] // emits and posts; the expansion of a macro must call the steps in order

use std::marker::PhantomData;
use std::ptr;

use crate::allows::{Allows, call};
use crate::in_flight::{InFlight, MOST};
use crate::memory::entry::{Entry, Owned};
use crate::post::path::{Cursor, KnownBy};
use crate::post::queue::{Kind, Queue, Receives, Sends, SharedReceives};
use crate::post::refusal::PostError;
use crate::profile::{Profile, Signals};
use crate::rules::{MayFollow, RecvOn, SendOn, SharesReceives, SrqRecvOn};
use crate::sys::data::{Each, Link};
use crate::sys::types::{ibv_recv_wr, ibv_send_wr};
use crate::terms::transport::Transport;
use crate::work::data::Data;
use crate::work::limits::Limit;
use crate::work::recv::Recv;
use crate::work::request::{Check, Pending, RecvSlot, SendSlot, Slot, Work, WorkRequest};

/// The result of an unsignaled post, whose entries the device still owns. Only the completion of a
/// later signaled work request returns them.
///
/// See [`QueuePair::complete`](crate::QueuePair::complete) ([R2.4](crate::guide::rules#r2-4)).
#[must_use = "nothing completes these work requests: post a signaled one after them"]
#[derive(Debug)]
pub struct Unsettled(());

impl Unsettled {
    pub(crate) fn new() -> Self {
        Unsettled(())
    }
}

/// A list `L` that was started, for the posting macros only.
///
/// The macros call the methods of the list in their own `unsafe` block. They unwrap this type by
/// its path, so that they never call methods of another type there. A type of the user may only
/// return such a list.
#[doc(hidden)]
#[must_use = "a list that is not finished is not posted"]
pub struct Begun<L>(pub(crate) L);

impl<L> Begun<L> {
    /// Returns the list.
    ///
    /// # Safety
    /// The result of its `emit` is either dropped or passed to its `post`.
    #[inline(always)]
    pub unsafe fn vouch(self) -> L {
        self.0
    }
}

/// A list in progress. It borrows the queue.
///
/// The entries of the list refer to the queue, but are not part of [`Post`], which rustc considers
/// unused if the program leaves a macro early. This type has a `Drop`, so rustc considers it used,
/// and the queue cannot end before the entries are dropped.
#[doc(hidden)]
#[must_use]
pub struct Unfinished<'q>(PhantomData<&'q mut ()>);

impl Drop for Unfinished<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// A list of work requests to be posted to a queue, for the posting macros.
#[doc(hidden)]
pub struct Post<'q, T: Transport, Q: Kind> {
    pub(super) queue: &'q mut Queue<Q>,
    pub(super) check: Check,
    /// The position of the list in the in-flight table. It is set late, because it would occupy
    /// registers earlier.
    pub(super) cursor: Option<Cursor<Q>>,
    pub(super) _transport: PhantomData<T>,
}

#[doc(hidden)]
pub type SendPost<'q, T, P> = Post<'q, T, Sends<P>>;
#[doc(hidden)]
pub type RecvPost<'q, T, P> = Post<'q, T, Receives<P>>;
#[doc(hidden)]
pub type SrqPost<'q, T, E, M> = Post<'q, T, SharedReceives<E, M>>;

impl<'q, T: Transport, Q: Kind> Post<'q, T, Q> {
    /// Like `put`, and marks the buffer as owned by the queue.
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
    ) -> Pending<Q::Entry, W::Data, (), KnownBy<Q>> {
        // SAFETY: the queue accepts the work request; `slot` has room for it and does not move;
        // `prev` is the one before; the list is not too long (the contract of this function, clause
        // by clause).
        let pending = unsafe { self.put(i, wr, slot, prev) };
        if Q::InFlight::MARKED {
            self.check.give(&pending.entry);
        }
        pending
    }

    /// Must be dropped after all entries.
    #[inline(always)]
    pub fn unfinished(&self) -> Unfinished<'q> {
        Unfinished(PhantomData)
    }

    /// Announces that the program may abandon the chain without dropping it, by leaking a future
    /// that is suspended inside it.
    #[inline(always)]
    pub fn may_be_forgotten(&mut self) {
        self.queue.in_flight.begin_list();
    }

    /// The chain is finished.
    #[inline(always)]
    pub fn is_finished(&mut self) {
        self.queue.in_flight.end_list();
    }

    /// Posts the chain `first..=last` of `N` work requests.
    ///
    /// # Safety
    /// `emit` emitted it, in order. These are its entries, and `known` is from the same calls.
    ///
    /// # Errors
    /// As for posting one work request.
    #[inline(always)]
    pub unsafe fn post<const N: usize>(
        self,
        entries: [Option<Q::Entry>; N],
        known: impl Each<KnownBy<Q>>,
        first: *mut Q::Wr,
        last: *mut Q::Wr,
    ) -> Result<(), PostError<Q::Entry>>
    where
        Q::Entry: Owned,
    {
        // `enter` requires this.
        const { assert!(N <= MOST as usize) };
        // They live on in the wr_ids, or in the ring.
        std::mem::forget(entries);
        // SAFETY: the caller emitted the chain, and `last` is its last work request.
        unsafe {
            (*Link::head(last)).next = ptr::null_mut();
            self.list(N as u32, first, Some(known))
        }
    }
}

impl<'q, T: Transport, P: Profile> SendPost<'q, T, P> {
    /// Room for the C work request.
    #[inline(always)]
    pub fn slot<O, D, A, F, G>(&self, _: &WorkRequest<O, D, A, F, G>) -> SendSlot<D::Sges>
    where
        D: Data<P::Entry>,
    {
        SendSlot::new()
    }

    /// Emits the `i`th work request of the list into `slot`, links `prev` to it, and marks its
    /// buffer as owned by the queue. If it `is_last`, it is signaled with selective signaling too:
    /// doing so later would take another store.
    ///
    /// `before` is the work request that was emitted before, or the receiver's `start`. On a
    /// transport without ordering, some work requests may not follow others.
    ///
    /// # Safety
    /// `slot` is writable and does not move until the post. `prev` is null or the work request
    /// emitted before. A list has at most 128 work requests.
    #[inline(always)]
    pub unsafe fn emit<O, D, A, F, G, B>(
        &mut self,
        i: u32,
        is_last: bool,
        _before: PhantomData<B>,
        wr: WorkRequest<O, D, A, F, G>,
        slot: *mut SendSlot<D::Sges>,
        prev: *mut ibv_send_wr,
    ) -> Pending<P::Entry, D, O, KnownBy<Sends<P>>>
    where
        WorkRequest<O, D, A, F, G>: SendOn<T, P>,
        O: MayFollow<B, T>,
        D: Data<P::Entry>,
    {
        let wr = wr.flagged(if is_last { Signals::<T, P>::LAST } else { Signals::<T, P>::EACH });
        // SAFETY: the bounds are the rules. The rest is the contract of this function.
        unsafe { self.put_and_give(i, wr, slot, prev) }.of()
    }

    /// The predecessor of the first work request of a list.
    #[inline(always)]
    pub fn start(&self) -> PhantomData<()> {
        PhantomData
    }

    /// Like `post`, but signals the last work request only if the queue would otherwise be full.
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
        mut known: impl Each<KnownBy<Sends<P>>>,
        first: *mut ibv_send_wr,
        last: *mut ibv_send_wr,
    ) -> Result<Unsettled, PostError<P::Entry>>
    where
        Self: Allows<call::PostUnsignaled>,
        P::Entry: Owned,
    {
        let flags = self.queue.signal_if_full(N as u32);
        // SAFETY: `last` was emitted, and `known` includes it. The rest is as for `post`.
        unsafe {
            (*last).send_flags |= flags;
            known.flag_last::<<Sends<P> as Kind>::Verb>(flags);
            self.post(entries, known, first, last).map(|()| Unsettled::new())
        }
    }
}

impl<'q, T: Transport, P: Profile> RecvPost<'q, T, P> {
    /// Room for the C work request.
    #[inline(always)]
    pub fn slot<D: Data<P::Entry>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges>
    where
        Recv<D>: RecvOn<P>,
    {
        RecvSlot::new()
    }
}

impl<'q, T: SharesReceives, E: Entry, M: Limit> SrqPost<'q, T, E, M> {
    /// Room for the C work request.
    #[inline(always)]
    pub fn slot<D: Data<E>>(&self, _: &Recv<D>) -> RecvSlot<D::Sges>
    where
        Recv<D>: SrqRecvOn<E, M>,
    {
        RecvSlot::new()
    }
}

impl<'q, T: Transport, Q: Kind<Wr = ibv_recv_wr>> Post<'q, T, Q> {
    /// Emits a receive into `slot`, which the method `slot` returned, links `prev` to it, and marks
    /// its buffer as owned by the queue.
    ///
    /// # Safety
    /// `slot` is writable and does not move until the post. `prev` is null or the work request
    /// emitted before. This queue returned the slot, for work requests of this type.
    #[inline(always)]
    pub unsafe fn emit<D: Data<Q::Entry>>(
        &mut self,
        wr: Recv<D>,
        slot: *mut RecvSlot<D::Sges>,
        prev: *mut ibv_recv_wr,
    ) -> Pending<Q::Entry, D, (), KnownBy<Q>> {
        // SAFETY: the bounds of `slot` are the rules. The rest is the contract of this function.
        // Receives do not need an index in the list.
        unsafe { self.put_and_give(0, wr, slot, prev) }
    }
}
