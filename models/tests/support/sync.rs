//! What `src/sync.rs` gives, of loom's.

#![allow(unused_imports)] // each model uses some

pub use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
pub use loom::sync::{Mutex, MutexGuard};
