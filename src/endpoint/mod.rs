//! Endpoint exchange: the values that a peer needs to connect, validated when received.
//!
//! An [`Endpoint`] describes a queue pair and the regions that the peer can access. Send it to the
//! peer by any means: [`exchange`] sends it over any `Read + Write`, [`RcConnector::connect`] also
//! connects an RC pair (on tokio, `RcConnector::connect_async`), and the feature `serde` writes it
//! in any format.
//!
//! An endpoint contains no secrets, and nothing authenticates the peer: any program that can write
//! to the stream can send an endpoint.
//!
//! # The wire format, version 2
//!
//! Integers are in network byte order. The first 12 bytes mean the same in every version.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `pvep` |
//! | 4 | 2 | version: 2 |
//! | 6 | 2 | number of regions, at most 1024 |
//! | 8 | 4 | total length in bytes: 56 + 24 per region |
//! | 12 | 1 | service: 1 RC, 2 UC, 3 UD, 4 XRC initiator, 5 XRC target |
//! | 13 | 1 | largest path MTU, as `enum ibv_mtu`: 1 (256 bytes) to 5 (4096) |
//! | 14 | 2 | LID; 0 on RoCE |
//! | 16 | 4 | queue pair number, 2 to 2^24 - 2 |
//! | 20 | 4 | PSN of the first packet that it sends, 24 bits |
//! | 24 | 16 | GID; zeroes if it has none |
//! | 40 | 1 | RC and initiators: reads and atomics that it wants outstanding, 0 to 128; others 0 |
//! | 41 | 1 | RC and targets: reads and atomics that it serves at once, 0 to 128; others 0 |
//! | 42 | 1 | the GID's kind: 1 InfiniBand, 2 RoCE v1, 3 RoCE v2; 0 unknown, or no GID |
//! | 43 | 1 | 0 |
//! | 44 | 4 | UD: Q_Key, 31 bits; targets: number of a shared receive queue, 24 bits; others 0 |
//! | 48 | 4 | depth of its send queue in work requests |
//! | 52 | 4 | depth of its own receive queue in work requests; 0 with a shared one |
//! | 56 | 24 each | regions |
//!
//! A region: address (8 bytes), length (8, at least 1, not past the end of the address space), rkey
//! (4), rights (4: 2 REMOTE_WRITE, 4 REMOTE_READ, 8 REMOTE_ATOMIC, or a sum, not 0).
//!
//! ```
//! use proverbs::{endpoint::*, prelude::*};
//! use proverbs::bounded::ResponderDepth;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = Service::ReliableConnection {
//!     initiator: Some(ReadDepth::ONE),
//!     responder: ResponderDepth::ONE,
//! };
//! let mut mine =
//!     Endpoint::new(service, Qpn::try_from(0x1c)?, Psn::try_from(7)?, Mtu::Bytes1024)?;
//! mine.export(RemoteSlice::<RemoteRead>::from_parts(0x7f00_0000_0000, 4096, 0x1234))?;
//!
//! let peer = Endpoint::from_bytes(&mine.to_bytes())?;
//! assert_eq!(peer, mine);
//! let region: RemoteSlice<RemoteRead> = peer.region(0)?;
//! assert_eq!(region.len(), 4096);
//! let error = peer.region::<RemoteWrite>(0).unwrap_err();
//! assert_eq!(error.to_string(), "region 0 grants REMOTE_READ, not REMOTE_WRITE");
//! # Ok(())
//! # }
//! ```

mod address;
#[cfg(feature = "tokio")]
mod awaited;
mod connect;
mod exchange;
mod in_place;
mod receiving;
mod region;
#[cfg(feature = "serde")]
mod serde;
mod stream;
mod unconnected;
mod wire;

use std::hash::{BuildHasher, RandomState};

pub use connect::RcConnector;
pub use exchange::{CHUNK, ExchangeError, exchange};
pub use receiving::Receiving;
pub use region::{ExportedRegion, NoSuchRegion, RegionError};
pub use stream::{Timed, Timeouts, Unbounded};
pub use unconnected::{ConnectError, Stage};
pub use wire::WireError;

use crate::device::context::Context;
use crate::ext::xrc::XrcTarget;
use crate::memory::remote::RemoteSlice;
use crate::memory::rights::Access;
use crate::profile::{Initiator, InitiatorDepth, Profile};
use crate::qp::{Depth, QueuePair};
use crate::terms::bounded::{Mtu, Psn, Qkey, Qpn, ReadDepth, ResponderDepth, SrqNum};
use crate::terms::error::{Error, ErrorKind};
use crate::terms::gid::{Gid, GidKind};
use crate::terms::state::Init;
use crate::terms::transport::{Rc, Transport, Uc, Ud, Xrc};

/// The transport of an endpoint, with the values that are specific to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// RC.
    ReliableConnection {
        /// How many reads and atomics it wants outstanding; `None` if it issues none.
        initiator: Option<ReadDepth>,
        /// How many reads and atomics of the peer it serves at once.
        responder: ResponderDepth,
    },
    /// UC.
    UnreliableConnection,
    /// UD.
    UnreliableDatagram {
        /// The Q_Key that messages to it must contain.
        qkey: Qkey,
    },
    /// An XRC initiator.
    XrcInitiator {
        /// How many reads and atomics it wants outstanding; `None` if it issues none.
        initiator: Option<ReadDepth>,
    },
    /// An XRC target.
    XrcTarget {
        /// How many reads and atomics of the initiator it serves at once.
        responder: ResponderDepth,
        /// A shared receive queue that work requests can name ([R26.1](crate::guide::rules#r26-1)).
        /// A target with several sends the other numbers to its peer in messages.
        srq: SrqNum,
    },
}

/// The description of a queue pair, and of the regions that the peer can access.
///
/// [`to_bytes`](Self::to_bytes) and [`from_bytes`](Self::from_bytes) preserve every field,
/// whichever function created the endpoint.
///
/// ```
/// use proverbs::{device::GidKind, endpoint::*, loopback::Fabric, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = Fabric::new().open_device();
/// # let pd = context.alloc_pd()?;
/// # let cq: CompletionQueue = context.create_cq(16)?;
/// # let region = pd.register::<RemoteReadWrite>(64)?;
/// # let depth = Depth { send: 4, recv: 4 };
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
/// # let rc = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// // `rc` is a queue pair in INIT on port 1.
/// let gid = context.roce_v2_gid(1)?;
/// let mut mine = Endpoint::of_rc(&rc, Some(gid.index()))?;
/// mine.export(region.export::<RemoteRead>())?; // region 0, read-only
///
/// // ... to the peer, by any means ...
/// let peer = Endpoint::from_bytes(&mine.to_bytes())?;
/// assert_eq!(peer.qpn().get(), rc.qp_num());
/// assert_eq!(peer.mtu(), Mtu::Bytes4096);
/// assert_eq!((peer.gid(), peer.lid()), (gid.gid(), 0));
/// assert_eq!(peer.gid_kind(), Some(GidKind::RoceV2));
/// assert_eq!((peer.depth(), peer.psn()), (depth, mine.psn()));
/// assert!(matches!(peer.service(), Service::ReliableConnection { .. }));
/// assert_eq!(peer.regions().len(), 1);
/// assert_eq!(peer.region::<RemoteRead>(0)?.len(), 64);
/// let vector = peer.address(&context, 1, Some(gid.index()))?; // for `RcRtr::new`
/// assert_eq!(vector.global.map(|route| route.dgid), Some(peer.gid()));
///
/// // An endpoint from numbers that were received by other means:
/// let numbers = Endpoint::new(peer.service(), peer.qpn(), peer.psn(), peer.mtu())?;
/// let numbers = numbers.with_gid(peer.gid()).with_gid_kind(GidKind::RoceV2).with_lid(peer.lid()).with_depth(peer.depth());
/// assert!(numbers.regions().is_empty());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "handshake")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    service: Service,
    qpn: Qpn,
    psn: Psn,
    mtu: Mtu,
    gid: Gid,
    gid_kind: Option<GidKind>,
    lid: u16,
    depth: Depth,
    regions: Vec<ExportedRegion>,
}

impl Endpoint {
    /// The maximum number of regions of one endpoint. [`export`](Self::export) rejects more.
    pub const MAX_REGIONS: usize = 1024;

    /// Creates an endpoint from its numbers, without a GID or LID, with depths of 0 and no regions.
    ///
    /// # Errors
    /// [`WireError::ReservedQpn`]: numbers 0, 1 and 2^24 - 1 belong to management and multicast.
    pub fn new(service: Service, qpn: Qpn, psn: Psn, mtu: Mtu) -> Result<Self, WireError> {
        if !(2..Qpn::MAX.get()).contains(&qpn.get()) {
            return Err(WireError::ReservedQpn(qpn));
        }
        let (gid, lid, depth) = (Gid::default(), 0, Depth { send: 0, recv: 0 });
        let gid_kind = None;
        Ok(Endpoint { service, qpn, psn, mtu, gid, gid_kind, lid, depth, regions: Vec::new() })
    }

    /// The endpoint of an RC queue pair, with the LID, MTU and GID of its port and a random PSN.
    /// Like the endpoint of an [`RcConnector`], it allows one read or atomic at a time in each
    /// direction. `gid_index` is the index of this side's GID, which RoCE requires
    /// ([R8.5](crate::guide::rules#r8-5)).
    ///
    /// # Errors
    /// - [`Os`](ErrorKind::Os) with the errno of `ibv_query_port` or `ibv_query_gid_ex`, or EINVAL
    ///   for RoCE without a `gid_index`.
    /// - [`NotFound`](ErrorKind::NotFound): the port has no GID with this index.
    /// - [`Protocol`](ErrorKind::Protocol): the device gave the queue pair a reserved number.
    pub fn of_rc<P: Profile>(
        qp: &QueuePair<Rc, Init, P>,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        let initiator = Some(ReadDepth::ONE);
        Self::of(
            qp,
            Service::ReliableConnection { initiator, responder: ResponderDepth::ONE },
            gid_index,
        )
    }

    /// The endpoint of a UC queue pair, with the LID, MTU and GID of its port, and a random PSN.
    ///
    /// # Errors
    /// As for [`of_rc`](Self::of_rc).
    ///
    /// ```
    /// # use proverbs::{endpoint::*, loopback::Fabric, prelude::*};
    /// # fn main() -> Result<(), proverbs::Error> {
    /// # let context = Fabric::new().open_device();
    /// # let pd = context.alloc_pd()?;
    /// # let cq: CompletionQueue = context.create_cq(16)?;
    /// let qp = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() })?;
    /// let gid = context.roce_v2_gid(1)?; // of the queue pair's port
    /// let mine = Endpoint::of_uc(&qp, Some(gid.index()))?;
    /// assert_eq!(mine.service(), Service::UnreliableConnection);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_uc<P: Profile>(
        qp: &QueuePair<Uc, Init, P>,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        Self::of(qp, Service::UnreliableConnection, gid_index)
    }

    /// The endpoint of a UD queue pair with this Q_Key, with the LID, MTU and GID of its port, and
    /// a random PSN.
    ///
    /// # Errors
    /// As for [`of_rc`](Self::of_rc).
    ///
    /// ```
    /// # use proverbs::{endpoint::*, loopback::Fabric, prelude::*};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let context = Fabric::new().open_device();
    /// # let pd = context.alloc_pd()?;
    /// # let cq: CompletionQueue = context.create_cq(16)?;
    /// let qkey = Qkey::try_from(0x1111_1111)?;
    /// let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
    /// let gid = context.roce_v2_gid(1)?; // of the queue pair's port
    /// let mine = Endpoint::of_ud(&qp, qkey, Some(gid.index()))?;
    /// assert_eq!(mine.service(), Service::UnreliableDatagram { qkey });
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_ud<P: Profile>(
        qp: &QueuePair<Ud, Init, P>,
        qkey: Qkey,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        Self::of(qp, Service::UnreliableDatagram { qkey }, gid_index)
    }

    /// The endpoint of an XRC initiator, made like [`of_rc`](Self::of_rc).
    ///
    /// # Errors
    /// As for [`of_rc`](Self::of_rc).
    ///
    /// ```
    /// # use proverbs::{endpoint::*, ext::xrc::XrcdFile, loopback::Fabric, prelude::*};
    /// # use proverbs::ext::xrc::{XrcRtr, XrcRts, XrcTargetRtr};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # profile! { Initiating { receive: NoRq } }
    /// # let context = Fabric::new().open_device();
    /// # let can = context.abilities()?.can::<Xrc>().ok_or("no XRC")?;
    /// # let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    /// # let pd = context.alloc_pd()?;
    /// # let (pool, mut cq) = (pd.create_pool(4, 64)?, context.create_cq(16)?);
    /// # let mut srq: SharedReceiveQueue<Xrc> = domain.create_srq(&pd, &pool, &cq)?;
    /// # srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// # let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    /// # let initiator = pd.create_xrc_initiator::<Initiating>(&can, &cq, 4)?.modify(init)?;
    /// # let target = domain.create_target()?.modify(init)?;
    /// // Each side sends its endpoint and receives the peer's.
    /// let gid = Some(context.roce_v2_gid(1)?.index());
    /// let asks = Endpoint::of_initiator(&initiator, gid)?;
    /// let serves = Endpoint::of_target(&target, srq.number(), gid)?;
    ///
    /// let to = serves.address(&context, 1, gid)?;
    /// let initiator = initiator.modify(XrcRtr::new(to, serves.qpn(), serves.psn()))?;
    /// let mut initiator = initiator.modify(XrcRts::new(asks.psn(), ReadDepth::ONE))?;
    /// let to = asks.address(&context, 1, gid)?;
    /// let target = target.modify(XrcTargetRtr::new(to, asks.qpn(), asks.psn()))?;
    ///
    /// let Service::XrcTarget { srq, .. } = serves.service() else { return Err("no target".into()) };
    /// initiator.post_send(wr::Send::inline(b"hello").to_srq(srq))?;
    /// # proverbs::loopback::poll(&mut cq, 2)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_initiator<P: Profile>(
        qp: &QueuePair<Xrc, Init, P>,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        let depth = <<P::Initiator as Initiator>::Depth as InitiatorDepth>::LEAST.to_c();
        Self::of(qp, Service::XrcInitiator { initiator: ReadDepth::new(depth) }, gid_index)
    }

    /// The endpoint of an XRC target, with a shared receive queue that the initiator can name.
    /// [`of_initiator`](Self::of_initiator) has an example.
    ///
    /// # Errors
    /// As for [`of_rc`](Self::of_rc).
    pub fn of_target(
        target: &XrcTarget<Init>,
        srq: SrqNum,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        let service = Service::XrcTarget { responder: ResponderDepth::ONE, srq };
        let depth = Depth { send: 0, recv: 0 };
        Self::at(&target.context(), target.port(), target.qp_num(), depth, service, gid_index)
    }

    fn of<T: Transport, P: Profile>(
        qp: &QueuePair<T, Init, P>,
        service: Service,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        Self::at(&qp.context(), qp.core.port, qp.qp_num(), qp.depth(), service, gid_index)
    }

    fn at(
        context: &Context,
        number: u8,
        qp_num: u32,
        depth: Depth,
        service: Service,
        gid_index: Option<u8>,
    ) -> Result<Self, Error> {
        const DEVICE: &str = "the device gave a queue pair a reserved number";
        let port = context.query_port(number)?;
        let entry = address::source(context, number, &port, gid_index)?;
        let qpn = Qpn::try_from(qp_num)?;
        // The PSN is random, so that packets of an earlier connection are not accepted by this one.
        let random = RandomState::new().hash_one(qp_num) as u32;
        let psn = Psn::try_from(random & Psn::MAX.get())?;
        let mtu = port.active_mtu.unwrap_or(Mtu::Bytes1024);
        let endpoint = Self::new(service, qpn, psn, mtu)
            .map_err(|_| Error::new("ibv_create_qp", ErrorKind::Protocol(DEVICE)))?;
        let mut endpoint = endpoint.with_lid(port.lid).with_depth(depth);
        if let Some(entry) = entry {
            endpoint = endpoint.with_gid(entry.gid).with_gid_kind(entry.kind);
        }
        Ok(endpoint)
    }

    /// Returns the endpoint with this GID, of unknown kind.
    pub fn with_gid(mut self, gid: Gid) -> Self {
        (self.gid, self.gid_kind) = (gid, None);
        self
    }

    /// Returns the endpoint with this kind of GID.
    pub fn with_gid_kind(mut self, kind: GidKind) -> Self {
        self.gid_kind = Some(kind);
        self
    }

    /// Returns the endpoint with this LID.
    pub fn with_lid(mut self, lid: u16) -> Self {
        self.lid = lid;
        self
    }

    /// Returns the endpoint with these depths.
    pub fn with_depth(mut self, depth: Depth) -> Self {
        self.depth = depth;
        self
    }

    /// Adds a region. Its index, by which the peer finds it, is the number of regions added before
    /// it.
    ///
    /// # Errors
    /// The endpoint is unchanged.
    /// - [`WireError::Region`]: the slice is empty, or ends past the end of the address space.
    /// - [`WireError::TooManyRegions`]: there are [`MAX_REGIONS`](Self::MAX_REGIONS) regions
    ///   already.
    pub fn export<A: Access>(&mut self, region: RemoteSlice<A>) -> Result<(), WireError> {
        let index = self.regions.len();
        let region = ExportedRegion::new(region);
        self.push(region.map_err(|why| WireError::Region { index, why })?)
    }

    fn push(&mut self, region: ExportedRegion) -> Result<(), WireError> {
        if self.regions.len() == Self::MAX_REGIONS {
            return Err(WireError::TooManyRegions { count: Self::MAX_REGIONS + 1 });
        }
        self.regions.push(region);
        Ok(())
    }

    /// The transport, with the values that are specific to it.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The queue pair number.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The number of the first packet that it sends ([R8.7](crate::guide::rules#r8-7)).
    pub fn psn(&self) -> Psn {
        self.psn
    }

    /// The largest path MTU that its port supports.
    pub fn mtu(&self) -> Mtu {
        self.mtu
    }

    /// Its GID; zeroes if it does not have one.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// The kind of its GID, if known.
    pub fn gid_kind(&self) -> Option<GidKind> {
        self.gid_kind
    }

    /// Its LID; 0 on RoCE.
    pub fn lid(&self) -> u16 {
        self.lid
    }

    /// The depths of its queues, in work requests.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// The regions that it exports.
    pub fn regions(&self) -> &[ExportedRegion] {
        &self.regions
    }

    /// The region with this index, if the peer granted all rights of `A` to it.
    ///
    /// # Errors
    /// [`NoSuchRegion`]: the peer exported fewer regions, or granted other rights.
    pub fn region<A: Access>(&self, index: usize) -> Result<RemoteSlice<A>, NoSuchRegion> {
        let count = self.regions.len();
        let region = self.regions.get(index).ok_or(NoSuchRegion::Index { index, count })?;
        region.slice().ok_or(NoSuchRegion::rights::<A>(index, region.rights()))
    }
}
