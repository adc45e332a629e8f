//! Attacks on the safe interface: every way in which wrappers of verbs were broken, and every other
//! that we could think of, as safe programs. What can be forbidden does not compile (ui-tests); the
//! rest is here, and must run clean under Miri in both borrow models, under AddressSanitizer, and
//! on a real device.
//!
//! What forgets something is in `forget`, and what ends a process in `exit`; every other module
//! leaves nothing behind, and Miri looks for leaks there.
#![forbid(unsafe_code)]
#![allow(clippy::forget_non_drop)] // nobody is to rely on what has no Drop today

#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../conformance/support/mod.rs"]
mod support;

mod contexts;
mod descriptors;
mod device_memory;
mod exit;
mod foreign;
mod forget;
mod macros;
mod open_memory;
mod order;
mod parts;
mod prepared;
mod sizes;
mod stale;
mod threads;
mod tuning;
mod unsaid;
mod windows;
