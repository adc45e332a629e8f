//! Completion channels and completion queues.

#![allow(unsafe_code)] // C objects.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;

use super::polling::{Queue, functions};
use super::{Channel, errno_of, hand_out, number_beside, verb};
use crate::state::State;
use crate::words::Verb;
use proverbs_sys::control::Created;
use proverbs_sys::polling::{CqAttr, ibv_cq_ex};
use proverbs_sys::types::*;

pub(super) unsafe fn create_comp_channel(context: *mut ibv_context) -> Created<ibv_comp_channel> {
    // SAFETY: `context` is live (the verb's contract).
    let (number, fd) = unsafe { verb(context, State::create_channel) }?;
    let channel = ibv_comp_channel { context, fd, ..zeroed() };
    Ok(hand_out(Channel { channel, number }).cast())
}

/// Takes the event and reads its queue's name under the fabric's lock.
pub(super) unsafe extern "C" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    name: *mut *mut c_void,
) -> c_int {
    let take = |state: &mut State, channel| {
        let of = state.try_event(channel)?.0.as_ptr();
        // SAFETY: the queue is in the fabric's state, so it is not destroyed, and the fabric is
        // locked. Both output pointers are writable (the verb's contract).
        unsafe {
            cq.write(of);
            name.write((*of).cq_context);
        }
        Ok(())
    };
    // SAFETY: `channel` is live (the verb's contract).
    errno_of(unsafe { verb(channel, take) })
}

/// Does nothing: `get_cq_event` has already acknowledged the event, and the queue may be gone.
pub(super) unsafe extern "C" fn ack_cq_events(_: *mut ibv_cq, _: c_uint) {}

pub(super) unsafe fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> Created<ibv_cq> {
    let attr = CqAttr { cqe, channel, vector, wc_flags: 0, is_single_threaded: false };
    // SAFETY: `context` is live, and `channel` is null or live (the verb's contract); `create`
    // requires no more.
    unsafe { create(context, attr) }.map(NonNull::cast)
}

/// Creates every completion queue as an extended one. The plain `ibv_cq` is its prefix.
///
/// # Safety
/// As for the verb `ibv_create_cq_ex`.
pub(super) unsafe fn create(context: *mut ibv_context, attr: CqAttr) -> Created<ibv_cq_ex> {
    let CqAttr { cqe, channel, vector, wc_flags, .. } = attr;
    // SAFETY: the channel is null or live, and the context is live (the verb's contract).
    let channel_number = unsafe { number_beside(context, channel) };
    if channel_number.is_none() && !channel.is_null() {
        return Err(libc::EINVAL);
    }
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

pub(super) unsafe fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> Verb {
    // SAFETY: `cq` is live, and no other thread resizes it (the verb's contract). The granted
    // capacity is written to one field, without a reference to the rest.
    unsafe {
        (*cq).cqe = verb(cq, |state, number| state.resize_cq(number, cqe))? as c_int;
    }
    Ok(())
}
