//! Lists of receives whose length is known at run time, as `list` has them for sends.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::list::{not_pushed, slots_begin, slots_end};
use super::recv::RecvPost;
use super::{Core, QueuePair};
use crate::entry::Owned;
use crate::in_flight::handles::{Handles, entry_of, take_back_from};
use crate::in_flight::{PostError, PostErrorKind, Rejected};
use crate::limits::{Limit, Max};
use crate::profile::Profile;
use crate::rules::{CanPostRecv, HasRecvQueue};
use crate::state::State;
use crate::sys::types::{ibv_recv_wr, ibv_sge};
use crate::transport::Transport;
use crate::wr::port::{Findings, Queue};
use crate::wr::slot::RecvSlot;
use crate::wr::{Data, Fits, Recv};

const VERB: &str = "ibv_post_recv";

/// Stack room for `N` receive work requests of at most `G` scatter/gather elements, for a [`RecvList`]
/// (ibv_post_recv(3)).
pub struct RecvSlots<const N: usize, const G: usize = 1>([MaybeUninit<RecvSlot<[ibv_sge; G]>>; N]);

impl<const N: usize, const G: usize> RecvSlots<N, G> {
    /// Room, not initialised: it costs nothing.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        RecvSlots([const { MaybeUninit::uninit() }; N])
    }
}

/// A list of receives being put together; [`post`](RecvList::post) posts it (`wr.next` of ibv_post_recv(3)).
///
/// Dropped instead, it drops what was pushed and posts nothing.
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut b, pool, .. } = proverbs::guide::ends()?;
/// let mut slots = RecvSlots::<4>::new();
/// let mut list: RecvList<'_, Rc, DefaultProfile, 1> = b.recv_list(&mut slots);
/// list.push(Recv::empty())?;
/// list.extend((0..3).filter_map(|_| pool.take()).map(Recv::new))?;
/// assert_eq!((list.len(), list.is_empty()), (4, false));
/// let error = list.push(Recv::empty()).unwrap_err(); // there are four slots
/// assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 5, room: 4 });
/// list.post()?;
/// assert_eq!(b.recvs_outstanding(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Invariants
/// As those of `SendList`; the entries are in the wr_ids.
pub struct RecvList<'d, T: Transport, P: Profile, const G: usize>
where
    P::Entry: Owned,
{
    core: &'d mut Core<P>,
    mark: u64,
    slots: *mut RecvSlot<[ibv_sge; G]>,
    at: *mut RecvSlot<[ibv_sge; G]>,
    end: *mut RecvSlot<[ibv_sge; G]>,
    capacity: u32,
    _transport: PhantomData<T>,
    _borrows: PhantomData<fn(&'d ()) -> &'d ()>,
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P>
where
    P::Entry: Owned,
{
    /// Begins a list of at most `N` receives, in `slots`, as [`RecvList`] shows.
    #[inline(always)]
    pub fn recv_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut RecvSlots<N, G>,
    ) -> RecvList<'d, T, P, G>
    where
        S: CanPostRecv,
        P::Receive: HasRecvQueue,
    {
        let capacity = N as u32;
        let core = &mut self.core;
        let most = core.recv.known_room().min(capacity);
        let mark = core.recv.mark();
        let slots = slots_begin(slots.0.as_mut_ptr().cast());
        let end = slots_end(slots, most);
        RecvList {
            core,
            mark,
            slots,
            at: slots,
            end,
            capacity,
            _transport: PhantomData,
            _borrows: PhantomData,
        }
    }
}

impl<'d, T: Transport, P: Profile, const G: usize> RecvList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Work requests pushed so far.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count() as usize
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        // SAFETY: both are slots of one array.
        unsafe { self.at.offset_from(self.slots) as u32 }
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.at == self.slots
    }

    /// For the next work request.
    #[inline(always)]
    fn begin(&mut self) -> RecvPost<'_, T, P> {
        let mut post = RecvPost::of(self.core, self.mark);
        post.port.limit_sge(G as u32);
        post
    }

    /// Adds a receive. If slots or queue are full, or something is wrong with it, its entry comes back in
    /// the error, and the list stays as it was.
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`QueueFull`](crate::PostErrorKind::QueueFull) (R9.6), and the other
    /// [kinds](crate::PostErrorKind).
    #[inline(always)]
    pub fn push<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<P::Entry>>
    where
        // Nothing that a receive holds is borrowed, so that nothing must outlive the list.
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline> + Fits<Max<G>, P::MaxInline>,
    {
        if self.at == self.end {
            let i = self.count();
            let most = more_room(&mut self.core.recv, i, self.capacity);
            self.end = slots_end(self.slots, most);
            if most == i {
                let mut scratch = RecvSlot::<D::Sges>::new();
                // SAFETY: a local slot, whose work request is not posted.
                let pending = unsafe { self.begin().put(wr, &raw mut scratch, ptr::null_mut()) };
                // What else is wrong with it is not the next one's fault: that has a port of its own.
                let kind = PostErrorKind::QueueFull { asked: i + 1, room: most };
                return Err(not_pushed(VERB, i, kind, pending.entry));
            }
        }
        let at = self.at;
        let mut post = self.begin();
        // SAFETY: a slot is left, and one for up to G elements holds those of `D` (`Fits`); it stays where it is:
        // the list borrows the array until it is posted.
        let pending = unsafe { post.put(wr, at.cast(), ptr::null_mut()) };
        post.port.give(&pending.entry);
        let findings = post.port.findings();
        if !findings.is_clear() {
            let i = self.count();
            let queue = self.core.recv.queue();
            // SAFETY: emitted, and not posted.
            let kind = unsafe { look_at::<P>(queue, findings, at.cast(), G) };
            if let Some(kind) = kind {
                return Err(not_pushed(VERB, i, kind, pending.entry));
            }
        }
        // SAFETY: at most one past the last slot.
        let next = unsafe { at.add(1) };
        // SAFETY: the slot is writable.
        unsafe { (*at.cast::<ibv_recv_wr>()).next = next.cast() };
        std::mem::forget(pending.entry);
        self.at = next;
        Ok(())
    }

    /// Pushes each of `wrs`, up to the first that is refused. To keep those after it, lend the iterator
    /// (`by_ref`).
    ///
    /// # Errors
    /// As for [`push`](Self::push); what was pushed before stays in the list.
    #[inline(always)]
    pub fn extend<D>(
        &mut self,
        wrs: impl IntoIterator<Item = Recv<D>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline> + Fits<Max<G>, P::MaxInline>,
    {
        for wr in wrs {
            self.push(wr)?;
        }
        Ok(())
    }

    /// Posts the list (`ibv_post_recv`). An empty list is Ok and posts nothing (R9.5).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`Refused`](PostErrorKind::Refused) (R9.1),
    /// [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown) and [`Poisoned`](PostErrorKind::Poisoned) after it (R8.20).
    #[inline(always)]
    pub fn post(self) -> Result<(), PostError<P::Entry>> {
        let mut list = ManuallyDrop::new(self);
        if list.is_empty() {
            return Ok(());
        }
        // SAFETY: some slots were emitted.
        let last = unsafe { list.at.sub(1) }.cast::<ibv_recv_wr>();
        // SAFETY: as above.
        unsafe { (*last).next = ptr::null_mut() };
        let (n, first) = (list.count(), list.slots.cast());
        // What was wrong was not pushed, so the port is a new one.
        // SAFETY: the list is put together and ended.
        unsafe { list.begin().post_list(n, first) }
    }
}

impl<T: Transport, P: Profile, const G: usize> Drop for RecvList<'_, T, P, G>
where
    P::Entry: Owned,
{
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_empty() {
            // SAFETY: those slots were emitted, and not posted.
            let rejected =
                unsafe { give_up::<P>(self.slots.cast(), self.at.wrapping_sub(1).cast()) };
            // Here, where the user's `Drop` may panic.
            drop(rejected);
        }
    }
}

/// As for sends.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn more_room<E: Owned>(books: &mut Handles<E>, count: u32, capacity: u32) -> u32 {
    if count == capacity { capacity } else { books.free().clamp(count, capacity) }
}

/// What is wrong with a receive that is emitted.
///
/// # Safety
/// `wr` is that work request, and its entry the caller's.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn look_at<P: Profile>(
    queue: Queue,
    findings: Findings,
    wr: *mut ibv_recv_wr,
    slot_sges: usize,
) -> Option<PostErrorKind>
where
    P::Entry: Owned,
{
    // SAFETY: the caller's contract.
    let word = unsafe { entry_of(wr) };
    // SAFETY: as above.
    let faults = unsafe { findings.settle_receives::<P::Entry>(queue, std::iter::once(word)) };
    faults.first(P::MaxRecvSge::VALUE.min(slot_sges as u32), 0)
}

/// The entries of a list that is not posted.
///
/// # Safety
/// The work requests from `first` to `last` were emitted, and their entries are given up.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn give_up<P: Profile>(
    first: *mut ibv_recv_wr,
    last: *mut ibv_recv_wr,
) -> Rejected<P::Entry>
where
    P::Entry: Owned,
{
    // SAFETY: the caller's contract.
    unsafe { (*last).next = ptr::null_mut() };
    // SAFETY: the wr_ids hold entries of this type.
    unsafe { take_back_from(first) }
}
