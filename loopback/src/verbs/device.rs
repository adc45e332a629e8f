//! Devices.

use crate::state::State;
use crate::words::Verb;
use crate::words::address::Gids;

impl State {
    /// Opens a new device, with a new name and addresses or those that belong to another device.
    pub(crate) fn open_device_at(&mut self, place: Option<u32>) -> u32 {
        let mut number = self.devices_opened;
        while self.devices.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        self.devices_opened = number.wrapping_add(1);
        if let Some(place) = place {
            self.places.insert(number, place);
        }
        let place = self.place_of(number);
        self.devices.insert(number, Gids::of_device(place, self.world.link));
        number
    }

    /// Unlike libibverbs, which closes a context with objects and leaves them dangling, this fails.
    pub(crate) fn close_device(&mut self, device: u32) -> Verb {
        self.destroy_fault(None)?;
        let used = self.pds.values().any(|pd| pd.device == device)
            || self.tds.values().any(|td| td.device == device)
            || self.xrcds.values().any(|xrcd| xrcd.device == device)
            || self.dms.values().any(|dm| dm.device == device)
            || self.cqs.values().any(|cq| cq.device == device)
            || self.channels.values().any(|channel| channel.device == device);
        if used {
            return Err(libc::EBUSY);
        }
        self.places.remove(&device);
        self.asyncs.remove(&device);
        self.devices.remove(&device).map(drop).ok_or(libc::EINVAL)
    }
}
