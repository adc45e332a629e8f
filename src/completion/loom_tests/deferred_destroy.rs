//! Queue pairs with deferred destruction are destroyed once, by the thread that comes first.
//!
//! A queue pair that is destroyed while it is being deferred releases its reserved
//! entries and its buffers.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::{CAPACITY, LEFT, inbox, new_counters, poll};
use crate::completion::attachments::Share;
use crate::completion::deferred_destroy::{DeferredDestroy, Over, Rest};
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::{QueueCounters, Quiet};
use crate::srq::dependents::Dependents;

/// A shared receive queue, like `SrqCore`.
struct Core {
    dependents: Dependents,
    counters: Arc<QueueCounters>,
    /// The number of queues that were returned.
    returned: Arc<AtomicU32>,
}

impl Drop for Core {
    fn drop(&mut self) {
        let mut quiet = Quiet::default();
        self.dependents.end(&self.counters, &mut quiet);
        self.returned.fetch_add(quiet.len() as u32, Relaxed);
    }
}

/// A deferred queue pair, as in `qp/defer_destroy.rs`.
struct Dropped {
    counters: Arc<QueueCounters>,
    send: Arc<Inbox>,
    receive: Arc<Inbox>,
    srq: Arc<Core>,
    destroyed: Arc<AtomicU32>,
}

impl Rest for Dropped {
    fn destroy(self: Box<Self>, over: &mut Over) {
        self.destroyed.fetch_add(1, Relaxed);
        self.send.end(&self.counters, LEFT, &mut over.quiet);
        if !Arc::ptr_eq(&self.send, &self.receive) {
            self.receive.end(&self.counters, LEFT, &mut over.quiet);
        }
        over.quiet.end_one(&self.counters);
        over.leftovers.push(Box::new((self.srq, self.send, self.receive)));
    }
}

struct World {
    send: Arc<Inbox>,
    receive: Arc<Inbox>,
    srq: Arc<Core>,
    queue_pair: Dropped,
    destroyed: Arc<AtomicU32>,
    returned: Arc<AtomicU32>,
}

impl World {
    /// A queue pair on a shared receive queue, with one completion queue or two.
    fn new(queues: usize) -> World {
        let receive = inbox();
        let send = if queues == 1 { receive.clone() } else { inbox() };
        let [destroyed, returned] = [0, 0].map(|none| Arc::new(AtomicU32::new(none)));
        let core = Core {
            dependents: Dependents::default(),
            counters: new_counters(),
            returned: returned.clone(),
        };
        let (srq, counters) = (Arc::new(core), new_counters());
        if queues == 1 {
            send.attach("", &counters, [1, 0], Share::Both).unwrap();
        } else {
            send.attach("", &counters, [1, 0], Share::Sends).unwrap();
            receive.attach("", &counters, [0, 0], Share::Receives).unwrap();
        }
        receive.attach("", &srq.counters, [0, 2], Share::Shared).unwrap();
        srq.dependents.completes_into(&receive);
        let queue_pair = Dropped {
            counters,
            send: send.clone(),
            receive: receive.clone(),
            srq: srq.clone(),
            destroyed: destroyed.clone(),
        };
        World { send, receive, srq, queue_pair, destroyed, returned }
    }
}

/// A queue pair is dropped while receives are outstanding. Returns the number of queues that came
/// back.
fn defer_destroy(queue_pair: Dropped) -> usize {
    let (counters, srq) = (queue_pair.counters.clone(), queue_pair.srq.clone());
    let (send, receive) = (queue_pair.send.clone(), queue_pair.receive.clone());
    let deferred = Arc::new(DeferredDestroy::new(Box::new(queue_pair)));
    let mut over = Over::default();
    srq.dependents.defer_destroy(&deferred, &counters, &send, &receive, &mut over);
    poll::give_back(over)
}

/// The shared receive queue is dropped.
fn drop_srq(srq: Arc<Core>) -> usize {
    let mut over = Over::default();
    srq.dependents.close(&mut over);
    poll::give_back(over)
}

/// Drops the rest of `world`, and checks that each queue returned once. `came` is the number that
/// returned before.
fn check_all_returned(mut came: usize, receive: &Inbox, send: &Inbox, returned: &AtomicU32) {
    came += returned.load(Relaxed) as usize;
    assert_eq!(came, 2, "the queue pair, and the shared receive queue");
    assert_eq!([receive.unbooked(), send.unbooked()], [CAPACITY; 2]);
}

#[test]
fn a_queue_pair_and_its_shared_receive_queue() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, returned } = World::new(1);
        let queue_pair = thread::spawn(move || defer_destroy(queue_pair));
        let mut came = drop_srq(srq);
        came += queue_pair.join().unwrap();
        assert_eq!(destroyed.load(Relaxed), 1);
        came += poll::poll(&receive);
        check_all_returned(came, &receive, &send, &returned);
        assert!(poll::asks_the_device(&receive), "nothing is left to do");
    });
}

#[test]
fn a_queue_pair_and_the_poller() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, returned } = World::new(1);
        let queue_pair = thread::spawn(move || defer_destroy(queue_pair));
        let mut came = poll::look(&receive);
        came += queue_pair.join().unwrap();
        came += poll::poll(&receive);
        assert_eq!(destroyed.load(Relaxed), 1);
        came += drop_srq(srq);
        came += poll::poll(&receive);
        check_all_returned(came, &receive, &send, &returned);
    });
}

/// Its two completion queues are dropped at the same time, each on its own thread.
#[test]
fn a_queue_pair_and_its_completion_queues() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, returned } = World::new(2);
        let queue_pair = thread::spawn(move || defer_destroy(queue_pair));
        let other = {
            let send = send.clone();
            thread::spawn(move || poll::drop_poller(&send))
        };
        let mut came = poll::drop_poller(&receive);
        came += queue_pair.join().unwrap() + other.join().unwrap();
        assert_eq!(destroyed.load(Relaxed), 1);
        came += drop_srq(srq);
        check_all_returned(came, &receive, &send, &returned);
    });
}

/// It is already deferred. Dropping the shared receive queue, the poller and the other completion
/// queue race.
#[test]
fn who_ends_a_deferred_queue_pair() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, returned } = World::new(2);
        let mut came = defer_destroy(queue_pair);
        let others = [
            thread::spawn(move || drop_srq(srq)),
            thread::spawn({
                let send = send.clone();
                move || poll::drop_poller(&send)
            }),
        ];
        came += poll::drop_poller(&receive);
        came += others.map(|other| other.join().unwrap()).iter().sum::<usize>();
        assert_eq!(destroyed.load(Relaxed), 1);
        check_all_returned(came, &receive, &send, &returned);
    });
}
