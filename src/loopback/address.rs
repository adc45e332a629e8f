//! GIDs, address vectors and address handles, RoCE style: an address is always a GID.

use super::Verb;
use super::fabric::State;
use super::limits;

pub(super) type Gid = [u8; 16];

const EMPTY: Gid = [0; 16];

/// A port's GID table: link-local at 0, the IPv4 address 10.x.x.x at 1, the rest empty.
pub(super) struct Gids([Gid; 2]);

impl Gids {
    pub(super) fn of_device(device: u32) -> Gids {
        let [a, b, c, d] = device.wrapping_add(1).to_be_bytes();
        let link_local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, b, c, d ^ a];
        let ipv4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, b, c, d];
        Gids([link_local, ipv4])
    }

    /// The entry at `index`, empty ones all zeroes, or `None` beyond the table.
    pub(super) fn get(&self, index: usize) -> Option<Gid> {
        (index < limits::GIDS).then(|| self.0.get(index).copied().unwrap_or(EMPTY))
    }
}

/// An address vector: where to, and as whom.
#[derive(Clone, Copy, Default)]
pub(super) struct Address {
    pub(super) dgid: Gid,
    pub(super) sgid_index: u8,
    pub(super) flow_label: u32,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) sl: u8,
    pub(super) is_global: bool,
    pub(super) port: u8,
}

pub(super) struct Ah {
    pub(super) pd: u32,
    pub(super) address: Address,
}

impl State {
    /// The checks of an address vector: global, our port, a populated source GID, a destination.
    pub(super) fn check_address(&self, device: u32, address: &Address) -> Verb {
        let fits = address.sl <= 15 && address.flow_label < 1 << 20;
        if !address.is_global || address.port != 1 || address.dgid == EMPTY || !fits {
            return Err(libc::EINVAL);
        }
        self.source(device, address).map(drop)
    }

    /// The GID that the address sends as.
    pub(super) fn source(&self, device: u32, address: &Address) -> Verb<Gid> {
        let gids = self.devices.get(&device).ok_or(libc::EINVAL)?;
        match gids.get(address.sgid_index.into()) {
            None => Err(libc::EINVAL),
            Some(EMPTY) => Err(libc::ENODATA),
            Some(gid) => Ok(gid),
        }
    }

    /// The device that answers to `gid`.
    pub(super) fn device_at(&self, gid: &Gid) -> Option<u32> {
        self.devices.iter().find(|(_, gids)| gids.0.contains(gid)).map(|(&device, _)| device)
    }

    pub(super) fn create_ah(&mut self, pd: u32, address: Address) -> Verb<u32> {
        let device = self.pds.get(&pd).ok_or(libc::EINVAL)?.device;
        self.check_address(device, &address)?;
        let number = self.number()?;
        self.ahs.insert(number, Ah { pd, address });
        Ok(number)
    }

    pub(super) fn destroy_ah(&mut self, ah: u32) -> Verb {
        self.check_unused_address(ah);
        self.ahs.remove(&ah).map(drop).ok_or(libc::EINVAL)
    }
}
