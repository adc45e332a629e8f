//! A poll of an empty queue, as in `src/completion/finish.rs`.

use std::sync::Arc;

use crate::completion::deferred_destroy::Over;
use crate::completion::inbox::{Inbox, Poller};
use crate::completion::polled_queue::Reason;
use crate::counters::queue_counters::{QueueCounters, SEND};
use crate::sys::types::ibv_cq;

/// The device's queue, which is never polled.
pub fn device() -> *mut ibv_cq {
    std::ptr::null_mut()
}

/// Drops what a call left to drop. Returns the number of queues whose orphaned buffers it has to
/// return: there are no buffers, so nothing searches for them.
pub fn give_back(over: Over) -> usize {
    over.quiet.len()
}

/// Returns the number of queues whose orphaned buffers it has to return.
pub fn poll(inbox: &Inbox) -> usize {
    if inbox.polled_queue.is_on() { look(inbox) } else { 0 }
}

/// A poll that always looks for work, for models in which other threads are running. loom tracks
/// only the last access of each atomic. If the poll began with a load, a load by another thread
/// would replace it, and loom would not try the change of that thread before the poll.
pub fn look(inbox: &Inbox) -> usize {
    let mut over = Over::default();
    // SAFETY: one thread polls.
    let poller = unsafe { inbox.poller() };
    loop {
        finish_ended(inbox, poller, &mut over);
        inbox.note_ended(poller.passed);
        // The device has no completions.
        poller.seen_empty_at = Some(poller.passed);
        let has_destroyed = finish_ended(inbox, poller, &mut over);
        if poller.watches {
            inbox.polled_queue.give(Reason::Held);
        } else {
            inbox.polled_queue.take(Reason::Held);
        }
        if !has_destroyed {
            return give_back(over);
        }
    }
}

fn finish_ended(inbox: &Inbox, poller: &mut Poller, over: &mut Over) -> bool {
    let (watches, deferred) = inbox.finish_ended(poller, over);
    poller.watches = watches;
    poller.seen_empty_at = None;
    deferred.iter().for_each(|deferred| deferred.end(over));
    !deferred.is_empty()
}

/// Polls a completion of these counters' sends, like `src/completion/counted.rs`.
pub fn polled(inbox: &Inbox, counters: &QueueCounters) {
    let entries = counters.claims(SEND).unwrap().count_polled();
    inbox.budget.give(entries as i32);
    inbox.budget.wake();
}

/// Drops the completion queue, like `CompletionQueue`, which is not polled any more.
pub fn drop_poller(inbox: &Inbox) -> usize {
    let mut over = Over::default();
    for deferred in inbox.take_deferred() {
        deferred.end(&mut over);
    }
    inbox.close(&mut over);
    give_back(over)
}

/// Nothing refers to the completion queue any more: does the same as the drop of `CqShared`.
pub fn close(inbox: Arc<Inbox>) -> usize {
    let mut over = Over::default();
    inbox.close_for_all(&mut over);
    give_back(over)
}

/// Whether a poll calls the device.
pub fn asks_the_device(inbox: &Inbox) -> bool {
    !inbox.polled_queue.is_on()
}
