//! Shared by the tests: a device, connected pairs, polling with a limit, buffers with known
//! content.

mod bufs;
mod datagrams;
mod device;
#[cfg(feature = "cm")]
mod iwarp;
mod marks;
mod pair;
#[path = "../../patience/mod.rs"]
mod patience;
mod poll;
mod scripted;
mod wire;

pub use bufs::{filled, holds, numbered, poisoned, untouched};
pub use datagrams::{Datagrams, QKEY};
pub(crate) use device::by_rule;
pub use device::{Device, Kind, linux, said};
#[cfg(feature = "cm")]
#[allow(unused_imports)] // used by other suites
pub use iwarp::{ends, let_ids_go};
#[allow(unused_imports)]
pub(crate) use marks::fails_on;
#[allow(unused_imports)] // used by other suites than conformance
pub use marks::{On, is_known_to_fail, patience};
pub use pair::{AnyDepth, Bring, Pair, Wish};
#[allow(unused_imports)] // used by other suites
pub use patience::long;
pub use poll::{Done, arrives, complete, drained, left_behind, poll, poll_empty, stop, until};
pub use scripted::{Say, Scripted};
pub use wire::Wire;

/// Without rdma_cm there are no ids.
#[cfg(not(feature = "cm"))]
#[allow(dead_code)]
pub fn let_ids_go() {}
