//! Queues that are always empty, to be polled in the place of the device's.

#![allow(unsafe_code)] // C objects of our own, and their function

use std::ffi::c_int;
use std::mem::MaybeUninit;

use super::switch::SETS;
use crate::sys::types::{ibv_context, ibv_cq, ibv_wc};

pub(super) struct StandIns {
    cqs: [ibv_cq; SETS],
    context: ibv_context,
}

// SAFETY: nothing writes to it.
unsafe impl Sync for StandIns {}

pub(super) static STAND_INS: StandIns = StandIns {
    cqs: [const { stand_in() }; SETS],
    context: {
        // SAFETY: all zeroes is a value of a context: null pointers, numbers, functions that are not there.
        let mut context = unsafe { MaybeUninit::<ibv_context>::zeroed().assume_init() };
        context.ops.poll_cq = Some(nothing);
        context
    },
};

const fn stand_in() -> ibv_cq {
    // SAFETY: all zeroes is a value of a queue: null pointers and numbers.
    let mut cq = unsafe { MaybeUninit::<ibv_cq>::zeroed().assume_init() };
    cq.context = (&raw const STAND_INS.context).cast_mut();
    cq
}

impl StandIns {
    pub fn all(&'static self) -> &'static [ibv_cq; SETS] {
        &self.cqs
    }
}

/// What there is to do is done by the poller, which sees that there is nothing: no code of a user's runs in here.
unsafe extern "C" fn nothing(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
    0
}
