//! What a poll asks while there is something to do before: no reason is lost, whoever gives one
//! when.

#[allow(dead_code)] // all that the crate uses
#[path = "../../src/completion/polled_queue.rs"]
mod polled_queue;
#[path = "support/sync.rs"]
mod sync;
#[allow(dead_code)] // all that the crate uses
#[path = "support/sys.rs"]
mod sys;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use polled_queue::{PolledQueue, Reason};

struct Inbox {
    polled_queue: PolledQueue,
    /// Whether the queue pair of this number is gone; written before the reason is given.
    gone: [AtomicU32; 2],
}

// SAFETY: the pointers are compared, and not followed.
unsafe impl Send for Inbox {}
// SAFETY: so are these.
unsafe impl Sync for Inbox {}

impl Inbox {
    fn new() -> Arc<Inbox> {
        let queue = std::ptr::null_mut();
        Arc::new(Inbox { polled_queue: PolledQueue::new(queue), gone: Default::default() })
    }

    /// A queue pair goes, on whatever thread.
    fn end(&self, number: usize) {
        self.gone[number].store(1, Relaxed);
        self.polled_queue.give(Reason::Dead);
    }

    /// A poll: what is known to be gone after it, as bits.
    fn poll(&self) -> u32 {
        // (That `is_on` was asked before would hide orders from loom, which knows of each atomic
        // who touched it last.)
        if !self.polled_queue.take(Reason::Dead) {
            return 0;
        }
        self.gone.iter().enumerate().map(|(i, gone)| gone.load(Relaxed) << i).sum()
    }
}

/// Two queue pairs go on two threads while a third polls. What it did not notice, a poll after
/// finds: nothing is left that no poll would ever notice.
///
/// Holds L1: a reason for the poller that arrives while another one is cleared is not lost.
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
        assert!(!inbox.polled_queue.is_on(), "and then the device is asked again");
    });
}

/// The poller's own reason comes and goes, and takes the other's neither away nor along.
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
