//! Handles that queues left behind go home once, whoever finds them; and a pool goes with the last of its handles, once. The headers and the
//! count of parts are the crate's; what is around them is played.

#[path = "../support/sync.rs"]
mod sync;

mod buf;
mod in_flight;

use std::ptr;

use buf::header::{Header, mark};
use in_flight::Pending;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// The queue that is over at the end, and another one.
const QUEUE: u64 = 5;
const OTHER: u64 = 6;
const RECEIVES: usize = 1;

/// Two buffers that were posted to a queue, and those who have a part in its end.
struct World {
    headers: [Header; 2],
    /// Whose handle came home how often; loom sees to it that nobody else has the handle then.
    home: [UnsafeCell<u32>; 2],
    /// The lock of the register: what is stranded is taken under it.
    register: Mutex<()>,
    pending: Pending,
}

// SAFETY: who has the handle of a header has it alone, as in the crate.
unsafe impl Send for World {}
// SAFETY: so it is.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<World> {
        let header = |_| Header::new(ptr::null_mut(), 8, 0, ptr::null());
        let headers = [0, 1].map(header);
        for header in &headers {
            header.give(mark::of(QUEUE, RECEIVES));
        }
        let pending = Pending::new();
        pending.add();
        Arc::new(World { headers, home: Default::default(), register: Mutex::new(()), pending })
    }

    fn goes_home(&self, handle: usize) {
        self.headers[handle].forget_queue();
        // SAFETY: who sends it home has it alone.
        self.home[handle].with_mut(|times| unsafe { *times += 1 });
    }

    /// As `Headers::take`, and then home.
    fn take_stranded(&self) {
        let mut found = Vec::new();
        {
            let _one = self.register.lock().unwrap();
            for (handle, header) in self.headers.iter().enumerate() {
                if header.posted_to() == Some(QUEUE) {
                    header.forget_queue();
                    found.push(handle);
                }
            }
        }
        found.into_iter().for_each(|handle| self.goes_home(handle));
    }

    /// One of those who have a part says that nothing can complete any more.
    fn end_one(&self) {
        if self.pending.end_one() {
            self.take_stranded();
        }
    }

    fn came_home(&self) -> [u32; 2] {
        // SAFETY: the others have ended.
        [0, 1].map(|handle| self.home[handle].with(|times| unsafe { *times }))
    }
}

/// One handle comes out of a completion and is dropped, the other is stranded. A third thread asks for what is stranded at any time, as `Pool::reclaim`
/// may on another completion queue.
#[test]
fn each_handle_goes_home_once() {
    loom::model(|| {
        let world = World::new();
        let poller = {
            let world = world.clone();
            thread::spawn(move || {
                world.headers[0].take();
                world.goes_home(0);
                world.end_one();
            })
        };
        let asks = {
            let world = world.clone();
            thread::spawn(move || {
                if world.pending.is_over() {
                    world.take_stranded();
                }
            })
        };
        world.end_one();
        poller.join().unwrap();
        asks.join().unwrap();
        assert_eq!(world.came_home(), [1, 1]);
    });
}

/// A handle that came out of a completion is posted to another queue at once: nobody takes it for one that is stranded.
#[test]
fn a_handle_that_is_posted_again_is_not_stranded() {
    loom::model(|| {
        let world = World::new();
        let poller = {
            let world = world.clone();
            thread::spawn(move || {
                world.headers[0].take();
                world.headers[0].give(mark::of(OTHER, RECEIVES));
                world.end_one();
            })
        };
        world.end_one();
        poller.join().unwrap();
        assert_eq!(world.came_home(), [0, 1]);
        assert_eq!(world.headers[0].posted_to(), Some(OTHER));
    });
}

/// The other way round: who gives back his part before he takes his completion apart has its handle sent home by another as well.
#[test]
#[should_panic]
fn who_gives_back_his_part_too_early() {
    loom::model(|| {
        let world = World::new();
        let poller = {
            let world = world.clone();
            thread::spawn(move || {
                world.end_one();
                world.headers[0].take();
                world.goes_home(0);
            })
        };
        world.end_one();
        poller.join().unwrap();
        assert_eq!(world.came_home(), [1, 1]);
    });
}

/// A pool, as `buf/pool.rs` has it: who is at home, and a count that each handle outside is part of.
struct Pool {
    free: Mutex<Vec<usize>>,
    contexts: [UnsafeCell<u32>; 2],
    gone: std::sync::Arc<AtomicU32>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Relaxed);
        assert_eq!(self.free.lock().unwrap().len(), 2, "every handle is at home");
    }
}

/// As `Pool::take`.
fn take(pool: &Arc<Pool>) -> Option<(usize, *const Pool)> {
    let index = pool.free.lock().unwrap().pop()?;
    Some((index, Arc::into_raw(pool.clone())))
}

/// As `put_back`.
fn put_back((index, home): (usize, *const Pool)) {
    // SAFETY: `take` left this reference behind.
    let pool = unsafe { Arc::from_raw(home) };
    pool.free.lock().unwrap().push(index);
    drop(pool);
}

/// Two threads take and give back, the pool's own handles go meanwhile: each context is with one holder at a time, who sees what the one
/// before left in it, and the pool goes once, with the last.
#[test]
fn a_pool_goes_with_its_last_handle() {
    loom::model(|| {
        let gone = std::sync::Arc::new(AtomicU32::new(0));
        let pool = Arc::new(Pool {
            free: Mutex::new(vec![1, 0]),
            contexts: Default::default(),
            gone: gone.clone(),
        });
        let work = |pool: Arc<Pool>| {
            let Some(handle) = take(&pool) else { return };
            // SAFETY: who has the handle has the context alone.
            pool.contexts[handle.0].with_mut(|context| unsafe { *context += 1 });
            drop(pool);
            put_back(handle);
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                work(pool.clone());
                work(pool);
            })
        };
        work(pool);
        other.join().unwrap();
        assert_eq!(gone.load(Relaxed), 1);
    });
}
