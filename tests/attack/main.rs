//! Attacks on the safe interface: every known way in which wrappers of verbs were broken, and every
//! other that we could think of, as safe programs. Attacks that can be ruled out by types do not
//! compile (ui-tests). The rest is here, and must run clean under Miri in both borrow models, under
//! AddressSanitizer, and on a real device.
//!
//! Tests that forget values are in `forget`, and those that end a process are in `exit`. The other
//! modules leave nothing behind, and Miri checks them for leaks.
#![forbid(unsafe_code)]
#![allow(clippy::forget_non_drop)] // callers must not rely on a type having no Drop today

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
