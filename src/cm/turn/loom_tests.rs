//! Threads that wait for one event: each takes its turn to wait, and none keeps sleeping after
//! another has received the event.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;

use super::Turn;

/// Three threads. The event is delivered once, to the thread whose turn it is. Each thread finds
/// out about it and returns. (loom fails if a thread sleeps forever.)
///
/// Each thread in `get_request` learns of DEVICE_REMOVAL.
#[test]
fn every_thread_leaves() {
    loom::model(|| {
        // Whether the event was taken, which is recorded with relaxed stores.
        let world = Arc::new((Turn::new(), AtomicU32::new(0)));
        let wait = |world: &(Turn, AtomicU32)| {
            let _turn = world.0.take(None).unwrap();
            if world.1.load(Relaxed) == 0 {
                world.1.store(1, Relaxed);
                return true;
            }
            false
        };
        let threads = [(); 2].map(|()| {
            let world = world.clone();
            thread::spawn(move || wait(&world))
        });
        let here = wait(&world);
        let there = threads.map(|thread| thread.join().unwrap());
        let told = [here, there[0], there[1]].iter().filter(|told| **told).count();
        assert_eq!(told, 1, "one takes the event, the others learn of it");
    });
}
