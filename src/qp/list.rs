//! Lists whose length is known at run time: linked while they are pushed, bounded by their slots.
//!
//! What `push` keeps between two calls is in registers, so it is little, and cold functions get values, never the list.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::send::{Cursor, SendPost, Unsettled};
use super::send_slow::{queue, words};
use super::{Core, QueuePair, SendQueue};
use crate::entry::{Entry, Owned};
use crate::in_flight::{PostError, PostErrorKind, Rejected, SendBooks, SendMode};
use crate::limits::{Limit, Max, Sges};
use crate::profile::Profile;
use crate::rules::{
    Addressed, CanPostSend, FenceOn, IssuedBy, LeavesUnsignaled, PostOn, SignaledOn,
};
use crate::state::State;
use crate::sys::types::{ibv_send_wr, ibv_sge};
use crate::transport::Transport;
use crate::wr::chain;
use crate::wr::port::Findings;
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
/// list.extend(bufs.into_iter().map(|buf| RdmaWrite::new(buf, at)))?;
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
/// - The slots from `slots` to `at` are emitted, their entries entered in the books before `cursor` and given up;
///   each is linked to the next slot. There are more slots up to `end`, at most `capacity` in all, and room for as many.
/// - `'d` is outlived by everything that the work requests borrow.
pub struct SendList<'d, T: Transport, P: Profile, const G: usize>
where
    P::Entry: Owned,
{
    core: &'d mut Core<P>,
    /// That of the queue, which the compiler would read again for each work request.
    mark: u64,
    cursor: Cursor<P>,
    slots: *mut SendSlot<[ibv_sge; G]>,
    at: *mut SendSlot<[ibv_sge; G]>,
    end: *mut SendSlot<[ibv_sge; G]>,
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
        let most = core.send.known_room().min(capacity);
        let (mark, cursor) = (core.send.mark(), core.send.cursor());
        let slots = slots_begin(slots.0.as_mut_ptr().cast());
        let end = slots_end(slots, most);
        SendList {
            core,
            mark,
            cursor,
            slots,
            at: slots,
            end,
            capacity,
            _transport: PhantomData,
            _borrows: PhantomData,
        }
    }
}

impl<'d, T: Transport, P: Profile, const G: usize> SendList<'d, T, P, G>
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
    fn begin(&mut self) -> SendPost<'_, T, P> {
        let mut post = SendPost::at(self.core, self.mark, Some(self.cursor));
        post.port.limit_sge(G as u32);
        post
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
        if self.at == self.end {
            let i = self.count();
            let most = more_room::<P>(&mut self.core.send, i, self.capacity);
            self.end = slots_end(self.slots, most);
            if most == i {
                let mut scratch = SendSlot::<D::Sges>::new();
                // SAFETY: a local slot, whose work request is not posted.
                let pending = unsafe { self.begin().put(0, wr, &raw mut scratch, ptr::null_mut()) };
                // What else is wrong with it is not the next one's fault: that has a port of its own.
                let kind = PostErrorKind::QueueFull { asked: i + 1, room: most };
                return Err(not_pushed(VERB, i, kind, pending.entry));
            }
        }
        let at = self.at;
        let mut post = self.begin();
        // SAFETY: a slot is left, and one for up to G elements holds those of `D`: its buffers (`Fits`), or the one
        // of inline data (invariant of `SendSlots`). It stays where it is: the list borrows the array until it is posted.
        let pending = unsafe { post.put(0, wr, at.cast(), ptr::null_mut()) };
        if SendQueue::<P>::MARKED {
            post.port.give(&pending.entry);
        }
        let findings = post.port.findings();
        if !findings.is_clear() {
            let i = self.count();
            // SAFETY: emitted, entered as the `i`th, and not posted.
            let kind = unsafe { look_at::<P>(&self.core.send, findings, i, at.cast(), G) };
            if let Some(kind) = kind {
                return Err(not_pushed(VERB, i, kind, pending.entry));
            }
        }
        // SAFETY: at most one past the last slot.
        let next = unsafe { at.add(1) };
        // SAFETY: the slot is writable.
        unsafe { (*at.cast::<ibv_send_wr>()).next = next.cast() };
        std::mem::forget(pending.entry);
        self.at = next;
        SendQueue::<P>::advance(&mut self.cursor);
        Ok(())
    }

    /// Pushes each of `wrs`, up to the first that is refused. To keep those after it, lend the iterator
    /// (`by_ref`).
    ///
    /// # Errors
    /// As for [`push`](Self::push); what was pushed before stays in the list.
    #[inline(always)]
    pub fn extend<O, D, A, F, S>(
        &mut self,
        wrs: impl IntoIterator<Item = WorkRequest<O, D, A, F, S>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        O: PostOn<T> + IssuedBy<P::Initiator>,
        A: Addressed<T> + Address,
        F: FenceOn<T>,
        S: SignaledOn<P::Signaling>,
        D: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline> + Fits<Max<G>, P::MaxInline> + 'd,
    {
        for wr in wrs {
            self.push(wr)?;
        }
        Ok(())
    }

    /// Posts the list (`ibv_post_send`), its last work request signaled where not all are. An empty list
    /// is Ok and posts nothing (R9.5).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`Refused`](PostErrorKind::Refused) (R9.1),
    /// [`OutcomeUnknown`](PostErrorKind::OutcomeUnknown) and [`Poisoned`](PostErrorKind::Poisoned) after it (R8.20).
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
        let n = self.count();
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
        let (n, first) = (list.count(), list.slots.cast());
        // What was wrong was not pushed, so the port is a new one.
        // SAFETY: the list is put together and ended.
        unsafe { list.begin().post_list(n, first) }
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
            let rejected = unsafe {
                give_up::<P>(self.core, self.slots.cast(), self.at.wrapping_sub(1).cast())
            };
            // Here, where the user's `Drop` may panic.
            drop(rejected);
        }
    }
}

/// Where an array of slots begins. That it is on the stack is kept from the compiler, which would compute each address
/// from the stack pointer, in two instructions.
#[inline(always)]
pub(super) fn slots_begin<S>(slots: *mut S) -> *mut S {
    std::hint::black_box(slots)
}

/// One past the `most`th of an array of slots, which has as many.
#[inline(always)]
pub(super) fn slots_end<S>(slots: *mut S, most: u32) -> *mut S {
    slots.wrapping_add(most as usize)
}

/// How many work requests a list of `count` can have in all, now that as many are there as were known to fit.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
extern "C" fn more_room<P: Profile>(books: &mut SendQueue<P>, count: u32, capacity: u32) -> u32 {
    if count == capacity { capacity } else { books.room().clamp(count, capacity) }
}

/// What is wrong with the `i`th work request of a list, which is emitted and entered.
///
/// # Safety
/// `wr` is that work request, and its entry the caller's.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn look_at<P: Profile>(
    books: &SendQueue<P>,
    findings: Findings,
    i: u32,
    wr: *mut ibv_send_wr,
    slot_sges: usize,
) -> Option<PostErrorKind> {
    // SAFETY: it is emitted.
    unsafe { (*wr).next = ptr::null_mut() };
    // SAFETY: a list of one.
    unsafe { chain::drop_empty(wr) };
    // SAFETY: entered as the `i`th.
    let word = unsafe { books.word(i, wr) };
    // SAFETY: the caller's contract.
    let faults = unsafe { findings.settle_sends::<P::Entry>(queue(books), std::iter::once(word)) };
    faults.first(P::MaxSendSge::VALUE.min(slot_sges as u32), P::MaxInline::VALUE)
}

/// The entries of a list that is not posted.
///
/// # Safety
/// The work requests from `first` to `last` were emitted and entered, and their entries are given up.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
unsafe extern "C" fn give_up<P: Profile>(
    core: &Core<P>,
    first: *mut ibv_send_wr,
    last: *mut ibv_send_wr,
) -> Rejected<P::Entry> {
    // SAFETY: the caller's contract.
    unsafe { (*last).next = ptr::null_mut() };
    let mut rejected = Rejected::<P::Entry>::new();
    // SAFETY: as above.
    for word in unsafe { words(&core.send, first) } {
        // SAFETY: as above.
        unsafe { rejected.push(word) };
    }
    rejected
}

#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)] // for its promise not to unwind, not for C
pub(super) extern "C" fn not_pushed<E: Entry>(
    verb: &'static str,
    at: u32,
    kind: PostErrorKind,
    entry: Option<E>,
) -> PostError<E> {
    let mut rejected = Rejected::new();
    rejected.push_entry(entry);
    PostError::new(verb, kind, at, rejected)
}
