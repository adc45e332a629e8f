//! `rdma_getaddrinfo`: resolves names and copies the results.

use std::ffi::{CStr, c_int};
use std::net::SocketAddr;
use std::ptr;

use super::super::control::errno;
use super::from_c;
use crate::types::*;

/// A result: the local and the peer's address, if present.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
}

/// Why there is no result: an errno, or the resolver's message.
pub enum NotFound {
    Errno(c_int),
    Words(String),
}

/// The addresses of a node and service, in librdmacm's order; addresses to listen on if `passive`.
pub fn getaddrinfo(
    node: Option<&CStr>,
    service: &CStr,
    ps: u32,
    passive: bool,
) -> Result<Vec<Found>, NotFound> {
    let hints = hints(ps, passive);
    let node = node.map_or(ptr::null(), CStr::as_ptr);
    let mut list = ptr::null_mut();
    super::enter().map_err(NotFound::Errno)?;
    // SAFETY: the strings are NUL-terminated; the node may be null. Hints and out-pointer are
    // locals.
    let code = unsafe { raw::rdma_getaddrinfo(node, service.as_ptr(), &hints, &mut list) };
    match code {
        0 => {}
        -1 => return Err(NotFound::Errno(errno())),
        code => {
            // SAFETY: the resolver has a static message for any code.
            let words = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
            return Err(NotFound::Words(words.to_string_lossy().into_owned()));
        }
    }
    // SAFETY: the list is freed below. librdmacm allocates the length that each address needs.
    let found = unsafe { each(list) };
    // SAFETY: the call above returned the list, and it is freed once.
    unsafe { raw::rdma_freeaddrinfo(list) };
    Ok(found)
}

fn hints(ps: u32, passive: bool) -> raw::rdma_addrinfo {
    let mut hints = zeroed::<raw::rdma_addrinfo>();
    hints.ai_flags = if passive { raw::RAI_PASSIVE as c_int } else { 0 };
    hints.ai_port_space = ps as c_int;
    hints
}

/// The addresses of each element of a list.
///
/// # Safety
/// `at` is the first element, or null. Each element is live, and each address with a length is
/// readable.
unsafe fn each(mut at: *const raw::rdma_addrinfo) -> Vec<Found> {
    let mut found = Vec::new();
    while !at.is_null() {
        // SAFETY: an element of the list (this function's contract).
        let info = unsafe { &*at };
        let address = |at: *mut libc::sockaddr, len: u32| {
            // SAFETY: readable for the length that its family needs, or absent (this function's
            // contract).
            (!at.is_null() && len > 0).then(|| unsafe { from_c(at) }).flatten()
        };
        found.push(Found {
            local: address(info.ai_src_addr, info.ai_src_len),
            peer: address(info.ai_dst_addr, info.ai_dst_len),
        });
        at = info.ai_next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::to_c;
    use super::*;

    #[test]
    fn every_list_element_is_returned() {
        let addresses = ["10.0.0.1:1", "[fe80::1%3]:2", "10.0.0.2:3"].map(|text| text.parse());
        let [one, two, three] = addresses.map(Result::unwrap);
        let mut c = [one, two, three].map(to_c);
        let [one_c, two_c, three_c] = c.each_mut().map(|c| (&raw mut *c).cast());
        let mut last = zeroed::<raw::rdma_addrinfo>();
        (last.ai_src_addr, last.ai_src_len) = (three_c, 16);
        let mut first = zeroed::<raw::rdma_addrinfo>();
        (first.ai_src_addr, first.ai_src_len) = (one_c, 16);
        (first.ai_dst_addr, first.ai_dst_len) = (two_c, 28);
        first.ai_next = &raw mut last;
        // SAFETY: both elements and their addresses are locals.
        let found = unsafe { each(&raw const first) };
        let first = Found { local: Some(one), peer: Some(two) };
        assert_eq!(found, [first, Found { local: Some(three), peer: None }]);
        // SAFETY: a null list.
        assert_eq!(unsafe { each(ptr::null()) }, []);
    }

    #[test]
    fn hints_have_a_port_space_and_a_side() {
        let asked = |ps, passive| {
            let hints = hints(ps, passive);
            (hints.ai_port_space as u32, hints.ai_flags as u32)
        };
        let (tcp, udp) = (raw::rdma_port_space::RDMA_PS_TCP, raw::rdma_port_space::RDMA_PS_UDP);
        assert_eq!((asked(tcp, false), asked(udp, true)), ((tcp, 0), (udp, raw::RAI_PASSIVE)));
    }
}
