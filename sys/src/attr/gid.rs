//! Entries of a port's GID table.

use std::ffi::CStr;

use crate::attr::address::AddressVector;
use crate::gid;
use crate::interfaces::{Interface, interfaces};
use crate::terms::error::{Error, ErrorKind};
use crate::terms::gid::{Gid, GidKind, apart};

fn kind(gid_type: u32) -> Option<GidKind> {
    match gid_type {
        gid::IB => Some(GidKind::InfiniBand),
        gid::ROCE_V1 => Some(GidKind::RoceV1),
        gid::ROCE_V2 => Some(GidKind::RoceV2),
        _ => None,
    }
}

/// A filled entry of a port's GID table (`struct ibv_gid_entry` of ibv_query_gid_ex(3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::GidEntry;
/// # let proverbs::loopback::Pair { context, .. } = proverbs::loopback::pair()?;
/// for entry in context.gid_table(1)? {
///     let GidEntry { index, gid, kind, .. } = entry;
///     let netdev = entry.netdev().unwrap_or_default(); // such as eth0
///     println!("{index} {gid} {kind} {netdev}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_gid_entry", "gid_index", "port_num", "gid_type", "ndev_ifindex"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct GidEntry {
    /// The port, counted from 1.
    pub port: u8,
    /// Its index in the table, for [`GlobalRoute`](crate::attr::address::GlobalRoute).
    pub index: u8,
    /// The GID.
    pub gid: Gid,
    /// Its kind.
    pub kind: GidKind,
    /// The index of the network device that the GID belongs to, if any, in the network namespace of
    /// the RDMA device.
    pub ifindex: Option<u32>,
}

impl GidEntry {
    #[doc(hidden)]
    pub fn from_c(c: &gid::ibv_gid_entry) -> Option<GidEntry> {
        Some(GidEntry {
            port: c.port_num.try_into().ok()?,
            // Address vectors cannot hold a larger index.
            index: c.gid_index.try_into().ok()?,
            gid: c.gid.into(),
            kind: kind(c.gid_type)?,
            ifindex: (c.ndev_ifindex != 0).then_some(c.ndev_ifindex),
        })
    }

    /// The name of the network device that the GID belongs to, such as eth0; `None` if that device
    /// is in another network namespace than this process.
    pub fn netdev(&self) -> Option<String> {
        let mut name = [0u8; libc::IF_NAMESIZE];
        // SAFETY: there is room for a name.
        let found = unsafe { libc::if_indextoname(self.ifindex?, name.as_mut_ptr().cast()) };
        if found.is_null() {
            return None;
        }
        let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
        // The index is one of the device's namespace, where another interface may have it here.
        let is_it = |interface: &Interface| interface.name == name && interface.has(self.gid);
        interfaces().ok()?.iter().any(is_it).then(|| name.to_owned())
    }
}

/// An error if packets from one GID do not reach another.
pub fn check(from: (Gid, GidKind), to: (Gid, GidKind)) -> Result<(), Error> {
    let refused = |why| Error::new("ibv_modify_qp", ErrorKind::Unreachable { from, to, why });
    apart(from, to).map_or(Ok(()), |why| Err(refused(why)))
}

/// A RoCE v2 GID of a port, with its index: a source of packets that routers forward.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::{GidKind, RoceV2Gid};
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// let source: RoceV2Gid = context.roce_v2_gid(1)?; // no index to guess
/// assert_eq!((source.gid().to_string(), source.index()), ("::ffff:10.0.0.1".into(), 1));
/// let peer = source.gid(); // what the peer chose the same way
/// let vector = AddressVector::roce_v2(source, peer)?;
/// assert!(pd.create_ah(vector).is_ok());
///
/// // An unreachable GID is rejected; the error has both GIDs.
/// let error = AddressVector::roce_v2(source, context.query_gid(1, 0)?).unwrap_err();
/// assert!(error.to_string().contains("from ::ffff:10.0.0.1 (RoCE v2)"));
///
/// // One by its index:
/// let other = RoceV2Gid::try_from(context.query_gid_entry(1, 2)?);
/// assert!(other.is_err()); // that is RoCE v1
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoceV2Gid(GidEntry);

impl RoceV2Gid {
    /// The GID of a table to use if there may be routers on the path.
    #[doc(hidden)]
    pub fn best(table: &[GidEntry]) -> Option<RoceV2Gid> {
        let all = table.iter().filter(|entry| entry.kind == GidKind::RoceV2);
        let rank = |entry: &&GidEntry| (entry.gid.is_link_local(), !entry.gid.is_ipv4());
        all.min_by_key(rank).copied().map(RoceV2Gid)
    }

    /// The GID.
    pub fn gid(&self) -> Gid {
        self.0.gid
    }

    /// Its index in the port's table.
    pub fn index(&self) -> u8 {
        self.0.index
    }

    /// The port, counted from 1.
    pub fn port(&self) -> u8 {
        self.0.port
    }
}

impl TryFrom<GidEntry> for RoceV2Gid {
    type Error = Error;

    fn try_from(entry: GidEntry) -> Result<RoceV2Gid, Error> {
        if entry.kind == GidKind::RoceV2 {
            return Ok(RoceV2Gid(entry));
        }
        let GidEntry { port, index, gid, kind, .. } = entry;
        let what = format!("GID {index} of port {port}, {gid}, is {kind} and not RoCE v2");
        Err(Error::new("ibv_query_gid_ex", ErrorKind::NotFound(what)))
    }
}

impl AddressVector {
    /// The address vector of a RoCE v2 path, from one of this side's GIDs to the peer's, which must
    /// also be RoCE v2. [`RoceV2Gid`] has an example.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`]: one GID is IPv4 and the other IPv6, or only one is link-local
    /// ([R18.23]).
    ///
    /// [R18.23]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r18-23
    pub fn roce_v2(source: RoceV2Gid, dgid: Gid) -> Result<AddressVector, Error> {
        check((source.gid(), GidKind::RoceV2), (dgid, GidKind::RoceV2))?;
        Ok(AddressVector::roce(source.port(), dgid, source.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order on every host with both families: the link-local GID first, IPv6 before or after
    /// IPv4, and each also as RoCE v1.
    #[test]
    fn routable_before_link_local_and_ipv4_before_ipv6() {
        let ipv6 = |text: &str| Gid(text.parse::<std::net::Ipv6Addr>().unwrap().octets());
        let (local, global, v4) = (ipv6("fe80::1"), ipv6("fd00::1"), ipv6("::ffff:10.0.0.1"));
        let best = |gids: &[(Gid, GidKind)]| {
            let entry = |(index, &(gid, kind)): (usize, &(Gid, GidKind))| GidEntry {
                port: 1,
                index: index as u8,
                gid,
                kind,
                ifindex: None,
            };
            let table: Vec<_> = gids.iter().enumerate().map(entry).collect();
            RoceV2Gid::best(&table).map(|best| best.index())
        };
        use GidKind::{RoceV1, RoceV2};
        let here = [(local, RoceV1), (local, RoceV2), (v4, RoceV1), (global, RoceV2)];
        assert_eq!(best(&[&here[..], &[(v4, RoceV2)]].concat()), Some(4));
        assert_eq!(best(&[&[(v4, RoceV2)], &here[..]].concat()), Some(0));
        assert_eq!(best(&here), Some(3));
        assert_eq!(best(&[&here[..], &here].concat()), Some(3), "the first of its kind");
        assert_eq!(best(&here[..3]), Some(1));
        assert_eq!((best(&here[..1]), best(&[])), (None, None));
        let entry = GidEntry { port: 1, index: 0, gid: v4, kind: RoceV1, ifindex: None };
        assert!(RoceV2Gid::try_from(entry).is_err());
        let entry = GidEntry { kind: RoceV2, port: 2, index: 7, ..entry };
        let found = RoceV2Gid::try_from(entry).unwrap();
        assert_eq!((found, found.gid(), found.index(), found.port()), (RoceV2Gid(entry), v4, 7, 2));
    }

    /// The first network device of every Linux is the loopback interface.
    #[test]
    #[cfg_attr(miri, ignore = "queries the name of a device from the system")]
    fn a_gid_has_the_name_of_its_network_device() {
        let entry = |ifindex| GidEntry {
            port: 1,
            index: 0,
            gid: Gid([0; 16]),
            kind: GidKind::RoceV2,
            ifindex,
        };
        assert_eq!(entry(Some(1)).netdev().as_deref(), Some("lo"));
        assert_eq!((entry(None).netdev(), entry(Some(u32::MAX)).netdev()), (None, None));
    }
}
