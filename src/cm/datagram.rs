//! Datagrams: looking up the queue pair of a service, and answering lookups.

#![allow(unsafe_code)] // calls that need a device

use std::fmt;
use std::time::Duration;

use super::event::Event;
use super::id::CmId;
use super::listen::Request;
use super::private_data::{LookupData, ReplyData};
use super::space::Udp;
use super::state::{
    CmState, Connecting, Established, Mode, OnChannel, RouteResolved, Synchronous, Unusable,
};
use super::table::Waiting;
use super::waits::{Awaited, Progress, Waits, failure, finish};
use crate::allows::{Allows, call};
use crate::device::AddressVector;
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::ah_table::AhIndex;
use crate::sys::types::{ibv_ah_attr, raw::rdma_conn_param, zeroed};
use crate::terms::bounded::{Qkey, Qpn};
use crate::terms::error::{Error, Refused};
use crate::terms::state::Rts;
use crate::terms::transport::Ud;
use crate::work::address::Destination;

const CONNECT: &str = "rdma_connect";
const ACCEPT: &str = "rdma_accept";

/// The Q_Key of every datagram queue pair that rdma_cm sets up (`RDMA_UDP_QKEY`,
/// [R5.13](crate::guide::rules#r5-13)). Use it if you build a [`UdPeer`] yourself, as the service
/// in that type's example does.
pub const RDMA_UDP_QKEY: Qkey = match Qkey::new(0x0123_4567) {
    Some(key) => key,
    None => panic!("bit 31 is clear"),
};

/// A datagram peer or a multicast group, with the only values that are valid for sending to it
/// ([R5.14](crate::guide::rules#r5-14)).
///
/// The client looks up a service and sends it a request:
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
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
/// qp.post_send(wr::Send::inline(b"question").to(found.peer.destination(address_handle)))?;
/// # Ok(())
/// # }
/// ```
///
/// The service replies to the sender of each message:
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use proverbs::completion::UdReceived;
///
/// fn answer(id: &CmId<Udp, Established>, qp: &mut QueuePair<Ud, Rts>, message: &UdReceived<Buf>,
///     gid_index: u8) -> Result<(), Box<dyn std::error::Error>>
/// {
///     let vector = message.reply_vector(id.port(), gid_index).ok_or("a message without a GRH")?;
///     let peer = UdPeer { vector, qpn: message.src_qp, qkey: RDMA_UDP_QKEY };
///     let address_handle = qp.add_address_handle(id.pd()?.create_ah(vector)?)?;
///     qp.post_send(wr::Send::inline(b"answer").to(peer.destination(address_handle)))?;
///     Ok(())
/// }
/// ```
#[doc(alias = "rdma_ud_param")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdPeer {
    /// The address vector, for [`create_ah`](crate::ProtectionDomain::create_ah).
    pub vector: AddressVector,
    /// The queue pair number; 0xffffff for a group.
    #[doc(alias = "qp_num")]
    pub qpn: Qpn,
    /// The Q_Key of its queue pair.
    pub qkey: Qkey,
}

impl UdPeer {
    /// `None` if the values do not describe a peer that a program can send to.
    pub(super) fn from_c(ah_attr: &ibv_ah_attr, qp_num: u32, qkey: u32) -> Option<Self> {
        let vector = AddressVector::from_c(ah_attr);
        Some(UdPeer { vector, qpn: Qpn::new(qp_num)?, qkey: Qkey::new(qkey)? })
    }

    /// The destination for sends. `address_handle` must be a handle for [`vector`](Self::vector).
    pub fn destination(&self, address_handle: AhIndex) -> Destination {
        Destination { address_handle, qpn: self.qpn, qkey: self.qkey }
    }
}

/// The result of a successful lookup.
#[derive(Debug)]
pub struct Found<M: Mode = Synchronous> {
    /// The id.
    pub id: CmId<Udp, Established, M>,
    /// The service's queue pair.
    pub peer: UdPeer,
    /// The service's private data, possibly padded with zeroes.
    pub private_data: Vec<u8>,
}

/// The id after a failed lookup.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// fn look_up(id: CmId<Udp, RouteResolved>) -> Option<Found> {
///     let found = id.connect(&LookupData::none(), std::time::Duration::from_secs(1));
///     match found.map_err(Refused::into_parts) {
///         Ok(found) => return Some(found),
///         Err((NotFound::Unsent(_id), error)) => eprintln!("not sent: {error}"),
///         Err((NotFound::Failed(_id), error)) => eprintln!("no answer: {error}"),
///     }
///     None
/// }
/// ```
#[derive(Debug)]
pub enum NotFound<M: Mode = Synchronous> {
    /// The call failed and nothing was sent.
    Unsent(CmId<Udp, RouteResolved, M>),
    /// The peer rejected the lookup, or the timeout expired.
    Failed(CmId<Udp, Unusable, M>),
}

fn param(private_data: &[u8], qp_num: u32) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private_data.as_ptr().cast(),
        private_data_len: private_data.len() as u8,
        qp_num,
        ..zeroed()
    }
}

impl<M: Mode> CmId<Udp, RouteResolved, M> {
    pub(super) fn begin(
        mut self,
        private_data: &LookupData,
    ) -> Result<CmId<Udp, Connecting, M>, Refused<NotFound<M>>> {
        let mut c = param(private_data, 0);
        // SAFETY: in this state the id has a device. The private data is borrowed until the call
        // returns.
        match unsafe { self.core.id.connect(&mut c) } {
            Ok(()) => Ok(self.to()),
            Err(errno) => Err(Refused::new(NotFound::Unsent(self), Error::os(CONNECT, errno, ""))),
        }
    }
}

impl<S: CmState> CmId<Udp, S> {
    /// Requests the peer's queue pair number, within `timeout` (`rdma_connect` on UDP).
    ///
    /// # Errors
    /// [`Rejected`](crate::ErrorKind::Rejected), [`Cm`](crate::ErrorKind::Cm) if there is no such
    /// peer, [`TimedOut`](crate::ErrorKind::TimedOut), or [`Os`](crate::ErrorKind::Os) with the
    /// errno of `rdma_connect`. The error contains the id ([`NotFound`]).
    #[doc(alias("rdma_connect", "rdma_establish", "rdma_set_local_ece", "rdma_conn_param"))]
    pub fn connect(
        self,
        private_data: &LookupData,
        timeout: Duration,
    ) -> Result<Found, Refused<NotFound>>
    where
        Self: Allows<call::Connect>,
    {
        finish(self.to::<RouteResolved>().begin(private_data)?, timeout)
    }
}

impl<S: CmState> CmId<Udp, S, OnChannel> {
    /// Requests the peer's queue pair number (`rdma_connect` on UDP). The answer is an event for
    /// [`advance`](CmId::advance).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_connect`. The error contains the id
    /// ([`NotFound::Unsent`]).
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(channel: EventChannel, id: CmId<Udp, RouteResolved, OnChannel>) -> Result<(), proverbs::Error> {
    /// let mut id = id.connect(&LookupData::of(b"who?"))?;
    /// let found = loop {
    ///     match id.advance(&channel.wait()?) {
    ///         Progress::Done(found) => break found,
    ///         Progress::Waiting(waiting) => id = waiting,
    ///         Progress::Failed(refused) => return Err(refused.error),
    ///     }
    /// };
    /// println!("{}", found.peer);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("rdma_connect", "rdma_establish", "rdma_set_local_ece"))]
    pub fn connect(
        self,
        private_data: &LookupData,
    ) -> Result<CmId<Udp, Connecting, OnChannel>, Refused<NotFound<OnChannel>>>
    where
        Self: Allows<call::Connect>,
    {
        self.to::<RouteResolved>().begin(private_data)
    }
}

impl<M: Mode> Waits for CmId<Udp, Connecting, M> {
    type Done = Found<M>;
    type Failed = NotFound<M>;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::new(CONNECT, Waiting::LookUp, &self.core)
    }

    fn done(self, event: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        match event.ud_peer() {
            Some(peer) => {
                let private_data = event.private_data().to_vec();
                Progress::Done(Found { id: self.to(), peer, private_data })
            }
            None => Progress::Failed(Refused::new(self.give_up(), failure(CONNECT, event))),
        }
    }

    fn give_up(self) -> Self::Failed {
        NotFound::Failed(self.to())
    }
}

impl CmId<Udp, Connecting, OnChannel> {
    /// Processes an event of this id. ESTABLISHED contains the peer's queue pair number and
    /// address. An event of another id changes nothing.
    ///
    /// [`Progress::Failed`] contains the id, and [`Rejected`](crate::ErrorKind::Rejected) or
    /// [`Cm`](crate::ErrorKind::Cm).
    pub fn advance(self, event: &Event) -> Progress<Found<OnChannel>, Self, NotFound<OnChannel>> {
        self.step(event)
    }
}

impl<M: Mode> Request<Udp, M> {
    /// Answers with the number of `qp`, which can serve any number of peers (`rdma_accept` on UDP).
    /// Afterwards the id only reports the removal of the device.
    ///
    /// To reply to a message, use
    /// [`UdReceived::reply_vector`](crate::completion::UdReceived::reply_vector).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_accept`; EINVAL also if `qp` is not on
    /// the request's device. The error contains the request, unanswered.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(listening: &CmId<Udp, Listening>, qp: &QueuePair<Ud, Rts>) -> Result<(), proverbs::Error> {
    /// let request = listening.get_request()?;
    /// let id = request.accept(qp, &ReplyData::of(b"it is me"))?;
    /// # drop(id);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rdma_accept")]
    pub fn accept<P: Profile>(
        mut self,
        qp: &QueuePair<Ud, Rts, P>,
        private_data: &ReplyData,
    ) -> Result<CmId<Udp, Established, M>, Refused<Self>> {
        or_refused!(self, self.id.check_context(ACCEPT, &qp.context()));
        let mut c = param(private_data, qp.qp_num());
        c.srq = qp.has_srq().into();
        // SAFETY: requests have a device. The private data is borrowed until the call returns.
        match unsafe { self.id.core.id.accept(&mut c) } {
            Ok(()) => Ok(self.id.to()),
            Err(errno) => Err(Refused::new(self, Error::os(ACCEPT, errno, ""))),
        }
    }
}

impl fmt::Display for UdPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue pair {:#08x} by {}", self.qpn.get(), self.vector)
    }
}
