//! Queue pairs from RESET to RTS, by transport.

use std::marker::PhantomData;

use proverbs::bounded::{ResponderDepth, Timeout};
use proverbs::cm::Connection;
use proverbs::device::{Gid, GlobalRoute};
use proverbs::prelude::*;
use proverbs::qp::{
    AnyThread, Initiator, Max, NoDepth, NoReads, OrdinaryPosting, OwnRq, Reads, Selective,
};
use proverbs::rules::HasBothQueues;
use serde_json::{Value, json};

use crate::Result;
use crate::device::Source;
use crate::meet::{Kept, Meeting};

/// The maximum number of inline bytes (-I) that common devices grant.
pub const MAX_INLINE: usize = 220;

/// A profile with selective signaling. `R` is [`Reads`] or [`NoReads`], because a peer that does
/// not serve READs and atomics may have a depth of 0.
pub struct Perf<R>(PhantomData<R>);

impl<R: Initiator> Profile for Perf<R> {
    type Receive = OwnRq;
    type Signaling = Selective;
    type MaxSendSge = Max<1>;
    type MaxRecvSge = Max<1>;
    type MaxInline = Max<MAX_INLINE>;
    type Initiator = R;
    type Entry = Buf;
    type Threads = AnyThread;
    type Posting = OrdinaryPosting;
}

/// Whether a queue pair issues READs and atomics, and how many.
pub trait Issues: Initiator {
    /// The depth for the maximum that both ends support.
    fn depth(most: u8) -> Result<Self::Depth>;
}

impl Issues for Reads {
    fn depth(most: u8) -> Result<ReadDepth> {
        Ok(ReadDepth::new(most).ok_or("the devices do not support READs or atomics")?)
    }
}

impl Issues for NoReads {
    fn depth(_most: u8) -> Result<NoDepth> {
        Ok(NoDepth)
    }
}

/// The data that the peer needs about this end.
pub struct Endpoint {
    pub lid: u16,
    pub gid: Gid,
    pub qpn: Qpn,
    pub psn: Psn,
    /// The number of READs and atomics that this end serves at the same time.
    pub rd_atomic: u8,
    /// The region that the peer may access.
    pub open: RemoteSlice<RemoteAll>,
}

impl Endpoint {
    pub fn json(&self) -> Value {
        json!({
            "lid": self.lid, "gid": self.gid.0, "qpn": self.qpn.get(), "psn": self.psn.get(),
            "rd_atomic": self.rd_atomic, "open": self.open.to_bytes(),
        })
    }

    /// Parses a peer's [`json`](Self::json). Every number must be in its range.
    pub fn from_json(value: &Value) -> Result<Endpoint> {
        let number = |key: &str, max: u32| {
            let number = value[key].as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|&number| number <= max);
            number.ok_or_else(|| {
                format!("the peer's {key} must be a number up to {max}, got {value}")
            })
        };
        let open = bytes(&value["open"]).ok_or("the peer's region is not 24 bytes")?;
        Ok(Endpoint {
            lid: number("lid", u16::MAX.into())? as u16,
            gid: Gid(bytes(&value["gid"]).ok_or("the peer's gid is not 16 bytes")?),
            qpn: Qpn::try_from(number("qpn", Qpn::MAX.get())?)?,
            psn: Psn::try_from(number("psn", Psn::MAX.get())?)?,
            rd_atomic: number("rd_atomic", 255)? as u8,
            open: RemoteSlice::from_bytes(&open).ok_or("the peer's region lacks rights")?,
        })
    }
}

fn bytes<const N: usize>(value: &Value) -> Option<[u8; N]> {
    let all = value.as_array()?.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
    all.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// The parameters of a connection, besides the two endpoints.
pub struct Way<'a> {
    pub pd: &'a ProtectionDomain,
    pub source: &'a Source,
    pub port: u8,
    pub mtu: Mtu,
    /// The number of READs and atomics that this end issues at the same time.
    pub outs: u8,
    /// For datagrams.
    pub qkey: Qkey,
}

impl Way<'_> {
    fn address(&self, peer: &Endpoint) -> AddressVector {
        let route = GlobalRoute::new(peer.gid, self.source.gid_index.unwrap_or(0));
        let global = (!peer.gid.is_zero()).then_some(route);
        AddressVector { global, ..AddressVector::infiniband(self.port, peer.lid) }
    }
}

/// A queue pair in RTS, and its rdma_cm state.
pub type Joined<T, R> = (QueuePair<T, Rts, Perf<R>>, Kept);

/// A transport that this program can connect.
pub trait Connect: HasBothQueues + Sized {
    /// Moves it to INIT, where receives may be posted.
    fn init<R: Issues>(
        qp: QueuePair<Self, Reset, Perf<R>>,
        way: &Way<'_>,
    ) -> Result<QueuePair<Self, Init, Perf<R>>>;

    /// Moves it to RTS.
    fn connect<R: Issues>(
        qp: QueuePair<Self, Init, Perf<R>>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<QueuePair<Self, Rts, Perf<R>>>;

    /// Moves it to RTS through rdma_cm. `None` if the server does not listen yet.
    fn meet<R: Issues>(
        qp: QueuePair<Self, Init, Perf<R>>,
        meeting: &Meeting,
        way: &Way<'_>,
        mine: &Endpoint,
    ) -> Result<Option<Joined<Self, R>>>;

    /// The destination of datagrams.
    fn destination<R: Issues>(
        _qp: &mut QueuePair<Self, Rts, Perf<R>>,
        _way: &Way<'_>,
        _peer: &Endpoint,
    ) -> Result<Option<wr::Destination>> {
        Ok(None)
    }
}

impl Connect for Rc {
    fn init<R: Issues>(
        qp: QueuePair<Rc, Reset, Perf<R>>,
        way: &Way<'_>,
    ) -> Result<QueuePair<Rc, Init, Perf<R>>> {
        let (port, access) = (way.port, QpAccess::all());
        Ok(qp.modify(ConnectedInit { pkey_index: 0, port, access })?)
    }

    fn connect<R: Issues>(
        qp: QueuePair<Rc, Init, Perf<R>>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<QueuePair<Rc, Rts, Perf<R>>> {
        let rtr = RcRtr {
            path_mtu: way.mtu,
            max_dest_rd_atomic: ResponderDepth::try_from(mine.rd_atomic)?,
            ..RcRtr::new(way.address(peer), peer.qpn, peer.psn)
        };
        let qp = qp.modify(rtr)?;
        // Half a second, with seven retries, because a peer may be busy.
        let timeout = Timeout::exponent(17).ok_or("no such timeout")?;
        let rts =
            RcRts { timeout, ..RcRts::new(mine.psn, R::depth(way.outs.min(peer.rd_atomic))?) };
        Ok(qp.modify(rts)?)
    }

    fn meet<R: Issues>(
        qp: QueuePair<Rc, Init, Perf<R>>,
        meeting: &Meeting,
        way: &Way<'_>,
        mine: &Endpoint,
    ) -> Result<Option<Joined<Rc, R>>> {
        // rdma_cm limits it to the depth that the peer serves.
        let (depth, serves) = (R::depth(way.outs)?, ResponderDepth::try_from(mine.rd_atomic)?);
        let met = meeting.connect(qp, depth, serves)?;
        Ok(met.map(|Connection { qp, id, .. }| (qp, Kept::Connection(id))))
    }
}

impl Connect for Uc {
    fn init<R: Issues>(
        qp: QueuePair<Uc, Reset, Perf<R>>,
        way: &Way<'_>,
    ) -> Result<QueuePair<Uc, Init, Perf<R>>> {
        let (port, access) = (way.port, QpAccess::REMOTE_WRITE);
        Ok(qp.modify(ConnectedInit { pkey_index: 0, port, access })?)
    }

    fn connect<R: Issues>(
        qp: QueuePair<Uc, Init, Perf<R>>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<QueuePair<Uc, Rts, Perf<R>>> {
        let rtr = UcRtr { path_mtu: way.mtu, ..UcRtr::new(way.address(peer), peer.qpn, peer.psn) };
        Ok(qp.modify(rtr)?.modify(UcRts::new(mine.psn))?)
    }

    fn meet<R: Issues>(
        _qp: QueuePair<Uc, Init, Perf<R>>,
        _meeting: &Meeting,
        _way: &Way<'_>,
        _mine: &Endpoint,
    ) -> Result<Option<Joined<Uc, R>>> {
        // `Options::check` rejects it.
        Err("rdma_cm does not support UC".into())
    }
}

/// Any value works if both ends use the same. This is perftest's.
pub const QKEY: u32 = 0x1111_1111;

impl Connect for Ud {
    fn init<R: Issues>(
        qp: QueuePair<Ud, Reset, Perf<R>>,
        way: &Way<'_>,
    ) -> Result<QueuePair<Ud, Init, Perf<R>>> {
        Ok(qp.modify(UdInit { pkey_index: 0, port: way.port, qkey: way.qkey.into() })?)
    }

    fn connect<R: Issues>(
        qp: QueuePair<Ud, Init, Perf<R>>,
        _way: &Way<'_>,
        mine: &Endpoint,
        _peer: &Endpoint,
    ) -> Result<QueuePair<Ud, Rts, Perf<R>>> {
        Ok(qp.modify(UdRtr::default())?.modify(UdRts::new(mine.psn))?)
    }

    fn meet<R: Issues>(
        qp: QueuePair<Ud, Init, Perf<R>>,
        meeting: &Meeting,
        _way: &Way<'_>,
        mine: &Endpoint,
    ) -> Result<Option<Joined<Ud, R>>> {
        let qp = qp.modify(UdRtr::default())?.modify(UdRts::new(mine.psn))?;
        Ok(meeting.find(&qp)?.map(|id| (qp, Kept::Datagrams(id))))
    }

    fn destination<R: Issues>(
        qp: &mut QueuePair<Ud, Rts, Perf<R>>,
        way: &Way<'_>,
        peer: &Endpoint,
    ) -> Result<Option<wr::Destination>> {
        let address_handle = qp.add_address_handle(way.pd.create_ah(way.address(peer))?)?;
        Ok(Some(wr::Destination { address_handle, qpn: peer.qpn, qkey: way.qkey }))
    }
}
