//! GIDs, LIDs, address vectors and address handles. On RoCE a GID addresses the destination. On
//! InfiniBand a LID does, and a GID may be in the header.

use super::fabric::State;
use super::multicast::FIRST_LID;
use super::world::Link;
use super::{Verb, limits};
use proverbs_sys::gid::{self, ibv_gid_entry};
use proverbs_sys::terms::rate::StaticRate;
use proverbs_sys::types::ibv_gid;

pub(super) type Gid = [u8; 16];

const EMPTY: Gid = [0; 16];

/// A port's GID table: entry 0 is link-local, entry 1 is 10.x.x.x or fd00::x (not on InfiniBand).
/// On Ethernet these are RoCE v2, and entries 2 and 3 are the same two as RoCE v1. The rest is
/// empty.
pub(super) struct Gids([Gid; 4]);

/// The index of the first entry that is RoCE v1.
const ROCE_V1: u8 = 2;

impl Gids {
    pub(super) fn of_device(device: u32, link: Link) -> Gids {
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
    pub(super) fn get(&self, index: usize) -> Option<Gid> {
        (index < limits::GIDS).then(|| self.0.get(index).copied().unwrap_or(EMPTY))
    }
}

/// An address vector: the destination, and the source that it is sent as.
#[derive(Clone, Copy, Default)]
pub(super) struct Address {
    /// InfiniBand: the destination, or the source of a message on its way; 0 elsewhere.
    pub(super) dlid: u16,
    pub(super) slid: u16,
    pub(super) dgid: Gid,
    pub(super) sgid_index: u8,
    pub(super) flow_label: u32,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) sl: u8,
    pub(super) rate: u8,
    pub(super) path_bits: u8,
    pub(super) is_global: bool,
    pub(super) port: u8,
}

pub(super) struct Ah {
    pub(super) pd: u32,
    pub(super) address: Address,
}

impl State {
    /// Checks an address vector: it must name our port, a destination, and, if it is global (as it
    /// must be on RoCE), a populated source GID.
    pub(super) fn check_address(&self, device: u32, address: &Address) -> Verb {
        let is_infiniband = self.world.link == Link::InfiniBand;
        let fits = address.sl <= 15 && address.flow_label < 1 << 20 && address.port == 1;
        let has_bits = !is_infiniband || address.path_bits >> self.world.lmc == 0;
        let lids = if address.is_to_a_group() { FIRST_LID..u16::MAX } else { 1..FIRST_LID };
        let leads_somewhere = !is_infiniband || lids.contains(&address.dlid);
        if !fits || !has_bits || !leads_somewhere || StaticRate::from_c(address.rate).is_none() {
            return Err(libc::EINVAL);
        }
        if is_infiniband && !address.is_global {
            return Ok(());
        }
        if !address.is_global || address.dgid == EMPTY {
            return Err(libc::EINVAL);
        }
        self.source(device, address).map(drop)
    }

    /// The first LID of a device's port; 0 where ports have none.
    pub(super) fn lid(&self, device: u32) -> u16 {
        let ports = u32::from(FIRST_LID) >> self.world.lmc;
        match self.world.link {
            Link::InfiniBand => {
                ((self.place_of(device) % (ports - 1)) as u16 + 1) << self.world.lmc
            }
            Link::Ipv4 | Link::Ipv6 | Link::Iwarp => 0,
        }
    }

    /// The LID that the device sends from by this address.
    pub(super) fn source_lid(&self, device: u32, address: &Address) -> u16 {
        match self.world.link {
            Link::InfiniBand => self.lid(device) | u16::from(address.path_bits),
            Link::Ipv4 | Link::Ipv6 | Link::Iwarp => 0,
        }
    }

    /// Which of its LIDs a device was reached by.
    pub(super) fn path_bits(&self, address: &Address) -> u8 {
        if address.is_to_a_group() {
            0
        } else {
            (address.dlid & !(u16::MAX << self.world.lmc)) as u8
        }
    }

    /// The source GID of the address.
    pub(super) fn source(&self, device: u32, address: &Address) -> Verb<Gid> {
        let gids = self.devices.get(&device).ok_or(libc::EINVAL)?;
        match gids.get(address.sgid_index.into()) {
            None => Err(libc::EINVAL),
            Some(EMPTY) => Err(libc::ENODATA),
            Some(gid) => Ok(gid),
        }
    }

    /// An entry of a port's table, with its kind.
    pub(super) fn gid_entry(&self, device: u32, port: u8, index: u32) -> Verb<ibv_gid_entry> {
        self.check_alive(device)?;
        let gids = self.devices.get(&device).ok_or(libc::EINVAL)?;
        match gids.get(index as usize) {
            Some(EMPTY) if port == 1 => Err(libc::ENODATA),
            Some(raw) if port == 1 => {
                let gid_type = match self.world.link {
                    Link::InfiniBand => gid::IB,
                    _ if index < ROCE_V1.into() => gid::ROCE_V2,
                    _ => gid::ROCE_V1,
                };
                let gid = ibv_gid { raw };
                Ok(ibv_gid_entry { gid, gid_index: index, port_num: 1, gid_type, ndev_ifindex: 0 })
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// The device that has the address: the newest, if one took the place of another.
    pub(super) fn device_at(&self, address: &Address) -> Option<u32> {
        let answers = |device: u32, gids: &Gids| {
            (!address.is_global || gids.0.contains(&address.dgid))
                && (self.world.link != Link::InfiniBand
                    || self.lid(device) == address.dlid & u16::MAX << self.world.lmc)
                && !self.broken.contains(&device)
        };
        self.devices
            .iter()
            .rev()
            .find(|(device, gids)| answers(**device, gids))
            .map(|(&device, _)| device)
    }

    /// Whether the device that sends by `address` is the one that `back` addresses.
    pub(super) fn is_sender(&self, device: u32, address: &Address, back: &Address) -> bool {
        if self.world.link == Link::InfiniBand {
            let is_lid = back.dlid == self.source_lid(device, address);
            if !is_lid || !back.is_global {
                return is_lid;
            }
        }
        let is_same_kind = (address.sgid_index < ROCE_V1) == (back.sgid_index < ROCE_V1);
        is_same_kind && self.source(device, address).is_ok_and(|gid| gid == back.dgid)
    }

    pub(super) fn create_ah(&mut self, pd: u32, address: Address) -> Verb<u32> {
        let device = self.pds.get(&pd).ok_or(libc::EINVAL)?.device;
        self.check_alive(device)?;
        if self.world.link == Link::Iwarp {
            return Err(libc::EOPNOTSUPP);
        }
        self.check_address(device, &address)?;
        let number = self.number()?;
        self.ahs.insert(number, Ah { pd, address });
        Ok(number)
    }

    pub(super) fn destroy_ah(&mut self, ah: u32) -> Verb {
        self.destroy_fault(None)?;
        self.check_unused_address(ah);
        self.ahs.remove(&ah).map(drop).ok_or(libc::EINVAL)
    }
}
