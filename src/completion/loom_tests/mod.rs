//! Models of the state that a completion queue shares with the queues that complete into it:
//! `cargo xtask test loom` runs them. Destruction of these queues races with polls, and with the
//! destruction of the completion queue, on other threads. Only the poll is simulated, and the
//! device's queue is always empty.

#![allow(unsafe_code)] // simulates a poll

mod budget;
mod deferred_destroy;
mod handle;
mod poll;
mod polled_queue;

use std::sync::{Arc, Weak};

use loom::thread;

use crate::completion::attachments::{AtEnd, Share};
use crate::completion::counted::Counts;
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::{QueueCounters, Quiet};

const CAPACITY: u32 = 4;

/// Work requests are outstanding, as for a queue pair that was not drained.
const LEFT: AtEnd = AtEnd { left: [1, 1], may_be_stale: false };

/// Counters of a queue that will leave orphaned buffers.
fn new_counters() -> Arc<QueueCounters> {
    let counters = QueueCounters::new(1).unwrap();
    counters.end([1, 1]);
    counters
}

fn inbox() -> Arc<Inbox> {
    Arc::new(Inbox::new(poll::device(), CAPACITY, None, false, Counts::default()))
}

/// Destroys a queue pair (or ends its accounting before a RESET), like `Core::close`. Returns the
/// number of queues whose orphaned buffers it has to return.
fn end(inbox: &Inbox, counters: &Arc<QueueCounters>) -> usize {
    let mut quiet = Quiet::default();
    inbox.end(counters, LEFT, &mut quiet);
    quiet.end_one(counters);
    quiet.len()
}

/// Two queue pairs are destroyed on one thread while another thread polls. Their reservations end,
/// and polls alone return the buffers of each queue once, however early they began. (The model of
/// the switch covers destruction on two threads.)
#[test]
fn queue_pairs_go_while_the_completion_queue_is_polled() {
    loom::model(|| {
        let (inbox, counters) = (inbox(), [new_counters(), new_counters()]);
        for counters in &counters {
            inbox.attach("", counters, [1, 1], Share::Both).unwrap();
        }
        let ends = {
            let inbox = inbox.clone();
            thread::spawn(move || {
                counters.iter().map(|counters| end(&inbox, counters)).sum::<usize>()
            })
        };
        let mut returned = poll::look(&inbox);
        returned += ends.join().unwrap() + poll::poll(&inbox);
        assert_eq!((returned, inbox.unbooked()), (2, CAPACITY));
        assert!(poll::asks_the_device(&inbox), "nothing is left to do");
    });
}

/// A shared receive queue and one of its two completion queues are destroyed at the same time. It
/// refers to them while they exist.
///
/// Exactly one of the parties in a queue's end returns the outstanding buffers.
#[test]
fn a_shared_receive_queue_and_its_completion_queues() {
    loom::model(|| {
        let (one, two, counters) = (inbox(), inbox(), new_counters());
        for inbox in [&one, &two] {
            inbox.attach("", &counters, [0, 2], Share::Shared).unwrap();
        }
        let known = [&one, &two].map(Arc::downgrade);
        let goes = thread::spawn(move || poll::close(one));
        let queue = thread::spawn(move || {
            let mut quiet = Quiet::default();
            for inbox in known.iter().filter_map(Weak::upgrade) {
                inbox.end(&counters, AtEnd::UNKNOWN, &mut quiet);
            }
            quiet.end_one(&counters);
            quiet.len()
        });
        let mut returned = poll::look(&two);
        returned += goes.join().unwrap() + queue.join().unwrap();
        returned += poll::poll(&two);
        assert_eq!((returned, two.unbooked()), (1, CAPACITY));
    });
}

/// A queue pair with two completion queues, each polled on its own thread.
#[test]
fn a_queue_pair_and_two_completion_queues() {
    loom::model(|| {
        let (sends, receives, counters) = (inbox(), inbox(), new_counters());
        sends.attach("", &counters, [1, 0], Share::Sends).unwrap();
        receives.attach("", &counters, [0, 1], Share::Receives).unwrap();
        let queue = {
            let (sends, receives) = (sends.clone(), receives.clone());
            thread::spawn(move || {
                let mut quiet = Quiet::default();
                sends.end(&counters, LEFT, &mut quiet);
                receives.end(&counters, LEFT, &mut quiet);
                quiet.end_one(&counters);
                quiet.len()
            })
        };
        let other = {
            let receives = receives.clone();
            thread::spawn(move || poll::look(&receives))
        };
        let mut returned = poll::look(&sends);
        returned += queue.join().unwrap() + other.join().unwrap();
        returned += poll::poll(&sends) + poll::poll(&receives);
        assert_eq!(returned, 1);
    });
}

/// A RESET: the queue pair keeps its reservation, whatever is polled at the same time.
#[test]
fn a_reset_keeps_its_booking() {
    reset(|inbox, old, new| {
        inbox.renew(old, new);
        end(inbox, old)
    });
}

/// In the opposite order, which the crate once used, a poll releases the reservation as if the
/// queue were gone.
#[test]
#[should_panic(expected = "the reservation stays")]
fn a_reset_that_ends_its_old_life_first() {
    reset(|inbox, old, new| {
        let returned = end(inbox, old);
        inbox.renew(old, new);
        returned
    });
}

fn reset(renew: fn(&Inbox, &Arc<QueueCounters>, &Arc<QueueCounters>) -> usize) {
    loom::model(move || {
        let (inbox, old, new) = (inbox(), new_counters(), new_counters());
        inbox.attach("", &old, [3, 0], Share::Sends).unwrap();
        let queue = {
            let (inbox, new) = (inbox.clone(), new.clone());
            thread::spawn(move || renew(&inbox, &old, &new))
        };
        let mut returned = poll::look(&inbox);
        returned += queue.join().unwrap();
        returned += poll::poll(&inbox);
        assert_eq!((returned, inbox.unbooked()), (1, CAPACITY - 3), "the reservation stays");
        returned = end(&inbox, &new) + poll::poll(&inbox);
        assert_eq!((returned, inbox.unbooked()), (1, CAPACITY));
    });
}
