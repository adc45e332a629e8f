//! The switch to the slow path of a poll: no reason is lost, whichever thread gives one, and when.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use crate::completion::polled_queue::{PolledQueue, Reason};

struct Inbox {
    polled_queue: PolledQueue,
    /// Whether the queue pair with this number is gone. Written before the reason is given.
    gone: [AtomicU32; 2],
}

// SAFETY: the pointers are compared, and not dereferenced.
unsafe impl Send for Inbox {}
// SAFETY: as for `Send`.
unsafe impl Sync for Inbox {}

impl Inbox {
    fn new() -> Arc<Inbox> {
        let queue = std::ptr::null_mut();
        Arc::new(Inbox { polled_queue: PolledQueue::new(queue), gone: Default::default() })
    }

    /// Destroys a queue pair, on any thread.
    fn end(&self, number: usize) {
        self.gone[number].store(1, Relaxed);
        self.polled_queue.give(Reason::Dead);
    }

    /// A poll. Returns the queue pairs that it found to be gone, as bits.
    fn poll(&self) -> u32 {
        // (A call of `is_on` first would hide orders from loom, which tracks only the last access
        // of each atomic.)
        if !self.polled_queue.take(Reason::Dead) {
            return 0;
        }
        self.gone.iter().enumerate().map(|(i, gone)| gone.load(Relaxed) << i).sum()
    }
}

/// Two queue pairs are destroyed on two threads while a third thread polls. If it misses one, the
/// next poll finds it, so none is missed forever.
///
/// A reason for the poller that arrives while another one is cleared is not lost.
#[test]
fn every_end_is_noticed() {
    loom::model(|| {
        let inbox = Inbox::new();
        let ends = [0, 1].map(|number| {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.end(number))
        });
        let mut known = inbox.poll();
        ends.into_iter().for_each(|end| end.join().unwrap());
        if inbox.polled_queue.is_on() {
            known |= inbox.poll();
        }
        assert_eq!(known, 0b11);
        assert!(!inbox.polled_queue.is_on(), "and then polls call the device again");
    });
}

/// Setting and clearing the poller's own reason does not clear or set the other reason.
#[test]
fn reasons_do_not_cover_each_other_up() {
    loom::model(|| {
        let inbox = Inbox::new();
        let end = {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.end(0))
        };
        inbox.polled_queue.give(Reason::Held);
        assert!(inbox.polled_queue.is_on());
        let mut known = inbox.poll();
        assert!(inbox.polled_queue.is_on(), "something is held");
        assert!(inbox.polled_queue.take(Reason::Held));
        end.join().unwrap();
        if inbox.polled_queue.is_on() {
            known |= inbox.poll();
        }
        assert_eq!(known, 1);
        assert!(!inbox.polled_queue.is_on() && !inbox.polled_queue.take(Reason::Held));
    });
}
