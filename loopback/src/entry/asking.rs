//! What a device tells of itself, its clock and its order.

#![allow(unsafe_code)] // C objects.

use std::ffi::c_int;

use super::verb;
use proverbs_sys::asking::{RAW_CLOCK, ibv_values_ex};
use proverbs_sys::types::*;

/// The number of the device on its fabric.
pub(crate) unsafe fn device_index(context: *mut ibv_context) -> c_int {
    // SAFETY: `context` is live (the verb's contract).
    unsafe { verb(context, |_, device| device as c_int) }
}

/// A device that does not tell more than its port does.
pub(crate) unsafe fn query_port_speed(_: *mut ibv_context, _: u8) -> Result<u64, c_int> {
    Err(libc::EOPNOTSUPP)
}

/// The time of the completion that comes next.
pub(crate) unsafe fn query_rt_values(
    context: *mut ibv_context,
    values: &mut ibv_values_ex,
) -> c_int {
    // SAFETY: `context` is live (the verb's contract).
    let ticks = unsafe {
        verb(context, |state, device| {
            state.check_alive(device)?;
            if !state.habits.has_clock() {
                return Err(libc::EOPNOTSUPP);
            }
            Ok(state.habits.time(state.completions + 1, state.now()).ticks)
        })
    };
    match ticks {
        Ok(ticks) => {
            values.comp_mask &= RAW_CLOCK;
            values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec: ticks as i64 };
            0
        }
        Err(errno) => errno,
    }
}

/// Messages are written at once; all but the plainest device keep it to themselves.
pub(crate) unsafe fn data_in_order(qp: *mut ibv_qp, _: u32) -> bool {
    // SAFETY: `qp` is live (the verb's contract).
    unsafe { verb(qp, |state, _| state.habits.is_plain()) }
}
