//! Endpoints: an id with its queue pair and two completion queues of its own (`rdma_create_ep`).

#![allow(clippy::type_complexity)] // shows what is returned

mod channel;
mod pending;
mod state;
mod tcp;
mod udp;

pub use channel::EpParts;
pub use pending::EpPending;
pub use state::{EpSends, EpState};

use std::any::Any;

use super::event::PeerParam;
use super::id::CmId;
use super::listen::Request;
use super::queue_pair::MadeBy;
use super::space::PortSpace;
use super::state::{HasDevice, Mode, Requested, RouteResolved, Synchronous};
use crate::allows::{Allows, call};
use crate::completion::channel::CompletionChannel;
use crate::completion::queue::CompletionQueue;
use crate::device::pd::ProtectionDomain;
use crate::memory::entry::Entry;
use crate::profile::{DefaultProfile, Profile};
use crate::qp::{CreatedWith, QueuePair};
use crate::terms::error::{Error, Refused};
use crate::terms::state::Rts;
use crate::terms::threads::{AnyThread, Threads};

/// An endpoint of port space `PS`, with an id in state `S`. It is the object that `rdma_create_ep`
/// creates and that the calls of rdma_verbs.h use. Its calls wait for their results. On an
/// [`EventChannel`](super::EventChannel) they return at once; [`EpPending`] has an example.
///
/// It has its own completion queues for sends and for receives, sized for the depths of the queue
/// pair ([R16.10](crate::guide::rules#r16-10)). [`get_send_comp`](Self::get_send_comp) and
/// [`get_recv_comp`](Self::get_recv_comp) therefore exist only here, not for queue pairs that
/// complete into the program's completion queues ([R16.11](crate::guide::rules#r16-11)).
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let id = CmId::<Tcp, _>::new()?.resolve_addr("10.77.0.1:7471".parse()?, second)?;
/// let id = id.resolve_route(second)?;
/// profile! { WithId { entry: Buf<u32> } } // buffers with a number as context
/// let mut ep = id.create_ep::<WithId>(None, Depth { send: 8, recv: 8 })?;
/// let pool = ep.reg_msgs::<u32>(8, 64)?;
/// ep.post_recv(17, pool.take().expect("8 buffers"))?; // before the peer can send
///
/// let mut ep = ep.connect(&ConnParam::default(), second)?;
/// let mut message = pool.take().expect("8 buffers");
/// message.copy_from(b"hello")?;
/// ep.post_send(18, message)?;
/// if let Outcome::Sent(sent) = ep.get_send_comp_timeout(second)? {
///     assert_eq!(sent.entry.map(|buf| *buf.context()), Some(18));
/// }
///
/// let mut ep = ep.disconnect()?;
/// ep.drain(|buf| println!("{} comes back", buf.context()))?;
/// ep.id.wait_disconnected(second)?;
/// println!("all on {:?}", ep.pd());
/// # Ok(())
/// # }
/// ```
///
/// Functions for more than one state:
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use proverbs::rules::{Allows, CanPostRecv, call};
///
/// fn number<PS: PortSpace, S: EpState<PS>>(ep: &Ep<PS, S>) -> u32 {
///     ep.qp.qp_num()
/// }
/// fn receive<S: EpState<Tcp, Qp: CanPostRecv>>(
///     ep: &mut Ep<Tcp, S>,
///     buf: Buf,
/// ) -> Result<(), PostError<Buf>> {
///     ep.post_recv((), buf)
/// }
/// fn send<S: EpState<Tcp>>(ep: &mut Ep<Tcp, S>, buf: Buf) -> Result<(), PostError<Buf>>
/// where
///     Ep<Tcp, S>: Allows<call::EpPost>,
/// {
///     ep.post_send((), buf)
/// }
/// ```
#[doc(alias("rdma_create_ep", "rdma_destroy_ep", "rdma_cm_id", "recv_cq", "send_cq"))]
#[doc(alias("recv_cq_channel", "send_cq_channel"))]
pub struct Ep<PS: PortSpace, S: EpState<PS>, P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The queue pair, for posts with flags, immediates, atomics and lists.
    pub qp: QueuePair<PS::Transport, S::Qp, P>,
    /// The id.
    pub id: CmId<PS, S, M>,
    /// The peer's parameters, once it sent them (TCP).
    pub peer: Option<PeerParam>,
    /// The private data that the peer sent with its request or its reply, possibly padded with
    /// zeroes ([R16.15](crate::guide::rules#r16-15)).
    pub private_data: Vec<u8>,
    pub(super) pd: ProtectionDomain,
    pub(super) send: Side<P::Entry, P::Threads>,
    pub(super) recv: Side<P::Entry, P::Threads>,
}

/// A completion queue and its channel.
pub(super) struct Side<E: Entry, L: Threads> {
    pub cq: CompletionQueue<E, L>,
    pub channel: CompletionChannel,
}

impl<E: Entry> Side<E, AnyThread> {
    fn new(pd: &ProtectionDomain, cqe: u32) -> Result<Self, Error> {
        let context = pd.context();
        let channel = context.create_comp_channel()?;
        // Devices reject a queue of 0 entries, and it crashes librdmacm (R16.10).
        let cq = context.cq(cqe.max(1)).channel(&channel).create()?;
        Ok(Side { cq, channel })
    }
}

/// Creates a queue pair for the id, and the other parts of an endpoint.
fn parts<PS: PortSpace, S: HasDevice, P: Profile<Threads = AnyThread>, M: Mode>(
    id: &CmId<PS, S, M>,
    pd: Option<&ProtectionDomain>,
    depth: impl CreatedWith<PS::Transport, P>,
) -> Result<(MadeBy<PS, P>, Rest<P>), Error> {
    let pd = pd.cloned().map_or_else(|| id.pd(), Ok)?;
    // One more entry each, for the work request that drains the queue.
    let [sends, receives] = depth.parts().completions();
    let send = Side::new(&pd, sends.saturating_add(1))?;
    let recv = Side::new(&pd, receives.saturating_add(1))?;
    let qp = id.create_qp::<P>(&pd, &send.cq, &recv.cq, depth)?;
    Ok((qp, Rest { peer: None, private_data: Vec::new(), pd, send, recv }))
}

impl<PS, M: Mode> CmId<PS, RouteResolved, M>
where
    PS: PortSpace,
    RouteResolved: EpState<PS, Qp = PS::Made>,
{
    /// Creates an endpoint from the id, with a queue pair and its own completion queues
    /// (`rdma_create_qp` without completion queues). If `pd` is `None`, it uses [`pd`](Self::pd).
    /// Pass a [`Depth`](crate::qp::Depth), or [`Depth::on_srq`](crate::qp::Depth::on_srq) for an
    /// endpoint whose receives are posted to a shared receive queue. These receives complete in the
    /// endpoint's own completion queue.
    ///
    /// # Errors
    /// As for [`pd`](Self::pd),
    /// [`Context::create_comp_channel`](crate::Context::create_comp_channel),
    /// [`CqBuilder::create`](crate::completion::CqBuilder::create) and
    /// [`create_qp`](Self::create_qp). The error contains the id.
    pub fn create_ep<P: Profile<Threads = AnyThread>>(
        self,
        pd: Option<&ProtectionDomain>,
        depth: impl CreatedWith<PS::Transport, P>,
    ) -> Result<Ep<PS, RouteResolved, P, M>, Refused<Self>> {
        let (qp, rest) = or_refused!(self, parts(&self, pd, depth));
        Ok(rest.with(qp, self))
    }
}

impl<PS, M: Mode> Request<PS, M>
where
    PS: PortSpace,
    Requested: EpState<PS, Qp = PS::Made>,
{
    /// Creates an endpoint for the request, like [`CmId::create_ep`]. Accept it to answer the
    /// request.
    ///
    /// # Errors
    /// As for [`CmId::create_ep`]. The error contains the request, unanswered.
    pub fn create_ep<P: Profile<Threads = AnyThread>>(
        self,
        pd: Option<&ProtectionDomain>,
        depth: impl CreatedWith<PS::Transport, P>,
    ) -> Result<Ep<PS, Requested, P, M>, Refused<Self>> {
        let (qp, rest) = or_refused!(self, parts(&self.id, pd, depth));
        let Request { id, peer, private_data } = self;
        Ok(Rest { peer, private_data, ..rest }.with(qp, id))
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode> Ep<PS, S, P, M> {
    fn apart(self) -> (QueuePair<PS::Transport, S::Qp, P>, CmId<PS, S, M>, Rest<P>) {
        let Ep { qp, id, peer, private_data, pd, send, recv } = self;
        (qp, id, Rest { peer, private_data, pd, send, recv })
    }

    /// The queue pair. It is in RTS in all states in which an endpoint can post sends.
    pub(super) fn sending(&mut self) -> &mut QueuePair<PS::Transport, Rts, P>
    where
        Self: Allows<call::EpPost>,
    {
        let qp: &mut dyn Any = &mut self.qp;
        qp.downcast_mut().expect("endpoints post sends in RTS")
    }

    /// The protection domain, for registering memory and creating address handles.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }
}

/// The parts that stay the same in all states.
pub struct Rest<P: Profile> {
    peer: Option<PeerParam>,
    private_data: Vec<u8>,
    pd: ProtectionDomain,
    send: Side<P::Entry, P::Threads>,
    recv: Side<P::Entry, P::Threads>,
}

impl<P: Profile> Rest<P> {
    fn with<PS: PortSpace, S: EpState<PS>, M: Mode>(
        self,
        qp: QueuePair<PS::Transport, S::Qp, P>,
        id: CmId<PS, S, M>,
    ) -> Ep<PS, S, P, M> {
        let Rest { peer, private_data, pd, send, recv } = self;
        Ep { qp, id, peer, private_data, pd, send, recv }
    }
}

impl_debug!([PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode] Ep<PS, S, P, M>, |it|
    "Ep({:?}, {:?})", it.id, it.qp);
