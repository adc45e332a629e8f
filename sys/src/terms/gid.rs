//! GIDs, their kinds, and which pairs can communicate.

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A GID (`union ibv_gid`), 16 bytes in network byte order; on RoCE an IPv6 address or a mapped
/// IPv4 address.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::Gid;
/// let gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
/// assert_eq!(gid.to_string(), "::ffff:10.0.0.1"); // RoCE v2 over IPv4
/// assert!(!gid.is_zero() && Gid::default().is_zero());
/// assert_eq!("::ffff:10.0.0.1".parse(), Ok(gid));
/// assert_eq!(Gid::from(std::net::Ipv4Addr::new(10, 0, 0, 1)), gid);
/// ```
#[doc(alias = "ibv_gid")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Whether all bits are zero, as in an unused entry of the GID table.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }

    /// Whether it reaches only its own subnet: `fe80::/10`, and on IPv4 169.254.0.0/16.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
    /// assert!(context.query_gid(1, 0)?.is_link_local());
    /// assert!(!context.roce_v2_gid(1)?.gid().is_link_local()); // ::ffff:10.0.0.1
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_link_local(&self) -> bool {
        let is_ipv4 = self.is_ipv4() && self.0[12..14] == [169, 254];
        is_ipv4 || (self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80)
    }

    /// Whether it is an IPv4 address, `::ffff:0:0/96`.
    pub fn is_ipv4(&self) -> bool {
        self.0[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Gid {
        Gid(address.octets())
    }
}

impl From<Ipv4Addr> for Gid {
    /// The address in mapped form, as RoCE uses it.
    fn from(address: Ipv4Addr) -> Gid {
        address.to_ipv6_mapped().into()
    }
}

impl From<Gid> for Ipv6Addr {
    fn from(gid: Gid) -> Ipv6Addr {
        gid.0.into()
    }
}

impl FromStr for Gid {
    type Err = AddrParseError;

    /// Parses the format of `Display`, an IPv6 address.
    fn from_str(text: &str) -> Result<Gid, AddrParseError> {
        text.parse::<Ipv6Addr>().map(Gid::from)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// The kind of a GID (`enum ibv_gid_type` of ibv_query_gid_ex(3)), which determines the packet
/// format. Only GIDs of one kind can communicate.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::GidKind;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// let kinds: Vec<_> = context.gid_table(1)?.iter().map(|entry| entry.kind).collect();
/// assert_eq!(kinds, [GidKind::RoceV2, GidKind::RoceV2, GidKind::RoceV1, GidKind::RoceV1]);
/// assert_eq!(GidKind::RoceV2.to_string(), "RoCE v2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_GID_TYPE_IB", "ibv_gid_type"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1: its own Ethernet type, which no router forwards.
    #[doc(alias = "IBV_GID_TYPE_ROCE_V1")]
    RoceV1,
    /// RoCE version 2: UDP over IPv4 or IPv6.
    #[doc(alias = "IBV_GID_TYPE_ROCE_V2")]
    RoceV2,
}

impl GidKind {
    /// Returns the argument for this kind. `endpoint` assigns each kind its code here, where the
    /// compiler checks that all are covered.
    #[doc(hidden)]
    pub fn choose<T>(self, infiniband: T, roce_v1: T, roce_v2: T) -> T {
        match self {
            GidKind::InfiniBand => infiniband,
            GidKind::RoceV1 => roce_v1,
            GidKind::RoceV2 => roce_v2,
        }
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidKind::InfiniBand => "InfiniBand",
            GidKind::RoceV1 => "RoCE v1",
            GidKind::RoceV2 => "RoCE v2",
        })
    }
}

/// Why packets from one GID do not reach another; `None` if they may.
pub fn apart(from: (Gid, GidKind), to: (Gid, GidKind)) -> Option<&'static str> {
    let ((mine, kind), (theirs, its_kind)) = (from, to);
    if kind != its_kind {
        Some("GIDs of different kinds cannot communicate")
    } else if kind != GidKind::InfiniBand && mine.is_ipv4() != theirs.is_ipv4() {
        Some("IPv4 and IPv6 cannot communicate")
    } else if mine.is_link_local() != theirs.is_link_local() {
        Some("a link-local GID does not leave its subnet")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> Gid {
        Gid(text.parse::<std::net::Ipv6Addr>().unwrap().octets())
    }

    /// Proves R18.22, R18.23.
    #[test]
    fn gids_that_can_communicate() {
        use GidKind::*;
        let ipv4 = "::ffff:10.0.0.1";
        for (mine, kind, theirs, its_kind, talk) in [
            (ipv4, RoceV2, "::ffff:10.9.0.2", RoceV2, true),
            (ipv4, RoceV2, ipv4, RoceV1, false),
            (ipv4, RoceV1, ipv4, RoceV2, false),
            ("fe80::1", RoceV1, "fe80::1", InfiniBand, false),
            (ipv4, RoceV2, "fd00::1", RoceV2, false),
            ("fd00::1", RoceV2, "2001:db8::1", RoceV2, true),
            ("fe80::1", RoceV2, "fe80::2", RoceV2, true),
            ("fe80::1", RoceV2, "2001:db8::1", RoceV2, false),
            ("2001:db8::1", RoceV2, "febf::1", RoceV2, false),
            ("2001:db8::1", RoceV2, "fec0::1", RoceV2, true),
            ("::ffff:169.254.1.1", RoceV2, ipv4, RoceV2, false),
            ("::ffff:169.254.1.1", RoceV2, "::ffff:169.254.9.1", RoceV2, true),
            ("fe80::1", InfiniBand, "fec0::1:1", InfiniBand, false),
            ("fe80::1", InfiniBand, "fe80::2", InfiniBand, true),
            (ipv4, RoceV1, "fd00::1", RoceV1, false),
            (ipv4, InfiniBand, "fd00::1", InfiniBand, true),
        ] {
            let why = apart((gid(mine), kind), (gid(theirs), its_kind));
            assert_eq!(why.is_none(), talk, "{mine} {kind}, {theirs} {its_kind}: {why:?}");
        }
    }
}
