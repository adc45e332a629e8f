//! Counts the polled completions of a completion queue with a shared budget, or with counters.
//!
//! The adapter is a C object like the placeholders: an `ibv_cq` whose context has the `poll_cq` of
//! this file. It polls the device's queue, returns the entries of the completions that it found to
//! the budget, and counts them for monitoring. Other completion queues do not pay for this.

#![allow(unsafe_code)] // our C object, and its function

use std::ffi::c_int;
use std::sync::Arc;

use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::CompletionCounter;
use crate::counters::tally::CqTally;
use crate::memory::header::{Header, word};
use crate::sys::data;
use crate::sys::types::{ibv_context, ibv_cq, ibv_wc, ibv_wc_opcode, ibv_wc_status, zeroed};

/// # Invariants
/// `cq` is first. Nothing is written after `new`.
#[repr(C)]
pub(super) struct Counted {
    cq: ibv_cq,
    queue: *mut ibv_cq,
    counts: Counts,
    tally: Arc<CqTally>,
}

/// The things that are counted: none by default.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Queue pairs take entries from a shared budget when they post, instead of reserving their
    /// depth.
    pub is_shared: bool,
    /// Completions are counted for monitoring.
    pub has_counters: bool,
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
    pub fn new(queue: *mut ibv_cq, counts: Counts) -> Option<Arc<Self>> {
        if !counts.is_shared && !counts.has_counters {
            return None;
        }
        let context = (&raw const CONTEXT.0).cast_mut();
        let cq = ibv_cq { context, ..zeroed() };
        #[allow(clippy::arc_with_non_send_sync)] // `Inbox`, which owns it, is `Sync`
        Some(Arc::new(Counted { cq, queue, counts, tally: Arc::default() }))
    }

    /// Whether queue pairs take entries from a shared budget when they post.
    pub fn is_shared(&self) -> bool {
        self.counts.is_shared
    }

    /// The counts for monitoring, if there are any.
    pub fn tally(&self) -> Option<&Arc<CqTally>> {
        self.counts.has_counters.then_some(&self.tally)
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
        let adapter = &*cq.cast::<Counted>();
        let count = data::poll_cq(adapter.queue, most, wc);
        if count > 0 && adapter.counts.is_shared {
            give_back(Inbox::of(wc), wc, count as usize);
        }
        if let (1.., Some(tally)) = (count, adapter.tally()) {
            tally.completions.add(count as u64);
            (0..count as usize).for_each(|i| tell(tally, wc.add(i)));
        }
        count
    }
}

/// Counts a completion for monitoring.
///
/// # Safety
/// The provider wrote `wc`.
unsafe fn tell(tally: &CqTally, wc: *const ibv_wc) {
    // SAFETY: the provider wrote the completion: its status, the opcode of a success, and the
    // length of a receive.
    unsafe {
        let status = (*wc).status;
        if status != ibv_wc_status::IBV_WC_SUCCESS {
            tally.failed[CqTally::place(status)].add(1);
        } else if (*wc).opcode & ibv_wc_opcode::IBV_WC_RECV != 0 {
            tally.bytes.add((*wc).byte_len.into());
        }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! { static FOUND: Cell<c_int> = const { Cell::new(0) } }

    unsafe extern "C" fn found(_: *mut ibv_cq, _: c_int, _: *mut ibv_wc) -> c_int {
        FOUND.get()
    }

    /// Only the completions of this poll are counted, although others are behind them.
    #[test]
    fn each_completion_is_counted_once() {
        let mut context = zeroed::<ibv_context>();
        context.ops.poll_cq = Some(found);
        let mut device = ibv_cq { context: &raw mut context, ..zeroed() };
        let counts = Counts { is_shared: false, has_counters: true };
        let counted = Counted::new(&raw mut device, counts).unwrap();
        let receive = |status| {
            // SAFETY: zeroes are a valid value of these numbers.
            let nothing = unsafe { std::mem::zeroed() };
            ibv_wc { status, opcode: ibv_wc_opcode::IBV_WC_RECV, byte_len: 100, ..nothing }
        };
        use ibv_wc_status::{IBV_WC_SUCCESS as SUCCESS, IBV_WC_WR_FLUSH_ERR as FLUSHED};
        let mut wcs = [SUCCESS, FLUSHED, SUCCESS, SUCCESS].map(receive);
        let mut poll = |count| {
            FOUND.set(count);
            // SAFETY: both queues live, and the completions are written.
            let polled = unsafe { data::poll_cq(counted.queue(), 4, wcs.as_mut_ptr()) };
            assert_eq!(polled, count);
            let tally = counted.tally().unwrap();
            let failed = CqTally::place(FLUSHED);
            [&tally.completions, &tally.bytes, &tally.failed[failed]].map(|count| count.get())
        };
        assert_eq!([0, -5].map(&mut poll), [[0; 3]; 2]);
        assert_eq!([1, 2, 3].map(&mut poll), [[1, 100, 0], [3, 200, 1], [6, 400, 2]]);
    }
}
