//! Queue pairs that share the entries of a completion queue: posts meet polls, ends and a resize.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::thread;

use crate::completion::attachments::Share;
use crate::completion::counted::Counts;
use crate::completion::inbox::Inbox;
use crate::completion::poll;
use crate::counters::budget::{Budget, Room};
use crate::counters::new_counters;
use crate::counters::queue_counters::{QueueCounters, Quiet, SEND};
use crate::{CAPACITY, LEFT};

/// A completion queue whose entries are shared, and how many completions the device has in it.
#[derive(Clone)]
struct Queue {
    inbox: Arc<Inbox>,
    inside: Arc<AtomicU32>,
}

impl Queue {
    /// With `room` entries that no other queue has.
    fn new(room: u32) -> Queue {
        let counts = Counts { is_shared: true };
        let inbox = Arc::new(Inbox::new(poll::device(), CAPACITY, None, false, counts));
        inbox.attach("", &new_counters(), [0, CAPACITY - room], Share::Shared).unwrap();
        Queue { inbox, inside: Arc::new(AtomicU32::new(0)) }
    }

    fn attach(&self) -> Arc<QueueCounters> {
        let counters = new_counters();
        self.inbox.attach("", &counters, [8, 8], Share::Both).unwrap();
        counters
    }

    /// A post that completes at once. Returns whether it was posted.
    fn post(&self, counters: &QueueCounters, room: u32) -> bool {
        let is_posted = counters.claims(SEND).unwrap().claim(1);
        if is_posted {
            assert!(self.inside.fetch_add(1, Relaxed) < room, "the completion queue overruns");
        }
        is_posted
    }

    /// The device's completion of a send of these counters is polled.
    fn poll(&self, counters: &QueueCounters) {
        self.inside.fetch_sub(1, Relaxed);
        poll::polled(&self.inbox, counters);
    }
}

/// Two threads post while a third polls: there is never more in the completion queue than it holds,
/// and all of it is free in the end.
#[test]
fn posts_and_polls() {
    loom::model(|| {
        let queue = Queue::new(1);
        let (one, two) = (queue.attach(), queue.attach());
        assert!(queue.post(&one, 1), "there is room");
        let others = [one.clone(), two.clone()].map(|counters| {
            let queue = queue.clone();
            thread::spawn(move || queue.post(&counters, 1))
        });
        queue.poll(&one);
        for (posted, counters) in others.into_iter().zip([&one, &two]) {
            if posted.join().unwrap() {
                queue.poll(counters);
            }
        }
        assert_eq!(queue.inbox.unbooked(), 1);
        assert!(queue.post(&two, 1));
    });
}

/// A queue pair ends while a completion of it is polled.
#[test]
fn an_end_beside_a_poll() {
    loom::model(|| {
        let queue = Queue::new(2);
        let one = queue.attach();
        assert!(queue.post(&one, 2) && queue.post(&one, 2));
        let ends = {
            let (inbox, one) = (queue.inbox.clone(), one.clone());
            thread::spawn(move || {
                let mut quiet = Quiet::default();
                inbox.end(&one, LEFT, &mut quiet);
                quiet.end_one(&one);
            })
        };
        queue.poll(&one);
        poll::look(&queue.inbox);
        ends.join().unwrap();
        poll::poll(&queue.inbox);
        assert_eq!(queue.inbox.unbooked(), 2, "the one that was polled, and the one that was not");
        poll::polled(&queue.inbox, &one);
        assert_eq!(queue.inbox.unbooked(), 2, "a completion that comes late gives back nothing");
    });
}

/// A ring takes its kept entry for a post that is rejected, while its last completion is polled.
#[test]
fn a_kept_entry_beside_a_poll() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(2));
        let counters = new_counters();
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

/// A post does not get entries that a concurrent resize removes.
#[test]
fn a_resize_beside_posts() {
    loom::model(|| {
        let queue = Queue::new(2);
        let one = queue.attach();
        let posts = {
            let (queue, one) = (queue.clone(), one.clone());
            thread::spawn(move || [queue.post(&one, 2), queue.post(&one, 2)])
        };
        let resized = queue.inbox.resize(CAPACITY - 1, || Ok(CAPACITY - 1)).is_ok();
        let posted = posts.join().unwrap().into_iter().filter(|&is_posted| is_posted).count();
        assert!(posted == 1 || !resized && posted == 2);
        assert_eq!(queue.inbox.unbooked() as usize + posted, if resized { 1 } else { 2 });
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
        assert_eq!(found, std::task::Poll::Ready(if is_free { Room::Free } else { Room::Gone }));
    });
}
