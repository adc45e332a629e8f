//! librdmacm: its calls, and the owners of its objects.
//!
//! The crate leaves `rdma_cm_id.qp` null: it moves its own queue pairs, with the attributes that
//! `rdma_init_qp_attr` returns. So librdmacm never touches a queue pair, neither concurrently with
//! the thread that posts (as it does inside `rdma_get_cm_event`) nor when an id is destroyed.
//!
//! librdmacm writes to an id without a lock while it processes an event of it. So every call on an
//! id, and every taking of an event, is made under the lock of its [`Channel`].

mod address;
mod addrinfo;
mod event;
mod groups;
mod id;
mod lock;
mod seen;
#[cfg(test)]
pub(crate) mod stub;

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use address::{from_c, to_c};
pub(crate) use addrinfo::{Found, NotFound, getaddrinfo};
pub(crate) use event::{Arm, Copied};
pub(crate) use groups::Failed;
pub(crate) use id::Id;
use lock::Lock;
pub(crate) use seen::Seen;

use super::control::errno;
use super::events::{never_block, wait_readable};
use super::types::*;
use crate::sync::MutexGuard;

/// An event channel. Its descriptor does not block.
///
/// # Invariants
/// `ptr` is a live channel, destroyed once, when nothing refers to it: each id holds an `Arc` of
/// its channel.
pub(crate) struct Channel {
    ptr: NonNull<raw::rdma_event_channel>,
    lock: Lock,
}

// SAFETY: librdmacm's channel is a descriptor, and every call that uses it is made under the lock.
unsafe impl Send for Channel {}
// SAFETY: every call that uses the channel is made under the lock.
unsafe impl Sync for Channel {}

impl Channel {
    pub(crate) fn open() -> Result<Self, c_int> {
        super::device::note_opened();
        // SAFETY: the call takes no arguments.
        let ptr = NonNull::new(unsafe { raw::rdma_create_event_channel() }).ok_or_else(errno)?;
        let channel = Channel { ptr, lock: Lock::new() };
        never_block(channel.fd()).map(|()| channel)
    }

    pub(crate) fn fd(&self) -> RawFd {
        // SAFETY: the channel is live, and its descriptor never changes.
        unsafe { (*self.ptr.as_ptr()).fd }
    }

    fn as_ptr(&self) -> *mut raw::rdma_event_channel {
        self.ptr.as_ptr()
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    /// Takes the next event, copies it and acknowledges it; `None` if there is none. Does not
    /// block.
    pub(crate) fn take_event(self: &std::sync::Arc<Self>) -> Result<Option<Copied>, c_int> {
        let guard = self.lock();
        // The lock is held while librdmacm reads an event. If a program made the descriptor
        // blocking, that would stop all ids; so look first.
        if !wait_readable(self.fd(), 0)? {
            return Ok(None);
        }
        let mut event = std::ptr::null_mut();
        // SAFETY: the channel is live, and its lock is held. The out-pointer is a local.
        if unsafe { raw::rdma_get_cm_event(self.as_ptr(), &mut event) } != 0 {
            return match errno() {
                libc::EAGAIN => Ok(None),
                errno => Err(errno),
            };
        }
        // SAFETY: the event was just taken from this channel, whose lock is held. It is
        // acknowledged once, after the copy, which keeps no pointer into it.
        let copied = unsafe {
            let copied = event::copy(event, self);
            raw::rdma_ack_cm_event(event);
            copied
        };
        drop(guard);
        Ok(Some(copied))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the channel is live, and nothing refers to it any more.
        unsafe { raw::rdma_destroy_event_channel(self.ptr.as_ptr()) };
    }
}

/// Converts librdmacm's result, 0 or -1 with errno.
fn status(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(errno()) }
}
