//! Lists of receives whose length is known at run time, as `list` has them for sends.

#![allow(unsafe_code)] // emits and posts

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::bump::bump;
use super::list_slow::{full, not_pushed};
use super::recv::RecvPost;
use super::recv_list_slow::{Looked, VERB, drop_list, look_at, look_through, more_room};
use super::{Core, QueuePair};
use crate::cold::out_of_line;
use crate::entry::Owned;
use crate::in_flight::PostError;
use crate::limits::Max;
use crate::profile::Profile;
use crate::rules::{CanPostRecv, HasRecvQueue};
use crate::state::State;
use crate::sys::types::{ibv_recv_wr, ibv_sge};
use crate::transport::Transport;
use crate::wr::port::Findings;
use crate::wr::slot::RecvSlot;
use crate::wr::{Data, Fits, Recv};

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
    seen: u64,
    slots: *mut RecvSlot<[ibv_sge; G]>,
    at: *mut RecvSlot<[ibv_sge; G]>,
    count: u32,
    most: i32,
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
        let most = core.recv.known_room().min(capacity as i32);
        let mark = core.recv.mark();
        let slots = slots.0.as_mut_ptr().cast();
        RecvList {
            core,
            mark,
            seen: mark,
            slots,
            at: slots,
            count: 0,
            most,
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
        self.count as usize
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// For the next work request.
    #[inline(always)]
    fn begin(&mut self) -> RecvPost<'_, T, P> {
        let mut post = RecvPost::of(self.core, self.mark);
        post.port.limit_sge(G as u32);
        post
    }

    /// The slot before `next` was emitted, its entry given up.
    ///
    /// # Safety
    /// It is the slot at `at`.
    #[inline(always)]
    unsafe fn advance(&mut self, next: *mut RecvSlot<[ibv_sge; G]>) {
        // SAFETY: the caller's contract.
        let slot = unsafe { next.sub(1) }.cast::<ibv_recv_wr>();
        // SAFETY: the slot is writable.
        unsafe { (*slot).next = next.cast() };
        self.at = next;
        self.count += 1;
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
        if self.count as i32 >= self.most {
            let i = self.count;
            let most = more_room(self.core, i, self.capacity);
            self.most = most as i32;
            if most == i {
                let mut scratch = RecvSlot::<D::Sges>::new();
                // SAFETY: a local slot, whose work request is not posted.
                let pending = unsafe { self.begin().put(wr, &raw mut scratch, ptr::null_mut()) };
                // What else is wrong with it is not the next one's fault: that has a port of its own.
                return Err(full(VERB, most, pending.entry));
            }
        }
        // SAFETY: a slot is left.
        let (at, next) = unsafe { bump(self.at) };
        self.at = at;
        let mut post = self.begin();
        // SAFETY: a slot is left, and one for up to G elements holds those of `D` (`Fits`); it stays where it is:
        // the list borrows the array until it is posted.
        let pending = unsafe { post.put(wr, at.cast(), ptr::null_mut()) };
        let findings = post.port.findings_of(&pending.entry, D::IS_ONE).brief();
        if findings.is_clear() {
            post.port.give(&pending.entry);
        } else {
            let i = self.count;
            // SAFETY: emitted, and not posted.
            let kind = unsafe { look_at::<P>(self.core, findings, at.cast(), G) };
            if let Some(kind) = kind {
                return Err(not_pushed(VERB, i, kind, pending.entry));
            }
        }
        std::mem::forget(pending.entry);
        // SAFETY: the slot that was emitted.
        unsafe { self.advance(next) };
        Ok(())
    }

    /// Pushes each of `wrs`, up to the first that is refused: what
    /// [`SendList::extend`](crate::SendList::extend) says holds here too.
    ///
    /// # Errors
    /// As for [`push`](Self::push); what was pushed before stays in the list. The error has the entry that was refused and,
    /// in order, those after it that were taken from the iterator already.
    #[inline(always)]
    pub fn extend<D>(
        &mut self,
        wrs: impl IntoIterator<Item = Recv<D>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline> + Fits<Max<G>, P::MaxInline>,
    {
        let wrs = wrs.into_iter();
        let (n, most) = wrs.size_hint();
        let left = self.most - self.count as i32;
        if most != Some(n) || n > i32::MAX as usize || n as i32 > left {
            return self.push_each(wrs);
        }
        // Whatever the iterator gives: there are `n` slots. In this order, so that nothing is taken from it beyond.
        for (_, wr) in (0..n).zip(wrs) {
            // SAFETY: as above, a slot is left.
            let (at, next) = unsafe { bump(self.at) };
            let seen = self.seen;
            let mut post = self.begin();
            post.port.has_seen(seen);
            // SAFETY: as in `push`.
            let pending = unsafe { post.put(wr, at.cast(), ptr::null_mut()) };
            post.port.give(&pending.entry);
            let (seen, findings) = (post.port.seen(), post.port.findings());
            if post.port.has_faults() {
                return self.look_back(findings, pending.entry);
            }
            // Before the iterator's code may panic: the list has this one from now on.
            self.seen = seen;
            std::mem::forget(pending.entry);
            // SAFETY: the slot that was emitted.
            unsafe { self.advance(next) };
        }
        // Whether each buffer was posted here last. (The mark is read again: the loop needs its registers.)
        if self.seen != self.core.recv.mark() {
            return self.look_back(Findings::LOOK, None);
        }
        self.seen = self.mark;
        Ok(())
    }

    /// Looks at each work request of the list, and keeps those before the first that is refused. The one at `at`, which
    /// has this entry, is refused, if `findings` say what for.
    #[inline(always)]
    fn look_back(
        &mut self,
        findings: Findings,
        entry: Option<P::Entry>,
    ) -> Result<(), PostError<P::Entry>> {
        let (n, first) = (self.count, self.slots.cast());
        // It goes there and back, and so no register is saved for it on the way that goes past here.
        // SAFETY: the function does not unwind, and what it gives back takes the place of this.
        let core = unsafe { ptr::read(&self.core) };
        let Looked { core, kept, result } = out_of_line(|out| {
            // SAFETY: the list's slots; `out` is writable.
            unsafe { look_through(core, first, n, G, findings, entry, out) }
        });
        // SAFETY: as above.
        unsafe { ptr::write(&mut self.core, core) };
        (self.at, self.count) = (self.slots.wrapping_add(kept as usize), kept);
        self.seen = self.mark;
        result
    }

    /// Pushes one after the other, out of line, as `SendList` does.
    #[inline(always)]
    fn push_each<D>(
        &mut self,
        wrs: impl Iterator<Item = Recv<D>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline> + Fits<Max<G>, P::MaxInline>,
    {
        // SAFETY: what is left behind has no entries, and a list is put in its place.
        let list = unsafe { ptr::read(self) };
        let slots = self.slots;
        (self.at, self.count, self.seen) = (slots, 0, self.mark);
        // SAFETY: `out` is writable.
        let (list, result) = out_of_line(|out| unsafe { push_each(list, wrs, out) });
        // SAFETY: as above.
        unsafe { ptr::write(self, ManuallyDrop::into_inner(list)) };
        // As they were, which the compiler is told here.
        (self.slots, self.seen) = (slots, self.mark);
        result
    }

    /// Posts the list (`ibv_post_recv`). An empty list is Ok and posts nothing (R9.5).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take: [`Refused`](crate::PostErrorKind::Refused) (R9.1),
    /// [`OutcomeUnknown`](crate::PostErrorKind::OutcomeUnknown) and [`Poisoned`](crate::PostErrorKind::Poisoned) after it (R8.20).
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
        let (n, first, seen) = (list.count, list.slots.cast(), list.seen);
        let mut post = list.begin();
        // Nothing strange, unless an iterator panicked before it was looked at.
        post.port.has_seen(seen);
        // SAFETY: the list is put together and ended.
        unsafe { post.post_list(n, first) }
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
            unsafe { drop_list::<P>(self.slots.cast(), self.at.wrapping_sub(1).cast()) };
        }
    }
}

/// A list, and whether all was pushed.
type Grown<'d, T, P, const G: usize> =
    (ManuallyDrop<RecvList<'d, T, P, G>>, Result<(), PostError<<P as Profile>::Entry>>);

/// Pushes one after the other, and says what became of the list, whose buffers were all looked at then.
///
/// # Safety
/// `out` is writable.
#[cold]
#[inline(never)]
unsafe fn push_each<'d, T, P, D, const G: usize>(
    mut list: RecvList<'d, T, P, G>,
    mut wrs: impl Iterator<Item = Recv<D>>,
    out: *mut Grown<'d, T, P, G>,
) where
    T: Transport,
    P: Profile<Entry: Owned>,
    D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline> + Fits<Max<G>, P::MaxInline>,
{
    let looked = if list.seen == list.mark { Ok(()) } else { list.look_back(Findings::LOOK, None) };
    let result = looked.and_then(|()| wrs.try_for_each(|wr| list.push(wr)));
    // SAFETY: the caller's contract.
    unsafe { out.write((ManuallyDrop::new(list), result)) };
}
