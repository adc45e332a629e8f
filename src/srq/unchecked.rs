//! Shared receive queues of the `unsafe` path: the caller counts the receives and chooses their
//! wr_ids.

#![allow(unsafe_code)] // the path is unsafe

use crate::allows::{Allows, call};
use crate::device::ProtectionDomain;
use crate::memory::Raw;
use crate::post::chain::SrqPost;
use crate::post::list::RecvSlots;
use crate::post::unchecked::RawPostError;
use crate::rules::{SharesReceives, SrqRecvOn};
use crate::srq::SharedReceiveQueue;
use crate::srq::create::Feed;
use crate::terms::error::Error;
use crate::terms::threads::Threads;
use crate::work::limits::Limit;

impl<L: Threads> ProtectionDomain<L> {
    /// Creates a shared receive queue for the `unsafe` path, with room for `max_wr` receives
    /// (`ibv_create_srq`). It is for queue pairs of profiles with `entry: Raw, receive: SharedRq`.
    /// They reserve `max_wr` entries of their completion queue, once for all queue pairs that share
    /// the completion queue.
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// A queue pair that ends may keep receives that it took from the queue. The device does not
    /// complete them, so they count as posted until the shared receive queue is destroyed
    /// ([R7.7](crate::guide::rules#r7-7)).
    ///
    /// [`post_srq_recv_unchecked`](SharedReceiveQueue::post_srq_recv_unchecked) has an example.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit): the device grants less than requested
    /// ([R2.11](crate::guide::rules#r2-11)). Otherwise [`ErrorKind::Os`](crate::ErrorKind::Os) with
    /// the errno; EINVAL if the device does not support shared receive queues of this size.
    #[doc(alias("ibv_create_srq", "ibv_srq_init_attr", "max_wr"))]
    pub fn create_raw_srq<T, M>(
        &self,
        max_wr: u32,
    ) -> Result<SharedReceiveQueue<T, Raw, M, L>, Error>
    where
        Self: Allows<call::CreateSrq<T>>,
        T: SharesReceives,
        M: Limit,
    {
        self.create_srq_of(Feed::counted_by_caller("ibv_create_srq", self.id(), max_wr)?)
    }
}

impl<T: SharesReceives, M: Limit, L: Threads> SharedReceiveQueue<T, Raw, M, L> {
    /// Posts one receive work request without bookkeeping (`ibv_post_srq_recv`). The completion
    /// contains its wr_id, and the number of the queue pair that took it.
    ///
    /// # Safety
    /// Until the completion of this work request, or until the shared receive queue was destroyed
    /// (a dropped queue is destroyed after the last queue pair that is attached to it):
    /// - the regions that its data names belong to the queue's protection domain, allow the device
    ///   to write (`LOCAL_WRITE`), and stay registered ([R6.10](crate::guide::rules#r6-10));
    /// - nothing accesses the bytes ([R11.2](crate::guide::rules#r11-2)). This holds even after a
    ///   queue pair ends: the device still owns receives that it took without a completion.
    ///
    /// There are at most `M` elements ([R3.1](crate::guide::rules#r3-1)). At most `max_wr`
    /// receives, as given at creation, are without a polled completion, so that no completion queue
    /// overruns ([R9.9](crate::guide::rules#r9-9)). If the error does not have a `bad_wr`, all this
    /// holds as if the post had succeeded.
    ///
    /// # Errors
    /// [`RawPostError`] with the device's errno; ENOMEM if the queue is full, because the crate
    /// does not count these posts ([R9.6](crate::guide::rules#r9-6)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{memory::Raw, qp::Max};
    /// profile! { Server { entry: Raw, receive: SharedRq } }
    ///
    /// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
    /// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
    /// let region = pd.register::<LocalWrite>(4096)?;
    /// let mut cq: CompletionQueue<Raw> = context.create_cq(64)?;
    /// let mut srq = pd.create_raw_srq::<Rc, Max<1>>(16)?;
    /// let qp = pd.create_qp::<Rc, Server>(&cq, &cq, Depth::on_srq(8, &srq))?;
    /// # let myself = Qpn::try_from(qp.qp_num())?;
    /// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    /// # let qp = qp.modify(RcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, myself, psn))?;
    /// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
    /// region.write_at(0, b"hello")?;
    /// let (from, into) = (wr::Piece::new(&region, 0..5)?, wr::Piece::new(&region, 2048..4096)?);
    /// // SAFETY: the region outlives the queue pair and the shared receive queue, nothing else
    /// // accesses the two pieces before they complete, and `cq` has room for both.
    /// unsafe {
    ///     srq.post_srq_recv_unchecked(wr::Recv::new(wr::Sge::new(1, [into])))?;
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
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ibv_post_srq_recv")]
    #[inline(always)]
    pub unsafe fn post_srq_recv_unchecked<W>(&mut self, wr: W) -> Result<(), RawPostError>
    where
        W: SrqRecvOn<Raw, M>,
    {
        // SAFETY: the bounds are the rules. The rest is the contract of this function.
        unsafe { SrqPost::<T, Raw, M>::new(&mut self.queue).one_unchecked(wr) }
    }

    /// Posts a list of `n` receives without bookkeeping (`ibv_post_srq_recv`). `wr` creates each
    /// from its index, and `slots` have room for them. An empty list returns `Ok` and posts nothing
    /// ([R9.5](crate::guide::rules#r9-5)).
    ///
    /// # Safety
    /// As for [`post_srq_recv_unchecked`](Self::post_srq_recv_unchecked), for each of them. If the
    /// device rejects a list, the work requests before `bad_wr` are posted.
    ///
    /// # Errors
    /// As for `post_srq_recv_unchecked`, and ENOMEM with a `bad_wr` of 0 if `n` exceeds the slots.
    /// Then nothing is posted.
    #[inline(always)]
    pub unsafe fn post_srq_recv_list_unchecked<W, const N: usize, const G: usize>(
        &mut self,
        slots: &mut RecvSlots<N, G>,
        n: usize,
        wr: impl FnMut(usize) -> W,
    ) -> Result<(), RawPostError>
    where
        W: SrqRecvOn<Raw, M> + Allows<call::PostRecvList<W, G>>,
    {
        // SAFETY: the bounds are the rules, and ensure that a slot has room for the elements of
        // `W`. The rest is the contract of this function.
        unsafe { SrqPost::<T, Raw, M>::new(&mut self.queue).listed(slots.first(), N, n, wr) }
    }
}
