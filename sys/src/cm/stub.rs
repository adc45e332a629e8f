//! Ids and events that librdmacm does not know, for tests.

// No model: one test thread signals another that it is in a call.

#![cfg_attr(not(test), allow(dead_code))] // only the tests of this crate use all of it

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use super::{Arm, Calls, Channel, Copied, Id, LIBRDMACM, Seen, from_c};
use crate::tests::{self, ANSWER, saw};
use crate::types::*;

/// An id without a device, on a channel without events, that saw this event. It must be forgotten.
pub(crate) fn id(key: u64, saw: Option<(u32, c_int)>) -> Id {
    id_by(&LIBRDMACM, key, saw)
}

/// A similar id whose calls are recorded for [`seen`] and return [`answer`]. Dropping it frees it.
pub(crate) fn noting(key: u64) -> Id {
    id_by(&NOTING, key, None)
}

/// The kind of id that [`forged`] makes.
pub enum Forged {
    /// Like [`id`].
    Plain,
    /// Like [`noting`].
    Noting,
}

/// An id of this kind, for the tests of `proverbs`.
///
/// # Safety
/// There is no C object behind the id. The caller makes only calls that are recorded here, and
/// forgets an id that is [`Plain`](Forged::Plain).
pub unsafe fn forged(kind: Forged, key: u64, saw: Option<(u32, c_int)>) -> Id {
    match kind {
        Forged::Plain => id(key, saw),
        Forged::Noting => noting(key),
    }
}

/// Returns the calls recorded since the last call.
pub fn seen() -> Vec<String> {
    tests::seen()
}

/// Sets the errno with which recorded calls fail; 0 lets them succeed.
pub fn answer(errno: c_int) {
    ANSWER.set(errno);
}

thread_local! {
    static ANSWER_OF_LEAVING: Cell<c_int> = const { Cell::new(0) };
}

/// Sets the errno with which leaving a group fails.
pub fn answer_leaving(errno: c_int) {
    ANSWER_OF_LEAVING.set(errno);
}

/// A similar id, whose `connect` waits, for 2 seconds at most, until [`CONNECTING`] is 2.
pub(crate) fn connecting(key: u64) -> Id {
    id_by(&WAITING, key, None)
}

/// Set to 1 when the id of [`connecting`] connects.
pub static CONNECTING: AtomicU8 = AtomicU8::new(0);

static WAITING: Calls = Calls {
    connect: |_, _| {
        CONNECTING.store(1, Ordering::SeqCst);
        let began = Instant::now();
        while CONNECTING.load(Ordering::SeqCst) != 2 {
            if began.elapsed() > Duration::from_secs(2) {
                return libc::ETIMEDOUT;
            }
            std::thread::yield_now();
        }
        0
    },
    ..NOTING
};

fn noted(call: impl Into<String>) -> c_int {
    saw(call);
    ANSWER.get()
}

/// Stubs for librdmacm's calls.
static NOTING: Calls = Calls {
    destroy_event_channel: |channel| {
        noted("destroy_event_channel");
        // SAFETY: `id_by` made the channel and its descriptor, and it is destroyed once.
        unsafe { libc::close(Box::from_raw(channel).fd) };
    },
    get_cm_event: |_| {
        noted("get_cm_event");
        Err(libc::EAGAIN)
    },
    destroy_id: |id| {
        let answer = noted("destroy_id");
        if answer == 0 {
            // SAFETY: `id_by` made the id, and it is destroyed once.
            drop(unsafe { Box::from_raw(id) });
        }
        answer
    },
    migrate_id: |_, _| noted("migrate"),
    set_option: |_, level, option, value, len| {
        // SAFETY: the option is readable (the call's contract).
        let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
        noted(format!("set_option {level}, {option}, {value:?}"))
    },
    join_multicast: |_, at, _| {
        // SAFETY: the address is readable (the call's contract).
        noted(format!("join {}", unsafe { from_c(at) }.unwrap()))
    },
    leave_multicast: |_, at| {
        // SAFETY: the address is readable (the call's contract).
        let answer = noted(format!("leave {}", unsafe { from_c(at) }.unwrap()));
        if answer == 0 { ANSWER_OF_LEAVING.get() } else { answer }
    },
    ..LIBRDMACM
};

fn id_by(calls: &'static Calls, key: u64, saw: Option<(u32, c_int)>) -> Id {
    let seen = Arc::new(Seen::of(key));
    if let Some((event, status)) = saw {
        seen.see(event, status);
    }
    let channel = Arc::new(channel_by(calls));
    Id::new(NonNull::from(Box::leak(Box::new(zeroed()))), seen, channel)
}

fn channel_by(calls: &'static Calls) -> Channel {
    // SAFETY: the call has no preconditions. The counter is 0, so the descriptor is never readable.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) };
    let ptr = NonNull::from(Box::leak(Box::new(raw::rdma_event_channel { fd })));
    // SAFETY: the calls expect this channel, and nothing else destroys it.
    unsafe { Channel::of(ptr, calls) }
}

/// A channel for ids that record their calls.
pub(crate) fn silent_channel() -> Channel {
    channel_by(&NOTING)
}

/// Makes the channel's own descriptor readable without notifying the one that watches it.
pub fn be_readable_in_silence(channel: &Channel) {
    let watch = channel.watch.as_ref().unwrap().as_raw_fd();
    let mut nothing = libc::epoll_event { events: 0, u64: 0 };
    let one = 1_u64.to_ne_bytes();
    // SAFETY: both descriptors are open, and the event and the number are locals.
    unsafe {
        libc::epoll_ctl(watch, libc::EPOLL_CTL_MOD, channel.own_fd().as_raw_fd(), &mut nothing);
        libc::write(channel.own_fd().as_raw_fd(), one.as_ptr().cast(), one.len());
    }
}

/// Sets the port, by which stubs identify an id.
pub(crate) fn set_port(id: &Id, port: u8) {
    // SAFETY: `id` leaked it, and nothing else uses it.
    unsafe { (*id.ptr.as_ptr()).port_num = port };
}

/// An event of the id `key` about the group `group`.
pub fn event(key: u64, group: u64, event: u32, status: c_int) -> Copied {
    let arm = Arm::Ud { ah_attr: zeroed(), qp_num: 0xff_ffff, qkey: 0x0123_4567, group };
    let life = Seen::of(key).life();
    Copied { key, life, event, status, arm, data: Vec::new(), request: None }
}
