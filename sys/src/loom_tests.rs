//! Earlier protocols, whose models fail. They show that the models can detect such bugs.

use loom::sync::atomic::Ordering::*;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// L1: a flag says that some queue pair is gone. The poller cleared the flag with a store, and then
/// checked which one it was.
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

/// The same with one step each. (If stores and swaps are mixed, loom allows more orders than real
/// memory does.)
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

/// L2: a shared receive queue reports that it is gone and checks whether a completion queue is
/// left; the completion queue reports that it is gone and checks whether the shared receive queue
/// is left. Each may see the old state of the other.
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

/// A number that is read and written in two separate steps is assigned twice.
#[test]
#[should_panic(expected = "given twice")]
fn a_number_that_is_loaded_and_stored() {
    loom::model(|| {
        let next = Arc::new(AtomicU32::new(1));
        let mint = |next: &AtomicU32| {
            let number = next.load(Acquire);
            next.store(number + 1, Release);
            number
        };
        let other = {
            let next = next.clone();
            thread::spawn(move || mint(&next))
        };
        let mine = mint(&next);
        assert_ne!(mine, other.join().unwrap(), "given twice");
    });
}

/// A thread that wants to be notified of an end checks whether it is over, and then enters the list
/// in a second step. It may then be in a list that no thread reads.
#[test]
#[should_panic(expected = "nobody destroys it")]
fn who_looks_before_he_enters() {
    loom::model(|| {
        let shared = Arc::new(Mutex::new((false, 0)));
        let ends = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut here = shared.lock().unwrap();
                here.0 = true;
                std::mem::take(&mut here.1)
            })
        };
        let is_over = shared.lock().unwrap().0;
        shared.lock().unwrap().1 += 1;
        let destroyed = is_over as u32 + ends.join().unwrap();
        assert_ne!(destroyed, 0, "nobody destroys it");
    });
}
