//! A buffer has one holder at a time, and a pool is freed once, with the last of its buffers.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::Pool;
use crate::loom_tests::{model, pd};

/// A context that each holder writes to, and that counts its drops.
pub struct Context {
    times: UnsafeCell<u32>,
    gone: Arc<AtomicU32>,
}

// SAFETY: only the holder of the buffer's handle accesses it; loom checks this.
unsafe impl Send for Context {}

impl Context {
    pub fn new(gone: &Arc<AtomicU32>) -> Context {
        Context { times: UnsafeCell::new(0), gone: gone.clone() }
    }

    pub fn touch(&self) {
        // SAFETY: the caller has the handle of its buffer. Otherwise loom fails.
        self.times.with_mut(|times| unsafe { *times += 1 });
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.touch();
        self.gone.fetch_add(1, Relaxed);
    }
}

/// A pool, and the number of its contexts that have been dropped.
pub fn pool(count: usize) -> (Pool<Context>, Arc<AtomicU32>) {
    let gone = Arc::new(AtomicU32::new(0));
    let memory: Box<[u64]> = vec![0; count].into();
    let pool = pd().pool(8).contexts(|_| Context::new(&gone)).create_in(memory).unwrap();
    (pool, gone)
}

/// Two threads take the only buffer.
#[test]
fn a_buffer_has_one_holder() {
    model(4, || {
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

/// The pool's own handles are dropped first. Two threads return buffers, and a third has taken and
/// returned one.
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

/// One thread takes the buffers that two others return, whichever list they are in. Each is counted
/// once.
#[test]
fn what_comes_home_meanwhile_is_found() {
    model(2, || {
        let (pool, gone) = pool(2);
        let bufs = [pool.take().unwrap(), pool.take().unwrap()];
        let threads = bufs.map(|buf| {
            thread::spawn(move || {
                buf.context().touch();
                drop(buf);
            })
        });
        let taken = [pool.take(), pool.take()];
        taken.iter().flatten().for_each(|buf| buf.context().touch());
        let out = taken.iter().flatten().count();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(pool.available(), 2 - out);
        drop(taken);
        let all = [pool.take().unwrap(), pool.take().unwrap()];
        assert!(pool.take().is_none());
        drop(pool);
        assert_eq!(gone.load(Relaxed), 0);
        drop(all);
        assert_eq!(gone.load(Relaxed), 2);
    });
}

/// Two threads take at the same time. Each gets one of the two buffers, one of which was returned
/// before.
#[test]
fn two_threads_take_what_is_there() {
    loom::model(|| {
        let (pool, gone) = pool(2);
        drop(pool.take());
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.take().unwrap().context().touch())
        };
        let mine = pool.take().unwrap();
        mine.context().touch();
        other.join().unwrap();
        assert_eq!(pool.available(), 1);
        drop(pool);
        drop(mine);
        assert_eq!(gone.load(Relaxed), 2);
    });
}

/// While one thread reads a slot, another takes it and returns it, and the next slot is taken. The
/// next slot still has one holder.
#[test]
fn a_slot_that_was_gone_meanwhile_is_not_mistaken() {
    model(3, || {
        let (pool, _) = pool(2);
        drop([pool.take(), pool.take()]);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let (first, behind) = (pool.take(), pool.take());
                drop(first);
                behind.iter().for_each(|buf| buf.context().touch());
            })
        };
        let mine = [pool.take(), pool.take()];
        mine.iter().flatten().for_each(|buf| buf.context().touch());
        drop(mine);
        other.join().unwrap();
        assert_eq!(pool.available(), 2);
    });
}
