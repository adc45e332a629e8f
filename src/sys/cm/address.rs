//! Socket addresses, to C and back.

use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr_in, sockaddr_in6, sockaddr_storage};

/// The address as a C struct.
pub(crate) fn to_c(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: all zeroes is a value of this struct of integers.
    let mut storage = unsafe { MaybeUninit::<sockaddr_storage>::zeroed().assume_init() };
    let at = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: all zeroes is a value of this struct of integers.
            let mut sin = unsafe { MaybeUninit::<sockaddr_in>::zeroed().assume_init() };
            sin.sin_family = libc::AF_INET as libc::sa_family_t;
            sin.sin_port = v4.port().to_be();
            sin.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            // SAFETY: the storage is large enough and aligned for any socket address.
            unsafe { at.cast::<sockaddr_in>().write(sin) };
        }
        SocketAddr::V6(v6) => {
            // SAFETY: all zeroes is a value of this struct of integers.
            let mut sin = unsafe { MaybeUninit::<sockaddr_in6>::zeroed().assume_init() };
            sin.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            sin.sin6_port = v6.port().to_be();
            sin.sin6_flowinfo = v6.flowinfo();
            sin.sin6_addr.s6_addr = v6.ip().octets();
            sin.sin6_scope_id = v6.scope_id();
            // SAFETY: the storage is large enough and aligned for any socket address.
            unsafe { at.cast::<sockaddr_in6>().write(sin) };
        }
    }
    storage
}

/// The socket address of a C struct, if it is IPv4 or IPv6.
///
/// # Safety
/// `at` is readable for as many bytes as its family says, and aligned to 4.
pub(crate) unsafe fn from_c(at: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: every socket address begins with its family, and `at` is readable (this function's
    // contract).
    let family = unsafe { (*at).sa_family };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says that this struct is there, so it is readable (this function's
            // contract).
            let sin = unsafe { at.cast::<sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(sin.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this struct is there, so it is readable (this function's
            // contract).
            let sin = unsafe { at.cast::<sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(sin.sin6_addr.s6_addr);
            let port = u16::from_be(sin.sin6_port);
            Some(SocketAddrV6::new(ip, port, sin.sin6_flowinfo, sin.sin6_scope_id).into())
        }
        _ => None,
    }
}

const _: () = assert!(size_of::<sockaddr_storage>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["10.77.0.1:7471", "0.0.0.0:0", "[fe80::1%3]:65535", "[::1]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let c = to_c(address);
            // SAFETY: a whole `sockaddr_storage`.
            assert_eq!(unsafe { from_c((&raw const c).cast()) }, Some(address), "{text}");
        }
    }

    #[test]
    fn an_unknown_family_is_no_address() {
        let mut c = to_c("1.2.3.4:5".parse().unwrap());
        c.ss_family = libc::AF_UNIX as libc::sa_family_t;
        // SAFETY: a whole `sockaddr_storage`.
        assert_eq!(unsafe { from_c((&raw const c).cast()) }, None);
    }
}
