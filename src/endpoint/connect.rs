//! Connecting an RC queue pair to the endpoint of its peer.

use std::marker::PhantomData;
use std::time::Duration;

use super::exchange::{Dialogue, ExchangeError, agree, refuse};
use super::receiving::Receiving;
use super::stream::{Timed, Until};
use super::unconnected::{ConnectError, Stage};
use super::{Endpoint, Service, WireError};
use crate::allows::{Allows, Same, Seal, call};
use crate::device::context::Context;
use crate::memory::remote::RemoteSlice;
use crate::memory::rights::Access;
use crate::profile::{DefaultProfile, Initiator, InitiatorDepth, Profile};
use crate::qp::attr::{RcRtr, RcRts};
use crate::qp::{Offered, QueuePair};
use crate::rules::IssuedBy;
use crate::terms::bounded::{
    MinRnrTimer, Mtu, Psn, ReadDepth, ResponderDepth, RetryCount, RnrRetry, ServiceLevel, Timeout,
};
use crate::terms::error::Refused;
use crate::terms::state::{Init, Rts};
use crate::terms::transport::Rc;
use crate::work::opcode::RdmaRead;

/// An RC queue pair that is about to be connected to a peer.
///
/// Post receives before [`connect`](Self::connect): the peer may send as soon as its own call
/// returns.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use proverbs::{endpoint::RcConnector, loopback::Fabric, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let fabric = Fabric::new();
/// let (here, there) = UnixStream::pair()?;
/// // Both sides run the same code, here on two threads.
/// let side = |context: Context, mut stream: UnixStream| -> Result<u64, proverbs::Error> {
///     let pd = context.alloc_pd()?;
///     let cq: CompletionQueue = context.create_cq(16)?;
///     let region = pd.register::<RemoteRead>(4096)?;
///     let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
///     let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
///
///     let gid = context.roce_v2_gid(1)?; // `None` on InfiniBand
///     let mut connector = RcConnector::new(qp, Some(gid.index()))?;
///     connector.export(region.remote()).expect("few regions");
///     let second = std::time::Duration::from_secs(1);
///     let (_qp, peer) = connector.connect(&mut stream, second).expect("the peer does the same");
///     Ok(peer.region::<RemoteRead>(0).expect("the peer exports one").len())
/// };
/// let (a, b) = (fabric.open_device(), fabric.open_device());
/// let other = std::thread::spawn(move || side(a, there));
/// assert_eq!(side(b, here)?, 4096);
/// assert_eq!(other.join().unwrap()?, 4096);
/// # Ok(())
/// # }
/// ```
///
/// To connect a queue pair that stays in a field of a struct, use [`in_place`](Self::in_place).
///
/// The queue pair remembers the offered PSN, MTU and depths until it is reset. If a later step of a
/// handshake creates another connector for the queue pair, that connector offers and uses the same
/// values. Exported regions are not remembered.
#[doc(alias = "handshake")]
pub struct RcConnector<P: Profile = DefaultProfile, Q = QueuePair<Rc, Init, P>> {
    pub(super) qp: Q,
    pub(super) mine: Endpoint,
    gid_index: Option<u8>,
    context: Context,
    port: u8,
    /// Stores the offer in the queue pair, for connectors that are created later.
    keep: fn(&mut Q, Offered),
    /// How long to wait for an acknowledgement; 67 ms by default.
    pub timeout: Timeout,
    /// Transport retries; six by default ([R8.10](crate::guide::rules#r8-10)).
    pub retry_cnt: RetryCount,
    /// RNR retries; six by default ([R8.11](crate::guide::rules#r8-11)).
    pub rnr_retry: RnrRetry,
    /// How long the peer waits before it retries when this side has no receive posted; 82 ms by
    /// default.
    pub min_rnr_timer: MinRnrTimer,
    /// The service level; 0 by default.
    pub sl: ServiceLevel,
    /// The hop limit of packets; 64 by default.
    pub hop_limit: u8,
    of: PhantomData<fn() -> P>,
}

impl<P: Profile> RcConnector<P> {
    /// Creates a connector for `qp`, with the endpoint that the peer needs. `gid_index` is the
    /// index of this side's GID, which RoCE requires.
    ///
    /// # Errors
    /// As for [`Endpoint::of_rc`]. The error contains the queue pair.
    pub fn new(
        qp: QueuePair<Rc, Init, P>,
        gid_index: Option<u8>,
    ) -> Result<Self, Refused<QueuePair<Rc, Init, P>>> {
        let mine = or_refused!(qp, offer(&qp, gid_index));
        let (context, port) = (qp.context(), qp.core.port);
        let keep = |qp: &mut QueuePair<Rc, Init, P>, offer| qp.core.offered = Some(offer);
        Ok(Self::around(qp, mine, gid_index, context, port, keep))
    }

    /// The queue pair, for posting receives.
    pub fn qp(&mut self) -> Receiving<'_, P> {
        Receiving(&mut self.qp)
    }

    /// Returns the queue pair, unconnected.
    pub fn into_qp(self) -> QueuePair<Rc, Init, P> {
        self.qp
    }

    /// Exchanges endpoints over `stream` and connects, within `timeout`, while the peer does the
    /// same. Returns the queue pair in RTS, and the peer's endpoint.
    ///
    /// When it returns, the peer is ready to receive too. The call reads nothing after the peer's
    /// last message, so the stream can still be used. A slow, silent or malicious peer cannot delay
    /// the call beyond `timeout`, plus up to 10 ms to notify the peer of a failure. `Duration::MAX`
    /// waits forever.
    ///
    /// # Errors
    /// The error contains the queue pair in the state that it reached ([`Stage`]). The peer is
    /// notified, if it still reads.
    /// - [`Exchange`](ConnectError::Exchange): the peer's endpoint or last message did not arrive
    ///   in time.
    /// - [`PeerRefused`](ConnectError::PeerRefused): the peer will not connect.
    /// - [`NoVerdict`](ConnectError::NoVerdict): the peer's last message is neither "ready" nor
    ///   "refused".
    /// - Otherwise as for [`connect_to`](Self::connect_to).
    #[allow(clippy::type_complexity)] // shows what is returned
    pub fn connect<S: Timed + ?Sized>(
        self,
        stream: &mut S,
        timeout: Duration,
    ) -> Result<(QueuePair<Rc, Rts, P>, Endpoint), Refused<Stage<P>, ConnectError>> {
        let met = meet(&self.mine, stream, timeout);
        let (mut stream, peer) = or_refused!(Stage::Init(self.qp), met);
        let qp = self.connect_to(&peer).inspect_err(|_| refuse(&mut stream))?;
        or_refused!(Stage::Rts(qp), agree(&mut stream, timeout));
        Ok((qp, peer))
    }

    /// Connects to an endpoint that was received by other means. Do not send anything before the
    /// peer has connected too.
    ///
    /// # Errors
    /// The error contains the queue pair in the state that it reached ([`Stage`]).
    /// - [`NotRc`](ConnectError::NotRc): the peer's endpoint has another transport.
    /// - [`NoReads`](ConnectError::NoReads): the peer serves no reads
    ///   ([R4.6](crate::guide::rules#r4-6), [R4.8](crate::guide::rules#r4-8)).
    /// - [`Verbs`](ConnectError::Verbs): as for [`Endpoint::address`] and `ibv_modify_qp`.
    ///
    /// ```
    /// use proverbs::{endpoint::*, loopback::Fabric, prelude::*};
    /// use proverbs::bounded::ResponderDepth;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let context = Fabric::new().open_device();
    /// let pd = context.alloc_pd()?;
    /// let cq: CompletionQueue = context.create_cq(32)?;
    /// let gid = context.roce_v2_gid(1)?.index();
    /// let connector = || {
    ///     let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    ///     let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    ///     Ok::<_, proverbs::Error>(RcConnector::new(qp, Some(gid))?)
    /// };
    /// let (mut a, mut b) = (connector()?, connector()?);
    /// a.set_mtu(Mtu::Bytes1024); // the smaller one counts
    /// a.set_psn(Psn::try_from(7)?);
    /// a.set_initiator_depth(ReadDepth::new(4).expect("at most 128"));
    /// b.set_responder_depth(ResponderDepth::new(4).expect("at most 128"));
    /// let pool = pd.create_pool(1, 64)?;
    /// b.qp().post_recv(wr::Recv::new(pool.take().expect("one buffer")))?;
    ///
    /// let (to_a, to_b) = (a.endpoint().clone(), b.endpoint().clone());
    /// let a = a.connect_to(&to_b).map_err(ConnectError::from)?;
    /// let _b = b.connect_to(&to_a).map_err(ConnectError::from)?;
    /// let attr = a.query()?;
    /// assert_eq!((attr.path_mtu, attr.max_rd_atomic), (Some(Mtu::Bytes1024), 4));
    ///
    /// // An error returns the queue pair.
    /// let c = connector()?;
    /// let number = Qpn::try_from(17)?;
    /// let uc = Endpoint::new(
    ///     Service::UnreliableConnection,
    ///     number,
    ///     Psn::try_from(0)?,
    ///     Mtu::Bytes1024,
    /// )?;
    /// let (stage, error) = c.connect_to(&uc).unwrap_err().into_parts();
    /// assert!(matches!(error, ConnectError::NotRc(_)));
    /// let Stage::Init(c) = stage else { panic!("nothing was done to it") };
    /// let c: QueuePair<Rc, Init> = RcConnector::new(c, Some(gid))?.into_qp();
    /// # drop(c);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_to(
        self,
        peer: &Endpoint,
    ) -> Result<QueuePair<Rc, Rts, P>, Refused<Stage<P>, ConnectError>> {
        let (rtr, rts) = or_refused!(Stage::Init(self.qp), self.plan(peer));
        let verbs = |(stage, error)| Refused::new(stage, ConnectError::Verbs(error));
        let qp = self.qp.modify(rtr).map_err(|e| verbs(e.map(Stage::Init).into_parts()))?;
        qp.modify(rts).map_err(|e| verbs(e.map(Stage::Rtr).into_parts()))
    }
}

/// The endpoint to offer to the peer: with the values of an earlier connector, if any, otherwise
/// the defaults.
pub(super) fn offer<P: Profile>(
    qp: &QueuePair<Rc, Init, P>,
    gid_index: Option<u8>,
) -> Result<Endpoint, crate::Error> {
    let mut mine = Endpoint::of_rc(qp, gid_index)?;
    let initiator = <Depth<P>>::from_agreed(1).and_then(|d| ReadDepth::new(d.to_c()));
    mine.service = Service::ReliableConnection { initiator, responder: ResponderDepth::ONE };
    // An earlier connector may have sent its offer already.
    if let Some(Offered { psn, mtu, initiator, responder }) = qp.core.offered {
        (mine.psn, mine.mtu) = (psn, mtu);
        mine.service = Service::ReliableConnection { initiator, responder };
    }
    Ok(mine)
}

impl<P: Profile, Q> RcConnector<P, Q> {
    /// A connector with the defaults, for a queue pair whose [`offer`] is `mine`.
    pub(super) fn around(
        qp: Q,
        mine: Endpoint,
        gid_index: Option<u8>,
        context: Context,
        port: u8,
        keep: fn(&mut Q, Offered),
    ) -> Self {
        let mut connector = RcConnector {
            qp,
            mine,
            gid_index,
            context,
            port,
            keep,
            timeout: Timeout::MS_67,
            retry_cnt: RetryCount::SIX,
            rnr_retry: RnrRetry::SIX,
            min_rnr_timer: MinRnrTimer::MS_82,
            sl: ServiceLevel::default(),
            hop_limit: 64,
            of: PhantomData,
        };
        connector.remember();
        connector
    }

    /// Stores the offer in the queue pair, because the peer may have received it. A later connector
    /// then offers the same.
    fn remember(&mut self) {
        if let Service::ReliableConnection { initiator, responder } = self.mine.service {
            let (psn, mtu) = (self.mine.psn, self.mine.mtu);
            (self.keep)(&mut self.qp, Offered { psn, mtu, initiator, responder });
        }
    }

    /// This side's endpoint, as sent to the peer.
    pub fn endpoint(&self) -> &Endpoint {
        &self.mine
    }

    /// Adds a region to this side's endpoint, so that the peer can access it.
    ///
    /// # Errors
    /// As for [`Endpoint::export`].
    pub fn export<A: Access>(&mut self, region: RemoteSlice<A>) -> Result<(), WireError> {
        self.mine.export(region)
    }

    /// Sets how many reads and atomics of the peer this side serves at once; one by default
    /// ([R4.7](crate::guide::rules#r4-7)).
    pub fn set_responder_depth(&mut self, depth: ResponderDepth) {
        if let Service::ReliableConnection { responder, .. } = &mut self.mine.service {
            *responder = depth;
        }
        self.remember();
    }

    /// Sets how many reads and atomics this side wants outstanding; one by default. The peer's
    /// responder depth limits it ([R4.8](crate::guide::rules#r4-8)).
    pub fn set_initiator_depth(&mut self, depth: ReadDepth)
    where
        Self: Allows<call::SetInitiatorDepth>,
    {
        if let Service::ReliableConnection { initiator, .. } = &mut self.mine.service {
            *initiator = Some(depth);
        }
        self.remember();
    }

    /// Sets the largest path MTU; the MTU of the port by default. The connection uses the smaller
    /// of both sides' values ([R8.6](crate::guide::rules#r8-6)).
    pub fn set_mtu(&mut self, mtu: Mtu) {
        self.mine.mtu = mtu;
        self.remember();
    }

    /// Sets the number of the first packet. By default it is random, with a new one after each
    /// reset.
    pub fn set_psn(&mut self, psn: Psn) {
        self.mine.psn = psn;
        self.remember();
    }

    /// The attributes of both transitions. Nothing is changed yet.
    pub(super) fn plan(&self, peer: &Endpoint) -> Result<(RcRtr, RcRts<P>), ConnectError> {
        let Service::ReliableConnection { responder: serves, .. } = peer.service else {
            return Err(ConnectError::NotRc(peer.service));
        };
        let Service::ReliableConnection { initiator, responder } = self.mine.service else {
            return Err(ConnectError::NotRc(self.mine.service));
        };
        let wants = initiator.map_or(0, ReadDepth::get);
        let depth = <Depth<P>>::from_agreed(wants.min(serves.get()));
        let depth = depth.ok_or(ConnectError::NoReads)?;
        let mine = self.mine.gid_kind.map(|kind| (self.mine.gid, kind));
        let mut address = peer.address_from(mine, &self.context, self.port, self.gid_index)?;
        address.sl = self.sl;
        if let Some(global) = &mut address.global {
            global.hop_limit = self.hop_limit;
        }
        let rtr = RcRtr {
            path_mtu: self.mine.mtu.min(peer.mtu),
            max_dest_rd_atomic: responder,
            min_rnr_timer: self.min_rnr_timer,
            ..RcRtr::new(address, peer.qpn, peer.psn)
        };
        let rts = RcRts {
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            ..RcRts::new(self.mine.psn, depth)
        };
        Ok((rtr, rts))
    }
}

/// Exchanges endpoints. Returns the stream, for the messages that follow, and the peer's endpoint.
pub(super) fn meet<'s, S: Timed + ?Sized>(
    mine: &Endpoint,
    stream: &'s mut S,
    timeout: Duration,
) -> Result<(Until<'s, S>, Endpoint), ExchangeError> {
    let stream = Until::new(stream, timeout);
    let mut stream = stream.map_err(|error| ExchangeError::Io { error, received: Vec::new() })?;
    let mut dialogue = Dialogue::of_endpoints(mine, timeout);
    let run = dialogue.run(&mut stream);
    match dialogue.peer(run) {
        Ok(peer) => Ok((stream, peer)),
        Err(error) => {
            if dialogue.is_sent() {
                refuse(&mut stream);
            }
            Err(error)
        }
    }
}

type Depth<P> = <<P as Profile>::Initiator as Initiator>::Depth;

impl<P: Profile, Q, Object> Allows<call::SetInitiatorDepth> for Object
where
    RdmaRead: IssuedBy<P::Initiator>,
    Object: Same<This = RcConnector<P, Q>>,
{
    const SEAL: Seal = Seal;
}

impl_debug!([P: Profile, Q] RcConnector<P, Q>, |it| "RcConnector({:?})", it.mine);

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::bounded::RnrRetries;
    use crate::loopback;
    use crate::prelude::*;

    /// A later connector for the same queue pair offers the values that were set. Each value has
    /// its own run.
    #[test]
    fn what_was_set_is_remembered() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq::<Buf>(20).unwrap();
        let sets: [fn(&mut RcConnector); 4] = [
            |connector| connector.set_initiator_depth(ReadDepth::new(7).unwrap()),
            |connector| connector.set_responder_depth(ResponderDepth::new(3).unwrap()),
            |connector| connector.set_psn(Psn::new(0x123456).unwrap()),
            |connector| connector.set_mtu(Mtu::Bytes512),
        ];
        for set in sets {
            let depth = crate::Depth { send: 2, recv: 2 };
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
            let mut connector = RcConnector::new(qp.modify(init).unwrap(), Some(1)).unwrap();
            let before = connector.endpoint().clone();
            set(&mut connector);
            let offered = connector.endpoint().clone();
            assert_ne!(offered, before);
            let again = RcConnector::new(connector.qp, Some(1)).unwrap();
            assert_eq!(*again.endpoint(), offered);
        }
    }

    /// Everything that a program sets and that the peer sends reaches the device.
    #[test]
    fn what_was_set_is_what_the_device_is_told() {
        let context = loopback::Fabric::new().open_device();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq::<Buf>(20).unwrap();
        let connector = || {
            let depth = crate::Depth { send: 2, recv: 2 };
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
            RcConnector::new(qp.modify(init).unwrap(), Some(1)).unwrap()
        };
        let (mut mine, mut peer) = (connector(), connector());
        mine.set_initiator_depth(ReadDepth::new(7).unwrap());
        mine.set_responder_depth(ResponderDepth::new(3).unwrap());
        peer.set_responder_depth(ResponderDepth::new(4).unwrap());
        mine.set_psn(Psn::new(0x123456).unwrap());
        peer.set_psn(Psn::new(0x654321).unwrap());
        mine.set_mtu(Mtu::Bytes2048);
        peer.set_mtu(Mtu::Bytes512);
        let (rtr, rts) = mine.plan(peer.endpoint()).unwrap();
        let global = rtr.address.global.unwrap();
        assert_eq!((global.hop_limit, global.sgid_index, rtr.address.sl.get()), (64, 1, 0));
        assert_eq!((rtr.min_rnr_timer, rts.timeout), (MinRnrTimer::MS_82, Timeout::MS_67));
        assert_eq!((rts.retry_cnt, rts.rnr_retry), (RetryCount::SIX, RnrRetry::SIX));
        mine.hop_limit = 9;
        mine.sl = ServiceLevel::new(3).unwrap();
        mine.timeout = Timeout::Infinite;
        mine.retry_cnt = RetryCount::new(2).unwrap();
        mine.rnr_retry = RnrRetry::Times(RnrRetries::new(1).unwrap());
        mine.min_rnr_timer = MinRnrTimer::new(30).unwrap();
        let (rtr, rts) = mine.plan(peer.endpoint()).unwrap();
        let global = rtr.address.global.unwrap();
        assert_eq!((global.hop_limit, global.dgid), (9, peer.endpoint().gid()));
        assert_eq!((rtr.address.sl.get(), rtr.path_mtu), (3, Mtu::Bytes512));
        assert_eq!((rtr.dest_qpn, rtr.rq_psn.get()), (peer.endpoint().qpn(), 0x654321));
        assert_eq!((rtr.max_dest_rd_atomic.get(), rtr.min_rnr_timer.get()), (3, 30));
        assert_eq!((rts.sq_psn.get(), rts.max_rd_atomic.get()), (0x123456, 4));
        assert_eq!((rts.timeout, rts.retry_cnt.get()), (Timeout::Infinite, 2));
        assert_eq!(rts.rnr_retry, RnrRetry::Times(RnrRetries::new(1).unwrap()));
    }
}
