//! Lists whose length is known at run time: linked while they are pushed, bounded by their slots.
//!
//! What is kept between two work requests is in registers, so it is little, and cold functions get values, never the list.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::bump::bump;
use super::list_slow::{drop_list, full, look_at, more_room, not_pushed};
use super::send::{Cursor, SendPost, Unsettled};
use super::{Core, QueuePair, SendQueue};
use crate::entry::Owned;
use crate::in_flight::{PostError, SendBooks, SendMode};
use crate::limits::{Max, Sges};
use crate::profile::Profile;
use crate::rules::{
    Addressed, CanPostSend, FenceOn, IssuedBy, LeavesUnsignaled, PostOn, SignaledOn,
};
use crate::state::State;
use crate::sys::types::{ibv_send_wr, ibv_sge};
use crate::transport::Transport;
use crate::wr::slot::SendSlot;
use crate::wr::{Address, Data, Fits, WorkRequest};

const VERB: &str = "ibv_post_send";

/// Stack room for `N` send work requests of at most `G` scatter/gather elements, for a [`SendList`] (ibv_post_send(3)).
///
/// # Invariants
/// - `G` is at least one: inline data is told in an element too, whatever `max_send_sge` is.
pub struct SendSlots<const N: usize, const G: usize = 1>([MaybeUninit<SendSlot<[ibv_sge; G]>>; N]);

impl<const N: usize, const G: usize> SendSlots<N, G> {
    /// Room, not initialised: it costs nothing.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self
    where
        Max<G>: Sges<1>,
    {
        SendSlots([const { MaybeUninit::uninit() }; N])
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn first(&mut self) -> *mut SendSlot<[ibv_sge; G]> {
        self.0.as_mut_ptr().cast()
    }
}

/// A list of sends being put together; [`post`](SendList::post) posts it (`wr.next` of ibv_post_send(3)).
///
/// Dropped instead, it drops what was pushed and posts nothing.
///
/// ```
/// # use proverbs::*;
/// profile! { Stream { signaling: Selective } }
///
/// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends_of::<Stream>()?;
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let at = region.remote().write();
/// let bufs: Vec<Buf> = (0..3).filter_map(|_| pool.take()).collect();
/// let mut slots = SendSlots::<8>::new(); // on the stack, and used again for the next list
/// let mut list: SendList<'_, Rc, Stream, 1> = a.send_list(&mut slots);
/// list.push(RdmaWrite::inline(b"first", at))?;
/// list.extend(bufs.into_iter().map(move |buf| RdmaWrite::new(buf, at)))?;
/// assert_eq!((list.len(), list.is_empty()), (4, false));
/// list.post()?; // one call of the verb; the last is signaled
///
/// let mut list = a.send_list(&mut slots);
/// list.push(RdmaWrite::inline(b"later", at))?;
/// let _: Unsettled = list.post_unsignaled()?; // a later completion will speak for it
/// # proverbs::guide::poll(&mut cq, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// - The `count` slots from `slots` to `at` are emitted, their entries entered in the books before `cursor` and given up;
///   each is linked to the next slot. There are `most` slots (if that is positive) and as much room, at most `capacity` in all.
/// - `seen` is what their buffers' states are, or-ed to the mark of the queue; the mark itself if each of them was looked at.
/// - `'d` is outlived by everything that the work requests borrow.
pub struct SendList<'d, T: Transport, P: Profile, const G: usize>
where
    P::Entry: Owned,
{
    pub(super) core: &'d mut Core<P>,
    /// That of the queue, which the compiler would read again for each work request.
    pub(super) mark: u64,
    pub(super) seen: u64,
    pub(super) cursor: Cursor<P>,
    pub(super) slots: *mut SendSlot<[ibv_sge; G]>,
    pub(super) at: *mut SendSlot<[ibv_sge; G]>,
    pub(super) count: u32,
    pub(super) most: i32,
    capacity: u32,
    _transport: PhantomData<T>,
    _borrows: PhantomData<fn(&'d ()) -> &'d ()>,
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P>
where
    P::Entry: Owned,
{
    /// Begins a list of at most `N` sends, in `slots`, as [`SendList`] shows.
    #[inline(always)]
    pub fn send_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut SendSlots<N, G>,
    ) -> SendList<'d, T, P, G>
    where
        S: CanPostSend,
    {
        let capacity = N as u32;
        let core = &mut self.core;
        let most = core.send.known_room().min(capacity as i32);
        let (mark, cursor) = (core.send.mark(), core.send.cursor());
        let slots = slots.first();
        SendList::new(core, mark, cursor, slots, most, capacity)
    }
}

impl<'d, T: Transport, P: Profile, const G: usize> SendList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Work requests pushed so far.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline(always)]
    fn new(
        core: &'d mut Core<P>,
        mark: u64,
        cursor: Cursor<P>,
        slots: *mut SendSlot<[ibv_sge; G]>,
        most: i32,
        capacity: u32,
    ) -> Self {
        let (at, seen) = (slots, mark);
        let (_transport, _borrows) = (PhantomData, PhantomData);
        let count = 0;
        SendList {
            core,
            mark,
            seen,
            cursor,
            slots,
            at,
            count,
            most,
            capacity,
            _transport,
            _borrows,
        }
    }

    /// For the next work request.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> SendPost<'_, T, P> {
        let mark = self.mark;
        self.begin_with(mark)
    }

    #[inline(always)]
    fn begin_with(&mut self, mark: u64) -> SendPost<'_, T, P> {
        let mut post = SendPost::at(self.core, mark, Some(self.cursor));
        post.port.limit_sge(G as u32);
        post
    }

    /// The slot before `next` was emitted and entered, its entry given up.
    ///
    /// # Safety
    /// It is the slot at `at`.
    #[inline(always)]
    pub(super) unsafe fn advance(&mut self, next: *mut SendSlot<[ibv_sge; G]>) {
        // SAFETY: the caller's contract.
        let slot = unsafe { next.sub(1) }.cast::<ibv_send_wr>();
        // SAFETY: the slot is writable.
        unsafe { (*slot).next = next.cast() };
        self.at = next;
        self.count += 1;
        SendQueue::<P>::advance(&mut self.cursor);
    }

    /// Adds a work request. If slots or queue are full, or something is wrong with it, its entry comes
    /// back in the error, and the list stays as it was.
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`QueueFull`](crate::PostErrorKind::QueueFull) (R9.6), and the other
    /// [kinds](crate::PostErrorKind).
    #[inline(always)]
    pub fn push<O, D, A, F, S>(
        &mut self,
        wr: WorkRequest<O, D, A, F, S>,
    ) -> Result<(), PostError<P::Entry>>
    where
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        S: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline> + Fits<Max<G>, P::MaxInline> + 'd,
    {
        if self.count as i32 >= self.most {
            let i = self.count;
            let most = more_room(self.core, i, self.capacity);
            self.most = most as i32;
            if most == i {
                let mut scratch = SendSlot::<D::Sges>::new();
                // SAFETY: a local slot, whose work request is not posted.
                let pending = unsafe { self.begin().put(0, wr, &raw mut scratch, ptr::null_mut()) };
                // What else is wrong with it is not the next one's fault: that has a port of its own.
                return Err(full(VERB, most, pending.entry));
            }
        }
        // SAFETY: a slot is left.
        let (at, next) = unsafe { bump(self.at) };
        self.at = at;
        // Where it is only compared it is read again: a ring needs the register for its cursor.
        let mark = if SendQueue::<P>::MARKED { self.mark } else { self.core.send.mark() };
        let mut post = self.begin_with(mark);
        // SAFETY: a slot is left, and one for up to G elements holds those of `D`: its buffers (`Fits`), or the one
        // of inline data (invariant of `SendSlots`). It stays where it is: the list borrows the array until it is posted.
        let pending = unsafe { post.put(0, wr, at.cast(), ptr::null_mut()) };
        let findings = post.port.findings_of(&pending.entry, D::IS_ONE).brief();
        if findings.is_clear() {
            if SendQueue::<P>::MARKED {
                post.port.give(&pending.entry);
            }
        } else {
            let i = self.count;
            // SAFETY: emitted, entered as the `i`th, and not posted.
            let kind = unsafe { look_at::<P>(self.core, findings, i, at.cast(), G) };
            if let Some(kind) = kind {
                return Err(not_pushed(VERB, i, kind, pending.entry));
            }
        }
        std::mem::forget(pending.entry);
        // SAFETY: the slot that was emitted.
        unsafe { self.advance(next) };
        Ok(())
    }

    /// Posts the list (`ibv_post_send`), its last work request signaled where not all are. An empty list
    /// is Ok and posts nothing (R9.5).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`Refused`](crate::PostErrorKind::Refused) (R9.1),
    /// [`OutcomeUnknown`](crate::PostErrorKind::OutcomeUnknown) and [`Poisoned`](crate::PostErrorKind::Poisoned) after it (R8.20).
    #[inline(always)]
    pub fn post(self) -> Result<(), PostError<P::Entry>> {
        self.finish(<P::Signaling as SendMode>::SIGNAL_LAST)
    }

    /// As [`post`](Self::post), the last one signaled only if it asks for it: the entries behind the last
    /// signaled one come back with the completion of a later work request. A list that fills the queue is signaled
    /// at its end all the same (R9.8).
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline(always)]
    pub fn post_unsignaled(mut self) -> Result<Unsettled, PostError<P::Entry>>
    where
        P::Signaling: LeavesUnsignaled,
    {
        let n = self.count;
        let flags = self.begin().signal_if_full(n);
        self.finish(flags).map(|()| Unsettled::new())
    }

    /// Posts the list, its last work request with `flags` besides its own.
    #[inline(always)]
    fn finish(self, flags: u32) -> Result<(), PostError<P::Entry>> {
        let mut list = ManuallyDrop::new(self);
        if list.is_empty() {
            return Ok(());
        }
        // SAFETY: some slots were emitted.
        let last = unsafe { list.at.sub(1) }.cast::<ibv_send_wr>();
        // SAFETY: as above.
        unsafe { (*last).next = ptr::null_mut() };
        // SAFETY: as above.
        unsafe { (*last).send_flags |= flags };
        let (n, first, seen) = (list.count, list.slots.cast(), list.seen);
        let mut post = list.begin();
        // Nothing strange, unless an iterator panicked before it was looked at.
        post.port.has_seen(seen);
        // SAFETY: the list is put together and ended.
        unsafe { post.post_list(n, first) }
    }
}

impl<T: Transport, P: Profile, const G: usize> Drop for SendList<'_, T, P, G>
where
    P::Entry: Owned,
{
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_empty() {
            // SAFETY: those slots were emitted, and not posted.
            unsafe { drop_list(self.core, self.slots.cast(), self.at.wrapping_sub(1).cast()) };
        }
    }
}
