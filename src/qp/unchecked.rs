//! Posting to a queue pair without bookkeeping. The caller does it, and the rules that types cannot
//! express are the contract.

#![allow(unsafe_code)] // its functions are unsafe

use crate::allows::{Allows, call};
use crate::memory::Raw;
use crate::post::chain::{RecvPost, SendPost};
use crate::post::list::{RecvSlots, SendSlots};
use crate::post::raw_list::RawSendList;
use crate::post::unchecked::RawPostError;
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::rules::{RecvOn, SendOn};
use crate::terms::state::State;
use crate::terms::transport::Transport;
use crate::work::address::Address;
use crate::work::data::Takes;
use crate::work::opcode::Opcode;
use crate::work::prepared::{Placeholder, Prepared};
use crate::work::request::WorkRequest;
use crate::work::sge::Sge;

impl<T: Transport, S: State, P: Profile<Entry = Raw>> QueuePair<T, S, P> {
    /// Posts one work request to the send queue without bookkeeping (`ibv_post_send`). With
    /// selective signaling it is signaled only if it requests that.
    ///
    /// # Safety
    /// Until the completion of this work request (or of a later signaled one of this queue pair),
    /// or until the queue pair was destroyed or reset:
    ///   - each piece lies in a region of this queue pair's protection domain whose local key it
    ///     names, and the region has `LOCAL_WRITE` if a READ or atomic writes to the piece. This
    ///     matters for [`Piece::from_raw`](crate::wr::Piece::from_raw), and for pieces of a region
    ///     of another domain ([R6.8](crate::guide::rules#r6-8));
    ///   - those regions stay registered ([R6.10](crate::guide::rules#r6-10)); nothing writes to
    ///     the bytes that a SEND or WRITE sends, and nothing accesses the bytes that a READ or
    ///     atomic writes ([R11.1](crate::guide::rules#r11-1), [R11.2](crate::guide::rules#r11-2));
    ///   - unless signaling is selective, this process can access the memory that a READ writes to,
    ///     at the addresses that the pieces name, because mlx5 may copy the bytes there with the
    ///     processor ([R18.18](crate::guide::rules#r18-18));
    ///   - an address handle that the work request names belongs to this queue pair, and is not
    ///     removed from it.
    ///
    /// An [`SgeList`](crate::wr::SgeList) has at most the profile's `max_send_sge` pieces. Most
    /// devices reject more, but some do not check ([R3.1](crate::guide::rules#r3-1)).
    ///
    /// Lengths are not checked. If a message is longer than the port's `max_msg_sz`, or on UD
    /// longer than its active MTU, the device may report an error completion or nothing
    /// ([R3.5](crate::guide::rules#r3-5), [R3.6](crate::guide::rules#r3-6)).
    ///
    /// The total length of an inline work request is at most the inline capacity. Some providers
    /// sum the lengths in 32 bits, and copy past their ring if the sum wraps
    /// ([R2.8](crate::guide::rules#r2-8)). The inline bytes can be reused when this returns. If the
    /// error has no `bad_wr`, all these rules apply as if the post had succeeded. The caller
    /// ensures that no completion queue overruns ([R9.9](crate::guide::rules#r9-9)).
    ///
    /// # Errors
    /// [`RawPostError`] with the device's errno: ENOMEM if the queue is full, because the crate
    /// does not count these posts ([R9.6](crate::guide::rules#r9-6)).
    #[inline(always)]
    pub unsafe fn post_send_unchecked<W>(&mut self, wr: W) -> Result<(), RawPostError>
    where
        Self: Allows<call::PostSend>,
        W: SendOn<T, P>,
    {
        // SAFETY: the bounds are the rules. The caller keeps the rest of the contract.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).one_unchecked(wr) }
    }

    /// Posts a list of `n` work requests without bookkeeping (`ibv_post_send`). `wr` returns the
    /// work request for each index, and `slots` hold them. An empty list returns `Ok` and posts
    /// nothing ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Safety
    /// As for [`post_send_unchecked`](Self::post_send_unchecked), for each of them. If the device
    /// rejects a list, the work requests before `bad_wr` are posted.
    ///
    /// # Errors
    /// As for `post_send_unchecked`; also ENOMEM with a `bad_wr` of 0 if `n` exceeds the slots. No
    /// work request is posted then.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::Raw;
    /// profile! { Unchecked { entry: Raw } }
    ///
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
    /// let region = pd.register::<RemoteWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
    /// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// # let myself = Qpn::try_from(qp.qp_num())?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// # let qp = qp.modify(RcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, myself, psn))?;
    /// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
    /// region.write_at(0, b"abcd")?;
    /// let pieces = [wr::Piece::new(&region, 0..1)?, wr::Piece::new(&region, 1..3)?, wr::Piece::new(&region, 3..4)?];
    /// let to = region.remote().slice(2048, 4)?;
    /// let mut slots = SendSlots::<8>::new();
    /// // SAFETY: the region outlives the queue pair, nothing else touches it before they completed, and `cq` has room.
    /// unsafe {
    ///     qp.post_send_list_unchecked(&mut slots, 3, |i| {
    ///         wr::RdmaWrite::new(wr::Sge::new(i as u64, [pieces[i]]), to.write())
    ///     })?;
    /// }
    /// let mut done = Vec::new();
    /// while done.len() < 3 {
    ///     cq.poll()?.for_each(|completion| done.push(completion.raw_wr_id()));
    /// }
    /// assert_eq!(done, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub unsafe fn post_send_list_unchecked<W, const N: usize, const SGES: usize>(
        &mut self,
        slots: &mut SendSlots<N, SGES>,
        n: usize,
        wr: impl FnMut(usize) -> W,
    ) -> Result<(), RawPostError>
    where
        Self: Allows<call::PostSend> + Allows<call::PostSendList<W, SGES>>,
        W: SendOn<T, P>,
    {
        // SAFETY: the bounds are the rules, and ensure that a slot holds the elements of `W`. The
        // caller keeps the rest of the contract.
        unsafe { SendPost::<T, P>::new(&mut self.core.send).listed(slots.first(), N, n, wr) }
    }

    /// Starts a list of at most `N` sends, in `slots`, whose work requests may differ in opcode and
    /// flags. [`RawSendList`] has an example.
    #[inline(always)]
    pub fn raw_send_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut SendSlots<N, G>,
    ) -> RawSendList<'d, T, P, G>
    where
        Self: Allows<call::PostSend>,
    {
        RawSendList::new(SendPost::new(&mut self.core.send), slots.first(), N)
    }

    /// Posts a prepared work request with `data` without bookkeeping (`ibv_post_send`). With
    /// selective signaling it is signaled only if it requests that.
    ///
    /// # Safety
    /// As for [`post_send_unchecked`](Self::post_send_unchecked).
    ///
    /// # Errors
    /// As for `post_send_unchecked`.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::Raw;
    /// profile! { Unchecked { entry: Raw } }
    ///
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
    /// let region = pd.register::<RemoteWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
    /// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// # let myself = Qpn::try_from(qp.qp_num())?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// # let qp = qp.modify(RcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, myself, psn))?;
    /// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
    /// let to = region.remote().slice(2048, 4)?;
    /// let mut write = wr::RdmaWrite::new(wr::Placeholder, to.write()).prepare();
    /// for wr_id in 0..3 {
    ///     let piece = wr::Piece::new(&region, 4 * wr_id..4 * wr_id + 4)?;
    ///     // SAFETY: the region outlives the queue pair, nothing else touches it before the
    ///     // completion, and `cq` has room.
    ///     unsafe { qp.post_prepared_unchecked(&mut write, wr::Sge::new(wr_id as u64, [piece]))? };
    /// }
    /// let mut done = Vec::new();
    /// while done.len() < 3 {
    ///     cq.poll()?.for_each(|completion| done.push(completion.raw_wr_id()));
    /// }
    /// assert_eq!(done, [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub unsafe fn post_prepared_unchecked<'w, O, A, F, G>(
        &mut self,
        prepared: &mut Prepared<O, Placeholder, A, F, G>,
        data: Sge<'w, 1>,
    ) -> Result<(), RawPostError>
    where
        Self: Allows<call::PostSend>,
        WorkRequest<O, Sge<'w, 1>, A, F, G>: SendOn<T, P>,
        O: Opcode + Takes<Sge<'w, 1>>,
        A: Address,
    {
        // SAFETY: the bounds are the rules. The slot has one element, and is borrowed mutably. The
        // caller keeps the rest of the contract.
        unsafe {
            let (ready, slot) = prepared.with(data, Some(data.flags));
            SendPost::<T, P>::new(&mut self.core.send).one_unchecked_at(ready, slot)
        }
    }

    /// Posts one receive without bookkeeping (`ibv_post_recv`).
    ///
    /// # Safety
    /// Until the completion of this work request, or until the queue pair was destroyed or reset,
    /// the regions of its data belong to the queue pair's protection domain, have `LOCAL_WRITE` and
    /// stay registered, and nothing accesses the bytes ([R11.2](crate::guide::rules#r11-2)). There
    /// are at most `max_recv_sge` pieces. If the error has no `bad_wr`, these rules apply as if the
    /// post had succeeded. The caller ensures that no completion queue overruns
    /// ([R9.9](crate::guide::rules#r9-9)).
    ///
    /// # Errors
    /// [`RawPostError`] with the device's errno: ENOMEM if the queue is full, because the crate
    /// does not count these posts ([R9.6](crate::guide::rules#r9-6)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::memory::Raw;
    /// profile! { Unchecked { entry: Raw } }
    ///
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
    /// let region = pd.register::<LocalWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
    /// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// # let myself = Qpn::try_from(qp.qp_num())?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// # let qp = qp.modify(RcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, myself, psn))?;
    /// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
    /// region.write_at(0, b"hello")?;
    /// let (from, into) = (wr::Piece::new(&region, 0..5)?, wr::Piece::new(&region, 2048..4096)?);
    /// // SAFETY: the region outlives the queue pair, nothing else touches the two pieces of it before they completed,
    /// // and `cq` has room for both.
    /// unsafe {
    ///     qp.post_recv_unchecked(wr::Recv::new(wr::Sge::new(1, [into])))?;
    ///     qp.post_send_unchecked(wr::Send::new(wr::Sge::new(2, [from])))?;
    /// }
    /// let mut done = Vec::new();
    /// while done.len() < 2 {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         done.push((completion.raw_wr_id(), completion.byte_len()));
    ///     }
    /// }
    /// assert!(done.contains(&(1, Some(5))));
    /// let mut arrived = [0; 5];
    /// region.read_at(2048, &mut arrived)?;
    /// assert_eq!(&arrived, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub unsafe fn post_recv_unchecked<W>(&mut self, wr: W) -> Result<(), RawPostError>
    where
        Self: Allows<call::PostRecv>,
        W: RecvOn<P>,
    {
        // SAFETY: the bounds are the rules. The caller keeps the rest of the contract.
        unsafe { RecvPost::<T, P>::new(&mut self.core.recv).one_unchecked(wr) }
    }

    /// Posts a list of `n` receives without bookkeeping (`ibv_post_recv`). `wr` returns the receive
    /// for each index, and `slots` hold them. An empty list returns `Ok` and posts nothing
    /// ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Safety
    /// As for [`post_recv_unchecked`](Self::post_recv_unchecked), for each of them. If the device
    /// rejects a list, the receives before `bad_wr` are posted.
    ///
    /// # Errors
    /// As for `post_recv_unchecked`; also ENOMEM with a `bad_wr` of 0 if `n` exceeds the slots. No
    /// receive is posted then.
    #[inline(always)]
    pub unsafe fn post_recv_list_unchecked<W, const N: usize, const G: usize>(
        &mut self,
        slots: &mut RecvSlots<N, G>,
        n: usize,
        wr: impl FnMut(usize) -> W,
    ) -> Result<(), RawPostError>
    where
        Self: Allows<call::PostRecv>,
        W: RecvOn<P> + Allows<call::PostRecvList<W, G>>,
    {
        // SAFETY: the bounds are the rules, and ensure that a slot holds the elements of `W`. The
        // caller keeps the rest of the contract.
        unsafe { RecvPost::<T, P>::new(&mut self.core.recv).listed(slots.first(), N, n, wr) }
    }
}
