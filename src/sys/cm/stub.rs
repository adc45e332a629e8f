//! Ids and events that librdmacm does not know, for tests of what is made of them.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Arm, Channel, Copied, Id, LIBRDMACM, Lock, Seen};
use crate::sys::types::*;

/// An id without a device, on a channel without events, that saw this one. It must be forgotten.
pub(crate) fn id(key: u64, saw: Option<(u32, c_int)>) -> Id {
    let seen = Arc::new(Seen::of(key));
    if let Some((event, status)) = saw {
        seen.see(event, status);
    }
    // SAFETY: the call has no conditions. What it counts is 0, so the descriptor is never readable.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) };
    let ptr = NonNull::from(Box::leak(Box::new(raw::rdma_event_channel { fd })));
    let channel = Arc::new(Channel { ptr, calls: &LIBRDMACM, lock: Lock::new() });
    Id::new(NonNull::from(Box::leak(Box::new(zeroed()))), seen, channel)
}

/// What tells this id from others where C's place is taken.
pub(crate) fn set_port(id: &Id, port: u8) {
    // SAFETY: the id is a leaked one of `id`, which nothing else uses.
    unsafe { (*id.ptr.as_ptr()).port_num = port };
}

/// An event of the id with this key, about the group with that one.
pub(crate) fn event(key: u64, group: u64, event: u32, status: c_int) -> Copied {
    let arm = Arm::Ud { ah_attr: zeroed(), qp_num: 0xff_ffff, qkey: 0x0123_4567, group };
    Copied { key, event, status, arm, data: Vec::new(), request: None }
}
