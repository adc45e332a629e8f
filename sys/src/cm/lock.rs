//! The lock of an event channel.
//!
//! librdmacm writes to an id without a lock while it takes an event of it, on whatever thread that
//! happens. So every call on an id is made under the lock of the id's channel, and every event is
//! taken from a channel under its lock. (`Id::connect` alone does without, and says why.) An event
//! is copied and acknowledged before the lock is released, so no call on an id waits with the lock
//! held for another thread's event.
//!
//! # Why an id may change its channel
//!
//! A thread that takes an event knows one channel only, and looks up which ids are on it. So an
//! id's channel changes under the locks of both channels: with either lock a thread sees an id that
//! is on its channel or is not, and that does not change meanwhile.
//!
//! # Why no thread waits for ever
//!
//! A thread that needs two locks takes the one at the lower address first. So a thread that holds a
//! lock and waits, waits for one at a higher address, and threads that wait like this form no
//! circle. One other call that waits is made with a lock held: `rdma_resolve_route`, where ibacm
//! runs, for its answer. ibacm is another process, and needs no lock of this one.

use crate::sync::{Mutex, MutexGuard, lock};

pub(crate) struct Lock(Mutex<()>);

impl Lock {
    pub fn new() -> Lock {
        Lock(Mutex::new(()))
    }

    pub fn lock(&self) -> MutexGuard<'_, ()> {
        // It guards no Rust data that a panic could have left half changed.
        lock(&self.0)
    }

    #[allow(dead_code)] // the model has no use for it
    pub fn is_free(&self) -> bool {
        self.0.try_lock().is_ok()
    }

    /// This lock and another one.
    pub fn with<'a>(&'a self, other: &'a Lock) -> [MutexGuard<'a, ()>; 2] {
        let is_first = std::ptr::from_ref(self) < std::ptr::from_ref(other);
        let (first, second) = if is_first { (self, other) } else { (other, self) };
        let first = first.lock();
        [first, second.lock()]
    }
}
