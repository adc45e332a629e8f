//! GIDs, LIDs and address vectors. On RoCE a GID addresses the destination. On InfiniBand a LID
//! does, and a GID may be in the header.

use crate::words::limits;
use crate::words::world::Link;

pub(crate) type Gid = [u8; 16];

pub(crate) const EMPTY: Gid = [0; 16];

/// A port's GID table: entry 0 is link-local, entry 1 is 10.x.x.x or fd00::x (not on InfiniBand).
/// On Ethernet these are RoCE v2, and entries 2 and 3 are the same two as RoCE v1. The rest is
/// empty.
pub(crate) struct Gids(pub(crate) [Gid; 4]);

/// The index of the first RoCE v1 entry.
pub(crate) const ROCE_V1: u8 = 2;

impl Gids {
    pub(crate) fn of_device(device: u32, link: Link) -> Gids {
        let [a, b, c, d] = device.wrapping_add(1).to_be_bytes();
        let link_local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, b, c, d ^ a];
        let ipv4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, b, c, d];
        let ipv6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d];
        Gids(match link {
            Link::Ipv4 | Link::Iwarp => [link_local, ipv4, link_local, ipv4],
            Link::Ipv6 => [link_local, ipv6, link_local, ipv6],
            Link::InfiniBand => [link_local, EMPTY, EMPTY, EMPTY],
        })
    }

    /// The entry at `index`, all zeroes if it is empty; `None` beyond the table.
    pub(crate) fn get(&self, index: usize) -> Option<Gid> {
        (index < limits::GIDS).then(|| self.0.get(index).copied().unwrap_or(EMPTY))
    }
}

/// An address vector: the destination, and the source address to use.
#[derive(Clone, Copy, Default)]
pub(crate) struct Address {
    /// InfiniBand: the destination, or the source of a message in transit; 0 elsewhere.
    pub(crate) dlid: u16,
    pub(crate) slid: u16,
    pub(crate) dgid: Gid,
    pub(crate) sgid_index: u8,
    pub(crate) flow_label: u32,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) sl: u8,
    pub(crate) rate: u8,
    pub(crate) path_bits: u8,
    pub(crate) is_global: bool,
    pub(crate) port: u8,
}

/// LIDs from here on are multicast LIDs, except the last one.
pub(crate) const FIRST_LID: u16 = 0xc000;

/// Whether the GID is a multicast address: it begins with ff, or is a mapped IPv4 group.
pub(crate) fn is_group(gid: &Gid) -> bool {
    gid[0] == 0xff || gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] && gid[12] >> 4 == 0xe
}

impl Address {
    pub(crate) fn is_to_a_group(&self) -> bool {
        self.is_global && is_group(&self.dgid)
    }
}
