//! Lists whose length is known at run time, as programs see them: their slots, and the bounds of
//! what is pushed.

#![allow(unsafe_code)] // the bounds are what pushing asks for

use std::fmt;
use std::mem::MaybeUninit;

use crate::allows::{Allows, Same, Seal, call};
use crate::in_flight::SendMode;
use crate::memory::entry::Owned;
use crate::post::chain::Unsettled;
use crate::post::list_path::List;
use crate::post::queue::{Receives, Sends};
use crate::post::refusal::PostError;
use crate::profile::{Profile, Signals};
use crate::rules::{AllowedInList, RecvOn, SendOn};
use crate::sys::types::{ibv_send_wr, ibv_sge};
use crate::terms::transport::Transport;
use crate::work::data::Fits;
use crate::work::limits::{Max, Sges};
use crate::work::recv::Recv;
use crate::work::refusal::WorkRequests;
use crate::work::request::{RecvSlot, SendSlot, WorkRequest};

/// The methods of both kinds of slots.
macro_rules! slots_are_room {
    ($($slots:ident of $slot:ident($($bound:tt)*))*) => {$(
        impl<const N: usize, const G: usize> $slots<N, G> {
            /// All of them.
            #[inline(always)]
            pub(crate) fn first(&mut self) -> *mut $slot<[ibv_sge; G]> {
                self.0.as_mut_ptr().cast()
            }
        }

        // SAFETY: slots are room that is not initialised. What a list writes there, pointers as
        // well, is read by its own post alone, and the list borrows them.
        unsafe impl<const N: usize, const G: usize> Send for $slots<N, G> {}
        // SAFETY: a shared reference gives nothing of the slots: writing there takes `&mut`.
        unsafe impl<const N: usize, const G: usize> Sync for $slots<N, G> {}

        impl<const N: usize, const G: usize> Default for $slots<N, G> where $($bound)* {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<const N: usize, const G: usize> fmt::Debug for $slots<N, G> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({N} of {G} elements)", stringify!($slots))
            }
        }
    )*};
}

/// The methods of both kinds of lists.
macro_rules! lists_have_a_length {
    ($($list:ident)*) => {$(
        impl<T: Transport, P: Profile, const G: usize> $list<'_, T, P, G>
        where
            P::Entry: Owned,
        {
            /// Work requests pushed so far.
            #[inline(always)]
            pub fn len(&self) -> usize {
                self.0.count as usize
            }

            /// Whether there is none.
            #[inline(always)]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl<T: Transport, P: Profile, const G: usize> fmt::Debug for $list<'_, T, P, G>
        where
            P::Entry: Owned,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($list), WorkRequests(self.len() as u32))
            }
        }
    )*};
}

/// Room for `N` send work requests of at most `G` scatter/gather elements, for a [`SendList`]
/// (ibv_post_send(3)): on the stack, or in a struct that keeps it from list to list and takes it
/// along to another thread.
///
/// ```
/// # use proverbs::prelude::*;
/// struct Sender {
///     qp: QueuePair<Rc, Rts>,
///     slots: SendSlots<8>,
/// }
///
/// # let proverbs::loopback::Pair { a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair()?;
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let at = region.remote().write();
/// let mut sender = Sender { qp: a, slots: SendSlots::new() };
/// std::thread::spawn(move || {
///     let mut list = sender.qp.send_list(&mut sender.slots);
///     list.push(wr::RdmaWrite::inline(b"first", at))?;
///     list.push(wr::RdmaWrite::inline(b"then", at))?;
///     list.post()
/// })
/// .join()
/// .expect("no panic")?;
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// Invariant: `G` is at least one, because inline data occupies an element too, whatever
// `max_send_sge` is.
pub struct SendSlots<const N: usize, const G: usize = 1>([MaybeUninit<SendSlot<[ibv_sge; G]>>; N]);

impl<const N: usize, const G: usize> SendSlots<N, G> {
    /// Room, not initialised: it costs nothing.
    #[inline(always)]
    pub fn new() -> Self
    where
        Self: Allows<call::NewSendSlots>,
    {
        SendSlots([const { MaybeUninit::uninit() }; N])
    }
}

slots_are_room! { SendSlots of SendSlot(Max<G>: Sges<1>) RecvSlots of RecvSlot() }

/// Room for `N` receive work requests of at most `G` scatter/gather elements, for a [`RecvList`]
/// (ibv_post_recv(3)), like [`SendSlots`].
pub struct RecvSlots<const N: usize, const G: usize = 1>([MaybeUninit<RecvSlot<[ibv_sge; G]>>; N]);

impl<const N: usize, const G: usize> RecvSlots<N, G> {
    /// Room, not initialised: it costs nothing.
    #[inline(always)]
    pub fn new() -> Self {
        RecvSlots([const { MaybeUninit::uninit() }; N])
    }
}

/// A list of sends being put together; [`post`](SendList::post) posts it (`wr.next` of
/// ibv_post_send(3)).
///
/// Dropped instead, it drops what was pushed and posts nothing. Forgotten (`mem::forget`), its
/// buffers come back when the queue pair ends; those of a queue pair with selective signaling leak.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::{SendList, Unsettled};
/// profile! { Stream { signaling: Selective } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair_of::<Stream>()?;
/// # let region = pd.register::<RemoteWrite>(256)?;
/// # let at = region.remote().write();
/// let bufs: Vec<Buf> = (0..3).filter_map(|_| pool.take()).collect();
/// let mut slots = SendSlots::<8>::new(); // on the stack, and used again for the next list
/// let mut list: SendList<'_, Rc, Stream, 1> = a.send_list(&mut slots);
/// list.push(wr::RdmaWrite::inline(b"first", at))?;
/// list.extend(bufs.into_iter().map(move |buf| wr::RdmaWrite::new(buf, at)))?;
/// assert_eq!((list.len(), list.is_empty()), (4, false));
/// list.post()?; // one call of the verb; the last is signaled
///
/// let mut list = a.send_list(&mut slots);
/// list.push(wr::RdmaWrite::inline(b"later", at))?;
/// let _: Unsettled = list.post_unsignaled()?; // a later completion will speak for it
/// # proverbs::loopback::poll(&mut cq, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SendList<'d, T: Transport, P: Profile, const G: usize>(
    pub(crate) List<'d, T, Sends<P>, G>,
)
where
    P::Entry: Owned;

impl<'d, T: Transport, P: Profile, const G: usize> SendList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Adds a work request. If slots or queue are full, or something is wrong with it, its entry
    /// comes back in the error, and the list stays as it was.
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take:
    /// [`QueueFull`](crate::post::PostErrorKind::QueueFull) ([R9.6](crate::guide::rules#r9-6)), and
    /// the other [kinds](crate::post::PostErrorKind).
    #[inline(always)]
    pub fn push<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        W: SendOn<T, P> + 'd,
        Self: Allows<call::Push<W>>,
    {
        // SAFETY: the bounds are the rules, and the flag is the queue's signaling. A slot for up to
        // `G` elements holds those of `W`: its buffers (`Fits`), or the one of inline data
        // (invariant of `SendSlots`).
        unsafe { self.0.push(wr.flagged(Signals::<T, P>::EACH)) }
    }

    /// Pushes each of `wrs`, up to the first that is refused.
    ///
    /// If the iterator's `size_hint` says exactly how many there are, and they fit, then room is
    /// asked for once, and buffers are compared once, behind the last: this costs less than as many
    /// calls of [`push`](Self::push). (One that has more than that is cut there.)
    ///
    /// # Errors
    /// As for [`push`](Self::push); what was pushed before stays in the list. The error has the
    /// entry that was refused and, in order, those after it that were taken from the iterator
    /// already. To keep what was not taken, lend the iterator (`by_ref`).
    #[inline(always)]
    pub fn extend<W>(&mut self, wrs: impl IntoIterator<Item = W>) -> Result<(), PostError<P::Entry>>
    where
        W: SendOn<T, P> + 'd,
        Self: Allows<call::Push<W>>,
    {
        let wrs = wrs.into_iter();
        // SAFETY: the bounds are those of `push`, and so is what they are worth.
        unsafe {
            match Signals::<T, P>::EACH {
                0 => self.0.extend(wrs),
                each => self.0.extend(wrs.map(move |wr| wr.flagged(each))),
            }
        }
    }

    /// Posts the list (`ibv_post_send`), its last work request signaled where not all are. An empty
    /// list is Ok and posts nothing ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take:
    /// [`Refused`](crate::post::PostErrorKind::Refused) ([R9.1](crate::guide::rules#r9-1)),
    /// [`OutcomeUnknown`](crate::post::PostErrorKind::OutcomeUnknown) and
    /// [`Poisoned`](crate::post::PostErrorKind::Poisoned) after it
    /// ([R8.20](crate::guide::rules#r8-20)).
    #[inline(always)]
    pub fn post(self) -> Result<(), PostError<P::Entry>> {
        self.finish(P::Signaling::SIGNAL_LAST)
    }

    /// As [`post`](Self::post), the last one signaled only if it asks for it: the entries behind
    /// the last signaled one come back with the completion of a later work request. A list that
    /// fills the queue is signaled at its end all the same ([R9.8](crate::guide::rules#r9-8)).
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline(always)]
    pub fn post_unsignaled(self) -> Result<Unsettled, PostError<P::Entry>>
    where
        Self: Allows<call::PostUnsignaled>,
    {
        let flags = self.0.queue.signal_if_full(self.0.count);
        self.finish(flags).map(|()| Unsettled::new())
    }

    /// Posts the list, its last work request with `flags` besides its own.
    #[inline(always)]
    fn finish(self, flags: u32) -> Result<(), PostError<P::Entry>> {
        self.0.post(|last: *mut ibv_send_wr| {
            // SAFETY: the last of the list, which was emitted.
            unsafe { (*last).send_flags |= flags };
        })
    }
}

/// A list of receives being put together; [`post`](RecvList::post) posts it (`wr.next` of
/// ibv_post_recv(3)).
///
/// Dropped instead, it drops what was pushed and posts nothing.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::post::{PostErrorKind, RecvList};
/// # let proverbs::loopback::Pair { mut b, pool, .. } = proverbs::loopback::pair()?;
/// let mut slots = RecvSlots::<4>::new();
/// let mut list: RecvList<'_, Rc, DefaultProfile, 1> = b.recv_list(&mut slots);
/// list.push(wr::Recv::empty())?;
/// list.extend((0..3).filter_map(|_| pool.take()).map(wr::Recv::new))?;
/// assert_eq!((list.len(), list.is_empty()), (4, false));
/// let error = list.push(wr::Recv::empty()).unwrap_err(); // there are four slots
/// assert_eq!(error.kind(), PostErrorKind::QueueFull { asked: 5, room: 4 });
/// list.post()?;
/// assert_eq!(b.recvs_outstanding(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecvList<'d, T: Transport, P: Profile, const G: usize>(
    pub(crate) List<'d, T, Receives<P>, G>,
)
where
    P::Entry: Owned;

impl<'d, T: Transport, P: Profile, const G: usize> RecvList<'d, T, P, G>
where
    P::Entry: Owned,
{
    /// Adds a receive. If slots or queue are full, or something is wrong with it, its entry comes
    /// back in the error, and the list stays as it was.
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take:
    /// [`QueueFull`](crate::post::PostErrorKind::QueueFull) ([R9.6](crate::guide::rules#r9-6)), and
    /// the other [kinds](crate::post::PostErrorKind).
    #[inline(always)]
    pub fn push<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        // Nothing that a receive holds is borrowed, so that nothing must outlive the list.
        W: RecvOn<P>,
        Self: Allows<call::Push<W>>,
    {
        // SAFETY: the bounds are the rules, and a slot for up to `G` elements holds those of `D`
        // (`Fits`).
        unsafe { self.0.push(wr) }
    }

    /// Pushes each of `wrs`, up to the first that is refused: what
    /// [`SendList::extend`](crate::post::SendList::extend) says holds here too.
    ///
    /// # Errors
    /// As for [`push`](Self::push); what was pushed before stays in the list. The error has the
    /// entry that was refused and, in order, those after it that were taken from the iterator
    /// already.
    #[inline(always)]
    pub fn extend<W>(&mut self, wrs: impl IntoIterator<Item = W>) -> Result<(), PostError<P::Entry>>
    where
        W: RecvOn<P>,
        Self: Allows<call::Push<W>>,
    {
        // SAFETY: the bounds are those of `push`, and so is what they are worth.
        unsafe { self.0.extend(wrs.into_iter()) }
    }

    /// Posts the list (`ibv_post_recv`). An empty list is Ok and posts nothing
    /// ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not take:
    /// [`Refused`](crate::post::PostErrorKind::Refused) ([R9.1](crate::guide::rules#r9-1)),
    /// [`OutcomeUnknown`](crate::post::PostErrorKind::OutcomeUnknown) and
    /// [`Poisoned`](crate::post::PostErrorKind::Poisoned) after it
    /// ([R8.20](crate::guide::rules#r8-20)).
    #[inline(always)]
    pub fn post(self) -> Result<(), PostError<P::Entry>> {
        self.0.post(|_| {})
    }
}

lists_have_a_length! { SendList RecvList }

impl<const N: usize, const G: usize, Object> Allows<call::NewSendSlots> for Object
where
    Max<G>: Sges<1>,
    Object: Same<This = SendSlots<N, G>>,
{
    const SEAL: Seal = Seal;
}

impl<'d, T, P, O, D, A, F, S, const G: usize, Object> Allows<call::Push<WorkRequest<O, D, A, F, S>>>
    for Object
where
    T: Transport,
    P: Profile<Entry: Owned>,
    O: AllowedInList<T>,
    D: Fits<Max<G>, P::MaxInline>,
    Object: Same<This = SendList<'d, T, P, G>>,
{
    const SEAL: Seal = Seal;
}

impl<'d, T, P, D, const G: usize, Object> Allows<call::Push<Recv<D>>> for Object
where
    T: Transport,
    P: Profile<Entry: Owned>,
    Recv<D>: Fits<Max<G>, P::MaxInline>,
    Object: Same<This = RecvList<'d, T, P, G>>,
{
    const SEAL: Seal = Seal;
}
