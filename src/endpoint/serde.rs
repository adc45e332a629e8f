//! `Serialize` and `Deserialize` for endpoints, with the checks of the wire format.

use std::fmt;
use std::net::Ipv6Addr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::wire::Numbers;
use super::{Endpoint, ExportedRegion, Service, WireError};
use crate::qp::{Depth, QpAccess};
use crate::terms::bounded::{Mtu, Psn, Qpn, ReadDepth};
use crate::terms::gid::{Gid, GidKind};

/// The fields of an endpoint, not checked yet.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    service: UncheckedService,
    qpn: u32,
    psn: u32,
    /// In bytes.
    mtu: u32,
    gid: Ipv6Addr,
    #[serde(default)]
    gid_kind: Option<UncheckedKind>,
    lid: u16,
    send_depth: u32,
    recv_depth: u32,
    #[serde(deserialize_with = "regions")]
    regions: Vec<UncheckedRegion>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UncheckedKind {
    Infiniband,
    RoceV1,
    RoceV2,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum UncheckedService {
    Rc {
        initiator: u8,
        responder: u8,
    },
    Uc,
    Ud {
        qkey: u32,
    },
    #[serde(rename = "xrc_initiator")]
    XrcInitiator {
        initiator: u8,
    },
    #[serde(rename = "xrc_target")]
    XrcTarget {
        responder: u8,
        srq: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedRegion {
    addr: u64,
    len: u64,
    rkey: u32,
    read: bool,
    write: bool,
    atomic: bool,
}

/// Reads at most [`Endpoint::MAX_REGIONS`] regions, and fails at the next one.
fn regions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<UncheckedRegion>, D::Error> {
    struct Regions;

    impl<'de> de::Visitor<'de> for Regions {
        type Value = Vec<UncheckedRegion>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {} regions", Endpoint::MAX_REGIONS)
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut regions = Vec::new();
            while let Some(region) = from.next_element()? {
                if regions.len() == Endpoint::MAX_REGIONS {
                    let count = Endpoint::MAX_REGIONS + 1;
                    return Err(de::Error::custom(WireError::TooManyRegions { count }));
                }
                regions.push(region);
            }
            Ok(regions)
        }
    }
    deserializer.deserialize_seq(Regions)
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let service = match self.service {
            Service::ReliableConnection { initiator, responder } => UncheckedService::Rc {
                initiator: initiator.map_or(0, ReadDepth::get),
                responder: responder.get(),
            },
            Service::UnreliableConnection => UncheckedService::Uc,
            Service::UnreliableDatagram { qkey } => UncheckedService::Ud { qkey: qkey.get() },
            Service::XrcInitiator { initiator } => {
                UncheckedService::XrcInitiator { initiator: initiator.map_or(0, ReadDepth::get) }
            }
            Service::XrcTarget { responder, srq } => {
                UncheckedService::XrcTarget { responder: responder.get(), srq: srq.get() }
            }
        };
        let regions = self.regions.iter().map(|region| UncheckedRegion {
            addr: region.addr(),
            len: region.len(),
            rkey: region.rkey(),
            read: region.rights().contains(QpAccess::REMOTE_READ),
            write: region.rights().contains(QpAccess::REMOTE_WRITE),
            atomic: region.rights().contains(QpAccess::REMOTE_ATOMIC),
        });
        let unchecked = Unchecked {
            service,
            qpn: self.qpn.get(),
            psn: self.psn.get(),
            mtu: self.mtu.bytes(),
            gid: Ipv6Addr::from(self.gid.0),
            gid_kind: self.gid_kind.map(|kind| {
                use UncheckedKind::*;
                kind.choose(Infiniband, RoceV1, RoceV2)
            }),
            lid: self.lid,
            send_depth: self.depth.send,
            recv_depth: self.depth.recv,
            regions: regions.collect(),
        };
        unchecked.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Unchecked::deserialize(deserializer)?.check().map_err(de::Error::custom)
    }
}

impl Unchecked {
    fn check(self) -> Result<Endpoint, WireError> {
        let (code, initiator, responder, word) = match self.service {
            UncheckedService::Rc { initiator, responder } => (1, initiator, responder, 0),
            UncheckedService::Uc => (2, 0, 0, 0),
            UncheckedService::Ud { qkey } => (3, 0, 0, qkey),
            UncheckedService::XrcInitiator { initiator } => (4, initiator, 0, 0),
            UncheckedService::XrcTarget { responder, srq } => (5, 0, responder, srq),
        };
        let service = Numbers { code, initiator, responder, word }.check()?;
        let mtu = Mtu::from_bytes(self.mtu).ok_or(WireError::Mtu(self.mtu))?;
        let (qpn, psn) = (Qpn::try_from(self.qpn)?, Psn::try_from(self.psn)?);
        let mut endpoint = Endpoint::new(service, qpn, psn, mtu)?
            .with_gid(Gid(self.gid.octets()))
            .with_lid(self.lid)
            .with_depth(Depth { send: self.send_depth, recv: self.recv_depth });
        endpoint.gid_kind = self.gid_kind.map(|kind| match kind {
            UncheckedKind::Infiniband => GidKind::InfiniBand,
            UncheckedKind::RoceV1 => GidKind::RoceV1,
            UncheckedKind::RoceV2 => GidKind::RoceV2,
        });
        for (index, region) in self.regions.into_iter().enumerate() {
            let mut rights = QpAccess::empty();
            rights.set(QpAccess::REMOTE_READ, region.read);
            rights.set(QpAccess::REMOTE_WRITE, region.write);
            rights.set(QpAccess::REMOTE_ATOMIC, region.atomic);
            let region =
                ExportedRegion::checked(region.addr, region.len, region.rkey, rights.bits());
            endpoint.push(region.map_err(|why| WireError::Region { index, why })?)?;
        }
        Ok(endpoint)
    }
}
