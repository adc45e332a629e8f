//! Queues that have no completions, to be polled in the place of the device's.

#![allow(unsafe_code)] // C objects of our own, and their function

use std::ffi::c_int;

use crate::completion::switch::SETS;
use crate::sys::types::{ibv_context, ibv_cq, ibv_wc, zeroed};

pub(crate) struct StandIns {
    cqs: [ibv_cq; SETS],
    context: ibv_context,
}

// SAFETY: nothing writes to the stand-ins.
unsafe impl Sync for StandIns {}

pub(crate) static STAND_INS: StandIns = StandIns {
    cqs: [const { stand_in() }; SETS],
    context: {
        let mut context = zeroed::<ibv_context>();
        context.ops.poll_cq = Some(nothing);
        context
    },
};

const fn stand_in() -> ibv_cq {
    ibv_cq { context: (&raw const STAND_INS.context).cast_mut(), ..zeroed() }
}

impl StandIns {
    pub fn all(&'static self) -> &'static [ibv_cq; SETS] {
        &self.cqs
    }
}

/// What a poll of a stand-in returns, which is no device's error: those are -1 or a negative errno.
///
/// As it is negative, 0 says that the device's queue was asked and is empty, and nothing else is
/// looked at (4 instructions a poll that finds nothing). A device that answered so would be asked
/// once more, by the cold path, and then believed.
pub(super) const STOOD_IN: c_int = c_int::MIN;

/// The poll function of a stand-in: the poller takes its cold path. No user code runs in here.
unsafe extern "C" fn nothing(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
    STOOD_IN
}
