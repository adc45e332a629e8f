//! Queue pairs that share the entries of a completion queue: posts meet polls, ends and a resize.

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use super::{CAPACITY, LEFT, new_counters, poll};
use crate::completion::attachments::Share;
use crate::completion::counted::Counts;
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::{QueueCounters, Quiet, SEND};

/// A completion queue whose entries are shared, and how many completions the device has in it.
#[derive(Clone)]
struct Queue {
    inbox: Arc<Inbox>,
    inside: Arc<AtomicU32>,
}

impl Queue {
    /// With `room` entries that no other queue has.
    fn new(room: u32) -> Queue {
        let counts = Counts { is_shared: true, has_counters: false };
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
