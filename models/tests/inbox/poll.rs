//! A poll of an empty queue, as `src/completion/finish.rs` has it.

use std::sync::Arc;

use super::deferred_destroy::Over;
use super::inbox::{Inbox, Poller};
use super::polled_queue::Reason;
use crate::counters::queue_counters::{QueueCounters, SEND};
use crate::sys::types::ibv_cq;

/// The queue of the device, which nothing asks.
pub fn device() -> *mut ibv_cq {
    std::ptr::null_mut()
}

/// Gives how many queues it has to give back what is orphaned of.
pub fn poll(inbox: &Inbox) -> usize {
    if inbox.polled_queue.is_on() { look(inbox) } else { 0 }
}

/// A poll that looks in any case, for where other threads are at work: loom knows of each atomic
/// who touched it last. Did the poll begin with a load, another thread's load would take its place,
/// and loom would not try that one's change before the poll.
pub fn look(inbox: &Inbox) -> usize {
    let mut over = Over::default();
    // SAFETY: one thread polls.
    let poller = unsafe { inbox.poller() };
    loop {
        finish_ended(inbox, poller, &mut over);
        inbox.note_ended(poller.passed);
        // The device has nothing.
        poller.seen_empty_at = Some(poller.passed);
        let has_destroyed = finish_ended(inbox, poller, &mut over);
        if poller.watches {
            inbox.polled_queue.give(Reason::Held);
        } else {
            inbox.polled_queue.take(Reason::Held);
        }
        if !has_destroyed {
            return over.give_back();
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

/// A completion of these counters' sends was polled: as `src/completion/counted.rs` has it.
pub fn polled(inbox: &Inbox, counters: &QueueCounters) {
    let entries = counters.claims(SEND).unwrap().count_polled();
    inbox.budget.give(entries as i32);
    inbox.budget.wake();
}

/// The completion queue is dropped: as `CompletionQueue` does, which nobody polls any more.
pub fn drop_poller(inbox: &Inbox) -> usize {
    let mut over = Over::default();
    for deferred in inbox.take_deferred() {
        deferred.end(&mut over);
    }
    inbox.close(&mut over);
    over.give_back()
}

/// Nothing refers to the completion queue any more: as `CqShared` does when it is dropped.
pub fn close(inbox: Arc<Inbox>) -> usize {
    let mut over = Over::default();
    inbox.close_for_all(&mut over);
    over.give_back()
}

/// Whether a poll asks the device.
pub fn asks_the_device(inbox: &Inbox) -> bool {
    !inbox.polled_queue.is_on()
}
