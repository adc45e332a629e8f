//! Conversions of socket addresses to and from C.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{sockaddr_in, sockaddr_in6, sockaddr_storage};

use crate::types::zeroed;

const _: () = assert!(size_of::<sockaddr_storage>() == 128);
const _: () = assert!(size_of::<sockaddr_ib>() == 48);

/// `AF_IB` of Linux.
pub const AF_IB: u16 = 27;

/// C's struct, of rdma/ib.h. All numbers are big-endian, except the family and the scope.
#[repr(C)]
#[derive(Clone, Copy)]
struct sockaddr_ib {
    sib_family: u16,
    sib_pkey: u16,
    sib_flowinfo: u32,
    sib_addr: [u8; 16],
    sib_sid: u64,
    sib_sid_mask: u64,
    sib_scope_id: u64,
}

/// A socket address of one family.
///
/// # Safety
/// The type is a C struct of integers that begins with `FAMILY`. It is not larger than
/// `sockaddr_storage` and not more aligned.
unsafe trait Socket: Copy {
    const FAMILY: u16;
}

// SAFETY: by its definition in netinet/in.h.
unsafe impl Socket for sockaddr_in {
    const FAMILY: u16 = libc::AF_INET as u16;
}

// SAFETY: by its definition in netinet/in.h.
unsafe impl Socket for sockaddr_in6 {
    const FAMILY: u16 = libc::AF_INET6 as u16;
}

// SAFETY: by its definition in rdma/ib.h.
unsafe impl Socket for sockaddr_ib {
    const FAMILY: u16 = AF_IB;
}

fn stored<T: Socket>(socket: T) -> sockaddr_storage {
    let mut storage = zeroed::<sockaddr_storage>();
    // SAFETY: the storage is large enough and aligned for any socket address.
    unsafe { (&raw mut storage).cast::<T>().write(socket) };
    storage
}

/// # Safety
/// `at` is readable for the length that its family implies, and aligned to 2.
unsafe fn found<T: Socket>(at: *const libc::sockaddr) -> Option<T> {
    // SAFETY: every socket address begins with its family. If it is that of `T`, a `T` is there,
    // and readable (this function's contract).
    unsafe { ((*at).sa_family == T::FAMILY).then(|| at.cast::<T>().read_unaligned()) }
}

/// The address as a C struct.
pub fn to_c(address: SocketAddr) -> sockaddr_storage {
    match address {
        SocketAddr::V4(v4) => stored(sockaddr_in {
            sin_family: sockaddr_in::FAMILY,
            sin_port: v4.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
            sin_zero: [0; 8],
        }),
        SocketAddr::V6(v6) => stored(sockaddr_in6 {
            sin6_family: sockaddr_in6::FAMILY,
            sin6_port: v6.port().to_be(),
            sin6_flowinfo: v6.flowinfo(),
            sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
            sin6_scope_id: v6.scope_id(),
        }),
    }
}

/// The socket address of a C struct, if it is IPv4 or IPv6.
///
/// # Safety
/// `at` is readable for the length that its family implies, and aligned to 4.
pub unsafe fn from_c(at: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: this function's contract.
    let (v4, v6) = unsafe { (found::<sockaddr_in>(at), found::<sockaddr_in6>(at)) };
    let v4 = v4.map(|sin| {
        let ip = Ipv4Addr::from(u32::from_be(sin.sin_addr.s_addr));
        SocketAddr::from((ip, u16::from_be(sin.sin_port)))
    });
    v4.or(v6.map(|sin| {
        let (ip, port) = (Ipv6Addr::from(sin.sin6_addr.s6_addr), u16::from_be(sin.sin6_port));
        SocketAddrV6::new(ip, port, sin.sin6_flowinfo, sin.sin6_scope_id).into()
    }))
}

/// The parts of an address of AF_IB that a program chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbSocket {
    pub gid: [u8; 16],
    pub pkey: u16,
    /// The service id: the port space and the port.
    pub sid: u64,
}

/// Converts an address to the C struct. The whole service id is significant.
pub fn ib_to_c(address: IbSocket) -> sockaddr_storage {
    stored(sockaddr_ib {
        sib_family: AF_IB,
        sib_pkey: address.pkey.to_be(),
        sib_flowinfo: 0,
        sib_addr: address.gid,
        sib_sid: address.sid.to_be(),
        sib_sid_mask: u64::MAX,
        sib_scope_id: 0,
    })
}

/// The address of AF_IB of a C struct, if it is one.
///
/// # Safety
/// `at` is readable for the length that its family implies, and aligned to 2.
pub unsafe fn ib_from_c(at: *const libc::sockaddr) -> Option<IbSocket> {
    // SAFETY: this function's contract.
    let sib = unsafe { found::<sockaddr_ib>(at) }?;
    Some(IbSocket {
        gid: sib.sib_addr,
        pkey: u16::from_be(sib.sib_pkey),
        sid: u64::from_be(sib.sib_sid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_through_c() {
        let texts = ["10.77.0.1:7471", "0.0.0.0:0", "[fe80::1%3]:65535", "[::1]:1"];
        let of_a_flow = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 0x0102_0304, 5);
        let addresses = texts.map(|text| text.parse().unwrap());
        for address in addresses.into_iter().chain([of_a_flow.into()]) {
            let c = to_c(address);
            // SAFETY: a whole `sockaddr_storage`.
            assert_eq!(unsafe { from_c((&raw const c).cast()) }, Some(address), "{address}");
        }
    }

    /// The layout of ip(7): the port and the address in network byte order, then zeros.
    #[test]
    fn an_ipv4_address_has_the_layout_of_the_manual_page() {
        let c = to_c("10.77.0.1:7471".parse().unwrap());
        // SAFETY: a whole `sockaddr_storage`, and these bytes were written.
        let bytes = unsafe { (&raw const c).cast::<[u8; 16]>().read() };
        assert_eq!(bytes[2..], [0x1d, 0x2f, 10, 77, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// The layout of rdma/ib.h.
    /// Proves R23.8.
    #[test]
    fn an_infiniband_address_has_the_layout_of_the_header() {
        let address = IbSocket { gid: [7; 16], pkey: 0x8001, sid: 0x0106_1d2f };
        let c = ib_to_c(address);
        let at: *const libc::sockaddr = (&raw const c).cast();
        // SAFETY: a whole `sockaddr_storage`, and these bytes were written.
        let bytes = unsafe { at.cast::<[u8; 48]>().read() };
        assert_eq!(bytes[..2], 27_u16.to_ne_bytes());
        assert_eq!(bytes[2..8], [0x80, 1, 0, 0, 0, 0]);
        assert_eq!(bytes[8..24], [7; 16]);
        assert_eq!(bytes[24..32], [0, 0, 0, 0, 1, 6, 0x1d, 0x2f]);
        assert_eq!((&bytes[32..40], &bytes[40..]), (&[0xff; 8][..], &[0; 8][..]));
        // SAFETY: a whole `sockaddr_storage`.
        assert_eq!(unsafe { (ib_from_c(at), from_c(at)) }, (Some(address), None));
        let ip = to_c("10.0.0.1:1".parse().unwrap());
        // SAFETY: a whole `sockaddr_storage`.
        assert_eq!(unsafe { ib_from_c((&raw const ip).cast()) }, None);
    }

    #[test]
    fn an_unknown_family_is_not_an_address() {
        let mut c = to_c("1.2.3.4:5".parse().unwrap());
        c.ss_family = libc::AF_UNIX as libc::sa_family_t;
        // SAFETY: a whole `sockaddr_storage`.
        assert_eq!(unsafe { from_c((&raw const c).cast()) }, None);
    }
}
