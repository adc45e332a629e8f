//! The calls of rdma_verbs.h, in their typed form.
//!
//! | C | here |
//! |---|---|
//! | `rdma_reg_msgs` | [`CmId::reg_msgs`], [`Ep::reg_msgs`](super::Ep::reg_msgs): a pool of buffers |
//! | `rdma_reg_read`, `rdma_reg_write` | `reg_read`, `reg_write`: a region open to the peer |
//! | `rdma_dereg_mr` | [`Pool::destroy`], [`MemoryRegion::destroy`], or dropping them |
//! | `rdma_post_recv`, `rdma_post_recvv` | `post_recv`, `post_recvv` |
//! | `rdma_post_send`, `_sendv`, `_read`, `_readv`, `_write`, `_writev` | the methods of the same names |
//! | `rdma_post_ud_send` | `post_ud_send` |
//! | `rdma_get_send_comp`, `rdma_get_recv_comp` | `get_send_comp`, `get_recv_comp` |
//! | `rdma_create_srq` | [`CmId::create_srq`] |
//!
//! The context of each post travels in its buffer (`Buf<C>`), and comes back with the completion, as the
//! program's own type. C's `flags` are methods of the work request: post it to the endpoint's `qp`.

use std::time::Duration;

use super::RDMA_UDP_QKEY;
use super::ep::{Ep, EpRecvs, EpSends, EpState, Side};
use super::id::CmId;
use super::space::{PortSpace, Tcp, Udp};
use super::state::{CmState, HasDevice, Mode};
use crate::bounded::Qpn;
use crate::buf::{Buf, BufList, Pool};
use crate::entry::Owned;
use crate::error::{Error, ErrorKind};
use crate::in_flight::PostError;
use crate::limits::Limit;
use crate::mr::{MemoryRegion, RemoteRead, RemoteWrite};
use crate::pd::ProtectionDomain;
use crate::profile::{Profile, SignalAll};
use crate::qp::AhIndex;
use crate::remote::{RemoteAddr, ToRead};
use crate::rules::{HasRecvQueue, IssuedBy, SharesReceives};
use crate::srq::SharedReceiveQueue;
use crate::wc::Outcome;
use crate::wr::{Data, Destination, Fits, RdmaRead, RdmaWrite, Recv, Send};

/// Puts the context of a list in its first buffer.
fn with_context<C>(context: C, list: impl Into<BufList<C>>) -> BufList<C> {
    let mut list = list.into();
    if let Some(mut first) = list.pop_front() {
        *first.context_mut() = context;
        list.push_front(first);
    }
    list
}

fn reg_msgs<C: Default + 'static>(
    pd: &ProtectionDomain,
    count: usize,
    size: usize,
) -> Result<Pool<C>, Error> {
    pd.create_pool_with(count, size, |_| C::default())
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Registers `count` buffers of `size` bytes for messages, on [`pd`](Self::pd) (`rdma_reg_msgs`).
    pub fn reg_msgs<C: Default + 'static>(
        &self,
        count: usize,
        size: usize,
    ) -> Result<Pool<C>, Error>
    where
        S: HasDevice,
    {
        reg_msgs(&self.pd()?, count, size)
    }

    /// Registers `len` bytes that the peer may read (`rdma_reg_read`).
    pub fn reg_read(&self, len: usize) -> Result<MemoryRegion<RemoteRead>, Error>
    where
        S: HasDevice,
    {
        self.pd()?.register(len)
    }

    /// Registers `len` bytes that the peer may write (`rdma_reg_write`).
    pub fn reg_write(&self, len: usize) -> Result<MemoryRegion<RemoteWrite>, Error>
    where
        S: HasDevice,
    {
        self.pd()?.register(len)
    }

    /// Creates a shared receive queue for queue pairs of this port space, fed from `pool`, on
    /// [`pd`](Self::pd) (`rdma_create_srq`). It is the crate's own, whose books bound what is posted.
    pub fn create_srq<E, L, C>(
        &self,
        pool: &Pool<C>,
    ) -> Result<SharedReceiveQueue<PS::Transport, E, L>, Error>
    where
        S: HasDevice,
        PS::Transport: SharesReceives,
        E: Owned,
        L: Limit,
        C: 'static,
        Buf<C>: Data<E>,
    {
        self.pd()?.create_srq(pool)
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile> Ep<PS, S, P> {
    /// Registers `count` buffers of `size` bytes for messages (`rdma_reg_msgs`).
    pub fn reg_msgs<C: Default + 'static>(
        &self,
        count: usize,
        size: usize,
    ) -> Result<Pool<C>, Error> {
        reg_msgs(&self.pd, count, size)
    }

    /// Registers `len` bytes that the peer may read (`rdma_reg_read`).
    pub fn reg_read(&self, len: usize) -> Result<MemoryRegion<RemoteRead>, Error> {
        self.pd.register(len)
    }

    /// Registers `len` bytes that the peer may write (`rdma_reg_write`).
    pub fn reg_write(&self, len: usize) -> Result<MemoryRegion<RemoteWrite>, Error> {
        self.pd.register(len)
    }

    /// Posts a receive (`rdma_post_recv`), of the whole capacity of `buf`. `context` comes back in the
    /// buffer.
    pub fn post_recv<C>(&mut self, context: C, mut buf: Buf<C>) -> Result<(), PostError<P::Entry>>
    where
        S: EpRecvs<PS>,
        P::Receive: HasRecvQueue,
        P::Entry: Owned,
        Buf<C>: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline>,
    {
        *buf.context_mut() = context;
        self.qp.post_recv(Recv::new(buf))
    }

    /// Posts a receive into several buffers (`rdma_post_recvv`). `context` comes back in the first one; without
    /// buffers there is nothing for it to come back in.
    pub fn post_recvv<C: 'static>(
        &mut self,
        context: C,
        bufs: impl Into<BufList<C>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        S: EpRecvs<PS>,
        P::Receive: HasRecvQueue,
        P::Entry: Owned + From<BufList<C>>,
    {
        self.qp.post_recv(Recv::new(with_context(context, bufs)))
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile<Signaling = SignalAll>> Ep<PS, S, P>
where
    P::Entry: Owned,
{
    /// The next completion of a send; sleeps until there is one (`rdma_get_send_comp`).
    pub fn get_send_comp(&mut self) -> Result<Outcome<'_, P::Entry>, Error> {
        self.send.next()
    }

    /// The next completion of a receive; sleeps until there is one (`rdma_get_recv_comp`).
    pub fn get_recv_comp(&mut self) -> Result<Outcome<'_, P::Entry>, Error> {
        self.recv.next()
    }

    /// As [`get_send_comp`](Self::get_send_comp), for at most `timeout`.
    pub fn get_send_comp_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Outcome<'_, P::Entry>, Error> {
        self.send.next_within(timeout, "rdma_get_send_comp")
    }

    /// As [`get_recv_comp`](Self::get_recv_comp), for at most `timeout`.
    pub fn get_recv_comp_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Outcome<'_, P::Entry>, Error> {
        self.recv.next_within(timeout, "rdma_get_recv_comp")
    }
}

impl<E: Owned> Side<E> {
    fn next(&mut self) -> Result<Outcome<'_, E>, Error> {
        let completion = self.channel.wait(&mut self.cq)?.next();
        Ok(completion.expect("a wait ends with a completion").outcome())
    }

    fn next_within(
        &mut self,
        timeout: Duration,
        verb: &'static str,
    ) -> Result<Outcome<'_, E>, Error> {
        match self.channel.wait_timeout(&mut self.cq, timeout)?.next() {
            Some(completion) => Ok(completion.outcome()),
            None => Err(Error::new(verb, ErrorKind::TimedOut { after: timeout })),
        }
    }
}

/// What a post of one buffer gives.
type Posted<P> = Result<(), PostError<<P as Profile>::Entry>>;

impl<S: EpState<Tcp>, P: Profile<Signaling = SignalAll>> Ep<Tcp, S, P>
where
    P::Entry: Owned,
{
    /// Posts a send of `buf` up to its length (`rdma_post_send`). `context` comes back in the buffer.
    pub fn post_send<C>(&mut self, context: C, mut buf: Buf<C>) -> Posted<P>
    where
        S: EpSends<Tcp>,
        Buf<C>: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        *buf.context_mut() = context;
        self.qp.post_send(Send::new(buf))
    }

    /// Posts a send of several buffers (`rdma_post_sendv`). `context` comes back in the first one.
    pub fn post_sendv<C: 'static>(&mut self, context: C, bufs: impl Into<BufList<C>>) -> Posted<P>
    where
        S: EpSends<Tcp>,
        P::Entry: From<BufList<C>>,
    {
        self.qp.post_send(Send::new(with_context(context, bufs)))
    }

    /// Posts an RDMA READ from `remote` into `buf`, as many bytes as its capacity (`rdma_post_read`).
    pub fn post_read<C>(
        &mut self,
        context: C,
        mut buf: Buf<C>,
        remote: RemoteAddr<ToRead>,
    ) -> Posted<P>
    where
        S: EpSends<Tcp>,
        RdmaRead: IssuedBy<P::Initiator>,
        Buf<C>: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        *buf.context_mut() = context;
        self.qp.post_send(RdmaRead::new(buf, remote))
    }

    /// Posts an RDMA READ into several buffers (`rdma_post_readv`).
    pub fn post_readv<C: 'static>(
        &mut self,
        context: C,
        bufs: impl Into<BufList<C>>,
        remote: RemoteAddr<ToRead>,
    ) -> Posted<P>
    where
        S: EpSends<Tcp>,
        RdmaRead: IssuedBy<P::Initiator>,
        P::Entry: From<BufList<C>>,
    {
        self.qp.post_send(RdmaRead::new(with_context(context, bufs), remote))
    }

    /// Posts an RDMA WRITE of `buf` up to its length to `remote` (`rdma_post_write`).
    pub fn post_write<C>(&mut self, context: C, mut buf: Buf<C>, remote: RemoteAddr) -> Posted<P>
    where
        S: EpSends<Tcp>,
        Buf<C>: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        *buf.context_mut() = context;
        self.qp.post_send(RdmaWrite::new(buf, remote))
    }

    /// Posts an RDMA WRITE of several buffers (`rdma_post_writev`).
    pub fn post_writev<C: 'static>(
        &mut self,
        context: C,
        bufs: impl Into<BufList<C>>,
        remote: RemoteAddr,
    ) -> Posted<P>
    where
        S: EpSends<Tcp>,
        P::Entry: From<BufList<C>>,
    {
        self.qp.post_send(RdmaWrite::new(with_context(context, bufs), remote))
    }
}

impl<S: EpState<Udp>, P: Profile<Signaling = SignalAll>> Ep<Udp, S, P>
where
    P::Entry: Owned,
{
    /// Posts a datagram to queue pair `remote_qpn` behind an address handle of this endpoint's `qp`, with
    /// the Q_Key of rdma_cm (`rdma_post_ud_send`, R5.13).
    pub fn post_ud_send<C>(
        &mut self,
        context: C,
        mut buf: Buf<C>,
        address_handle: AhIndex,
        remote_qpn: Qpn,
    ) -> Posted<P>
    where
        S: EpSends<Udp>,
        Buf<C>: Data<P::Entry> + Fits<P::MaxSendSge, P::MaxInline>,
    {
        *buf.context_mut() = context;
        let to = Destination { address_handle, qpn: remote_qpn, qkey: RDMA_UDP_QKEY };
        self.qp.post_send(Send::new(buf).to(to))
    }
}
