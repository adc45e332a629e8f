//! The network interfaces of this process's network namespace.

use std::ffi::CStr;
use std::net::IpAddr;
use std::{io, ptr, slice};

use crate::terms::gid::Gid;

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as eth0.
    pub name: String,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Its hardware address: 6 bytes on Ethernet, 20 on InfiniBand.
    pub hardware: Vec<u8>,
}

impl Interface {
    /// Whether this interface is the reason that a port has this GID. The kernel derives GIDs from
    /// an interface's IP addresses and its hardware address.
    pub fn has(&self, gid: Gid) -> bool {
        let of_ip = |address: &IpAddr| match *address {
            IpAddr::V4(address) => Gid::from(address),
            IpAddr::V6(address) => Gid::from(address),
        };
        let of_hardware = match self.hardware[..] {
            // RoCE uses the EUI-64 link-local address; iWARP uses the hardware address and zeros.
            [a, b, c, d, e, f] => {
                let eui_64 = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
                gid.0 == eui_64 || gid.0 == [a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            }
            // IP over InfiniBand has a queue pair number before the port's GID.
            [_, _, _, _, ref port @ ..] => gid.0 == *port,
            _ => false,
        };
        of_hardware || self.addresses.iter().any(|address| of_ip(address) == gid)
    }
}

/// The interfaces of this process's network namespace, in the kernel's order.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first = ptr::null_mut();
    // SAFETY: `first` is a local that the call writes.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut next = first;
    // SAFETY: null or an entry of the list, which is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the name of an entry is a C string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
        let at = interfaces.iter().position(|known| known.name == name);
        let at = at.unwrap_or_else(|| {
            interfaces.push(Interface { name: name.into_owned(), ..Interface::default() });
            interfaces.len() - 1
        });
        let interface = &mut interfaces[at];
        // SAFETY: null, or an address of the kind that its family gives.
        unsafe { add(interface, entry.ifa_addr) };
    }
    // SAFETY: the call above made the list, and no entry is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(interfaces)
}

/// # Safety
/// `address` is null or an address of a list of `getifaddrs`.
unsafe fn add(interface: &mut Interface, address: *const libc::sockaddr) {
    if address.is_null() {
        return;
    }
    // SAFETY: each address has a family, and is a structure of that family. `getifaddrs` has room
    // for a hardware address of 24 bytes, more than `libc::sockaddr_ll` has, and sets `sll_halen`
    // bytes of it.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let address = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                interface.addresses.push(IpAddr::from(address.to_ne_bytes()));
            }
            libc::AF_INET6 => {
                let address = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                interface.addresses.push(IpAddr::from(address));
            }
            libc::AF_PACKET => {
                let address = address.cast::<libc::sockaddr_ll>();
                let bytes = (&raw const (*address).sll_addr).cast::<u8>();
                let len = usize::from((*address).sll_halen);
                interface.hardware = slice::from_raw_parts(bytes, len).to_vec();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> Gid {
        text.parse().unwrap()
    }

    #[test]
    fn an_interface_has_its_gids() {
        let ethernet = Interface {
            name: "eth0".into(),
            addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            hardware: vec![0x52, 0x54, 0, 0x12, 0x34, 0x56],
        };
        let has = ["fe80::5054:ff:fe12:3456", "5254:12:3456::", "::ffff:10.0.0.1", "fd00::1"];
        assert_eq!(has.map(|text| ethernet.has(gid(text))), [true; 4]);
        let not = ["fe80::5054:ff:fe12:3457", "5254:12:3456::1", "::ffff:10.0.0.2", "::"];
        assert_eq!(not.map(|text| ethernet.has(gid(text))), [false; 4]);
        let port = gid("fe80::2:c903:0:1234");
        let mut hardware = vec![0x80, 0, 0, 0x48];
        hardware.extend(port.0);
        let infiniband = Interface { hardware, ..Interface::default() };
        assert!(infiniband.has(port) && !infiniband.has(gid("fe80::2:c903:0:1235")));
        assert!(!Interface::default().has(Gid::default()));
    }

    /// Addresses of both families and of the link are added; others are not.
    #[test]
    fn each_kind_of_address_is_read() {
        let mut it = Interface::default();
        // SAFETY: zeroes are valid for these structures of numbers.
        let (mut v4, mut v6, mut link) = unsafe {
            let v4: libc::sockaddr_in = std::mem::zeroed();
            let v6: libc::sockaddr_in6 = std::mem::zeroed();
            let link: libc::sockaddr_ll = std::mem::zeroed();
            (v4, v6, link)
        };
        v4.sin_addr.s_addr = u32::from_ne_bytes([10, 0, 0, 7]);
        v6.sin6_addr.s6_addr[15] = 9;
        (link.sll_halen, link.sll_addr) = (6, [1, 2, 3, 4, 5, 6, 7, 8]);
        // SAFETY: each is a structure of its family, or has one that is not read.
        let mut read = |families: [i32; 3]| unsafe {
            v4.sin_family = families[0] as u16;
            v6.sin6_family = families[1] as u16;
            link.sll_family = families[2] as u16;
            add(&mut it, (&raw const v4).cast());
            add(&mut it, (&raw const v6).cast());
            add(&mut it, (&raw const link).cast());
            add(&mut it, std::ptr::null());
            (std::mem::take(&mut it.addresses), std::mem::take(&mut it.hardware))
        };
        let addresses = ["10.0.0.7".parse().unwrap(), "::9".parse().unwrap()];
        let all = [libc::AF_INET, libc::AF_INET6, libc::AF_PACKET];
        assert_eq!(read(all), (addresses.to_vec(), vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(read([libc::AF_UNIX; 3]), (vec![], vec![]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_loopback_interface_is_found() {
        let interfaces = interfaces().unwrap();
        let lo = interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(lo.addresses.contains(&IpAddr::from([127, 0, 0, 1])), "{lo:?}");
        assert_eq!(lo.hardware, [0; 6]);
    }
}
