//! Of several threads that wait for the events of an id, one sleeps on the channel, and the others
//! wait for it.
//!
//! An event is delivered once, to one thread. If all threads slept on the channel, a thread that is
//! not woken in time, or that goes to sleep a moment later, would miss it, and DEVICE_REMOVAL is
//! the last event of an id. So only the thread that has the turn sleeps on the channel, after it
//! has checked the events seen so far. When it gives the turn back, it wakes one other thread,
//! which takes over.
//!
//! # Why no thread sleeps forever
//!
//! The turn is free or taken, under a lock. A thread sleeps only while the turn is taken. Its
//! holder always gives it back, even if it panics, and then wakes one sleeper. If the sleeper finds
//! the turn taken again, by a thread that did not sleep, that thread wakes one when it is done. A
//! thread whose deadline has passed gives up only while the turn is taken, so the same holds for
//! the others.

// Model: src/cm/turn/loom_tests.rs

use std::time::Instant;

use crate::sync::{Condvar, Mutex, MutexGuard, lock};

pub(super) struct Turn {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// Returns the turn when it is dropped.
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    pub fn new() -> Turn {
        Turn { is_taken: Mutex::new(false), is_free: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        lock(&self.is_taken)
    }

    /// Takes the turn, or returns `None` if other threads held it until the deadline.
    // Not a call that waits: not public; `get_request` uses it.
    pub fn take(&self, deadline: Option<Instant>) -> Option<Taken<'_>> {
        let mut is_taken = self.lock();
        while *is_taken {
            is_taken = match deadline.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return None,
                Some(left) => {
                    let woken = self.is_free.wait_timeout(is_taken, left);
                    woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                None => {
                    let woken = self.is_free.wait(is_taken);
                    woken.unwrap_or_else(|poisoned| poisoned.into_inner())
                }
            };
        }
        *is_taken = true;
        Some(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.is_free.notify_one();
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
