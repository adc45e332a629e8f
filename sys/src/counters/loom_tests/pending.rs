//! Only the last thread that ends a queue returns the queue's remaining buffers.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::counters::pending::Pending;

/// The work that each thread did before, which the last one must see.
struct Queue {
    pending: Pending,
    done: [UnsafeCell<u32>; 3],
}

impl Queue {
    fn new(completion_queues: usize) -> Arc<Queue> {
        let queue = Queue { pending: Pending::new(), done: Default::default() };
        (0..completion_queues).for_each(|_| queue.pending.add());
        Arc::new(queue)
    }

    /// Thread number `who` has done its part. The last one sees the work of all.
    fn end(&self, who: usize, of: usize) -> u32 {
        // SAFETY: each thread has its own cell until the last one reads them; loom checks this.
        self.done[who].with_mut(|done| unsafe { *done = 1 });
        let is_last = self.pending.end_one();
        if is_last {
            for done in &self.done[..of] {
                // SAFETY: no thread uses its cell any more; loom checks this.
                assert_eq!(done.with(|done| unsafe { *done }), 1);
            }
            assert!(self.pending.is_over());
        }
        is_last as u32
    }
}

/// A queue pair (or a shared receive queue) with two completion queues is destroyed on one thread.
/// On two other threads its completion queues are polled empty or destroyed.
///
/// Exactly one of the parties in a queue's end returns the outstanding buffers.
#[test]
fn one_is_the_last_and_sees_what_the_others_did() {
    loom::model(|| {
        let queue = Queue::new(2);
        let others = [1, 2].map(|who| {
            let queue = queue.clone();
            thread::spawn(move || queue.end(who, 3))
        });
        let mine = queue.end(0, 3);
        let last: u32 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(mine + last, 1);
        assert!(queue.pending.is_over());
    });
}

/// A thread that checks at the same time sees that it is over only when it also sees all work done
/// before.
#[test]
fn who_asks_sees_what_was_done() {
    loom::model(|| {
        let queue = Queue::new(1);
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.end(1, 2))
        };
        let asks = {
            let queue = queue.clone();
            thread::spawn(move || {
                if queue.pending.is_over() {
                    // SAFETY: no thread writes any more; loom checks this.
                    let seen =
                        queue.done[..2].iter().map(|done| done.with(|done| unsafe { *done }));
                    assert_eq!(seen.sum::<u32>(), 2);
                }
            })
        };
        let mine = queue.end(0, 2);
        assert_eq!(mine + other.join().unwrap(), 1);
        asks.join().unwrap();
    });
}
