//! Posting to a queue pair: the bounds, and then one path for all queues (`post`).

#![allow(unsafe_code)] // the bounds are the contract of posting

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
    /// Posts one work request to the send queue (`ibv_post_send`). With selective signaling, this
    /// work request is signaled.
    ///
    /// The buffer belongs to the device until the completion returns it. If the post fails, the
    /// error returns it. To post several work requests at once, use
    /// [`post_send!`](crate::post_send!) or [`send_list`](Self::send_list).
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
    /// [`PostError`] with the buffers that the device did not accept:
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

    /// Like [`post_send`](Self::post_send), but unsignaled: the completion of a later signaled work
    /// request returns the buffer. A send that fills the queue is always signaled
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

    /// Completes all unsignaled sends by posting a zero-length signaled RDMA WRITE
    /// (`ibv_post_send`). Its completion covers all earlier work requests.
    ///
    /// It posts nothing if no send is outstanding, or if the queue is full, because the last send
    /// of a full queue is signaled already ([R9.8](crate::guide::rules#r9-8)). So it never fails
    /// because the queue is full.
    ///
    /// The WRITE refers to no memory of the peer ([R3.4](crate::guide::rules#r3-4)), but the peer's
    /// queue pair must have [`QpAccess::REMOTE_WRITE`](crate::qp::QpAccess::REMOTE_WRITE). Without
    /// it, the peer rejects the WRITE, and the connection ends. To such a peer, and on UD, post the
    /// next message signaled instead.
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
    /// As for [`post_send`](Self::post_send), except for `QueueFull`.
    pub fn settle(&mut self) -> Result<(), PostError<P::Entry>>
    where
        Self: Allows<call::PostSend> + Allows<call::PostUnsignaled>,
        P::Entry: Owned,
        WorkRequest<RdmaWrite, Empty>: SendOn<T, P>,
    {
        let in_flight = &mut self.core.send.in_flight;
        // (In this order: an idle queue does not take an entry of a shared budget.)
        if in_flight.outstanding() == 0 || !in_flight.is_poisoned() && !in_flight.has_room(1) {
            return Ok(());
        }
        let nothing = RemoteSlice::<RemoteWrite>::from_parts(0, 0, 0);
        let marker = RdmaWrite::new(Empty, nothing.write()).flagged(P::Signaling::SIGNAL_LAST);
        // SAFETY: the bounds are the rules, and a message without data fits any limit.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).one(marker) }
    }

    /// Posts a prepared work request with a buffer (`ibv_post_send`). With selective signaling,
    /// this work request is signaled.
    ///
    /// [`Prepared`] has an example. The buffer belongs to the device until the completion or the
    /// error returns it, as with [`post_send`](Self::post_send).
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

    /// Like [`post_prepared`](Self::post_prepared), but unsignaled: see
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

    /// Posts a prepared work request with inline data (`ibv_post_send`);
    /// [`prepare`](crate::wr::WorkRequest#method.prepare-1) has an example. With selective
    /// signaling, this work request is signaled.
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

    /// Starts a list of at most `N` sends, in `slots`. [`SendList`] has an example.
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
        Begun(Post::new(&mut self.core.send))
    }

    /// Posts one receive (`ibv_post_recv`).
    ///
    /// Its buffers belong to the device until the completion returns them. If the post fails, the
    /// error returns them. To post several receives at once, use [`post_recv!`](crate::post_recv!)
    /// or [`recv_list`](Self::recv_list).
    ///
    /// # Errors
    /// [`PostError`] with the buffers that the device did not accept:
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

    /// Starts a list of at most `N` receives, in `slots`. [`RecvList`] has an example.
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

    /// Starts a list of sends and a list of receives, to fill both at the same time.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair()?;
    /// # for _ in 0..2 { b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; }
    /// let (mut sends, mut receives) = (SendSlots::<8>::new(), RecvSlots::<8>::new());
    /// let (mut sends, mut receives) = a.lists(&mut sends, &mut receives);
    /// for request in [b"one", b"two"] {
    ///     receives.push(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // for the reply
    ///     sends.push(wr::Send::inline(request))?;
    /// }
    /// receives.post()?; // before the requests
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
        Begun(Post::new(&mut self.core.recv))
    }
}
