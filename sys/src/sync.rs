//! The atomics and locks of the protocols between threads. Each protocol is a file, or part of one,
//! that imports them from here. Under `cfg(loom)`, `tests/loom.rs` replaces this file with loom's
//! types, and the models, which are the modules `loom_tests`, run the protocols in every possible
//! order (`cargo xtask test loom-whole`). A file with an atomic or a lock names the file with its
//! model in a line that begins with `// Model: `, or gives the reason in a line `// No model: `.
//!
//! loom treats SeqCst accesses as AcqRel, so no protocol relies on more: changes that must be in
//! one order are read-modify-writes of one atomic, and nothing else changes that atomic.

// No model: this file only names the atomics and locks.

#[cfg(feature = "cm")]
pub use std::sync::Condvar;
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
pub use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Defines a static. (loom's are created again for each order, and not by a constant.)
#[doc(hidden)]
#[macro_export]
macro_rules! __global {
    ($(#[$page:meta])* static $name:ident: $type:ty = $value:expr;) => {
        $(#[$page])*
        static $name: $type = $value;
    };
}

pub use crate::__global as global;

/// Locks, even after a panic of another thread. The data that these locks guard is consistent
/// between any two statements that can panic.
pub fn lock<T: ?Sized>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Locks, unless a thread holds the lock.
pub fn try_lock<T: ?Sized>(of: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match of.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Ok(guard) => Some(guard),
    }
}

/// Waits briefly for another thread that is a few instructions from done, and longer after more
/// `turns`: the thread may have been preempted, and may have a lower priority.
pub fn wait(turns: u32) {
    match turns {
        0..100 => std::hint::spin_loop(),
        100..200 => std::thread::yield_now(),
        _ => std::thread::sleep(std::time::Duration::from_micros(50)),
    }
}
