//! How a shared receive queue and the objects around it end: the queue pairs that receive from it,
//! and the completion queues with its completions. Each may end on its own thread.
//!
//! The destruction of a queue pair is deferred (`DeferredDestroy`) if receives are outstanding. A
//! deferred queue pair is in ERR. The first of these destroys it: the poller of its receive
//! completion queue, one of its completion queues when that queue is destroyed, or the shared
//! receive queue when that queue is destroyed. So each of them lists the queue pair.
//!
//! # Why it is destroyed exactly once
//!
//! It is destroyed once, because its parts are in `DeferredDestroy`, and are taken out under its
//! lock.
//!
//! It is always destroyed, because each object that may end first marks its end and then takes its
//! list of queue pairs, both under its lock. `defer_destroy` enters the queue pair and checks the
//! mark in one step under the same lock. Of two such steps the second sees the first: either the
//! queue pair is in the list that is taken, or `defer_destroy` sees the mark and destroys the queue
//! pair itself. (A completion queue exists while the queue pair holds it. Its poller ends first,
//! and sets `is_closed`.)
//!
//! One of them may destroy it while `defer_destroy` still enters it in the lists of the others.
//! Those lists then contain a queue pair that is already destroyed. Destroying it does nothing, and
//! its attachments do not change, because `Inbox` parks only attachments of a queue pair that is
//! alive.
//!
//! # Why all are notified when the shared receive queue is gone
//!
//! `end` runs when nothing refers to the queue any more, with `&mut`. It ends the queue in the
//! completion queues that exist then. One that is destroyed at the same time returns its part
//! itself (`Inbox::close_for_all`). Each part is returned once, because that happens under the lock
//! of the inbox, together with the removal of its attachment.

// Model: src/completion/loom_tests/deferred_destroy.rs

use std::sync::{Arc, Weak};

use crate::completion::attachments::AtEnd;
use crate::completion::deferred_destroy::{DeferredDestroy, Over};
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::{QueueCounters, Quiet};
use crate::sync::{Mutex, MutexGuard, lock};

/// The objects that must be notified when a shared receive queue ends, or that notify it when they
/// end.
#[derive(Default)]
pub(crate) struct Dependents {
    /// The completion queues with its completions.
    pub(crate) inboxes: Mutex<Vec<Weak<Inbox>>>,
    deferred: Mutex<DeferredHere>,
}

/// The deferred queue pairs that receive from a shared receive queue.
#[derive(Default)]
struct DeferredHere {
    known: Vec<Weak<DeferredDestroy>>,
    /// Whether the shared receive queue was dropped, so that none can be added.
    is_over: bool,
}

impl Dependents {
    /// Records that its receives may complete into this completion queue.
    pub fn completes_into(&self, inbox: &Arc<Inbox>) {
        let mut inboxes = lock(&self.inboxes);
        inboxes.retain(|known| known.strong_count() != 0);
        let inbox = Arc::downgrade(inbox);
        if !inboxes.iter().any(|known| known.ptr_eq(&inbox)) {
            inboxes.push(inbox);
        }
    }

    fn deferred(&self) -> MutexGuard<'_, DeferredHere> {
        lock(&self.deferred)
    }

    /// Whether the shared receive queue is being destroyed.
    pub fn is_over(&self) -> bool {
        self.deferred().is_over
    }

    /// Defers the destruction of a queue pair with these counters and completion queues. Destroys
    /// it at once if an object that would do so has ended already.
    pub fn defer_destroy(
        &self,
        deferred: &Arc<DeferredDestroy>,
        counters: &Arc<QueueCounters>,
        send: &Inbox,
        receive: &Inbox,
        over: &mut Over,
    ) {
        if !std::ptr::eq(send, receive) {
            send.knows_deferred(deferred, counters);
        }
        let is_deferred =
            self.knows_deferred(deferred) && receive.defer_destroy(deferred, counters);
        if !is_deferred {
            deferred.end(over);
        }
    }

    /// Records a deferred queue pair. Returns false if none can be added.
    fn knows_deferred(&self, deferred: &Arc<DeferredDestroy>) -> bool {
        let mut here = self.deferred();
        here.known.retain(|known| known.strong_count() != 0);
        here.known.push(Arc::downgrade(deferred));
        !here.is_over
    }

    /// Destroys the deferred queue pairs.
    pub fn end_deferred(&self, over: &mut Over) {
        let known = std::mem::take(&mut self.deferred().known);
        for deferred in known.iter().filter_map(Weak::upgrade) {
            deferred.end(over);
        }
    }

    /// Like `end_deferred`, and prevents further ones from being deferred.
    pub fn close(&self, over: &mut Over) {
        self.deferred().is_over = true;
        self.end_deferred(over);
    }

    /// Called when the shared receive queue with these counters is destroyed.
    pub fn end(&mut self, counters: &Arc<QueueCounters>, quiet: &mut Quiet) {
        let inboxes = self.inboxes.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for inbox in inboxes.iter().filter_map(Weak::upgrade) {
            // Posted receives are not counted here: the marks in the headers identify them.
            inbox.end(counters, AtEnd::UNKNOWN, quiet);
        }
        quiet.end_one(counters);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nothing;

    impl crate::completion::deferred_destroy::Rest for Nothing {
        fn destroy(self: Box<Self>, _: &mut Over) {}
    }

    /// Those that ended are removed, however many there were.
    #[test]
    fn deferred_queue_pairs_that_ended_are_forgotten() {
        let dependents = Dependents::default();
        let lives = Arc::new(DeferredDestroy::new(Box::new(Nothing)));
        assert!(dependents.knows_deferred(&lives));
        for _ in 0..100 {
            assert!(dependents.knows_deferred(&Arc::new(DeferredDestroy::new(Box::new(Nothing)))));
        }
        assert!(dependents.deferred().known.len() <= 2);
        assert!(dependents.deferred().known[0].ptr_eq(&Arc::downgrade(&lives)));
    }
}
