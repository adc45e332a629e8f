//! Entries of a completion queue that queue pairs share: what a ring keeps, and tasks that wait.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use crate::counters::budget::{Budget, Room};
use crate::counters::queue_counters::{QueueCounters, SEND};

/// A ring takes its kept entry for a post that is rejected, while its last completion is polled.
#[test]
fn a_kept_entry_beside_a_poll() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(2));
        let counters = QueueCounters::new(1).unwrap();
        counters.share(SEND, &budget);
        let claims = counters.claims(SEND).unwrap();
        assert!(claims.claim(2));
        let polls = {
            let (counters, budget) = (counters.clone(), budget.clone());
            thread::spawn(move || {
                budget.give(counters.claims(SEND).unwrap().count_polled_up_to(0) as i32);
            })
        };
        claims.keep_one(1); // one unsignaled send was posted
        claims.claim_kept();
        claims.keep_one(1);
        polls.join().unwrap();
        assert_eq!((budget.free(), claims.is_kept()), (2, false));
    });
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A task looks for room while a poll makes some: it finds it, or is woken.
#[test]
fn a_task_that_waits_is_woken() {
    waits(|budget| {
        budget.give(1);
        budget.wake();
    });
}

/// The same as the completion queue goes.
#[test]
fn a_task_that_waits_learns_that_nobody_polls() {
    waits(|budget| budget.close(true));
}

fn waits(change: fn(&Budget)) {
    loom::model(move || {
        let budget = Arc::new(Budget::new(0));
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let changes = {
            let budget = budget.clone();
            thread::spawn(move || change(&budget))
        };
        let waker = Waker::from(flag.clone());
        let found = budget.poll_room(&mut Context::from_waker(&waker), 1);
        changes.join().unwrap();
        assert!(found.is_ready() || flag.0.load(Relaxed));
        let found = budget.poll_room(&mut Context::from_waker(&waker), 1);
        let is_free = budget.free() == 1;
        assert_eq!(found, Poll::Ready(if is_free { Room::Free } else { Room::Gone }));
    });
}
