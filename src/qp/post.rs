//! Posting to a queue pair: the bounds, and then one path for all queues (`post`).

#![allow(unsafe_code)] // the bounds are what posting asks for

use crate::allows::{Allows, call};
use crate::in_flight::{InFlight, SendMode};
use crate::memory::{Owned, RemoteSlice, RemoteWrite};
use crate::post::chain::{Begun, Post, RecvPost, SendPost, Unsettled};
use crate::post::list::{RecvList, RecvSlots, SendList, SendSlots};
use crate::post::list_path::List;
use crate::post::refusal::PostError;
use crate::profile::{Profile, Signals};
use crate::qp::{Core, QueuePair};
use crate::rules::{RecvOn, SendOn};
use crate::terms::state::State;
use crate::terms::transport::Transport;
use crate::work::address::Address;
use crate::work::data::{Data, Takes};
use crate::work::inline::{Empty, Inline};
use crate::work::opcode::{Opcode, RdmaWrite};
use crate::work::prepared::{Placeholder, Prepared};
use crate::work::request::WorkRequest;

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// Posts one send work request (`ibv_post_send`). On a queue pair with selective signaling it
    /// is signaled.
    ///
    /// Its entry belongs to the device until its completion, or is given back in the error. For
    /// several work requests at once see [`post_send!`](crate::post_send!) and
    /// [`send_list`](Self::send_list).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteWrite>(256)?;
    /// a.post_send(wr::RdmaWrite::new(pool.take().ok_or("no buffer")?, region.remote().write()))?;
    /// assert_eq!(a.sends_outstanding(), 1);
    /// # proverbs::loopback::poll(&mut cq, 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not accept:
    /// [`QueueFull`](crate::post::PostErrorKind::QueueFull) ([R9.6](crate::guide::rules#r9-6)), and
    /// the other [kinds](crate::post::PostErrorKind).
    #[doc(alias("ibv_post_send", "ibv_send_wr", "wr_id", "ibv_recv_wr"))]
    #[inline(always)]
    pub fn post_send<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostSend>,
        P::Entry: Owned,
        W: SendOn<T, P>,
    {
        let post = SendPost::<T, P>::new(&mut self.core.send);
        // SAFETY: the bounds are the rules, and the flag is the queue's signaling.
        unsafe { post.one(wr.flagged(Signals::<T, P>::LAST)) }
    }

    /// Like [`post_send`](Self::post_send), not signaled: the entry comes back with the completion
    /// of a later signaled work request. A send that fills the queue is always signaled
    /// ([R9.8](crate::guide::rules#r9-8)).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_send_unsignaled<W>(&mut self, wr: W) -> Result<Unsettled, PostError<P::Entry>>
    where
        Self: Allows<call::PostSend> + Allows<call::PostUnsignaled>,
        P::Entry: Owned,
        W: SendOn<T, P>,
    {
        let signal = self.core.send.signal_if_full(1);
        let post = SendPost::<T, P>::new(&mut self.core.send);
        // SAFETY: the bounds are the rules, and the flag is the queue's signaling.
        unsafe { post.one(wr.flagged(signal)) }.map(|()| Unsettled::new())
    }

    /// Has all that was posted unsignaled complete: posts an RDMA WRITE of no bytes, which is
    /// signaled, behind it (`ibv_post_send`). Its completion speaks for all before it.
    ///
    /// Nothing is posted if nothing is outstanding, nor if the queue is full, whose last send is
    /// signaled already ([R9.8](crate::guide::rules#r9-8)). So it is never refused for want of
    /// room.
    ///
    /// The WRITE names no memory of the peer's ([R3.4](crate::guide::rules#r3-4)), but the peer's
    /// queue pair must let peers write
    /// ([`QpAccess::REMOTE_WRITE`](crate::qp::QpAccess::REMOTE_WRITE)); one that does not refuses
    /// it, and ends the connection. To such a peer, and on UD, the marker is a message: post the
    /// next one signaled.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Stream { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Stream>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// # let at = region.remote().write();
    /// let bufs: Vec<Buf> = (0..3).filter_map(|_| pool.take()).collect();
    /// for buf in bufs {
    ///     let _later = a.post_send_unsignaled(wr::RdmaWrite::new(buf, at))?;
    /// }
    /// a.settle()?;
    /// while a.sends_outstanding() > 0 {
    ///     for completion in cq.poll()? {
    ///         if let Outcome::Selective(completion) = completion.outcome() {
    ///             a.complete(completion).map_err(|_| "of another queue pair")?.status?;
    ///         }
    ///     }
    /// }
    /// assert_eq!(pool.available(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send), but for a full queue.
    pub fn settle(&mut self) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostSend> + Allows<call::PostUnsignaled>,
        P::Entry: Owned,
        WorkRequest<RdmaWrite, Empty>: SendOn<T, P>,
    {
        let in_flight = &mut self.core.send.in_flight;
        let is_full = !in_flight.is_poisoned() && !in_flight.has_room(1);
        if is_full || in_flight.outstanding() == 0 {
            return Ok(());
        }
        let nothing = RemoteSlice::<RemoteWrite>::from_parts(0, 0, 0);
        let marker = RdmaWrite::new(Empty, nothing.write()).flagged(P::Signaling::SIGNAL_LAST);
        // SAFETY: the bounds are the rules; what has no data fits any limit.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).one(marker) }
    }

    /// Posts a prepared work request with a buffer (`ibv_post_send`). On a queue pair with
    /// selective signaling it is signaled.
    ///
    /// [`Prepared`] has an example. The buffer is the device's until its completion, or is given
    /// back in the error, as with [`post_send`](Self::post_send).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_prepared<O, D, A, F, G>(
        &mut self,
        prepared: &mut Prepared<O, Placeholder, A, F, G>,
        data: D,
    ) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostSend>,
        WorkRequest<O, D, A, F, G>: SendOn<T, P>,
        O: Opcode + Takes<D>,
        A: Address,
        D: Data<P::Entry>,
        Placeholder: Allows<call::Fill<D>>,
    {
        let ready = prepared.with(data, Signals::<T, P>::MORE);
        // SAFETY: the bounds are the rules. The slot has one element, and is borrowed mutably.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).one_at(ready) }
    }

    /// Like [`post_prepared`](Self::post_prepared), not signaled: see
    /// [`post_send_unsignaled`](Self::post_send_unsignaled).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Stream { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Stream>()?;
    /// # let region = pd.register::<RemoteWrite>(256)?;
    /// let mut write = wr::RdmaWrite::new(wr::Placeholder, region.remote().write()).prepare();
    /// let _debt = a.post_prepared_unsignaled(&mut write, pool.take().ok_or("no buffer")?)?;
    /// a.post_prepared(&mut write, pool.take().ok_or("no buffer")?)?;
    /// let completion = loop {
    ///     if let Some(completion) = cq.poll_one()? {
    ///         break completion;
    ///     }
    /// };
    /// let done = a.complete(completion).map_err(|_| "of another queue pair")?;
    /// assert_eq!(done.released.count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_prepared_unsignaled<O, D, A, F, G>(
        &mut self,
        prepared: &mut Prepared<O, Placeholder, A, F, G>,
        data: D,
    ) -> Result<Unsettled, PostError<P::Entry>>
    where
        Self: Allows<call::PostSend> + Allows<call::PostUnsignaled>,
        WorkRequest<O, D, A, F, G>: SendOn<T, P>,
        O: Opcode + Takes<D>,
        A: Address,
        D: Data<P::Entry>,
        Placeholder: Allows<call::Fill<D>>,
    {
        let ready = prepared.with(data, Some(self.core.send.signal_if_full(1)));
        // SAFETY: the bounds are the rules. The slot has one element, and is borrowed mutably.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).one_at(ready) }
            .map(|()| Unsettled::new())
    }

    /// Posts a prepared work request with inline bytes (`ibv_post_send`), as
    /// [`prepare`](crate::wr::WorkRequest#method.prepare-1) shows. On a queue pair with selective
    /// signaling it is signaled.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[inline(always)]
    pub fn post_prepared_inline<O, A, F, G, const N: usize>(
        &mut self,
        prepared: &mut Prepared<O, [u8; N], A, F, G>,
    ) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostSend>,
        P::Entry: Owned,
        WorkRequest<O, Inline<'static, N>, A, F, G>: SendOn<T, P>,
        O: Opcode,
        A: Address,
    {
        let ready = prepared.with((), Signals::<T, P>::MORE);
        // SAFETY: the bounds are the rules. The slot has one element, and is borrowed mutably.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).one_at(ready) }
    }

    /// Begins a list of at most `N` sends, in `slots`, as [`SendList`] shows.
    #[inline(always)]
    pub fn send_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut SendSlots<N, G>,
    ) -> SendList<'d, T, P, G>
    where
        Self: Allows<call::PostSend>,
        P::Entry: Owned,
    {
        SendList(List::new(&mut self.core.send, slots.first(), N as u32))
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_send(&mut self) -> Begun<SendPost<'_, T, P>>
    where
        Self: Allows<call::PostSend>,
    {
        Begun::new(Post::new(&mut self.core.send))
    }

    /// Posts one receive work request (`ibv_post_recv`).
    ///
    /// Its buffers belong to the device until its completion, or are given back in the error. For
    /// several receives at once see [`post_recv!`](crate::post_recv!) and
    /// [`recv_list`](Self::recv_list).
    ///
    /// # Errors
    /// [`PostError`] with the entries that the device did not accept:
    /// [`QueueFull`](crate::post::PostErrorKind::QueueFull) ([R9.6](crate::guide::rules#r9-6)), and
    /// the other [kinds](crate::post::PostErrorKind).
    #[doc(alias = "ibv_post_recv")]
    #[inline(always)]
    pub fn post_recv<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostRecv>,
        P::Entry: Owned,
        W: RecvOn<P>,
    {
        // SAFETY: the bounds are the rules.
        unsafe { RecvPost::<T, P>::new(&mut self.core.recv).one(wr) }
    }

    /// Begins a list of at most `N` receives, in `slots`, as [`RecvList`] shows.
    #[inline(always)]
    pub fn recv_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut RecvSlots<N, G>,
    ) -> RecvList<'d, T, P, G>
    where
        Self: Allows<call::PostRecv>,
        P::Entry: Owned,
    {
        RecvList(List::new(&mut self.core.recv, slots.first(), N as u32))
    }

    /// Begins a list of sends and one of receives, to fill both at once.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// # for _ in 0..2 { b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; }
    /// let (mut sends, mut receives) = (SendSlots::<8>::new(), RecvSlots::<8>::new());
    /// let (mut sends, mut receives) = a.lists(&mut sends, &mut receives);
    /// for request in [b"one", b"two"] {
    ///     receives.push(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // for the answer
    ///     sends.push(wr::Send::inline(request))?;
    /// }
    /// receives.post()?; // before the requests that are answered
    /// sends.post()?;
    /// # proverbs::loopback::poll(&mut cq, 4)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn lists<'d, const N: usize, const G: usize, const M: usize, const H: usize>(
        &'d mut self,
        sends: &'d mut SendSlots<N, G>,
        receives: &'d mut RecvSlots<M, H>,
    ) -> (SendList<'d, T, P, G>, RecvList<'d, T, P, H>)
    where
        Self: Allows<call::PostSend> + Allows<call::PostRecv>,
        P::Entry: Owned,
    {
        let Core { send, recv, .. } = &mut self.core;
        let sends = SendList(List::new(send, sends.first(), N as u32));
        (sends, RecvList(List::new(recv, receives.first(), M as u32)))
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn begin_recv(&mut self) -> Begun<RecvPost<'_, T, P>>
    where
        Self: Allows<call::PostRecv>,
    {
        Begun::new(Post::new(&mut self.core.recv))
    }
}
