//! Addresses: legality, routing, and handles.

use crate::objects::domains::Ah;
use crate::state::State;
use crate::words::Verb;
use crate::words::address::{Address, EMPTY, FIRST_LID, Gid, Gids, ROCE_V1};
use crate::words::world::Link;
use proverbs_sys::gid;
use proverbs_sys::gid::ibv_gid_entry;
use proverbs_sys::terms::rate::StaticRate;
use proverbs_sys::types::ibv_gid;

impl State {
    /// Checks an address vector. It must name our port, a destination, and, if it is global (as it
    /// must be on RoCE), a populated source GID.
    pub(crate) fn check_address(&self, device: u32, address: &Address) -> Verb {
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

    /// The first LID of a device's port; 0 on fabrics without LIDs.
    pub(crate) fn lid(&self, device: u32) -> u16 {
        let ports = u32::from(FIRST_LID) >> self.world.lmc;
        match self.world.link {
            Link::InfiniBand => {
                ((self.place_of(device) % (ports - 1)) as u16 + 1) << self.world.lmc
            }
            Link::Ipv4 | Link::Ipv6 | Link::Iwarp => 0,
        }
    }

    /// The LID that the device sends from with this address.
    pub(crate) fn source_lid(&self, device: u32, address: &Address) -> u16 {
        match self.world.link {
            Link::InfiniBand => self.lid(device) | u16::from(address.path_bits),
            Link::Ipv4 | Link::Ipv6 | Link::Iwarp => 0,
        }
    }

    /// The LID of a device that the address names.
    pub(crate) fn path_bits(&self, address: &Address) -> u8 {
        if address.is_to_a_group() {
            0
        } else {
            (address.dlid & !(u16::MAX << self.world.lmc)) as u8
        }
    }

    /// The source GID of the address.
    pub(crate) fn source(&self, device: u32, address: &Address) -> Verb<Gid> {
        let gids = self.devices.get(&device).ok_or(libc::EINVAL)?;
        match gids.get(address.sgid_index.into()) {
            None => Err(libc::EINVAL),
            Some(EMPTY) => Err(libc::ENODATA),
            Some(gid) => Ok(gid),
        }
    }

    /// An entry of a port's table, with its type.
    pub(crate) fn gid_entry(&self, device: u32, port: u8, index: u32) -> Verb<ibv_gid_entry> {
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

    /// The device at the address; the newest, if one replaced another.
    pub(crate) fn device_at(&self, address: &Address) -> Option<u32> {
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
    pub(crate) fn is_sender(&self, device: u32, address: &Address, back: &Address) -> bool {
        if self.world.link == Link::InfiniBand {
            let is_lid = back.dlid == self.source_lid(device, address);
            if !is_lid || !back.is_global {
                return is_lid;
            }
        }
        let is_same_kind = (address.sgid_index < ROCE_V1) == (back.sgid_index < ROCE_V1);
        is_same_kind && self.source(device, address).is_ok_and(|gid| gid == back.dgid)
    }

    pub(crate) fn create_ah(&mut self, pd: u32, address: Address) -> Verb<u32> {
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

    pub(crate) fn destroy_ah(&mut self, ah: u32) -> Verb {
        self.destroy_fault(None)?;
        self.check_unused_address(ah);
        self.ahs.remove(&ah).map(drop).ok_or(libc::EINVAL)
    }
}
