//! Asynchronous events.

#![allow(unsafe_code)] // C objects.

use std::ffi::c_int;

use super::verb;
use crate::objects::events::Affiliate;
use crate::state::State;
use proverbs_sys::events::AsyncEvent;
use proverbs_sys::types::*;

pub(crate) unsafe fn async_fd(context: *mut ibv_context) -> Result<c_int, c_int> {
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, |state, device| state.async_fd(device)) }
}

/// Nothing is left to acknowledge: the name that its user gave the object is returned, not a
/// pointer.
pub(crate) unsafe fn try_get_async_event(context: *mut ibv_context) -> Result<AsyncEvent, c_int> {
    let take = |state: &mut State, device| {
        let (event, of) = state.take_async(device)?;
        let affiliate = match of {
            Affiliate::Device => 0,
            Affiliate::Port => 1,
            Affiliate::Qp(number) => number.into(),
            Affiliate::Cq(number) => {
                let object = state.cqs.get(&number).and_then(|cq| cq.object);
                // SAFETY: the queue is in the fabric's state, so it is not destroyed, and the
                // fabric is locked.
                object.map_or(0, |object| unsafe { (*object.0.as_ptr()).cq_context }.addr() as u64)
            }
            Affiliate::Srq(number) => {
                let object = state.srqs.get(&number).and_then(|srq| srq.object);
                // SAFETY: the queue is in the fabric's state, so it is not destroyed, and the
                // fabric is locked.
                object.map_or(0, |object| unsafe { (*object.0.as_ptr()).srq_context }.addr() as u64)
            }
        };
        Ok(AsyncEvent { event_type: event, affiliate })
    };
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, take) }
}
