//! A poll of an empty queue, as `src/completion/settle.rs` has it.

use std::sync::Arc;

use super::inbox::{Inbox, Poller};
use super::parked::Over;
use super::switch::Reason;
use crate::sys::types::ibv_cq;

/// The queue of the device, which nothing asks.
pub fn device() -> *mut ibv_cq {
    std::ptr::null_mut()
}

/// Gives how many queues it has to send home what is stranded of.
pub fn poll(inbox: &Inbox) -> usize {
    if inbox.switch.is_on() { look(inbox) } else { 0 }
}

/// A poll that looks in any case, for where other threads are at work: loom knows of each atomic
/// who touched it last. Did the poll begin with a load, another thread's load would take its place,
/// and loom would not try that one's change before the poll.
pub fn look(inbox: &Inbox) -> usize {
    let mut over = Over::default();
    // SAFETY: one thread polls.
    let poller = unsafe { inbox.poller() };
    loop {
        settle(inbox, poller, &mut over);
        inbox.note_ended(poller.passed);
        // The device has nothing.
        poller.seen_empty_at = Some(poller.passed);
        let has_destroyed = settle(inbox, poller, &mut over);
        if poller.watches {
            inbox.switch.give(Reason::Held);
        } else {
            inbox.switch.take(Reason::Held);
        }
        if !has_destroyed {
            return over.send_home();
        }
    }
}

fn settle(inbox: &Inbox, poller: &mut Poller, over: &mut Over) -> bool {
    let (watches, parked) = inbox.settle(poller, over);
    poller.watches = watches;
    poller.seen_empty_at = None;
    parked.iter().for_each(|parked| parked.end(over));
    !parked.is_empty()
}

/// The completion queue is dropped: as `CompletionQueue` does, which nobody polls any more.
pub fn drop_poller(inbox: &Inbox) -> usize {
    let mut over = Over::default();
    for parked in inbox.take_parked() {
        parked.end(&mut over);
    }
    inbox.close(&mut over);
    over.send_home()
}

/// Nothing refers to the completion queue any more: as `CqShared` does when it is dropped.
pub fn close(inbox: Arc<Inbox>) -> usize {
    let mut over = Over::default();
    inbox.close_for_all(&mut over);
    over.send_home()
}

/// Whether a poll asks the device.
pub fn asks_the_device(inbox: &Inbox) -> bool {
    !inbox.switch.is_on()
}
