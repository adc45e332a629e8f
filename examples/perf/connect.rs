//! Queue pairs from RESET to RTS, by transport.

use proverbs::bounded::{ResponderDepth, Timeout};
use proverbs::device::{Gid, GlobalRoute};
use proverbs::prelude::*;
use proverbs::transport::Transport;
use serde_json::{Value, json};

use crate::Result;
use crate::device::Source;

/// Bytes that may go inline at most (-I): what common devices grant.
pub const MAX_INLINE: usize = 220;

profile! {
    /// Completions only where they are asked for.
    pub Perf { signaling: Selective, max_inline: 220 }
}

/// What the peer must know of this end.
pub struct Endpoint {
    pub lid: u16,
    pub gid: Gid,
    pub qpn: Qpn,
    pub psn: Psn,
    /// READs and atomics that this end serves at once.
    pub rd_atomic: u8,
    /// The region that the peer may use.
    pub open: RemoteSlice<RemoteAll>,
}

impl Endpoint {
    pub fn json(&self) -> Value {
        json!({
            "lid": self.lid, "gid": self.gid.0, "qpn": self.qpn.get(), "psn": self.psn.get(),
            "rd_atomic": self.rd_atomic, "open": self.open.to_bytes(),
        })
    }

    /// What a peer's [`json`](Self::json) says, if every number is in its range.
    pub fn from_json(value: &Value) -> Result<Endpoint> {
        let number = |key: &str, max: u32| {
            let number = value[key].as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|&number| number <= max);
            number.ok_or_else(|| format!("the peer's {key} is no number up to {max}: {value}"))
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

/// What a connection is made of besides the two endpoints.
pub struct Way<'a> {
    pub pd: &'a ProtectionDomain,
    pub source: &'a Source,
    pub port: u8,
    pub mtu: Mtu,
    /// READs and atomics that this end issues at once.
    pub outs: u8,
}

impl Way<'_> {
    fn address(&self, peer: &Endpoint) -> AddressVector {
        let route = GlobalRoute::new(peer.gid, self.source.gid_index.unwrap_or(0));
        let global = (!peer.gid.is_zero()).then_some(route);
        AddressVector { global, ..AddressVector::infiniband(self.port, peer.lid) }
    }
}

/// A transport that this program can connect.
pub trait Connect: Transport + Sized {
    /// To INIT, where receives may be posted.
    fn init(qp: QueuePair<Self, Reset, Perf>, port: u8) -> Result<QueuePair<Self, Init, Perf>>;

    /// To RTS, and the destination of datagrams.
    fn connect(
        qp: QueuePair<Self, Init, Perf>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<(QueuePair<Self, Rts, Perf>, Option<wr::Destination>)>;
}

impl Connect for Rc {
    fn init(qp: QueuePair<Rc, Reset, Perf>, port: u8) -> Result<QueuePair<Rc, Init, Perf>> {
        Ok(qp.modify(ConnectedInit { pkey_index: 0, port, access: QpAccess::all() })?)
    }

    fn connect(
        qp: QueuePair<Rc, Init, Perf>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<(QueuePair<Rc, Rts, Perf>, Option<wr::Destination>)> {
        let depth = ReadDepth::new(way.outs.min(peer.rd_atomic))
            .ok_or("the devices have no READs or atomics")?;
        let rtr = RcRtr {
            path_mtu: way.mtu,
            max_dest_rd_atomic: ResponderDepth::try_from(mine.rd_atomic)?,
            ..RcRtr::new(way.address(peer), peer.qpn, peer.psn)
        };
        let qp = qp.modify(rtr)?;
        // Half a second, of which there are seven: a peer may be busy with other things.
        let timeout = Timeout::exponent(17).ok_or("no such timeout")?;
        let rts = RcRts { timeout, ..RcRts::new(mine.psn, depth) };
        Ok((qp.modify(rts)?, None))
    }
}

impl Connect for Uc {
    fn init(qp: QueuePair<Uc, Reset, Perf>, port: u8) -> Result<QueuePair<Uc, Init, Perf>> {
        let access = QpAccess::REMOTE_WRITE;
        Ok(qp.modify(ConnectedInit { pkey_index: 0, port, access })?)
    }

    fn connect(
        qp: QueuePair<Uc, Init, Perf>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<(QueuePair<Uc, Rts, Perf>, Option<wr::Destination>)> {
        let rtr = UcRtr { path_mtu: way.mtu, ..UcRtr::new(way.address(peer), peer.qpn, peer.psn) };
        let rts = UcRts::new(mine.psn);
        Ok((qp.modify(rtr)?.modify(rts)?, None))
    }
}

/// Any will do, as long as both ends have the same.
const QKEY: u32 = 0x1111_1111;

impl Connect for Ud {
    fn init(qp: QueuePair<Ud, Reset, Perf>, port: u8) -> Result<QueuePair<Ud, Init, Perf>> {
        let qkey = Qkey::try_from(QKEY)?.into();
        Ok(qp.modify(UdInit { pkey_index: 0, port, qkey })?)
    }

    fn connect(
        qp: QueuePair<Ud, Init, Perf>,
        way: &Way<'_>,
        mine: &Endpoint,
        peer: &Endpoint,
    ) -> Result<(QueuePair<Ud, Rts, Perf>, Option<wr::Destination>)> {
        let qp = qp.modify(UdRtr::default())?;
        let mut qp = qp.modify(UdRts::new(mine.psn))?;
        let address_handle = qp.add_address_handle(way.pd.create_ah(way.address(peer))?)?;
        let qkey = Qkey::try_from(QKEY)?;
        Ok((qp, Some(wr::Destination { address_handle, qpn: peer.qpn, qkey })))
    }
}
