//! What queues left behind goes back once, whoever finds it.

use std::ptr;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use crate::counters::queue_counters::{CompletionCounter, QueueCounters, Quiet, RECEIVE};
use crate::memory::buf::{Buf, Pool, Posted};
use crate::memory::orphaned::reclaim_everything;
use crate::pools::{Context, model, pool};

/// A queue that is attached to one completion queue, and two of its receives.
struct World {
    pool: Pool<Context>,
    counters: Arc<QueueCounters>,
    posted: [Posted; 2],
    gone: Arc<AtomicU32>,
}

fn world() -> World {
    let (pool, gone) = pool(2);
    // (Without counts, so that the headers alone tell what is orphaned.)
    let counters = QueueCounters::shared(1, 1).unwrap();
    counters.attached();
    let posted = [(); 2].map(|()| pool.take().unwrap().give(counter(&counters)));
    World { pool, counters, posted, gone }
}

/// What the headers of its receives show.
fn counter(counters: &QueueCounters) -> *const CompletionCounter {
    // SAFETY: the counters are alive.
    unsafe { QueueCounters::counter(counters, RECEIVE) }
}

/// What of this queue alone is orphaned, though others may still have a part in its end. One is, of
/// a queue with counts.
pub fn quiet(counters: Arc<QueueCounters>) -> Quiet {
    counters.end([1, 0]);
    let mut quiet = Quiet::default();
    quiet.add(counters);
    quiet
}

/// One of those who have a part in the queue's end says that nothing can complete any more.
fn end_one(counters: Arc<QueueCounters>) {
    let mut quiet = Quiet::default();
    quiet.end_one(&counters);
    let _ = reclaim_everything(&quiet);
}

/// A completion is taken apart.
fn complete(posted: Posted) -> Buf<Context> {
    let buf = Buf::<Context>::take_back(posted);
    buf.context().touch();
    buf
}

/// One comes out of a completion and is dropped, the other is orphaned. The pool's own handle goes,
/// too.
#[test]
fn each_buffer_goes_home_once() {
    loom::model(|| {
        let World { pool, counters, posted, gone } = world();
        let poller = {
            let counters = counters.clone();
            thread::spawn(move || {
                drop(complete(posted[0]));
                end_one(counters);
            })
        };
        drop(pool);
        end_one(counters);
        poller.join().unwrap();
        assert_eq!(gone.load(Relaxed), 2, "the pool went, with its last buffer");
    });
}

/// Another thread asks for what is orphaned at any time, as `Pool::reclaim` may on another
/// completion queue.
#[test]
fn who_asks_takes_nothing_twice() {
    loom::model(|| {
        let World { pool, counters, posted, .. } = world();
        let asks = {
            let counters = counters.clone();
            thread::spawn(move || {
                if counters.is_quiet() {
                    let _ = reclaim_everything(&quiet(counters));
                }
            })
        };
        let poller = {
            let counters = counters.clone();
            thread::spawn(move || {
                drop(complete(posted[0]));
                end_one(counters);
            })
        };
        end_one(counters);
        poller.join().unwrap();
        asks.join().unwrap();
        assert_eq!(pool.available(), 2);
    });
}

/// Another thread takes the buffer that is free, while what is orphaned is entered before it.
#[test]
fn what_goes_home_meanwhile_takes_nothing_along() {
    model(4, || {
        let World { pool, counters, posted, .. } = world();
        drop(complete(posted[0]));
        let takes = {
            let pool = pool.clone();
            thread::spawn(move || pool.take())
        };
        end_one(counters.clone());
        end_one(counters);
        let taken = takes.join().unwrap();
        assert_eq!(pool.available() + taken.iter().count(), 2);
    });
}

/// One that came out of a completion is posted to another queue at once: nobody takes it for one
/// that is orphaned.
#[test]
fn a_buffer_that_is_posted_again_is_not_orphaned() {
    loom::model(|| {
        let World { pool, counters, posted, .. } = world();
        let other = QueueCounters::shared(1, 1).unwrap();
        let poller = {
            let (counters, other) = (counters.clone(), other.clone());
            thread::spawn(move || {
                let again = complete(posted[0]).give(counter(&other));
                end_one(counters);
                again
            })
        };
        end_one(counters);
        let again = poller.join().unwrap();
        assert_eq!(pool.available(), 1);
        // SAFETY: it is with the other queue, and so alive.
        assert_eq!(unsafe { again.0.as_ref() }.posted_to(), counter(&other));
        assert_eq!(reclaim_everything(&quiet(other)).handles, 0);
        assert_eq!(pool.available(), 2);
    });
}

/// The other way round: who gives back his part before he takes his completion apart has his buffer
/// given back by another as well.
#[test]
#[should_panic]
fn who_gives_back_his_part_too_early() {
    loom::model(|| {
        let World { pool, counters, posted, .. } = world();
        let poller = {
            let counters = counters.clone();
            thread::spawn(move || {
                end_one(counters);
                // SAFETY: (None: it may be another's by now. It is looked at and not dropped.)
                complete(posted[0]).give(ptr::null());
            })
        };
        end_one(counters);
        poller.join().unwrap();
        drop(pool);
    });
}
