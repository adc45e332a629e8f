//! The ends of a shared receive queue and of the objects around it: queue pairs that receive from
//! it, and completion queues with its completions. Each may end on a thread of its own.
//!
//! A queue pair that ends while receives are outstanding is deferred (`DeferredDestroy`): it
//! is in ERR, and the first of these destroys it: the poller of its receive completion queue, one
//! of its completion queues that is destroyed, or the shared receive queue that is destroyed. So
//! all of them know it.
//!
//! # Why it is destroyed, and once
//!
//! It is destroyed once, because its parts are in `DeferredDestroy`, and are taken out under its
//! lock.
//!
//! It is destroyed at all, because each object that may end first marks its end and then takes its
//! list of queue pairs, both under its lock; and `defer_destroy` enters the queue pair and checks
//! the mark in one step under the same lock. Of two such steps the second sees the first: either
//! the queue pair is in the list that is taken, or `defer_destroy` sees the mark and destroys the
//! queue pair itself. (A completion queue exists as long as the queue pair holds it; what ends is
//! its poller, which sets `is_closed`.)
//!
//! One of them may destroy it while `defer_destroy` still enters it with the others. Those then
//! know a queue pair that is gone already: destroying it does nothing, and its attachments stay as
//! they are, because `Inbox` parks only those of a queue pair that is alive.
//!
//! # Why all learn that the shared receive queue is gone
//!
//! `end` runs when nothing refers to it any more, with `&mut`. It ends the queue in the completion
//! queues that exist then; one that is destroyed meanwhile gives back its part by itself
//! (`Inbox::close_for_all`). Each part is given back once, since that is done under the lock of the
//! inbox, together with the removal of its attachment.

use std::sync::{Arc, Weak};

use crate::completion::attachments::AtEnd;
use crate::completion::deferred_destroy::{DeferredDestroy, Over};
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::{QueueCounters, Quiet};
use crate::sync::{Mutex, MutexGuard, lock};

/// The objects that have to learn of a shared receive queue's end, or it of theirs.
#[derive(Default)]
pub(crate) struct Dependents {
    /// The completion queues with its completions.
    inboxes: Mutex<Vec<Weak<Inbox>>>,
    deferred: Mutex<DeferredHere>,
}

/// The deferred queue pairs that receive from a shared receive queue.
#[derive(Default)]
struct DeferredHere {
    known: Vec<Weak<DeferredDestroy>>,
    /// Whether the shared receive queue was dropped, so that none may be added.
    is_over: bool,
}

impl Dependents {
    /// Notes that its receives may complete into this completion queue.
    pub fn completes_into(&self, inbox: &Arc<Inbox>) {
        let mut inboxes = lock(&self.inboxes);
        inboxes.retain(|known| known.strong_count() != 0);
        let inbox = Arc::downgrade(inbox);
        if !inboxes.iter().any(|known| known.ptr_eq(&inbox)) {
            inboxes.push(inbox);
        }
    }

    /// The number of completion queues that it knows.
    #[cfg(all(test, feature = "loopback"))]
    pub fn inboxes(&self) -> usize {
        self.inboxes.lock().map_or(usize::MAX, |inboxes| inboxes.len())
    }

    fn deferred(&self) -> MutexGuard<'_, DeferredHere> {
        lock(&self.deferred)
    }

    /// Whether the shared receive queue is being destroyed.
    pub fn is_over(&self) -> bool {
        self.deferred().is_over
    }

    /// Defers the destruction of a queue pair with these counters and completion queues. If one of
    /// those that would destroy it has ended already, destroys it at once.
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

    /// Notes a deferred queue pair; false if none may be added.
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

    /// Like `end_deferred`, and lets no more be deferred.
    pub fn close(&self, over: &mut Over) {
        self.deferred().is_over = true;
        self.end_deferred(over);
    }

    /// The shared receive queue with these counters is destroyed.
    pub fn end(&mut self, counters: &Arc<QueueCounters>, quiet: &mut Quiet) {
        let inboxes = self.inboxes.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        for inbox in inboxes.iter().filter_map(Weak::upgrade) {
            // Posted receives are not counted here: the marks in the headers tell.
            inbox.end(counters, AtEnd::UNKNOWN, quiet);
        }
        quiet.end_one(counters);
    }
}

#[cfg(all(test, feature = "loopback"))] // not in the models, whose locks are loom's
mod tests {
    use super::*;

    struct Nothing;

    impl crate::completion::deferred_destroy::Rest for Nothing {
        fn destroy(self: Box<Self>, _: &mut Over) {}
    }

    /// Those that ended are forgotten, however many there were.
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
