//! The atomics and locks of the protocols between threads. Each protocol is a file of its own, or part of one, that takes them
//! from here: the crate `models` takes in the same file, and has a `crate::sync` with loom's, which runs it in every order that there is
//! (`cargo xtask loom`).
//!
//! loom takes SeqCst accesses for AcqRel, so no protocol relies on more: what must be in one order with something else is one
//! read-modify-write, and what is changed by one is changed by nothing else.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
