//! Datagrams: finding the queue pair of a service, and telling peers one's own.

#![allow(unsafe_code)] // calls that need a device

use std::fmt;
use std::time::Duration;

use super::event::{Event, EventKind};
use super::id::{CmId, Step, Waits, failure};
use super::listen::Request;
use super::private_data::{LookupData, ReplyData};
use super::space::Udp;
use super::state::{
    CmState, Connecting, Connects, Established, Mode, OnChannel, RouteResolved, Spent, Synchronous,
};
use crate::ah::AddressVector;
use crate::bounded::{Qkey, Qpn};
use crate::error::{Error, Refused};
use crate::profile::Profile;
use crate::qp::{AhIndex, QueuePair};
use crate::state::Rts;
use crate::sys::cm::Id;
use crate::sys::types::{ibv_ah_attr, raw::rdma_conn_param};
use crate::transport::Ud;
use crate::wr::Destination;

const CONNECT: &str = "rdma_connect";

/// The Q_Key of every datagram queue pair that rdma_cm brings up (`RDMA_UDP_QKEY`, R5.13): what a [`UdPeer`] of one's
/// own making carries, as in the answer of its example.
pub const RDMA_UDP_QKEY: Qkey = match Qkey::new(0x0123_4567) {
    Some(key) => key,
    None => panic!("bit 31 is clear"),
};

/// A datagram peer, or a multicast group: the only right values to send to it (R5.14).
///
/// The client finds a service and asks it something:
///
/// ```no_run
/// use proverbs::{cm::*, *};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let id = CmId::<Udp, _>::new()?;
/// let id = id.resolve_addr("10.77.0.1:7471".parse()?, second)?.resolve_route(second)?;
/// let (context, pd) = (id.context()?, id.pd()?);
/// let cq = context.create_cq(32)?;
/// let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })?;
/// let found: Found = id.connect(&LookupData::of(b"who?"), second)?;
/// let address_handle = qp.add_address_handle(pd.create_ah(found.peer.vector)?)?;
/// qp.post_send(Send::inline(b"question").to(found.peer.destination(address_handle)))?;
/// # Ok(())
/// # }
/// ```
///
/// The service answers each message where it came from:
///
/// ```no_run
/// use proverbs::{cm::*, *};
///
/// fn answer(id: &CmId<Udp, Established>, qp: &mut QueuePair<Ud, Rts>, message: &UdReceived<Buf>,
///     gid_index: u8) -> Result<(), Box<dyn std::error::Error>>
/// {
///     let vector = message.reply_vector(id.port(), gid_index).ok_or("a message without a GRH")?;
///     let peer = UdPeer { vector, qpn: message.src_qp, qkey: RDMA_UDP_QKEY };
///     let address_handle = qp.add_address_handle(id.pd()?.create_ah(vector)?)?;
///     qp.post_send(Send::inline(b"answer").to(peer.destination(address_handle)))?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdPeer {
    /// The way there, for [`create_ah`](crate::ProtectionDomain::create_ah).
    pub vector: AddressVector,
    /// The queue pair; 0xffffff for a group.
    pub qpn: Qpn,
    /// The key that it receives with.
    pub qkey: Qkey,
}

impl UdPeer {
    /// `None` if the numbers are none that a program can send to.
    pub(super) fn from_c(ah_attr: &ibv_ah_attr, qp_num: u32, qkey: u32) -> Option<Self> {
        let vector = AddressVector::from_c(ah_attr);
        Some(UdPeer { vector, qpn: Qpn::new(qp_num)?, qkey: Qkey::new(qkey)? })
    }

    /// The destination of sends, once a queue pair has an address handle of the
    /// [`vector`](Self::vector).
    pub fn destination(&self, address_handle: AhIndex) -> Destination {
        Destination { address_handle, qpn: self.qpn, qkey: self.qkey }
    }
}

/// A service that was found. The example is [`UdPeer`]'s.
#[derive(Debug)]
pub struct Found<M: Mode = Synchronous> {
    /// The id.
    pub id: CmId<Udp, Established, M>,
    /// Its queue pair.
    pub peer: UdPeer,
    /// What it said besides, perhaps padded with zeroes.
    pub private_data: Vec<u8>,
}

/// A lookup that failed.
///
/// ```no_run
/// use proverbs::{cm::*, *};
///
/// fn look_up(id: CmId<Udp, RouteResolved>) -> Option<Found> {
///     match id.connect(&LookupData::none(), std::time::Duration::from_secs(1)) {
///         Ok(found) => return Some(found),
///         Err(Refused { object: NotFound::Unsent(_id), error }) => eprintln!("not sent: {error}"),
///         Err(Refused { object: NotFound::Failed(_id), error }) => eprintln!("no answer: {error}"),
///     }
///     None
/// }
/// ```
#[derive(Debug)]
pub enum NotFound<M: Mode = Synchronous> {
    /// The call was refused and nothing was sent.
    Unsent(CmId<Udp, RouteResolved, M>),
    /// The peer, or the time, decided against it.
    Failed(CmId<Udp, Spent, M>),
}

fn param(private_data: &[u8], qp_num: u32) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private_data.as_ptr().cast(),
        private_data_len: private_data.len() as u8,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: 0,
        retry_count: 0,
        rnr_retry_count: 0,
        srq: 0,
        qp_num,
    }
}

impl<M: Mode> CmId<Udp, RouteResolved, M> {
    fn begin(
        mut self,
        private_data: &LookupData,
    ) -> Result<CmId<Udp, Connecting, M>, Refused<NotFound<M>>> {
        let mut c = param(private_data, 0);
        // SAFETY: in this state the id has a device; the private data is borrowed.
        match unsafe { self.core.id.connect(&mut c) } {
            Ok(()) => Ok(self.to()),
            Err(errno) => Err(Refused::new(NotFound::Unsent(self), Error::os(CONNECT, errno, ""))),
        }
    }
}

impl<S: CmState> CmId<Udp, S> {
    /// Asks the peer for its queue pair, within `timeout` (`rdma_connect` on UDP). The example is [`UdPeer`]'s.
    ///
    /// # Errors
    /// The id comes back ([`NotFound`]). [`Rejected`](crate::ErrorKind::Rejected),
    /// [`Cm`](crate::ErrorKind::Cm) if nobody is there, [`TimedOut`](crate::ErrorKind::TimedOut), or
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_connect`.
    pub fn connect(
        self,
        private_data: &LookupData,
        timeout: Duration,
    ) -> Result<Found, Refused<NotFound>>
    where
        S: Connects,
    {
        self.to::<RouteResolved>().begin(private_data)?.finish(Some(timeout))
    }
}

impl<S: CmState> CmId<Udp, S, OnChannel> {
    /// Asks the peer for its queue pair (`rdma_connect` on UDP); the answer is an event for
    /// [`advance`](CmId::advance).
    ///
    /// # Errors
    /// The id comes back ([`NotFound::Unsent`]): [`Os`](crate::ErrorKind::Os) with the errno of `rdma_connect`.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, *};
    /// # fn example(channel: EventChannel, id: CmId<Udp, RouteResolved, OnChannel>) -> Result<(), VerbsError> {
    /// let mut id = id.connect(&LookupData::of(b"who?"))?;
    /// let found = loop {
    ///     match id.advance(&channel.wait()?) {
    ///         Step::Done(found) => break found,
    ///         Step::Waiting(waiting) => id = waiting,
    ///         Step::Failed(refused) => return Err(refused.error),
    ///     }
    /// };
    /// println!("{}", found.peer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(
        self,
        private_data: &LookupData,
    ) -> Result<CmId<Udp, Connecting, OnChannel>, Refused<NotFound<OnChannel>>>
    where
        S: Connects,
    {
        self.to::<RouteResolved>().begin(private_data)
    }
}

impl<M: Mode> Waits for CmId<Udp, Connecting, M> {
    type Done = Found<M>;
    type Failed = NotFound<M>;
    const VERB: &'static str = CONNECT;

    fn id(&self) -> &Id {
        &self.core.id
    }

    fn step(self, event: &Event) -> Step<Self::Done, Self, Self::Failed> {
        if event.id() != self.key() {
            return Step::Waiting(self);
        }
        match (event.kind(), event.status(), event.ud_peer()) {
            (EventKind::Established, 0, Some(peer)) => {
                let private_data = event.private_data().to_vec();
                Step::Done(Found { id: self.to(), peer, private_data })
            }
            (
                EventKind::Established
                | EventKind::Rejected
                | EventKind::Unreachable
                | EventKind::ConnectError
                | EventKind::DeviceRemoval,
                ..,
            ) => Step::Failed(Refused::new(self.give_up(), failure(CONNECT, event))),
            _ => Step::Waiting(self),
        }
    }

    fn give_up(self) -> Self::Failed {
        NotFound::Failed(self.to())
    }
}

impl CmId<Udp, Connecting, OnChannel> {
    /// Moves on by an event of this id: ESTABLISHED brings the peer's numbers. An event of another id leaves it waiting.
    ///
    /// [`Step::Failed`] has the id, and [`Rejected`](crate::ErrorKind::Rejected) or [`Cm`](crate::ErrorKind::Cm).
    pub fn advance(self, event: &Event) -> Step<Found<OnChannel>, Self, NotFound<OnChannel>> {
        self.step(event)
    }
}

impl<M: Mode> Request<Udp, M> {
    /// Tells the peer the number of `qp`, which serves as many peers as wanted (`rdma_accept` on UDP). The id
    /// is of no use afterwards but to be told of the device's removal.
    ///
    /// Where to answer to is in each message that arrives:
    /// [`UdReceived::reply_vector`](crate::UdReceived::reply_vector), with its example at [`UdPeer`].
    ///
    /// # Errors
    /// The request comes back, unanswered: [`Os`](crate::ErrorKind::Os) with the errno of `rdma_accept`.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, *};
    /// # fn example(listening: &CmId<Udp, Listening>, qp: &QueuePair<Ud, Rts>) -> Result<(), VerbsError> {
    /// let request = listening.get_request()?;
    /// let id = request.accept(qp, &ReplyData::of(b"it is me"))?;
    /// # drop(id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn accept<P: Profile>(
        mut self,
        qp: &QueuePair<Ud, Rts, P>,
        private_data: &ReplyData,
    ) -> Result<CmId<Udp, Established, M>, Refused<Self>> {
        let mut c = param(private_data, qp.qp_num());
        c.srq = qp.has_srq().into();
        // SAFETY: requests have a device; the private data is borrowed.
        match unsafe { self.id.core.id.accept(&mut c) } {
            Ok(()) => Ok(self.id.to()),
            Err(errno) => Err(Refused::new(self, Error::os("rdma_accept", errno, ""))),
        }
    }
}

impl fmt::Display for UdPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue pair {:#08x} by {}", self.qpn.get(), self.vector)
    }
}
