//! Completion channels and completion queues.

#![allow(unsafe_code)] // C objects.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use super::polling::{Queue, functions};
use super::{Channel, Object, errno_of, hand_out, same_context, verb};
use crate::state::State;
use proverbs_sys::control::Created;
use proverbs_sys::polling::{CqAttr, ibv_cq_ex};
use proverbs_sys::types::*;

pub(crate) unsafe fn create_comp_channel(context: *mut ibv_context) -> Created<ibv_comp_channel> {
    // SAFETY: `context` is live (the verb's contract).
    let (number, fd) = unsafe { verb(context, State::create_channel) }?;
    let channel = ibv_comp_channel { context, fd, ..zeroed() };
    Ok(hand_out(Channel { channel, number }).cast())
}

pub(crate) unsafe fn destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: `channel` is live (the verb's contract).
    let result = unsafe { verb(channel, State::destroy_channel) };
    if result.is_ok() {
        // SAFETY: `create_comp_channel` made it as a `Channel`, and it is destroyed only once.
        drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
    }
    errno_of(result)
}

/// The event is taken and its queue's name read under the fabric's lock.
pub(crate) unsafe extern "C" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    name: *mut *mut c_void,
) -> c_int {
    let take = |state: &mut State, channel| {
        let of = state.try_event(channel)?.0.as_ptr();
        // SAFETY: the queue is in the fabric's state, so it is not destroyed, and the fabric is
        // locked. Both places are writable (the verb's contract).
        unsafe {
            cq.write(of);
            name.write((*of).cq_context);
        }
        Ok(())
    };
    // SAFETY: `channel` is live (the verb's contract).
    errno_of(unsafe { verb(channel, take) })
}

/// Nothing is left to acknowledge, and the queue may be gone.
pub(crate) unsafe extern "C" fn ack_cq_events(_: *mut ibv_cq, _: c_uint) {}

pub(crate) unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> Created<ibv_cq> {
    let attr = CqAttr { cqe, channel, vector, wc_flags: 0, is_single_threaded: false };
    // SAFETY: `context` is live, and `channel` is null or live (the verb's contract); `create` asks
    // for no more.
    unsafe { create(context, attr) }.map(NonNull::cast)
}

/// Each completion queue is made as one of extended polling, of which an ordinary one is the
/// beginning.
///
/// # Safety
/// As for the verb `ibv_create_cq_ex`.
pub(crate) unsafe fn create(context: *mut ibv_context, attr: CqAttr) -> Created<ibv_cq_ex> {
    let CqAttr { cqe, channel, vector, wc_flags, .. } = attr;
    let channel_number = if channel.is_null() {
        None
    } else {
        // SAFETY: context and channel are live (the verb's contract).
        let (same, number) =
            unsafe { (same_context(context, channel), ibv_comp_channel::locate(channel).1) };
        if !same {
            return Err(libc::EINVAL);
        }
        Some(number)
    };
    // SAFETY: `context` is live (the verb's contract).
    let (handle, granted) = unsafe {
        verb(context, |state, device| state.create_cq(device, cqe, channel_number, vector))
    }?;
    let cq = ibv_cq {
        context,
        channel,
        handle,
        cqe: granted as c_int,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        ..zeroed()
    };
    let queue = hand_out(Queue { ex: functions(cq, wc_flags), shown: None });
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, |state, _| state.name_cq(handle, queue.cast())) };
    Ok(queue.cast())
}

pub(crate) unsafe fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: `cq` is live (the verb's contract).
    match unsafe { verb(cq, |state, number| state.resize_cq(number, cqe)) } {
        Ok(granted) => {
            // SAFETY: `cq` is live, and no other thread resizes it (the verb's contract).
            unsafe { (*cq).cqe = granted as c_int };
            0
        }
        Err(errno) => errno,
    }
}

pub(crate) unsafe fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: `cq` is live (the verb's contract).
    let result = unsafe { verb(cq, State::destroy_cq) };
    if result.is_ok() {
        // SAFETY: `create` made it as a `Queue`, and it is destroyed only once.
        drop(unsafe { Box::from_raw(cq.cast::<Queue>()) });
    }
    errno_of(result)
}
