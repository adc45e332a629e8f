//! Regions in the wire format: address, length, rkey, and the rights as a value.

use std::fmt;

use crate::memory::remote::RemoteSlice;
use crate::memory::rights::Access;
use crate::qp::QpAccess;

/// A region that a peer can access. [`slice`](Self::slice) converts it to a type with its rights.
///
/// ```
/// use proverbs::{endpoint::*, prelude::*};
///
/// # fn main() -> Result<(), RegionError> {
/// let slice = RemoteSlice::<RemoteRead>::from_parts(0x7f00_0000_0000, 4096, 0x1234);
/// let region = ExportedRegion::new(slice)?;
/// assert_eq!((region.addr(), region.len(), region.rkey()), (0x7f00_0000_0000, 4096, 0x1234));
/// assert_eq!(region.rights(), QpAccess::REMOTE_READ);
/// assert!(region.slice::<RemoteRead>().is_some());
/// assert!(region.slice::<RemoteReadWrite>().is_none(), "it does not grant REMOTE_WRITE");
///
/// let empty = RemoteSlice::<RemoteRead>::from_parts(0x7f00_0000_0000, 0, 0x1234);
/// assert_eq!(ExportedRegion::new(empty), Err(RegionError::Empty));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExportedRegion {
    // Invariants: it has at least one byte and at least one right, and does not end past the end of
    // the address space.
    addr: u64,
    len: u64,
    rkey: u32,
    rights: QpAccess,
}

/// Why the fields are not a valid region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegionError {
    /// The region is empty ([R6.4](crate::guide::rules#r6-4)).
    Empty,
    /// It ends past the end of the address space.
    Wraps {
        /// The address.
        addr: u64,
        /// The length in bytes.
        len: u64,
    },
    /// There are no rights, or there are bits other than 2, 4 and 8.
    Rights {
        /// The bits.
        bits: u32,
    },
}

/// The peer's endpoint does not have the requested region.
///
/// ```
/// use proverbs::{endpoint::*, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Service::UnreliableConnection;
/// let mut peer = Endpoint::new(service, Qpn::try_from(17)?, Psn::try_from(0)?, Mtu::Bytes1024)?;
/// peer.export(RemoteSlice::<RemoteRead>::from_parts(0x1000, 4096, 7))?;
/// let error = peer.region::<RemoteRead>(1).unwrap_err();
/// assert_eq!(error, NoSuchRegion::Index { index: 1, count: 1 });
/// let error = peer.region::<RemoteWrite>(0).unwrap_err();
/// assert_eq!(error.to_string(), "region 0 grants REMOTE_READ, not REMOTE_WRITE");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSuchRegion {
    /// The peer exported fewer regions.
    Index {
        /// The requested index.
        index: usize,
        /// The number of regions that the peer exported.
        count: usize,
    },
    /// The peer granted other rights.
    Rights {
        /// The index of the region.
        index: usize,
        /// The rights that it grants.
        granted: QpAccess,
        /// The requested rights.
        asked: QpAccess,
    },
}

impl ExportedRegion {
    /// A region of an endpoint.
    ///
    /// # Errors
    /// [`RegionError::Empty`] ([R6.4](crate::guide::rules#r6-4)), or [`RegionError::Wraps`] if it
    /// ends past the end of the address space.
    pub fn new<A: Access>(slice: RemoteSlice<A>) -> Result<Self, RegionError> {
        let RemoteSlice { addr, len, rkey, .. } = slice;
        Self::checked(addr, len, rkey, rights_of::<A>().bits())
    }

    pub(super) fn checked(addr: u64, len: u64, rkey: u32, bits: u32) -> Result<Self, RegionError> {
        let last = len.checked_sub(1).ok_or(RegionError::Empty)?;
        addr.checked_add(last).ok_or(RegionError::Wraps { addr, len })?;
        match QpAccess::from_bits(bits) {
            Some(rights) if !rights.is_empty() => Ok(ExportedRegion { addr, len, rkey, rights }),
            _ => Err(RegionError::Rights { bits }),
        }
    }

    /// The address at the peer.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The length in bytes, at least 1.
    #[allow(clippy::len_without_is_empty)] // it is never empty
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The remote key.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// The rights that it grants.
    pub fn rights(&self) -> QpAccess {
        self.rights
    }

    /// The region with the rights `A` in its type; `None` if it grants fewer.
    pub fn slice<A: Access>(&self) -> Option<RemoteSlice<A>> {
        let granted = self.rights.contains(rights_of::<A>());
        granted.then(|| RemoteSlice::from_parts(self.addr, self.len, self.rkey))
    }
}

/// The remote rights in `A`. LOCAL_WRITE does not concern the peer.
fn rights_of<A: Access>() -> QpAccess {
    QpAccess::from_bits_truncate(A::FLAGS)
}

impl NoSuchRegion {
    pub(super) fn rights<A: Access>(index: usize, granted: QpAccess) -> Self {
        NoSuchRegion::Rights { index, granted, asked: rights_of::<A>() }
    }
}

/// Rights by their names in the manual page.
struct Names(QpAccess);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no remote right");
        }
        bitflags::parser::to_writer(&self.0, f)
    }
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionError::Empty => f.write_str("it has no bytes"),
            RegionError::Wraps { addr, len } => {
                write!(f, "{len} bytes at {addr:#x} end past the end of the address space")
            }
            RegionError::Rights { bits: 0 } => f.write_str("it grants no remote right"),
            RegionError::Rights { bits } => {
                write!(f, "rights {bits:#x} are not a sum of 2 (write), 4 (read) and 8 (atomic)")
            }
        }
    }
}

impl fmt::Display for NoSuchRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            NoSuchRegion::Index { index, count } => {
                write!(f, "no region {index}: the peer exported {count}")
            }
            NoSuchRegion::Rights { index, granted, asked } => {
                write!(f, "region {index} grants {}, not {}", Names(granted), Names(asked))
            }
        }
    }
}

impl std::error::Error for RegionError {}
impl std::error::Error for NoSuchRegion {}
