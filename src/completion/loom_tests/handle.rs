//! Queue pairs that are created with a handle, while the poller polls, resizes, destroys or drops
//! the completion queue.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{CAPACITY, end, new_counters, poll};
use crate::completion::attachments::Share;
use crate::completion::booking::CqShared;
use crate::completion::counted::Counts;
use crate::completion::inbox::Inbox;
use crate::counters::queue_counters::QueueCounters;
use crate::loom_tests::cq;
use crate::memory::header::word;

const EBUSY: i32 = 16;

/// A queue pair, which keeps its completion queue.
struct QueuePair {
    counters: Arc<QueueCounters>,
    queue: Arc<CqShared>,
}

impl QueuePair {
    /// Like `create_qp` with the handle of this inbox; `None` if the completion queue is gone.
    fn create(handle: &Inbox) -> Option<QueuePair> {
        let (queue, counters) = (handle.queue()?, new_counters());
        queue.inbox().attach("", &counters, [1, 1], Share::Both).ok()?;
        Some(QueuePair { counters, queue })
    }

    /// Returns the number of queues whose orphaned buffers it has to return.
    fn end(&self) -> usize {
        end(self.queue.inbox(), &self.counters)
    }
}

/// A completion queue.
fn queue() -> Arc<CqShared> {
    CqShared::new(cq(CAPACITY), CAPACITY, None, Counts::default())
}

/// Creates a queue pair on another thread.
fn create_beside(queue: &CqShared) -> thread::JoinHandle<Option<QueuePair>> {
    let handle = queue.inbox().clone();
    thread::spawn(move || QueuePair::create(&handle))
}

#[test]
fn a_queue_pair_is_created_beside_polls() {
    loom::model(|| {
        let queue = queue();
        // The poller has work, because another queue pair ends.
        let other = QueuePair::create(queue.inbox()).unwrap();
        let mut returned = other.end();
        let created = create_beside(&queue);
        returned += poll::look(queue.inbox());
        let qp = created.join().unwrap().expect("the queue is polled");
        returned += poll::poll(queue.inbox());
        assert_eq!((returned, queue.inbox().unbooked()), (1, CAPACITY - 2), "the new one stays");
        returned += qp.end() + poll::poll(queue.inbox());
        assert_eq!((returned, queue.inbox().unbooked()), (2, CAPACITY));
    });
}

/// Either the completion queue is destroyed, or the queue pair is created.
#[test]
fn a_queue_pair_is_created_while_its_completion_queue_is_destroyed() {
    loom::model(|| {
        let mut queue = queue();
        let created = create_beside(&queue);
        let inbox = queue.inbox().clone();
        let destroyed = inbox.destroy(&mut queue, |queue| queue.map(|_| ()).ok_or(EBUSY));
        let qp = created.join().unwrap();
        assert_ne!(destroyed.is_ok(), qp.is_some());
        // A handle finds the completion queue again, if it was not destroyed.
        assert_eq!(inbox.queue().is_some(), destroyed.is_err());
        let Some(qp) = qp else { return };
        assert_eq!((qp.end() + poll::poll(&inbox), inbox.unbooked()), (1, CAPACITY));
    });
}

/// No entry is reserved that a resize removed.
#[test]
fn a_queue_pair_is_created_beside_a_resize() {
    loom::model(|| {
        let queue = queue();
        let created = create_beside(&queue);
        let resized = queue.inbox().resize(1, || Ok(1)).is_ok();
        let qp = created.join().unwrap();
        assert_ne!(resized, qp.is_some());
        let booked = if qp.is_some() { 2 } else { 0 };
        assert_eq!(queue.inbox().unbooked(), queue.inbox().capacity() - booked);
    });
}

/// The poller drops the completion queue while the last handle is used and dropped. The C object is
/// destroyed once, after the queue pair, if there is one.
#[test]
fn the_last_handle_and_the_drop_of_the_completion_queue() {
    loom::model(|| {
        let queue = queue();
        let object = Arc::downgrade(queue.handle());
        let created = create_beside(&queue);
        let mut came = poll::drop_poller(queue.inbox());
        drop(queue);
        if let Some(qp) = created.join().unwrap() {
            assert_eq!(object.strong_count(), 1, "the queue pair keeps the C object");
            assert!(QueuePair::create(qp.queue.inbox()).is_none(), "nobody polls");
            came += qp.end();
            assert_eq!((came, qp.queue.inbox().unbooked()), (1, CAPACITY));
            let counters = qp.counters.clone();
            drop(qp);
            assert!(counters.is_quiet(), "the completion queue had nothing left to return");
        }
        assert_eq!(object.strong_count(), 0, "destroyed");
    });
}

/// The poller finds the counters of the first completion, however early it comes.
#[test]
fn the_first_completion() {
    first_completion(|handle, counters, post| {
        handle.attach("", counters, [1, 1], Share::Both).unwrap();
        post();
    });
}

/// In the opposite order, the completion may come before its queue pair is known.
#[test]
#[should_panic(expected = "the queue pair is known")]
fn a_post_before_the_queue_pair_is_known() {
    first_completion(|handle, counters, post| {
        post();
        handle.attach("", counters, [1, 1], Share::Both).unwrap();
    });
}

fn first_completion(create_and_post: fn(&Inbox, &Arc<QueueCounters>, &dyn Fn())) {
    loom::model(move || {
        let (queue, counters) = (queue(), new_counters());
        let is_complete = Arc::new(AtomicBool::new(false));
        let posts = {
            let (handle, counters) = (queue.inbox().clone(), counters.clone());
            let is_complete = is_complete.clone();
            thread::spawn(move || {
                let post = || is_complete.store(true, Ordering::Release);
                create_and_post(&handle, &counters, &post);
            })
        };
        // A completion of a selectively signaled send, which the program drops.
        if is_complete.load(Ordering::Acquire) {
            queue.inbox().note_dropped(word::of_ring(counters.ring_tag()).into());
            assert!(counters.dropped().is_some(), "the queue pair is known");
        }
        posts.join().unwrap();
    });
}
