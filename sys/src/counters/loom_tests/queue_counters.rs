//! How a queue's thread sees the completions that another thread polls. (The poller is the model's
//! first thread. loom tracks only the last access of each atomic. It tries the poller's stores
//! before and after the other thread's loads, but not the reverse, because the poller loads before
//! it stores.)

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, RECEIVE};

/// Counters, and the value that the poller wrote before it counted a completion.
struct Shared {
    counters: std::sync::Arc<QueueCounters>,
    written: [UnsafeCell<u32>; 2],
}

/// A thread that sees a completion as counted also sees everything that was done with it.
#[test]
fn a_completion_that_is_counted_is_done_with() {
    loom::model(|| {
        let counters = QueueCounters::new(1).unwrap();
        let shared = Arc::new(Shared { counters, written: Default::default() });
        let queue = {
            let shared = shared.clone();
            thread::spawn(move || {
                let done = shared.counters.completed(RECEIVE);
                for written in &shared.written[..done as usize] {
                    // SAFETY: the poller no longer uses it; loom checks this.
                    assert_eq!(written.with(|written| unsafe { *written }), 1);
                }
            })
        };
        for written in &shared.written {
            // SAFETY: no other thread reads or writes at the same time; loom checks this.
            written.with_mut(|written| unsafe { *written = 1 });
            // SAFETY: the counters are alive.
            unsafe {
                CompletionCounter::count(QueueCounters::counter(
                    std::sync::Arc::as_ptr(&shared.counters),
                    RECEIVE,
                ))
            };
        }
        queue.join().unwrap();
        assert_eq!(shared.counters.completed(RECEIVE), 2);
    });
}

/// One thread drops the completions of a ring. The queue's thread sees the last of them, whatever
/// it read in between.
#[test]
fn a_dropped_completion_is_not_forgotten() {
    loom::model(|| {
        let counters = QueueCounters::new(1).unwrap();
        let first = u64::from(u32::MAX);
        let queue = {
            let counters = counters.clone();
            thread::spawn(move || {
                (0..2).filter_map(|_| counters.take_dropped()).collect::<Vec<_>>()
            })
        };
        for number in [first, first + 1] {
            counters.note_dropped(number);
        }
        let mut taken = queue.join().unwrap();
        taken.extend(counters.take_dropped());
        assert_eq!(taken.last(), Some(&(first + 1)));
        assert!(taken.is_sorted());
    });
}
