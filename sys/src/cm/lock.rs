//! The lock of an event channel.
//!
//! librdmacm writes to an id without a lock when it takes an event of that id, on whatever thread
//! that happens. So every call on an id is made under the lock of the id's channel, and every event
//! is taken from a channel under its lock. (`Id::connect` is the exception and says why.) An event
//! is copied and acknowledged before the lock is released, so no call on an id waits with the lock
//! held for another thread's event.
//!
//! # Why an id may change its channel
//!
//! A thread that takes an event locks only one channel, and looks up which ids are on it. So moving
//! an id to another channel requires the locks of both. A thread that holds either lock sees
//! whether the id is on its channel, and that cannot change while it holds the lock.
//!
//! # Why no thread waits forever
//!
//! A thread that needs two locks takes the one at the lower address first. So a thread that holds
//! one lock waits only for one at a higher address, and waiting threads cannot form a cycle. Only
//! one other call waits with a lock held: `rdma_resolve_route` waits for ibacm's answer, if ibacm
//! runs. ibacm is another process and needs no lock of this one.

// Model: sys/src/cm/lock/loom_tests.rs

use crate::sync::{Mutex, MutexGuard, lock};

pub(crate) struct Lock(Mutex<()>);

impl Lock {
    pub fn new() -> Lock {
        Lock(Mutex::new(()))
    }

    pub fn lock(&self) -> MutexGuard<'_, ()> {
        // The lock guards no Rust data that a panic could leave half changed.
        lock(&self.0)
    }

    #[cfg(test)]
    pub fn is_free(&self) -> bool {
        self.0.try_lock().is_ok()
    }

    /// Locks this and another lock.
    pub fn with<'a>(&'a self, other: &'a Lock) -> [MutexGuard<'a, ()>; 2] {
        let is_first = std::ptr::from_ref(self) < std::ptr::from_ref(other);
        let (first, second) = if is_first { (self, other) } else { (other, self) };
        let first = first.lock();
        [first, second.lock()]
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
