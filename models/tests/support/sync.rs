//! What `src/sync.rs` gives, of loom's.

#![allow(unused)] // each model uses some

use std::cell::UnsafeCell;

pub use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
pub use loom::sync::{Mutex, MutexGuard};

/// loom's, with the pointer by which who has it alone reads it as plain memory.
pub struct AtomicU64 {
    atomic: loom::sync::atomic::AtomicU64,
    read: UnsafeCell<u64>,
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

    /// Of the value as it is now, for a read at once.
    pub fn as_ptr(&self) -> *mut u64 {
        // SAFETY: nobody writes to it meanwhile, for which loom looks.
        let value = unsafe { self.atomic.unsync_load() };
        // SAFETY: nobody else reads it meanwhile.
        unsafe { *self.read.get() = value };
        self.read.get()
    }
}
