//! The atomics of the protocols between threads, in one place, so that a model of them can have others: each
//! protocol is a file of its own that takes its atomics from here, and with `--cfg loom` they are loom's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
