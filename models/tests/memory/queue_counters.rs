//! What a queue's thread learns of completions that another thread polls.
//!
//! (The poller is the model's first thread. loom knows of each atomic who touched it last: what the
//! poller stores is tried before and after what the other loads, but not the other way round, since
//! it loads before it stores.)

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, RECEIVE};

/// Counters, and what the poller wrote before it counted a completion.
struct Shared {
    counters: std::sync::Arc<QueueCounters>,
    written: [UnsafeCell<u32>; 2],
}

/// Who counts a completion as done sees all that was done with it.
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
                    // SAFETY: the poller is done with it; loom sees to it.
                    assert_eq!(written.with(|written| unsafe { *written }), 1);
                }
            })
        };
        for written in &shared.written {
            // SAFETY: nobody else writes, and nobody reads meanwhile; loom sees to it.
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

/// Completions of a ring are dropped on one thread. The queue's thread learns of the last of them,
/// whatever it asked meanwhile.
#[test]
fn a_dropped_completion_is_not_forgotten() {
    loom::model(|| {
        let counters = QueueCounters::new(1).unwrap();
        let first = u32::MAX;
        let queue = {
            let counters = counters.clone();
            thread::spawn(move || {
                (0..2).filter_map(|_| counters.take_dropped()).collect::<Vec<_>>()
            })
        };
        for sequence in [first, 0] {
            counters.note_dropped(sequence);
        }
        let mut taken = queue.join().unwrap();
        taken.extend(counters.take_dropped());
        assert_eq!(taken.last(), Some(&0));
        assert!(taken.is_sorted_by_key(|taken| taken.wrapping_sub(first)));
    });
}
