//! Functions that post.

use crate::allows::{Allows, call};
use crate::cm::RDMA_UDP_QKEY;
use crate::cm::ep::{Ep, EpState};
use crate::cm::space::{PortSpace, Tcp, Udp};
use crate::cm::state::Mode;
use crate::memory::buf::Buf;
use crate::memory::entry::Owned;
use crate::memory::list::BufList;
use crate::memory::span::{RemoteSpan, ToRead};
use crate::post::refusal::PostError;
use crate::profile::{Profile, SignalAll};
use crate::qp::QueuePair;
use crate::rules::{RecvOn, SendOn};
use crate::sys::ah_table::AhIndex;
use crate::terms::bounded::Qpn;
use crate::terms::transport::{Rc, Ud};
use crate::work::address::{Datagram, Destination};
use crate::work::opcode::{RdmaRead, RdmaWrite, Send};
use crate::work::recv::Recv;
use crate::work::request::WorkRequest;

/// Puts the context of a list into its first buffer.
fn with_context<C>(context: C, list: impl Into<BufList<C>>) -> BufList<C> {
    let mut list = list.into();
    if let Some(mut first) = list.pop_front() {
        *first.context_mut() = context;
        list.push_front(first);
    }
    list
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode> Ep<PS, S, P, M> {
    /// Posts a receive for the whole capacity of `buf` (`rdma_post_recv`). The completion returns
    /// `context` in the buffer.
    ///
    /// # Errors
    /// [`PostError`], with the reason and the buffer, as for
    /// [`QueuePair::post_recv`](crate::QueuePair::post_recv).
    #[doc(alias = "rdma_post_recv")]
    pub fn post_recv<C>(&mut self, context: C, mut buf: Buf<C>) -> Result<(), PostError<P::Entry>>
    where
        QueuePair<PS::Transport, S::Qp, P>: Allows<call::PostRecv>,
        P::Entry: Owned,
        Recv<Buf<C>>: RecvOn<P>,
    {
        *buf.context_mut() = context;
        self.qp.post_recv(Recv::new(buf))
    }

    /// Posts a receive with several buffers (`rdma_post_recvv`). The completion returns `context`
    /// in the first buffer. Without buffers, `context` is dropped.
    ///
    /// # Errors
    /// [`PostError`], with the reason and the buffers, as for
    /// [`QueuePair::post_recv`](crate::QueuePair::post_recv).
    #[doc(alias = "rdma_post_recvv")]
    pub fn post_recvv<C: 'static>(
        &mut self,
        context: C,
        bufs: impl Into<BufList<C>>,
    ) -> Result<(), PostError<P::Entry>>
    where
        QueuePair<PS::Transport, S::Qp, P>: Allows<call::PostRecv>,
        P::Entry: Owned,
        Recv<BufList<C>>: RecvOn<P>,
    {
        self.qp.post_recv(Recv::new(with_context(context, bufs)))
    }
}

/// The result of posting one buffer.
type Posted<P> = Result<(), PostError<<P as Profile>::Entry>>;

impl<S: EpState<Tcp>, P: Profile<Signaling = SignalAll>, M: Mode> Ep<Tcp, S, P, M>
where
    P::Entry: Owned,
{
    /// Posts a send of the first `len` bytes of `buf` (`rdma_post_send`). The completion returns
    /// `context` in the buffer.
    ///
    /// # Errors
    /// [`PostError`], with the reason and the buffer, as for
    /// [`QueuePair::post_send`](crate::QueuePair::post_send).
    #[doc(alias = "rdma_post_send")]
    pub fn post_send<C>(&mut self, context: C, mut buf: Buf<C>) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<Send, Buf<C>>: SendOn<Rc, P>,
    {
        *buf.context_mut() = context;
        self.sending().post_send(Send::new(buf))
    }

    /// Posts a send of several buffers (`rdma_post_sendv`). The completion returns `context` in the
    /// first buffer.
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[doc(alias = "rdma_post_sendv")]
    pub fn post_sendv<C: 'static>(&mut self, context: C, bufs: impl Into<BufList<C>>) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<Send, BufList<C>>: SendOn<Rc, P>,
    {
        self.sending().post_send(Send::new(with_context(context, bufs)))
    }

    /// Posts an RDMA READ from `remote` that fills the capacity of `buf` (`rdma_post_read`).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[doc(alias = "rdma_post_read")]
    pub fn post_read<C>(
        &mut self,
        context: C,
        mut buf: Buf<C>,
        remote: RemoteSpan<ToRead>,
    ) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<RdmaRead, Buf<C>>: SendOn<Rc, P>,
    {
        *buf.context_mut() = context;
        self.sending().post_send(RdmaRead::new(buf, remote))
    }

    /// Posts an RDMA READ into several buffers (`rdma_post_readv`).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[doc(alias = "rdma_post_readv")]
    pub fn post_readv<C: 'static>(
        &mut self,
        context: C,
        bufs: impl Into<BufList<C>>,
        remote: RemoteSpan<ToRead>,
    ) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<RdmaRead, BufList<C>>: SendOn<Rc, P>,
    {
        self.sending().post_send(RdmaRead::new(with_context(context, bufs), remote))
    }

    /// Posts an RDMA WRITE of the first `len` bytes of `buf` to `remote` (`rdma_post_write`).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[doc(alias = "rdma_post_write")]
    pub fn post_write<C>(&mut self, context: C, mut buf: Buf<C>, remote: RemoteSpan) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<RdmaWrite, Buf<C>>: SendOn<Rc, P>,
    {
        *buf.context_mut() = context;
        self.sending().post_send(RdmaWrite::new(buf, remote))
    }

    /// Posts an RDMA WRITE of several buffers (`rdma_post_writev`).
    ///
    /// # Errors
    /// As for [`post_send`](Self::post_send).
    #[doc(alias = "rdma_post_writev")]
    pub fn post_writev<C: 'static>(
        &mut self,
        context: C,
        bufs: impl Into<BufList<C>>,
        remote: RemoteSpan,
    ) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<RdmaWrite, BufList<C>>: SendOn<Rc, P>,
    {
        self.sending().post_send(RdmaWrite::new(with_context(context, bufs), remote))
    }
}

impl<S: EpState<Udp>, P: Profile<Signaling = SignalAll>, M: Mode> Ep<Udp, S, P, M>
where
    P::Entry: Owned,
{
    /// Posts a datagram to queue pair `remote_qpn`, with an address handle of this endpoint's `qp`
    /// and the Q_Key of rdma_cm (`rdma_post_ud_send`, [R5.13](crate::guide::rules#r5-13)).
    ///
    /// # Errors
    /// [`PostError`], with the reason and the buffer, as for
    /// [`QueuePair::post_send`](crate::QueuePair::post_send).
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(id: CmId<Udp, RouteResolved>) -> Result<(), Box<dyn std::error::Error>> {
    /// let ep = id.create_ep::<DefaultProfile>(None, Depth { send: 8, recv: 8 })?;
    /// let pool = ep.reg_msgs::<()>(8, 256)?;
    /// let (mut ep, peer) = ep.connect(&LookupData::none(), std::time::Duration::from_secs(1))?;
    /// let ah = ep.pd().create_ah(peer.vector)?;
    /// let address_handle = ep.qp.add_address_handle(ah)?;
    /// let mut message = pool.take().expect("8 buffers");
    /// message.copy_from(b"question")?;
    /// ep.post_ud_send((), message, address_handle, peer.qpn)?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rdma_post_ud_send")]
    pub fn post_ud_send<C>(
        &mut self,
        context: C,
        mut buf: Buf<C>,
        address_handle: AhIndex,
        remote_qpn: Qpn,
    ) -> Posted<P>
    where
        Self: Allows<call::EpPost>,
        WorkRequest<Send, Buf<C>, Datagram>: SendOn<Ud, P>,
    {
        *buf.context_mut() = context;
        let to = Destination { address_handle, qpn: remote_qpn, qkey: RDMA_UDP_QKEY };
        self.sending().post_send(Send::new(buf).to(to))
    }
}
