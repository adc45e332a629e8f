//! `rdma_getaddrinfo`: names to addresses, copied.

use std::ffi::{CStr, c_int};
use std::net::SocketAddr;
use std::ptr;

use super::super::control::errno;
use super::from_c;
use crate::sys::types::*;

/// A result: the local and the peer's address, as far as there are any.
pub(crate) struct Found {
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
}

/// Why there is no result: an errno, or the resolver's text.
pub(crate) enum NotFound {
    Errno(c_int),
    Words(String),
}

/// The addresses of a node and service, in librdmacm's order; those to listen on if `passive`.
pub(crate) fn getaddrinfo(
    node: Option<&CStr>,
    service: Option<&CStr>,
    ps: u32,
    passive: bool,
) -> Result<Vec<Found>, NotFound> {
    let mut hints = zeroed::<raw::rdma_addrinfo>();
    hints.ai_flags = if passive { raw::RAI_PASSIVE as c_int } else { 0 };
    hints.ai_port_space = ps as c_int;
    let or_null = |name: Option<&CStr>| name.map_or(ptr::null(), CStr::as_ptr);
    let mut list = ptr::null_mut();
    crate::sys::device::note_opened();
    // SAFETY: both strings are NUL-terminated or null. Hints and out-pointer are locals.
    let code = unsafe { raw::rdma_getaddrinfo(or_null(node), or_null(service), &hints, &mut list) };
    match code {
        0 => {}
        -1 => return Err(NotFound::Errno(errno())),
        code => {
            // SAFETY: the resolver has a text for any code, which lives as long as the program.
            let words = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
            return Err(NotFound::Words(words.to_string_lossy().into_owned()));
        }
    }
    let mut found = Vec::new();
    let mut at = list.cast_const();
    while !at.is_null() {
        // SAFETY: an element of the list, which is freed below.
        let info = unsafe { &*at };
        let address = |at: *mut libc::sockaddr, len: u32| {
            // SAFETY: librdmacm gives as many bytes as the family needs, or none.
            (!at.is_null() && len > 0).then(|| unsafe { from_c(at) }).flatten()
        };
        found.push(Found {
            local: address(info.ai_src_addr, info.ai_src_len),
            peer: address(info.ai_dst_addr, info.ai_dst_len),
        });
        at = info.ai_next;
    }
    // SAFETY: the list of the call above, freed once.
    unsafe { raw::rdma_freeaddrinfo(list) };
    Ok(found)
}
