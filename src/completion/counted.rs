//! Counts the polled completions of a completion queue with a shared budget.
//!
//! The adapter is a C object like the placeholders: an `ibv_cq` whose context has the `poll_cq` of
//! this file. It polls the device's queue and returns the entries of the completions that it found
//! to the budget. Other completion queues do not pay for this.

#![allow(unsafe_code)] // our C object, and its function

use std::ffi::c_int;
use std::sync::Arc;

use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::CompletionCounter;
use crate::memory::header::{Header, word};
use crate::sys::data;
use crate::sys::types::{ibv_context, ibv_cq, ibv_wc, zeroed};

/// # Invariants
/// `cq` is first. Nothing is written after `new`.
#[repr(C)]
pub(super) struct Counted {
    cq: ibv_cq,
    queue: *mut ibv_cq,
}

struct Context(ibv_context);

// SAFETY: nothing writes to it.
unsafe impl Sync for Context {}

static CONTEXT: Context = Context({
    let mut context = zeroed::<ibv_context>();
    context.ops.poll_cq = Some(poll);
    context
});

impl Counted {
    /// An adapter that polls `queue`, which is the device's queue or another adapter.
    pub fn new(queue: *mut ibv_cq) -> Arc<Self> {
        let context = (&raw const CONTEXT.0).cast_mut();
        #[allow(clippy::arc_with_non_send_sync)] // `Inbox`, which owns it, is `Sync`
        Arc::new(Counted { cq: ibv_cq { context, ..zeroed() }, queue })
    }

    /// The queue to poll.
    pub fn queue(self: &Arc<Self>) -> *mut ibv_cq {
        // A pointer to the whole adapter, because `poll` derives the adapter from it.
        Arc::as_ptr(self).cast_mut().cast()
    }
}

/// `ibv_poll_cq` of an adapter.
///
/// # Safety
/// `cq` is a live adapter, which the caller may poll. `wc` is the beginning of its inbox, derived
/// from a pointer to the whole inbox, and has room for `most` completions.
unsafe extern "C" fn poll(cq: *mut ibv_cq, most: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the adapter is live and nothing writes to it. The rest is this function's contract.
    unsafe {
        let count = data::poll_cq((*cq.cast::<Counted>()).queue, most, wc);
        if count > 0 {
            give_back(Inbox::of(wc), wc, count as usize);
        }
        count
    }
}

/// Returns the entries of `count` completions to the budget.
///
/// # Safety
/// They were just polled into `wc`, which is in the inbox.
unsafe fn give_back(inbox: &Inbox, wc: *const ibv_wc, count: usize) {
    let mut entries = 0;
    for i in 0..count {
        // SAFETY: the provider wrote the wr_id of each completion.
        let wr_id = unsafe { (*wc.add(i)).wr_id };
        let at = wr_id as usize;
        let counter: *const CompletionCounter = match word::is_none(at) {
            true if at & word::RING != 0 => {
                entries += inbox.count_polled_of_ring(wr_id);
                continue;
            }
            true => word::counter(at),
            // SAFETY: the device returned a wr_id that a queue of this completion queue posted. It
            // owns the handle, so the header is alive.
            false => unsafe { (*word::address::<Header>(at)).posted_to() },
        };
        // SAFETY: the address points to the queue's counter. The completion queue keeps the
        // counters of its queues while completions can arrive.
        let claims = unsafe { counter.as_ref() }.and_then(CompletionCounter::claims);
        entries += claims.map_or(0, |claims| claims.count_polled());
    }
    inbox.budget.give(entries as i32);
    inbox.budget.wake();
}
