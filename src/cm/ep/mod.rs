//! Endpoints: an id, its queue pair, and completion queues of its own, one each way
//! (`rdma_create_ep`).

#![allow(clippy::type_complexity)] // spelt out, the results say what comes back

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

/// An endpoint of port space `PS`, whose id is in state `S`: the object that `rdma_create_ep` makes
/// and the calls of rdma_verbs.h work on. Its calls wait for their results, or on an
/// [`EventChannel`](super::EventChannel) return at once: [`EpPending`] has an example of that.
///
/// It has its own completion queues, one for sends and one for receives, sized for the depths
/// ([R16.10](crate::guide::rules#r16-10)). So [`get_send_comp`](Self::get_send_comp) and
/// [`get_recv_comp`](Self::get_recv_comp) exist here, and not for queue pairs that complete into
/// the program's completion queues ([R16.11](crate::guide::rules#r16-11)).
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let id = CmId::<Tcp, _>::new()?.resolve_addr("10.77.0.1:7471".parse()?, second)?;
/// let id = id.resolve_route(second)?;
/// profile! { WithId { entry: Buf<u32> } } // buffers that carry a number
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
    /// The queue pair: for posts with flags, immediates, atomics and lists.
    pub qp: QueuePair<PS::Transport, S::Qp, P>,
    /// The id.
    pub id: CmId<PS, S, M>,
    /// The peer's parameters, once it sent them (TCP).
    pub peer: Option<PeerParam>,
    /// The private data that came with them, perhaps padded with zeroes
    /// ([R16.15](crate::guide::rules#r16-15)).
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
        // Devices refuse a queue of no entries; in C it crashes librdmacm (R16.10).
        let cq = context.cq(cqe.max(1)).channel(&channel).create()?;
        Ok(Side { cq, channel })
    }
}

/// A queue pair for the id, and the rest of a new endpoint.
fn parts<PS: PortSpace, S: HasDevice, P: Profile<Threads = AnyThread>, M: Mode>(
    id: &CmId<PS, S, M>,
    pd: Option<&ProtectionDomain>,
    depth: impl CreatedWith<PS::Transport, P>,
) -> Result<(MadeBy<PS, P>, Rest<P>), Error> {
    let pd = pd.cloned().map_or_else(|| id.pd(), Ok)?;
    // One entry more each way, for the work request that shows that a queue has drained.
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
    /// Makes an endpoint of the id, with a queue pair and completion queues of its own
    /// (`rdma_create_qp` without completion queues). Without `pd`, on [`pd`](Self::pd). It is
    /// created with a [`Depth`](crate::qp::Depth), or with
    /// [`Depth::on_srq`](crate::qp::Depth::on_srq): then its receives are posted to the shared
    /// receive queue, and complete here.
    ///
    /// # Errors
    /// The id is given back. As for [`pd`](Self::pd),
    /// [`Context::create_comp_channel`](crate::Context::create_comp_channel),
    /// [`CqBuilder::create`](crate::completion::CqBuilder::create) and
    /// [`create_qp`](Self::create_qp).
    pub fn create_ep<P: Profile<Threads = AnyThread>>(
        self,
        pd: Option<&ProtectionDomain>,
        depth: impl CreatedWith<PS::Transport, P>,
    ) -> Result<Ep<PS, RouteResolved, P, M>, Refused<Self>> {
        match parts(&self, pd, depth) {
            Ok((qp, rest)) => Ok(rest.with(qp, self)),
            Err(error) => Err(Refused::new(self, error)),
        }
    }
}

impl<PS, M: Mode> Request<PS, M>
where
    PS: PortSpace,
    Requested: EpState<PS, Qp = PS::Made>,
{
    /// Makes an endpoint of the request, to be accepted, like [`CmId::create_ep`].
    ///
    /// # Errors
    /// The request is given back, unanswered. As for [`CmId::create_ep`].
    pub fn create_ep<P: Profile<Threads = AnyThread>>(
        self,
        pd: Option<&ProtectionDomain>,
        depth: impl CreatedWith<PS::Transport, P>,
    ) -> Result<Ep<PS, Requested, P, M>, Refused<Self>> {
        match parts(&self.id, pd, depth) {
            Ok((qp, rest)) => {
                let Request { id, peer, private_data } = self;
                Ok(Rest { peer, private_data, ..rest }.with(qp, id))
            }
            Err(error) => Err(Refused::new(self, error)),
        }
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile, M: Mode> Ep<PS, S, P, M> {
    fn apart(self) -> (QueuePair<PS::Transport, S::Qp, P>, CmId<PS, S, M>, Rest<P>) {
        let Ep { qp, id, peer, private_data, pd, send, recv } = self;
        (qp, id, Rest { peer, private_data, pd, send, recv })
    }

    /// The queue pair, which is in RTS where an endpoint can post sends.
    pub(super) fn sending(&mut self) -> &mut QueuePair<PS::Transport, Rts, P>
    where
        Self: Allows<call::EpPost>,
    {
        let qp: &mut dyn Any = &mut self.qp;
        qp.downcast_mut().expect("endpoints post sends in RTS")
    }

    /// The protection domain, for registering memory and making address handles.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }
}

/// The parts that do not change from state to state.
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
