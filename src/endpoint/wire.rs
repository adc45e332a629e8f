//! The wire format: encoding, and decoding with validation of each field.

use std::fmt;

use super::{Endpoint, ExportedRegion, RegionError, Service};
use crate::qp::Depth;
use crate::terms::bounded::{Mtu, OutOfRange, Psn, Qkey, Qpn, ReadDepth, ResponderDepth, SrqNum};
use crate::terms::gid::{Gid, GidKind};

const MAGIC: [u8; 4] = *b"pvep";
const VERSION: u16 = 2;
/// The length of the part that all versions share.
pub(super) const PREFIX: usize = 12;
const REGION: usize = 24;

/// Why bytes or fields are not a valid endpoint.
///
/// ```
/// use proverbs::endpoint::{Endpoint, WireError};
///
/// let error = Endpoint::from_bytes(b"GET / HTTP/1.1").unwrap_err();
/// assert_eq!(error, WireError::Magic(*b"GET "));
/// let text = "expected an endpoint, which starts with \"pvep\", got \"GET \"";
/// assert_eq!(error.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireError {
    /// The input is too short.
    Truncated {
        /// The number of bytes needed.
        needed: usize,
        /// The number of bytes in the input.
        got: usize,
    },
    /// There are bytes after the end.
    Trailing {
        /// The number of extra bytes.
        extra: usize,
    },
    /// The bytes do not begin with `pvep`.
    Magic([u8; 4]),
    /// The format has another version.
    Version {
        /// The version of the input.
        theirs: u16,
        /// The version that this crate supports.
        ours: u16,
    },
    /// The length and the number of regions contradict each other.
    Length {
        /// The claimed length in bytes.
        length: u32,
        /// The claimed number of regions.
        regions: u16,
    },
    /// There are more regions than [`Endpoint::MAX_REGIONS`].
    TooManyRegions {
        /// The number of regions.
        count: usize,
    },
    /// There is no service with this code.
    Service(u8),
    /// There is no kind of GID with this code.
    GidKind(u8),
    /// There is no MTU with this code.
    Mtu(u32),
    /// A number is out of range.
    OutOfRange(OutOfRange),
    /// The queue pair number is reserved for management or multicast.
    ReservedQpn(Qpn),
    /// A field that this service does not use is not 0.
    Unused {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// A region is invalid.
    Region {
        /// Its index.
        index: usize,
        /// The reason.
        why: RegionError,
    },
}

impl Endpoint {
    /// The length of an endpoint without regions, in bytes; each region adds 24.
    pub const MIN_WIRE_LEN: usize = 56;
    /// The length of an endpoint with the most regions, in bytes.
    pub const MAX_WIRE_LEN: usize = Self::MIN_WIRE_LEN + Self::MAX_REGIONS * REGION;

    /// The endpoint in the [wire format](crate::endpoint): [`MIN_WIRE_LEN`](Self::MIN_WIRE_LEN)
    /// bytes and 24 for each region.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Numbers { code, initiator, responder, word } = self.service.numbers();
        let length = Self::MIN_WIRE_LEN + self.regions.len() * REGION;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.extend_from_slice(&(self.regions.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&(length as u32).to_be_bytes());
        bytes.extend_from_slice(&[code, self.mtu.to_c() as u8]);
        bytes.extend_from_slice(&self.lid.to_be_bytes());
        bytes.extend_from_slice(&self.qpn.get().to_be_bytes());
        bytes.extend_from_slice(&self.psn.get().to_be_bytes());
        bytes.extend_from_slice(&self.gid.0);
        bytes.extend_from_slice(&[initiator, responder, code_of(self.gid_kind), 0]);
        bytes.extend_from_slice(&word.to_be_bytes());
        bytes.extend_from_slice(&self.depth.send.to_be_bytes());
        bytes.extend_from_slice(&self.depth.recv.to_be_bytes());
        for region in &self.regions {
            bytes.extend_from_slice(&region.addr().to_be_bytes());
            bytes.extend_from_slice(&region.len().to_be_bytes());
            bytes.extend_from_slice(&region.rkey().to_be_bytes());
            bytes.extend_from_slice(&region.rights().bits().to_be_bytes());
        }
        bytes
    }

    /// Decodes an endpoint from all of `bytes`. It validates every field, and never panics.
    ///
    /// # Errors
    /// A [`WireError`] for the first invalid field; [`Trailing`](WireError::Trailing) if bytes are
    /// left over.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        match Self::split_bytes(bytes)? {
            (endpoint, []) => Ok(endpoint),
            (_, rest) => Err(WireError::Trailing { extra: rest.len() }),
        }
    }

    /// Decodes the endpoint at the beginning of `bytes`. Also returns the bytes after it.
    ///
    /// # Errors
    /// A [`WireError`] for the first invalid field. [`Truncated`](WireError::Truncated) contains
    /// the number of bytes needed; until the length field has arrived, this is the number of bytes
    /// up to the end of that field.
    ///
    /// ```
    /// use proverbs::{endpoint::*, prelude::*};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let service = Service::UnreliableConnection;
    /// let endpoint =
    ///     Endpoint::new(service, Qpn::try_from(17)?, Psn::try_from(0)?, Mtu::Bytes1024)?;
    /// let mut message = endpoint.to_bytes();
    /// assert_eq!(message.len(), Endpoint::MIN_WIRE_LEN);
    /// message.extend(b"and more");
    ///
    /// let (found, rest) = Endpoint::split_bytes(&message)?;
    /// assert_eq!((found, rest), (endpoint, &b"and more"[..]));
    /// let error = Endpoint::split_bytes(&message[..30]).unwrap_err();
    /// assert_eq!(error, WireError::Truncated { needed: 56, got: 30 });
    /// # Ok(())
    /// # }
    /// ```
    pub fn split_bytes(bytes: &[u8]) -> Result<(Self, &[u8]), WireError> {
        let length = announced(bytes)?;
        let Some((bytes, rest)) = bytes.split_at_checked(length) else {
            return Err(WireError::Truncated { needed: length, got: bytes.len() });
        };
        let mut fields = Fields { all: length, left: bytes };
        // Skips the prefix, which was checked above.
        let _: [u8; PREFIX] = fields.take()?;
        let ([code], mtu, lid) = (fields.take()?, fields.u8()?, fields.u16()?);
        let mtu = Mtu::from_c(mtu.into()).ok_or(WireError::Mtu(mtu.into()))?;
        let (qpn, psn) = (Qpn::try_from(fields.u32()?)?, Psn::try_from(fields.u32()?)?);
        let gid = Gid(fields.take()?);
        let (initiator, responder) = (fields.u8()?, fields.u8()?);
        let kind = fields.u8()?;
        let gid_kind = kind_of(kind).ok_or(WireError::GidKind(kind))?;
        none("the field at 43", fields.u8()?.into())?;
        let service = Numbers { code, initiator, responder, word: fields.u32()? }.check()?;
        let depth = Depth { send: fields.u32()?, recv: fields.u32()? };
        let endpoint = Endpoint::new(service, qpn, psn, mtu)?;
        let mut endpoint = endpoint.with_gid(gid).with_lid(lid).with_depth(depth);
        endpoint.gid_kind = gid_kind;
        endpoint.regions.reserve_exact(fields.left.len() / REGION);
        while !fields.left.is_empty() {
            let (addr, len) = (fields.u64()?, fields.u64()?);
            let region = ExportedRegion::checked(addr, len, fields.u32()?, fields.u32()?);
            let index = endpoint.regions.len();
            endpoint.push(region.map_err(|why| WireError::Region { index, why })?)?;
        }
        Ok((endpoint, rest))
    }
}

/// The length of the endpoint at the beginning of `bytes`, from its first 12 bytes.
pub(super) fn announced(bytes: &[u8]) -> Result<usize, WireError> {
    let mut fields = Fields { all: PREFIX, left: bytes };
    // Invalid magic is reported at once, before all bytes have arrived.
    let start = bytes.len().min(MAGIC.len());
    if bytes[..start] != MAGIC[..start] {
        let mut found = [0; 4];
        found[..start].copy_from_slice(&bytes[..start]);
        return Err(WireError::Magic(found));
    }
    if bytes.len() < PREFIX {
        return Err(WireError::Truncated { needed: PREFIX, got: bytes.len() });
    }
    let _: [u8; 4] = fields.take()?;
    let theirs = fields.u16()?;
    if theirs != VERSION {
        return Err(WireError::Version { theirs, ours: VERSION });
    }
    let (regions, length) = (fields.u16()?, fields.u32()?);
    let count = usize::from(regions);
    if count > Endpoint::MAX_REGIONS {
        return Err(WireError::TooManyRegions { count });
    }
    let needed = Endpoint::MIN_WIRE_LEN + count * REGION;
    if length as usize != needed {
        return Err(WireError::Length { length, regions });
    }
    Ok(needed)
}

fn code_of(kind: Option<GidKind>) -> u8 {
    kind.map_or(0, |kind| kind.choose(1, 2, 3))
}

fn kind_of(code: u8) -> Option<Option<GidKind>> {
    let all = [None, Some(GidKind::InfiniBand), Some(GidKind::RoceV1), Some(GidKind::RoceV2)];
    all.into_iter().find(|kind| code_of(*kind) == code)
}

fn none(what: &'static str, value: u32) -> Result<(), WireError> {
    if value == 0 { Ok(()) } else { Err(WireError::Unused { what, value }) }
}

/// The fields of a service. Those that it does not use are 0.
pub(super) struct Numbers {
    pub code: u8,
    pub initiator: u8,
    pub responder: u8,
    /// The Q_Key, or the number of the shared receive queue.
    pub word: u32,
}

impl Service {
    pub(super) fn numbers(self) -> Numbers {
        let wanted = |initiator: Option<ReadDepth>| initiator.map_or(0, ReadDepth::get);
        let (code, initiator, responder, word) = match self {
            Service::ReliableConnection { initiator, responder } => {
                (1, wanted(initiator), responder.get(), 0)
            }
            Service::UnreliableConnection => (2, 0, 0, 0),
            Service::UnreliableDatagram { qkey } => (3, 0, 0, qkey.get()),
            Service::XrcInitiator { initiator } => (4, wanted(initiator), 0, 0),
            Service::XrcTarget { responder, srq } => (5, 0, responder.get(), srq.get()),
        };
        Numbers { code, initiator, responder, word }
    }
}

impl Numbers {
    pub(super) fn check(self) -> Result<Service, WireError> {
        let Numbers { code, initiator, responder, word } = self;
        let service = match code {
            1 => Service::ReliableConnection {
                initiator: wanted(initiator)?,
                responder: ResponderDepth::try_from(responder)?,
            },
            2 => Service::UnreliableConnection,
            3 => Service::UnreliableDatagram { qkey: Qkey::try_from(word)? },
            4 => Service::XrcInitiator { initiator: wanted(initiator)? },
            5 => Service::XrcTarget {
                responder: ResponderDepth::try_from(responder)?,
                srq: SrqNum::try_from(word)?,
            },
            _ => return Err(WireError::Service(code)),
        };
        let its = service.numbers();
        none("initiator depth", (initiator - its.initiator).into())?;
        none("responder depth", (responder - its.responder).into())?;
        none("Q_Key", word - its.word)?;
        Ok(service)
    }
}

/// The reads and atomics that a side wants outstanding.
fn wanted(initiator: u8) -> Result<Option<ReadDepth>, OutOfRange> {
    let too_deep =
        || OutOfRange { what: "max_rd_atomic", asked: initiator.into(), min: 0, max: 128 };
    match initiator {
        0 => Ok(None),
        some => Ok(Some(ReadDepth::new(some).ok_or_else(too_deep)?)),
    }
}

/// Reads bytes field by field.
struct Fields<'a> {
    all: usize,
    left: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let truncated = WireError::Truncated { needed: self.all, got: self.left.len() };
        let (field, left) = self.left.split_first_chunk().ok_or(truncated)?;
        self.left = left;
        Ok(*field)
    }

    fn u8(&mut self) -> Result<u8, WireError> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_be_bytes)
    }
}

impl From<OutOfRange> for WireError {
    fn from(error: OutOfRange) -> Self {
        WireError::OutOfRange(error)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            WireError::Truncated { needed, got } => {
                write!(f, "an endpoint needs at least {needed} bytes, got {got}")
            }
            WireError::Trailing { extra } => {
                write!(f, "{extra} extra bytes after the endpoint")
            }
            WireError::Magic(found) => {
                let found = found.escape_ascii();
                write!(f, "expected an endpoint, which starts with \"pvep\", got \"{found}\"")
            }
            WireError::Version { theirs, ours } => {
                write!(f, "unsupported format version {theirs}; expected {ours}")
            }
            WireError::Length { length, regions } => {
                let needed = Endpoint::MIN_WIRE_LEN + usize::from(regions) * REGION;
                write!(f, "an endpoint with {regions} regions has {needed} bytes, not {length}")
            }
            WireError::TooManyRegions { count } => {
                write!(f, "{count} regions exceed {}", Endpoint::MAX_REGIONS)
            }
            WireError::Service(code) => {
                write!(f, "unknown service {code}; expected 1 (RC), 2 (UC), 3 (UD), 4 or 5 (XRC)")
            }
            WireError::GidKind(code) => write!(
                f,
                "unknown GID kind {code}; expected 0 (unknown), 1 (InfiniBand), 2 (RoCE v1) or \
                 3 (RoCE v2)"
            ),
            WireError::Mtu(code) => {
                write!(
                    f,
                    "unknown path MTU {code}; expected a code from 1 to 5, or 256 to 4096 bytes"
                )
            }
            WireError::OutOfRange(error) => error.fmt(f),
            WireError::ReservedQpn(qpn) => {
                write!(
                    f,
                    "queue pair number {:#x} is reserved for management or multicast",
                    qpn.get()
                )
            }
            WireError::Unused { what, value } => {
                write!(f, "{what} must be 0 for this service, got {value}")
            }
            WireError::Region { index, why } => write!(f, "region {index}: {why}"),
        }
    }
}

impl std::error::Error for WireError {}
