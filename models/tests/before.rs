//! The protocols of before, whose models fail: what the models of today are worth.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use loom::thread;

/// L1: a flag says that some queue pair is gone. The poller took the flag away by a store, and then looked which.
#[test]
#[should_panic(expected = "nobody will ever notice")]
fn a_flag_that_is_taken_away_by_a_store() {
    let take = |any_dead: &AtomicBool| {
        let any = any_dead.load(Acquire);
        if any {
            any_dead.store(false, Release);
        }
        any
    };
    notices(|any_dead| any_dead.store(true, Release), take);
}

/// The same in one step each. (Where stores and swaps are mixed, loom knows less of their order than memory keeps.)
#[test]
fn a_flag_that_is_taken_away_by_a_swap() {
    let give = |any_dead: &AtomicBool| {
        let _ = any_dead.swap(true, AcqRel);
    };
    notices(give, |any_dead| any_dead.swap(false, AcqRel));
}

fn notices(give: fn(&AtomicBool), take: fn(&AtomicBool) -> bool) {
    loom::model(move || {
        let dead = [AtomicBool::new(false), AtomicBool::new(false)];
        let shared = Arc::new((AtomicBool::new(false), dead));
        let ends = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (any_dead, dead) = &*shared;
                for dead in dead {
                    dead.store(true, Release);
                    give(any_dead);
                }
            })
        };
        let (any_dead, dead) = &*shared;
        let mut noticed = [false; 2];
        let mut poll = || {
            if take(any_dead) {
                for (noticed, dead) in noticed.iter_mut().zip(dead) {
                    *noticed |= dead.load(Acquire);
                }
            }
        };
        poll();
        ends.join().unwrap();
        poll();
        assert_eq!(noticed, [true; 2], "nobody will ever notice");
    });
}

/// L2: a shared receive queue says that it is gone and looks whether a completion queue is left; the completion queue
/// says that it is gone and looks whether the shared receive queue is. Each may see the other as it was.
#[test]
#[should_panic(expected = "each left it to the other")]
fn two_that_look_for_each_other() {
    loom::model(|| {
        let shared = Arc::new((AtomicU32::new(0), AtomicU32::new(1)));
        let completion_queue = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (dead, pending) = &*shared;
                pending.fetch_sub(1, AcqRel);
                dead.load(Acquire) == 1 && pending.load(Acquire) == 0
            })
        };
        let (dead, pending) = &*shared;
        dead.store(1, Release);
        let mine = dead.load(Acquire) == 1 && pending.load(Acquire) == 0;
        assert!(mine | completion_queue.join().unwrap(), "each left it to the other");
    });
}
