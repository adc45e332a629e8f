//! The public interface of lists whose length is known at run time: their slots, and the bounds of
//! `push`.

#![allow(unsafe_code)] // the bounds satisfy the contract of `push`

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
use crate::terms::post_error::WorkRequests;
use crate::terms::transport::Transport;
use crate::work::data::Fits;
use crate::work::limits::{Max, Sges};
use crate::work::recv::Recv;
use crate::work::request::{RecvSlot, SendSlot, WorkRequest};

/// The methods of both kinds of slots.
macro_rules! slots_are_room {
    ($($slots:ident of $slot:ident($($bound:tt)*))*) => {$(
        impl<const N: usize, const G: usize> $slots<N, G> {
            /// A pointer to all slots.
            #[inline(always)]
            pub(crate) fn first(&mut self) -> *mut $slot<[ibv_sge; G]> {
                self.0.as_mut_ptr().cast()
            }
        }

        // SAFETY: slots are uninitialised room. A list writes pointers there, but only its own post
        // reads them, and the list borrows the slots.
        unsafe impl<const N: usize, const G: usize> Send for $slots<N, G> {}
        // SAFETY: a shared reference gives no access to the slots. Writing takes `&mut`.
        unsafe impl<const N: usize, const G: usize> Sync for $slots<N, G> {}

        impl<const N: usize, const G: usize> Default for $slots<N, G> where $($bound)* {
            fn default() -> Self {
                Self::new()
            }
        }

        impl_debug!([const N: usize, const G: usize] $slots<N, G>,
            |_| "{}({N} of {G} elements)", stringify!($slots));
    )*};
}

/// The methods of both kinds of lists.
macro_rules! lists_have_a_length {
    ($($list:ident)*) => {$(
        impl<T: Transport, P: Profile<Entry: Owned>, const G: usize> $list<'_, T, P, G> {
            /// The number of work requests in the list.
            #[inline(always)]
            pub fn len(&self) -> usize {
                self.0.count as usize
            }

            /// Whether the list is empty.
            #[inline(always)]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl_debug!([T: Transport, P: Profile<Entry: Owned>, const G: usize] $list<'_, T, P, G>,
            |it| "{}({})", stringify!($list), WorkRequests(it.len() as u32));
    )*};
}

/// Room for `N` send work requests of at most `G` scatter/gather elements, for a [`SendList`]
/// (ibv_post_send(3)). Keep it on the stack, or in a struct that reuses it for each list and can
/// move to another thread.
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
    /// Creates uninitialised room, at no cost.
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
    /// Creates uninitialised room, at no cost.
    #[inline(always)]
    pub fn new() -> Self {
        RecvSlots([const { MaybeUninit::uninit() }; N])
    }
}

/// A list of sends. Push work requests, then post them together with [`post`](SendList::post)
/// (`wr.next` of ibv_post_send(3)).
///
/// Dropping it drops the pushed work requests and posts nothing. If it is leaked with
/// `mem::forget`, its buffers return when the queue pair ends; with selective signaling they leak.
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
/// let _: Unsettled = list.post_unsignaled()?; // a later completion covers it
/// # proverbs::loopback::poll(&mut cq, 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SendList<'d, T: Transport, P: Profile<Entry: Owned>, const G: usize>(
    pub(crate) List<'d, T, Sends<P>, G>,
);

impl<'d, T: Transport, P: Profile<Entry: Owned>, const G: usize> SendList<'d, T, P, G> {
    /// Adds a work request. If the slots or the queue are full, or the work request is invalid, the
    /// error contains its entry, and the list is unchanged.
    ///
    /// # Errors
    /// [`PostError`] with the entry: [`QueueFull`](crate::post::PostErrorKind::QueueFull)
    /// ([R9.6](crate::guide::rules#r9-6)), and the other [kinds](crate::post::PostErrorKind).
    #[inline(always)]
    pub fn push<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        W: SendOn<T, P> + 'd,
        Self: Allows<call::Push<W>>,
    {
        // SAFETY: the bounds are the rules, and the flag depends on the queue's signaling. A slot
        // for up to `G` elements has room for the elements of `W`: its buffers (`Fits`), or one for
        // inline data (invariant of `SendSlots`).
        unsafe { self.0.push(wr.flagged(Signals::<T, P>::EACH)) }
    }

    /// Pushes `wrs` until one is rejected.
    ///
    /// If the `size_hint` of the iterator is exact and that many fit, this method checks for room
    /// once, and checks all buffers together after the last one. This costs less than calling
    /// [`push`](Self::push) for each. (If the iterator yields more than its hint, the rest is not
    /// taken.)
    ///
    /// # Errors
    /// As for [`push`](Self::push). Work requests that were pushed before stay in the list. The
    /// error contains the rejected entry and, in order, those that were already taken from the
    /// iterator after it. To keep the rest of the iterator, pass it by reference (`by_ref`).
    #[inline(always)]
    pub fn extend<W>(&mut self, wrs: impl IntoIterator<Item = W>) -> Result<(), PostError<P::Entry>>
    where
        W: SendOn<T, P> + 'd,
        Self: Allows<call::Push<W>>,
    {
        let wrs = wrs.into_iter();
        // SAFETY: the bounds are those of `push`, for the same reason.
        unsafe {
            match Signals::<T, P>::EACH {
                0 => self.0.extend(wrs),
                each => self.0.extend(wrs.map(move |wr| wr.flagged(each))),
            }
        }
    }

    /// Posts the list (`ibv_post_send`). With selective signaling its last work request is
    /// signaled. An empty list returns `Ok` and posts nothing ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not accept:
    /// [`Refused`](crate::post::PostErrorKind::Refused) ([R9.1](crate::guide::rules#r9-1)),
    /// [`OutcomeUnknown`](crate::post::PostErrorKind::OutcomeUnknown) and, for later posts,
    /// [`Poisoned`](crate::post::PostErrorKind::Poisoned) ([R8.20](crate::guide::rules#r8-20)).
    #[inline(always)]
    pub fn post(self) -> Result<(), PostError<P::Entry>> {
        self.finish(P::Signaling::SIGNAL_LAST)
    }

    /// Like [`post`](Self::post), but signals the last work request only if it was created with
    /// `.signaled()`. The entries after the last signaled work request return with the completion
    /// of a later one. If the list fills the queue, its last work request is signaled nevertheless
    /// ([R9.8](crate::guide::rules#r9-8)).
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

    /// Posts the list, with `flags` added to its last work request.
    #[inline(always)]
    fn finish(self, flags: u32) -> Result<(), PostError<P::Entry>> {
        self.0.post(|last: *mut ibv_send_wr| {
            // SAFETY: it is the last work request of the list, which was emitted.
            unsafe { (*last).send_flags |= flags };
        })
    }
}

/// A list of receives. Push work requests, then post them together with [`post`](RecvList::post)
/// (`wr.next` of ibv_post_recv(3)).
///
/// Dropping it drops the pushed work requests and posts nothing.
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
pub struct RecvList<'d, T: Transport, P: Profile<Entry: Owned>, const G: usize>(
    pub(crate) List<'d, T, Receives<P>, G>,
);

impl<'d, T: Transport, P: Profile<Entry: Owned>, const G: usize> RecvList<'d, T, P, G> {
    /// Adds a receive. If the slots or the queue are full, or the receive is invalid, the error
    /// contains its entry, and the list is unchanged.
    ///
    /// # Errors
    /// [`PostError`] with the entry: [`QueueFull`](crate::post::PostErrorKind::QueueFull)
    /// ([R9.6](crate::guide::rules#r9-6)), and the other [kinds](crate::post::PostErrorKind).
    #[inline(always)]
    pub fn push<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        // A receive borrows nothing, so nothing has to outlive the list.
        W: RecvOn<P>,
        Self: Allows<call::Push<W>>,
    {
        // SAFETY: the bounds are the rules, and a slot for up to `G` elements has room for those of
        // `D` (`Fits`).
        unsafe { self.0.push(wr) }
    }

    /// Pushes `wrs` until one is rejected, like
    /// [`SendList::extend`](crate::post::SendList::extend).
    ///
    /// # Errors
    /// As for [`push`](Self::push). Receives that were pushed before stay in the list. The error
    /// contains the rejected entry and, in order, those that were already taken from the iterator
    /// after it.
    #[inline(always)]
    pub fn extend<W>(&mut self, wrs: impl IntoIterator<Item = W>) -> Result<(), PostError<P::Entry>>
    where
        W: RecvOn<P>,
        Self: Allows<call::Push<W>>,
    {
        // SAFETY: the bounds are those of `push`, for the same reason.
        unsafe { self.0.extend(wrs.into_iter()) }
    }

    /// Posts the list (`ibv_post_recv`). An empty list returns `Ok` and posts nothing
    /// ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not accept:
    /// [`Refused`](crate::post::PostErrorKind::Refused) ([R9.1](crate::guide::rules#r9-1)),
    /// [`OutcomeUnknown`](crate::post::PostErrorKind::OutcomeUnknown) and, for later posts,
    /// [`Poisoned`](crate::post::PostErrorKind::Poisoned) ([R8.20](crate::guide::rules#r8-20)).
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
