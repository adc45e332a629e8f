//! One of several threads waits for the events of an id, and the others wait for it.
//!
//! An event comes once, to one thread. If all slept for it, those that it does not wake in time, or
//! that come to sleep a moment later, would not learn what it was: DEVICE_REMOVAL is the last event
//! of an id. So only the thread that has the turn sleeps on the channel, and looks before at what
//! was seen. When it gives the turn back it wakes one other, which looks in its place.
//!
//! # Why none sleeps on
//!
//! The turn is free or taken, under a lock. A thread sleeps only while it is taken, and whoever has
//! it gives it back, whatever happened, and then wakes one. If that one finds the turn taken again,
//! by a thread that did not sleep, that thread will wake one in its turn. If its time is over, it
//! leaves only with the turn taken, and so with the same promise.

use std::time::Instant;

use crate::sync::{Condvar, Mutex, MutexGuard, lock};

pub(super) struct Turn {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// The turn, until it is dropped.
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    pub fn new() -> Turn {
        Turn { is_taken: Mutex::new(false), is_free: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        lock(&self.is_taken)
    }

    /// Takes the turn; `None` if others had it until the deadline.
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
