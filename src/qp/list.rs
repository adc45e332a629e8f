//! Lists whose length is known at run time: linked while they are pushed, bounded by their slots.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use super::QueuePair;
use super::recv::RecvPost;
use super::send::{SendPost, Unsettled};
use crate::entry::Owned;
use crate::in_flight::handles::{self, take_back_from};
use crate::in_flight::{PostError, PostErrorKind, Rejected, SendBooks, SendMode};
use crate::limits::{Limit, Max};
use crate::profile::Profile;
use crate::rules::{
    Addressed, CanPostRecv, CanPostSend, FenceOn, HasRecvQueue, IssuedBy, LeavesUnsignaled, PostOn,
    SignaledOn,
};
use crate::state::State;
use crate::sys::types::{ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge};
use crate::transport::Transport;
use crate::wr::slot::{RecvSlot, SendSlot};
use crate::wr::{Address, Data, Fits, Recv, WorkRequest};

const SEND: &str = "ibv_post_send";
const RECV: &str = "ibv_post_recv";

/// Stack room for `N` send work requests of at most `G` scatter/gather elements.
pub struct SendSlots<const N: usize, const G: usize = 1>([MaybeUninit<SendSlot<[ibv_sge; G]>>; N]);

/// Stack room for `N` receive work requests of at most `G` scatter/gather elements.
pub struct RecvSlots<const N: usize, const G: usize = 1>([MaybeUninit<RecvSlot<[ibv_sge; G]>>; N]);

impl<const N: usize, const G: usize> SendSlots<N, G> {
    /// Room, not initialised: it costs nothing.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        SendSlots([const { MaybeUninit::uninit() }; N])
    }
}

impl<const N: usize, const G: usize> RecvSlots<N, G> {
    /// Room, not initialised: it costs nothing.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        RecvSlots([const { MaybeUninit::uninit() }; N])
    }
}

/// A list of sends being put together; [`post`](SendList::post) posts it.
///
/// Dropped instead, it drops what was pushed and posts nothing.
///
/// # Invariants
/// - `slots[..count]` are emitted and linked, their entries taken (in their wr_ids, or put into
///   the ring's slots from its tail on).
/// - `'d` is outlived by everything that the work requests borrow.
pub struct SendList<'d, T: Transport, P: Profile, const G: usize>
where
    P::Entry: Owned,
{
    post: Option<SendPost<'d, T, P>>,
    slots: *mut SendSlot<[ibv_sge; G]>,
    capacity: u32,
    room: u32,
    count: u32,
    _borrows: PhantomData<fn(&'d ()) -> &'d ()>,
}

/// A list of receives being put together; [`post`](RecvList::post) posts it.
///
/// Dropped instead, it drops what was pushed and posts nothing.
pub struct RecvList<'d, T: Transport, P: Profile, const G: usize>
where
    P::Entry: Owned,
{
    post: Option<RecvPost<'d, T, P>>,
    slots: *mut RecvSlot<[ibv_sge; G]>,
    capacity: u32,
    room: u32,
    count: u32,
    _borrows: PhantomData<fn(&'d ()) -> &'d ()>,
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P>
where
    P::Entry: Owned,
{
    /// Begins a list of at most `N` sends, in `slots`.
    #[inline(always)]
    pub fn send_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut SendSlots<N, G>,
    ) -> SendList<'d, T, P, G>
    where
        S: CanPostSend,
    {
        let room = self.core.send.room();
        SendList {
            post: Some(SendPost::new(&mut self.core)),
            slots: slots.0.as_mut_ptr().cast(),
            capacity: N as u32,
            room,
            count: 0,
            _borrows: PhantomData,
        }
    }

    /// Begins a list of at most `N` receives, in `slots`.
    #[inline(always)]
    pub fn recv_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut RecvSlots<N, G>,
    ) -> RecvList<'d, T, P, G>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
    {
        let room = self.core.recv.free();
        RecvList {
            post: Some(RecvPost::new(&mut self.core)),
            slots: slots.0.as_mut_ptr().cast(),
            capacity: N as u32,
            room,
            count: 0,
            _borrows: PhantomData,
        }
    }
}

impl<'d, T: Transport, P: Profile, const G: usize> SendList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Work requests pushed so far.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a work request. If slots or queue are full, or something is wrong with it, its entry comes
    /// back in the error, and the list stays as it was.
    #[inline]
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
        let at = self.count;
        let post = self.post.as_mut().expect("a list has its post until it is posted");
        if at >= self.capacity.min(self.room) {
            let mut scratch = SendSlot::<D::Sges>::new();
            // SAFETY: a local slot, whose work request is not posted.
            let pending = unsafe { post.emit(at, wr, &raw mut scratch, ptr::null_mut()) };
            let (asked, room) = (at + 1, self.capacity.min(self.room));
            return Err(not_pushed(
                SEND,
                at,
                PostErrorKind::QueueFull { asked, room },
                pending.entry,
            ));
        }
        // SAFETY: `at` is below the capacity; slots for up to G elements hold those of `D` (`Fits`).
        let slot = unsafe { self.slots.add(at as usize) };
        let prev = match at {
            0 => ptr::null_mut(),
            // SAFETY: the slot before is in the same array.
            _ => unsafe { self.slots.add(at as usize - 1) }.cast::<ibv_send_wr>(),
        };
        post.port.limit_sge(G as u32);
        // SAFETY: the slot stays where it is: the list borrows the array until it is posted.
        let pending = unsafe { post.emit(at, wr, slot.cast(), prev) };
        let limits = (P::MaxSendSge::VALUE.min(G as u32), P::MaxInline::VALUE);
        if !post.port.is_clear() {
            let faults = post.port.findings().settle_sends(std::slice::from_ref(&pending.entry));
            post.port.clear();
            if let Some(kind) = faults.first(limits.0, limits.1) {
                return Err(not_pushed(SEND, at, kind, pending.entry));
            }
        }
        let word = pending.entry.map_or(0, crate::entry::Entry::into_word);
        post.core.send.put(at, word);
        self.count += 1;
        Ok(())
    }

    /// Posts the list (`ibv_post_send`), its last work request signaled where not all are. An empty list
    /// is Ok and posts nothing (R9.5).
    #[inline]
    pub fn post(self) -> Result<(), PostError<P::Entry>> {
        self.finish(<P::Signaling as SendMode>::SIGNAL_LAST)
    }

    /// As [`post`](Self::post), the last one signaled only if it asks for it: the entries behind the last
    /// signaled one come back with the completion of a later work request. A list that fills the queue is signaled
    /// at its end all the same (R9.8).
    #[inline]
    pub fn post_unsignaled(mut self) -> Result<Unsettled, PostError<P::Entry>>
    where
        P::Signaling: LeavesUnsignaled,
    {
        let count = self.count;
        let room = |post: &mut SendPost<'d, T, P>| post.core.send.reserve(count + 1);
        let flags = match self.post.as_mut().is_none_or(room) {
            true => 0,
            false => ibv_send_flags::IBV_SEND_SIGNALED.0,
        };
        self.finish(flags).map(|()| Unsettled::new())
    }

    /// Posts the list, its last work request with `flags` besides its own.
    #[inline(always)]
    fn finish(mut self, flags: u32) -> Result<(), PostError<P::Entry>> {
        let Some(post) = self.post.take() else { return Ok(()) };
        let n = self.count;
        if n == 0 {
            return Ok(());
        }
        let first = self.slots.cast::<ibv_send_wr>();
        // SAFETY: `n` slots were emitted.
        let last = unsafe { self.slots.add(n as usize - 1) }.cast::<ibv_send_wr>();
        // SAFETY: as above.
        unsafe { (*last).next = ptr::null_mut() };
        // SAFETY: as above.
        unsafe { (*last).send_flags |= flags };
        post.core.send.commit_list(n, first);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { post.ring_doorbell(n, first) }
    }
}

#[cold]
fn not_pushed<E: Owned>(
    verb: &'static str,
    at: u32,
    kind: PostErrorKind,
    entry: Option<E>,
) -> PostError<E> {
    let mut rejected = Rejected::new();
    rejected.push_entry(entry);
    PostError::new(verb, kind, at, rejected)
}

impl<T: Transport, P: Profile, const G: usize> Drop for SendList<'_, T, P, G>
where
    P::Entry: Owned,
{
    fn drop(&mut self) {
        let Some(post) = self.post.take() else { return };
        if self.count == 0 {
            return;
        }
        let first = self.slots.cast::<ibv_send_wr>();
        // SAFETY: `count` slots were emitted.
        let last = unsafe { self.slots.add(self.count as usize - 1) }.cast::<ibv_send_wr>();
        // SAFETY: as above.
        unsafe { (*last).next = ptr::null_mut() };
        post.core.send.commit_list(self.count, first);
        // SAFETY: committed, and never posted.
        drop(unsafe { post.core.send.take_back(self.count, 0, first) });
    }
}

impl<'d, T: Transport, P: Profile, const G: usize> RecvList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Work requests pushed so far.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a receive. If slots or queue are full, or something is wrong with it, its entry comes back in
    /// the error, and the list stays as it was.
    #[inline]
    pub fn push<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<P::Entry>>
    where
        // Nothing that a receive holds is borrowed, so that nothing must outlive the list.
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline> + Fits<Max<G>, P::MaxInline>,
    {
        let at = self.count;
        let post = self.post.as_mut().expect("a list has its post until it is posted");
        if at >= self.capacity.min(self.room) {
            let mut scratch = RecvSlot::<D::Sges>::new();
            // SAFETY: a local slot, whose work request is not posted.
            let pending = unsafe { post.emit(wr, &raw mut scratch, ptr::null_mut()) };
            let (asked, room) = (at + 1, self.capacity.min(self.room));
            return Err(not_pushed(
                RECV,
                at,
                PostErrorKind::QueueFull { asked, room },
                pending.entry,
            ));
        }
        // SAFETY: `at` is below the capacity; slots for up to G elements hold those of `D` (`Fits`).
        let slot = unsafe { self.slots.add(at as usize) };
        let prev = match at {
            0 => ptr::null_mut(),
            // SAFETY: the slot before is in the same array.
            _ => unsafe { self.slots.add(at as usize - 1) }.cast::<ibv_recv_wr>(),
        };
        post.port.limit_sge(G as u32);
        // SAFETY: the slot stays where it is: the list borrows the array until it is posted.
        let pending = unsafe { post.emit(wr, slot.cast(), prev) };
        if !post.port.is_clear() {
            let entries = std::slice::from_ref(&pending.entry);
            let faults = post.port.findings().settle_receives(entries, &mut post.core.recv.mark);
            post.port.clear();
            if let Some(kind) = faults.first(P::MaxRecvSge::VALUE.min(G as u32), 0) {
                return Err(not_pushed(RECV, at, kind, pending.entry));
            }
        }
        std::mem::forget(pending.entry);
        self.count += 1;
        Ok(())
    }

    /// Posts the list (`ibv_post_recv`). An empty list is Ok and posts nothing (R9.5).
    #[inline]
    pub fn post(mut self) -> Result<(), PostError<P::Entry>> {
        let Some(post) = self.post.take() else { return Ok(()) };
        let n = self.count;
        if n == 0 {
            return Ok(());
        }
        let first = self.finish(n);
        // SAFETY: a list that was emitted and ended by null; its entries are ours.
        unsafe { handles::mark_all(first) };
        post.core.recv.spend(n);
        // SAFETY: the entries are committed and the list is linked.
        unsafe { post.ring_doorbell(n, first) }
    }

    /// Ends the list of `n` receives and gives its first.
    #[inline(always)]
    fn finish(&mut self, n: u32) -> *mut ibv_recv_wr {
        // SAFETY: `n` slots were emitted, `n` is not 0.
        let last = unsafe { self.slots.add(n as usize - 1) }.cast::<ibv_recv_wr>();
        // SAFETY: as above.
        unsafe { (*last).next = ptr::null_mut() };
        self.slots.cast()
    }
}

impl<T: Transport, P: Profile, const G: usize> Drop for RecvList<'_, T, P, G>
where
    P::Entry: Owned,
{
    fn drop(&mut self) {
        if self.post.take().is_some() && self.count != 0 {
            let first = self.finish(self.count);
            // SAFETY: emitted and never posted; the wr_ids hold entries of this type.
            let rejected: Rejected<P::Entry> = unsafe { take_back_from(first) };
            drop(rejected);
        }
    }
}
