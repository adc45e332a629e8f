//! Endpoints: an id, its queue pair, and completion queues of its own, one each way (`rdma_create_ep`).

#![allow(clippy::type_complexity)] // spelt out, the results say what comes back

use std::fmt;
use std::time::Duration;

use super::connection::{Connection, Ended};
use super::datagram::{NotFound, UdPeer};
use super::event::PeerParam;
use super::id::CmId;
use super::listen::Request;
use super::param::{AcceptParam, ConnParam};
use super::private_data::{LookupData, ReplyData};
use super::queue_pair::{Brings, MadeBy};
use super::space::{PortSpace, Tcp, Udp};
use super::state::{
    CmState, Disconnected, Established, HasDevice, Requested, RouteResolved, Spent,
};
use super::{NotAccepted, NotConnected};
use crate::channel::CompletionChannel;
use crate::cq::CompletionQueue;
use crate::entry::{Entry, Owned};
use crate::error::{Error, Refused};
use crate::pd::ProtectionDomain;
use crate::profile::{DefaultProfile, Profile};
use crate::qp::{Depth, Drained, QueuePair};
use crate::rules::{CanPostRecv, UsesOwnQueue};
use crate::state::{Error as Failed, Init, Rts, State};

/// An endpoint of port space `PS`, in the state `S` of its id: what `rdma_create_ep` makes, and what the calls
/// of rdma_verbs.h work on. Synchronous.
///
/// Its completion queues are its own, one for sends and one for receives, sized for the depths (R16.10); so
/// [`get_send_comp`](Self::get_send_comp) and [`get_recv_comp`](Self::get_recv_comp) exist here, and not for
/// queue pairs with completion queues of the program's (R16.11).
pub struct Ep<PS: PortSpace, S: EpState<PS>, P: Profile = DefaultProfile> {
    /// The queue pair: for posts with flags, immediates, atomics and lists.
    pub qp: QueuePair<PS::Transport, S::Qp, P>,
    /// The id.
    pub id: CmId<PS, S>,
    /// What the peer said of its side, once it did (TCP).
    pub peer: Option<PeerParam>,
    /// The private data that came with it, perhaps padded with zeroes (R16.15).
    pub private_data: Vec<u8>,
    pub(super) pd: ProtectionDomain,
    pub(super) send: Side<P::Entry>,
    pub(super) recv: Side<P::Entry>,
}

/// A completion queue and its channel.
pub(super) struct Side<E: Entry> {
    pub cq: CompletionQueue<E>,
    pub channel: CompletionChannel,
}

impl<E: Entry> Side<E> {
    fn new(pd: &ProtectionDomain, cqe: u32) -> Result<Self, Error> {
        let context = pd.context();
        let channel = context.create_comp_channel()?;
        // A queue of nothing is refused by devices; in C it crashes librdmacm (R16.10).
        let cq = context.create_cq_on(cqe.max(1), &channel)?;
        Ok(Side { cq, channel })
    }
}

/// The states of an endpoint, and the state in which its queue pair is then.
#[diagnostic::on_unimplemented(
    message = "there is no endpoint of an id in state `{Self}`",
    label = "an id in state `{Self}` has no queue pair",
    note = "make it of a resolved route (`CmId::create_ep`) or of a request (`Request::create_ep`) (R16.6)"
)]
pub trait EpState<PS>: CmState {
    /// The state of the queue pair.
    type Qp: State;
}
impl EpState<Tcp> for RouteResolved {
    type Qp = Init;
}
impl EpState<Tcp> for Requested {
    type Qp = Init;
}
impl EpState<Tcp> for Established {
    type Qp = Rts;
}
impl EpState<Tcp> for Disconnected {
    type Qp = Failed;
}
impl EpState<Tcp> for Spent {
    type Qp = Failed;
}
impl EpState<Udp> for RouteResolved {
    type Qp = Rts;
}
impl EpState<Udp> for Requested {
    type Qp = Rts;
}
impl EpState<Udp> for Established {
    type Qp = Rts;
}
impl EpState<Udp> for Spent {
    type Qp = Rts;
}

/// States of an endpoint in which sends may be posted.
#[diagnostic::on_unimplemented(
    message = "cannot post sends to an endpoint in state `{Self}`",
    label = "the endpoint is in state `{Self}`",
    note = "`connect` or `accept` first; only receives may be posted before (R16.7)"
)]
pub trait EpSends<PS>: EpState<PS, Qp = Rts> {}
impl EpSends<Tcp> for Established {}
impl<S: EpState<Udp, Qp = Rts>> EpSends<Udp> for S {}

/// States of an endpoint in which receives may be posted: from the first on, until it is disconnected.
#[diagnostic::on_unimplemented(
    message = "cannot post receives to an endpoint in state `{Self}`",
    label = "the endpoint is in state `{Self}`",
    note = "its queue pair is in the error state; some devices never complete a receive that is posted there (R7.15)"
)]
pub trait EpRecvs<PS>: EpState<PS, Qp: CanPostRecv> {}
impl<PS, S: EpState<PS, Qp: CanPostRecv>> EpRecvs<PS> for S {}

/// What an endpoint has besides its id.
struct Parts<PS: PortSpace, P: Profile> {
    qp: MadeBy<PS, P>,
    pd: ProtectionDomain,
    send: Side<P::Entry>,
    recv: Side<P::Entry>,
}

fn parts<PS: Brings, S: HasDevice, P: Profile>(
    id: &CmId<PS, S>,
    pd: Option<&ProtectionDomain>,
    depth: Depth,
) -> Result<Parts<PS, P>, Error>
where
    P::Receive: UsesOwnQueue,
{
    let pd = pd.cloned().map_or_else(|| id.pd(), Ok)?;
    // One more each way, for what tells that a queue has drained.
    let send = Side::new(&pd, depth.send.saturating_add(1))?;
    let recv = Side::new(&pd, depth.recv.saturating_add(1))?;
    let qp = id.create_qp::<P>(&pd, &send.cq, &recv.cq, depth)?;
    Ok(Parts { qp, pd, send, recv })
}

impl<PS> CmId<PS, RouteResolved>
where
    PS: Brings,
    RouteResolved: EpState<PS, Qp = PS::Made>,
{
    /// Makes an endpoint of it, with a queue pair and completion queues of its own (`rdma_create_qp`
    /// without completion queues). Without `pd`, on [`pd`](Self::pd).
    pub fn create_ep<P: Profile>(
        self,
        pd: Option<&ProtectionDomain>,
        depth: Depth,
    ) -> Result<Ep<PS, RouteResolved, P>, Refused<Self>>
    where
        P::Receive: UsesOwnQueue,
    {
        match parts(&self, pd, depth) {
            Ok(Parts { qp, pd, send, recv }) => {
                Ok(Ep { qp, id: self, peer: None, private_data: Vec::new(), pd, send, recv })
            }
            Err(error) => Err(Refused::new(self, error)),
        }
    }
}

impl<PS> Request<PS>
where
    PS: Brings,
    Requested: EpState<PS, Qp = PS::Made>,
{
    /// Makes an endpoint of it, to be accepted, as [`CmId::create_ep`] does.
    pub fn create_ep<P: Profile>(
        self,
        pd: Option<&ProtectionDomain>,
        depth: Depth,
    ) -> Result<Ep<PS, Requested, P>, Refused<Self>>
    where
        P::Receive: UsesOwnQueue,
    {
        match parts(&self.id, pd, depth) {
            Ok(Parts { qp, pd, send, recv }) => {
                let Request { id, peer, private_data } = self;
                Ok(Ep { qp, id, peer, private_data, pd, send, recv })
            }
            Err(error) => Err(Refused::new(self, error)),
        }
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile> Ep<PS, S, P> {
    /// Another state, with what stays the same.
    fn turn<To: EpState<PS>>(
        rest: Rest<P>,
        qp: QueuePair<PS::Transport, To::Qp, P>,
        id: CmId<PS, To>,
    ) -> Ep<PS, To, P> {
        let Rest { peer, private_data, pd, send, recv } = rest;
        Ep { qp, id, peer, private_data, pd, send, recv }
    }

    fn apart(self) -> (QueuePair<PS::Transport, S::Qp, P>, CmId<PS, S>, Rest<P>) {
        let Ep { qp, id, peer, private_data, pd, send, recv } = self;
        (qp, id, Rest { peer, private_data, pd, send, recv })
    }

    /// Its protection domain.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }
}

/// What does not change from state to state.
struct Rest<P: Profile> {
    peer: Option<PeerParam>,
    private_data: Vec<u8>,
    pd: ProtectionDomain,
    send: Side<P::Entry>,
    recv: Side<P::Entry>,
}

impl<P: Profile> Ep<Tcp, RouteResolved, P> {
    /// Connects it, within `timeout` (`rdma_connect`). If that fails it comes back to be drained.
    pub fn connect(
        self,
        param: &ConnParam<P>,
        timeout: Duration,
    ) -> Result<Ep<Tcp, Established, P>, Refused<Ep<Tcp, Spent, P>>> {
        let (qp, id, mut rest) = self.apart();
        match id.connect(qp, param, timeout) {
            Ok(Connection { qp, id, peer, private_data }) => {
                (rest.peer, rest.private_data) = (Some(peer), private_data);
                Ok(Self::turn(rest, qp, id))
            }
            Err(Refused { object, error }) => {
                let (qp, id) = match object {
                    NotConnected::Unsent { id, qp } => (qp.give_up(), id.to()),
                    NotConnected::Failed { id, qp } => (qp, id),
                };
                Err(Refused::new(Self::turn(rest, qp, id), error))
            }
        }
    }
}

impl<P: Profile> Ep<Tcp, Requested, P> {
    /// Accepts the connection, and waits at most `timeout` for the peer to confirm (`rdma_accept`). If that
    /// fails it comes back to be drained.
    pub fn accept(
        self,
        param: &AcceptParam<P>,
        timeout: Duration,
    ) -> Result<Ep<Tcp, Established, P>, Refused<Ep<Tcp, Spent, P>>> {
        let (qp, id, mut rest) = self.apart();
        let private_data = std::mem::take(&mut rest.private_data);
        let request = Request { id, peer: rest.peer, private_data };
        match request.accept(qp, param, timeout) {
            Ok(Connection { qp, id, private_data, .. }) => {
                rest.private_data = private_data;
                Ok(Self::turn(rest, qp, id))
            }
            Err(Refused { object, error }) => {
                let (qp, id) = match object {
                    NotAccepted::Unanswered { request, qp } => (qp.give_up(), request.id.to()),
                    NotAccepted::Failed { id, qp } => (qp, id),
                };
                Err(Refused::new(Self::turn(rest, qp, id), error))
            }
        }
    }
}

impl<P: Profile> Ep<Tcp, Established, P> {
    /// Ends the connection, or confirms that the peer ended it (`rdma_disconnect`). What is posted is flushed.
    pub fn disconnect(self) -> Result<Ep<Tcp, Disconnected, P>, Refused<Self>> {
        let (qp, id, rest) = self.apart();
        let peer = rest.peer.unwrap_or_default();
        match (Connection { qp, id, peer, private_data: Vec::new() }).disconnect() {
            Ok(Ended { qp, id }) => Ok(Self::turn(rest, qp, id)),
            Err(Refused { object, error }) => {
                Err(Refused::new(Self::turn(rest, object.qp, object.id), error))
            }
        }
    }
}

impl<S, P> Ep<Tcp, S, P>
where
    S: EpState<Tcp, Qp = Failed>,
    P: Profile,
    P::Entry: Owned,
{
    /// Waits until everything that was posted is flushed, and gives it back, with the contexts.
    pub fn drain(&mut self, mut found: impl FnMut(P::Entry)) -> Result<(), Error> {
        for side in [&mut self.send, &mut self.recv] {
            self.qp.drain(&mut side.cq, |drained| match drained {
                Drained::Entry(entry) => found(entry),
                // Nobody else completes into an endpoint's own queues.
                Drained::Other(completion) => drop(completion),
            })?;
        }
        Ok(())
    }
}

impl<P: Profile> Ep<Udp, RouteResolved, P> {
    /// Asks the peer for its queue pair, within `timeout` (`rdma_connect`): give its
    /// [`vector`](UdPeer::vector) an address handle, and send there.
    pub fn connect(
        self,
        private_data: &LookupData,
        timeout: Duration,
    ) -> Result<(Ep<Udp, Established, P>, UdPeer), Refused<Ep<Udp, Spent, P>>> {
        let (qp, id, mut rest) = self.apart();
        match id.connect(private_data, timeout) {
            Ok(found) => {
                rest.private_data = found.private_data;
                Ok((Self::turn(rest, qp, found.id), found.peer))
            }
            Err(Refused { object, error }) => {
                let id = match object {
                    NotFound::Unsent(id) => id.to(),
                    NotFound::Failed(id) => id,
                };
                Err(Refused::new(Self::turn(rest, qp, id), error))
            }
        }
    }
}

impl<P: Profile> Ep<Udp, Requested, P> {
    /// Tells the peer this endpoint's queue pair (`rdma_accept`).
    pub fn accept(
        self,
        private_data: &ReplyData,
    ) -> Result<Ep<Udp, Established, P>, Refused<Self>> {
        let (qp, id, mut rest) = self.apart();
        let came = std::mem::take(&mut rest.private_data);
        let request = Request { id, peer: None, private_data: came };
        match request.accept(&qp, private_data) {
            Ok(id) => Ok(Self::turn(rest, qp, id)),
            Err(Refused { object, error }) => {
                rest.private_data = object.private_data;
                Err(Refused::new(Self::turn(rest, qp, object.id), error))
            }
        }
    }
}

impl<PS: PortSpace, S: EpState<PS>, P: Profile> fmt::Debug for Ep<PS, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ep({:?}, {:?})", self.id, self.qp)
    }
}
