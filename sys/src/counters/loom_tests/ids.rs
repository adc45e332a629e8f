//! Each number is assigned once, and each tag has one owner at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use loom::thread;

use crate::counters::ids::{begin_at, mint, mint_below};
use crate::counters::queue_counters::QueueCounters;
use crate::sync::AtomicU64;

/// Two threads take two numbers each.
fn numbers(take: fn(&AtomicU64) -> Option<u64>) -> Vec<u64> {
    let next = Arc::new(AtomicU64::new(1));
    let two = move |next: &AtomicU64| [take(next), take(next)];
    let other = {
        let next = next.clone();
        thread::spawn(move || two(&next))
    };
    let mut numbers = two(&next).to_vec();
    numbers.extend(other.join().unwrap());
    numbers.into_iter().flatten().collect()
}

#[test]
fn a_number_is_given_once() {
    loom::model(|| {
        let numbers: BTreeSet<u64> = numbers(|next| Some(mint(next))).into_iter().collect();
        assert_eq!(numbers, (1..=4).collect());
    });
}

#[test]
fn numbers_are_used_up_once() {
    loom::model(|| {
        let mut numbers = numbers(|next| mint_below(next, 3));
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
    });
}

/// The last tags, and the first one, which another queue has. Two threads create queues, and one of
/// them drops a queue.
#[test]
fn a_tag_is_with_one_queue_at_a_time() {
    loom::model(|| {
        let first = QueueCounters::new(1).unwrap();
        assert_eq!(first.ring_tag(), 1);
        begin_at((1 << 29) - 2);
        let used = Arc::new(Mutex::new(BTreeSet::from([first.ring_tag()])));
        let queue = |used: &Mutex<BTreeSet<u32>>| {
            let counters = QueueCounters::new(1).unwrap();
            let tag = counters.ring_tag();
            assert!(tag != 0 && tag < 1 << 29);
            assert!(used.lock().unwrap().insert(tag), "{tag} is another queue's");
            counters
        };
        let other = {
            let used = used.clone();
            thread::spawn(move || {
                let counters = queue(&used);
                used.lock().unwrap().remove(&counters.ring_tag());
                drop(counters);
                queue(&used)
            })
        };
        let mine = queue(&used);
        let other = other.join().unwrap();
        assert_ne!(mine.ring_tag(), other.ring_tag());
    });
}
