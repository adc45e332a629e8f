//! Where completions are polled to, and what becomes of those that a poll's caller did not take.
//!
//! Polling need not look whether some are left: while there are, a stand-in takes the queue's place, and its
//! `poll_cq` hands them out.

#![allow(unsafe_code)] // a C object of our own, and its function

use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::sys::types::{ibv_context, ibv_cq, ibv_wc};

/// How many completions a poll asks for at most.
pub(super) const BATCH: usize = 16;

/// # Invariants
/// - The `left` completions of `wcs` from `next` on are polled and not handed out.
/// - `polled` is the queue `cq`, or while some are left the stand-in.
/// - `wcs` is first: the stand-in finds the batch by it.
#[repr(C)]
pub(super) struct Batch {
    pub wcs: [MaybeUninit<ibv_wc>; BATCH],
    pub left: u32,
    next: u32,
    pub polled: *mut ibv_cq,
    cq: *mut ibv_cq,
}

// SAFETY: the C object may be used from any thread (R17.1); the rest is plain memory.
unsafe impl Send for Batch {}
// SAFETY: as above.
unsafe impl Sync for Batch {}

impl Batch {
    pub fn new(cq: *mut ibv_cq) -> Self {
        Batch { wcs: [const { MaybeUninit::uninit() }; BATCH], left: 0, next: 0, polled: cq, cq }
    }

    /// `left` completions from `next` on are not handed out.
    #[cold]
    pub fn keep(&mut self, next: u32, left: u32) {
        debug_assert!(self.left == 0 && next + left <= BATCH as u32);
        if left == 0 {
            return;
        }
        (self.next, self.left) = (next, left);
        self.polled = (&raw const STAND_IN.cq).cast_mut();
    }

    /// Moves the first completions that are left, `most` at most, to the start, where they are handed out. Gives
    /// their number.
    #[cold]
    pub fn hand_out(&mut self, most: u32) -> u32 {
        let count = self.left.min(most);
        if count == 0 {
            return 0;
        }
        for i in 0..count as usize {
            self.wcs.swap(i, self.next as usize + i);
        }
        self.next += count;
        self.left -= count;
        if self.left == 0 {
            self.polled = self.cq;
        }
        count
    }
}

/// A queue whose `poll_cq` hands out what is left.
struct StandIn {
    cq: ibv_cq,
    context: ibv_context,
}

// SAFETY: nothing writes to it.
unsafe impl Sync for StandIn {}

static STAND_IN: StandIn = StandIn {
    cq: {
        // SAFETY: all zeroes is a value of a queue: null pointers and numbers.
        let mut cq = unsafe { MaybeUninit::<ibv_cq>::zeroed().assume_init() };
        cq.context = (&raw const STAND_IN.context).cast_mut();
        cq
    },
    context: {
        // SAFETY: as above, with functions that are not there.
        let mut context = unsafe { MaybeUninit::<ibv_context>::zeroed().assume_init() };
        context.ops.poll_cq = Some(poll_left);
        context
    },
};

/// # Safety
/// As `poll_cq`; `wc` is that of a batch, for all of which the pointer is good.
unsafe extern "C" fn poll_left(_: *mut ibv_cq, most: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller's contract; `wcs` is first.
    let batch = unsafe { &mut *wc.cast::<Batch>() };
    batch.hand_out(most as u32) as c_int
}
