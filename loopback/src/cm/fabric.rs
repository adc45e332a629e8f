//! The rdma_cm controls that a test has on its fabric.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proverbs_sys::handle::Context;

use crate::fabric::Fabric;
use crate::words::world::Link;

impl Fabric {
    /// The IP address of a device of this fabric: 10.0.0.1 for the first one, or fd00::1 in an IPv6
    /// world, and so on. `None` if the device belongs to another fabric.
    pub fn ip_of(&self, device: &Context) -> Option<IpAddr> {
        let number = self.number_of(device)?;
        Some(self.shared().post(|state| state.ip_of(number)))
    }

    /// The IP address of the open device called `name`.
    pub fn ip_of_name(&self, name: &str) -> Option<IpAddr> {
        let place: u32 = name.strip_prefix("loop")?.parse().ok()?;
        self.shared().post(|state| {
            let device = state.devices.keys().find(|&&device| state.place_of(device) == place);
            device.map(|&device| state.ip_of(device))
        })
    }

    /// The unspecified address, which stands for any device's address.
    pub fn unspecified_ip(&self) -> IpAddr {
        self.shared().post(|state| match state.world.link {
            Link::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
            Link::Ipv4 | Link::InfiniBand | Link::Iwarp => Ipv4Addr::UNSPECIFIED.into(),
        })
    }

    /// Removes a device from rdma_cm, as when it is unplugged. Each of its ids gets
    /// RDMA_CM_EVENT_DEVICE_REMOVAL and no event after that. Its address is gone, and peers on
    /// other devices see a disconnect. Existing objects of the device continue to work until they
    /// are dropped. Returns false if the device does not belong to this fabric, or was removed
    /// before.
    pub fn remove_device(&self, device: &Context) -> bool {
        let number = self.number_of(device);
        number.is_some_and(|number| self.shared().post(|state| state.remove_device(number)))
    }

    /// If `silent`, a device neither sends nor receives rdma_cm messages from now on, as when its
    /// cable is pulled. Otherwise this call reconnects it. A call that sends to a silent device, or
    /// waits for its answer, times out at once. Returns false if the device does not belong to this
    /// fabric.
    pub fn silence_device(&self, device: &Context, silent: bool) -> bool {
        let number = self.number_of(device);
        if let Some(number) = number {
            self.shared().post(|state| state.silence_device(number, silent));
        }
        number.is_some()
    }

    /// Removes a device, and adds another one with the same name and addresses. `None` if the
    /// device does not belong to this fabric, or was removed before.
    pub fn replace_device(&self, device: &Context) -> Option<Arc<Context>> {
        let number = self.number_of(device)?;
        let place = self.shared().post(|state| {
            let place = state.place_of(number);
            state.remove_device(number).then_some(place)
        })?;
        Some(self.open_known(Some(place)))
    }
}
