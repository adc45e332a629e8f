//! A buffer is with one holder at a time, and a pool goes once, with the last of its buffers.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use crate::memory::buf::Pool;

/// A context that each holder writes to, and that tells when it goes.
pub struct Context {
    times: UnsafeCell<u32>,
    gone: Arc<AtomicU32>,
}

// SAFETY: who has the handle of its buffer has it alone, for which loom looks.
unsafe impl Send for Context {}

impl Context {
    pub fn new(gone: &Arc<AtomicU32>) -> Context {
        Context { times: UnsafeCell::new(0), gone: gone.clone() }
    }

    pub fn touch(&self) {
        // SAFETY: as for Send.
        self.times.with_mut(|times| unsafe { *times += 1 });
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.touch();
        self.gone.fetch_add(1, Relaxed);
    }
}

/// A pool, and how many of its contexts are gone.
pub fn pool(count: usize) -> (Pool<Context>, Arc<AtomicU32>) {
    let gone = Arc::new(AtomicU32::new(0));
    let contexts = (0..count).map(|_| Context::new(&gone)).collect();
    (Pool::new(contexts), gone)
}

/// One buffer, which two threads want.
#[test]
fn a_buffer_has_one_holder() {
    loom::model(|| {
        let (pool, gone) = pool(1);
        let work = |pool: Pool<Context>| {
            let buf = pool.take();
            drop(pool);
            buf.iter().for_each(|buf| buf.context().touch());
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

/// The pool's own handles go first; its buffers go home on two threads, and a third one took and gave one back.
#[test]
fn a_pool_goes_with_its_last_buffer() {
    loom::model(|| {
        let (pool, gone) = pool(2);
        let bufs = [pool.take().unwrap(), pool.take().unwrap()];
        assert_eq!(pool.available(), 0);
        let threads = bufs.map(|buf| {
            thread::spawn(move || {
                buf.context().touch();
                drop(buf);
            })
        });
        drop(pool);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(gone.load(Relaxed), 2);
    });
}
