//! The contents of `src/sync.rs`, with loom's types.

#![allow(unused)] // each model uses some

use std::cell::UnsafeCell;

pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

macro_rules! global {
    (static $name:ident: $type:ty = $value:expr;) => {
        loom::lazy_static! {
            static ref $name: $type = $value;
        }
    };
}

pub(crate) use global;

pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap()
}

pub fn try_lock<T>(of: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    of.try_lock().ok()
}

pub fn wait(_: u32) {
    loom::thread::yield_now();
}

/// loom's type, with a pointer through which an exclusive owner reads it as plain memory.
pub struct AtomicU64 {
    atomic: loom::sync::atomic::AtomicU64,
    read: UnsafeCell<u64>,
}

// SAFETY: an atomic. A thread that reads it as plain memory owns it exclusively; loom checks this.
unsafe impl Sync for AtomicU64 {}

impl Default for AtomicU64 {
    fn default() -> Self {
        AtomicU64::new(0)
    }
}

impl AtomicU64 {
    pub fn new(value: u64) -> Self {
        AtomicU64 {
            atomic: loom::sync::atomic::AtomicU64::new(value),
            read: UnsafeCell::new(value),
        }
    }

    pub fn load(&self, order: Ordering) -> u64 {
        self.atomic.load(order)
    }

    pub fn store(&self, value: u64, order: Ordering) {
        self.atomic.store(value, order);
    }

    pub fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.atomic.swap(value, order)
    }

    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.atomic.fetch_add(value, order)
    }

    pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.atomic.fetch_sub(value, order)
    }

    pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.atomic.fetch_max(value, order)
    }

    pub fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        to: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.atomic.fetch_update(set, fetch, to)
    }

    /// A pointer to the current value, which must be read immediately.
    pub fn as_ptr(&self) -> *mut u64 {
        // SAFETY: no thread writes to it at the same time; loom checks this.
        let value = unsafe { self.atomic.unsync_load() };
        // SAFETY: no other thread reads it at the same time.
        unsafe { *self.read.get() = value };
        self.read.get()
    }
}
