//! Orphaned buffers are returned once, whichever thread finds them.

use std::ptr;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::pools::{Context, pool};
use super::{Pool, Posted, give};
use crate::counters::queue_counters::{CompletionCounter, QueueCounters, Quiet, RECEIVE};
use crate::loom_tests::model;
use crate::memory::Buf;
use crate::memory::header::Handle;
use crate::memory::orphaned::{make_dear, reclaim_everything};

/// A queue that is attached to one completion queue, and two of its receives.
struct World {
    pool: Pool<Context>,
    counters: Arc<QueueCounters>,
    posted: [Posted; 2],
    gone: Arc<AtomicU32>,
}

fn world() -> World {
    let (pool, gone) = pool(2);
    // (Without counts, so that only the headers show which buffers are orphaned.)
    let counters = QueueCounters::shared(1, 1).unwrap();
    counters.attached();
    let posted = [(); 2].map(|()| give(pool.take().unwrap(), counter(&counters)));
    World { pool, counters, posted, gone }
}

/// The counter in the headers of its receives.
fn counter(counters: &QueueCounters) -> *const CompletionCounter {
    // SAFETY: the counters are alive.
    unsafe { QueueCounters::counter(counters, RECEIVE) }
}

/// Only the orphaned buffers of this queue, although other threads may still be ending it. The
/// queue has one outstanding work request.
pub fn quiet(counters: Arc<QueueCounters>) -> Quiet {
    counters.end([1, 0]);
    let mut quiet = Quiet::default();
    quiet.add(counters);
    quiet
}

/// One of the threads that end the queue reports that nothing can complete any more.
fn end_one(counters: Arc<QueueCounters>) {
    let mut quiet = Quiet::default();
    quiet.end_one(&counters);
    let _ = reclaim_everything(quiet);
}

/// Takes the buffer out of a completion.
fn complete(posted: Posted) -> Buf<Context> {
    // SAFETY: the completion returns the handle.
    let buf: Buf<Context> = unsafe { Buf::from_header(posted.0.as_ptr()) };
    buf.header().take();
    buf.context().touch();
    buf
}

/// One buffer comes out of a completion and is dropped, the other is orphaned. The pool's own
/// handle is dropped, too.
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

/// Another thread searches for orphaned buffers at any time, as `Pool::reclaim` may on another
/// completion queue.
#[test]
fn who_asks_takes_nothing_twice() {
    loom::model(|| {
        let World { pool, counters, posted, .. } = world();
        let asks = {
            let counters = counters.clone();
            thread::spawn(move || {
                if counters.is_quiet() {
                    let _ = reclaim_everything(quiet(counters));
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

/// Another thread takes the free buffer, while the orphaned buffer is pushed onto the list before
/// it.
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

/// A buffer that came out of a completion is posted to another queue immediately. No search takes
/// it for an orphaned buffer.
#[test]
fn a_buffer_that_is_posted_again_is_not_orphaned() {
    loom::model(|| {
        let World { pool, counters, posted, .. } = world();
        let other = QueueCounters::shared(1, 1).unwrap();
        let poller = {
            let (counters, other) = (counters.clone(), other.clone());
            thread::spawn(move || {
                let again = give(complete(posted[0]), counter(&other));
                end_one(counters);
                again
            })
        };
        end_one(counters);
        let again = poller.join().unwrap();
        assert_eq!(pool.available(), 1);
        // SAFETY: the other queue owns it, so it is alive.
        assert_eq!(unsafe { again.0.as_ref() }.posted_to(), counter(&other));
        assert_eq!(reclaim_everything(quiet(other)).handles, 0);
        assert_eq!(pool.available(), 2);
    });
}

/// A queue ends and waits for a search, while the program drops its last handle of the pool.
#[test]
fn nothing_waits_for_a_pool_that_is_given_up() {
    loom::model(|| {
        let (pool, gone) = pool(2);
        let counters = QueueCounters::without_ring(1).unwrap();
        counters.set_may_wait();
        give(pool.take().unwrap(), counter(&counters));
        make_dear(1);
        let ends = thread::spawn(move || {
            let _ = reclaim_everything(quiet(counters));
        });
        drop(pool);
        ends.join().unwrap();
        assert_eq!(gone.load(Relaxed), 2);
    });
}

/// The same while another thread takes the last free buffer, and one more.
#[test]
fn a_take_finds_the_buffer_of_a_queue_that_waits() {
    model(4, || {
        let (pool, _gone) = pool(2);
        let counters = QueueCounters::without_ring(1).unwrap();
        counters.set_may_wait();
        give(pool.take().unwrap(), counter(&counters));
        make_dear(1);
        let takes = {
            let pool = pool.clone();
            thread::spawn(move || [pool.take(), pool.take()])
        };
        let _ = reclaim_everything(quiet(counters));
        let taken = takes.join().unwrap();
        assert_eq!(pool.available() + taken.iter().flatten().count(), 2);
    });
}

/// The opposite order: if a thread releases its reference before it takes the buffer out of its
/// completion, another thread returns the buffer as well.
#[test]
#[should_panic]
fn who_gives_back_his_part_too_early() {
    loom::model(|| {
        let World { pool, counters, posted, .. } = world();
        let poller = {
            let counters = counters.clone();
            thread::spawn(move || {
                end_one(counters);
                // SAFETY: (None: another holder may have it by now. It is inspected and not
                // dropped.)
                give(complete(posted[0]), ptr::null());
            })
        };
        end_one(counters);
        poller.join().unwrap();
        drop(pool);
    });
}
