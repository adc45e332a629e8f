//! The C side of `proverbs`: the types of libibverbs and librdmacm, the data path, the control path
//! as a table, the owners of C objects, and the types that the project's crates share.
//!
//! Programs use `proverbs`, which re-exports what they need. Everything else here may change with
//! any release: `proverbs` requires one exact version. Each public item is nevertheless sound for
//! any caller, or is `unsafe` and states its contract.
//!
//! This is the only crate that names the C bindings: its own module `bindings`, or, with the
//! feature `rdma-sys`, the crate rdma-sys.

#[macro_use]
mod debug;
#[macro_use]
mod decoded;
#[macro_use]
pub mod trace;

pub mod absence;
pub mod ah_table;
pub mod attr;
#[cfg(any(not(feature = "rdma-sys"), test))]
pub mod bindings;
#[cfg(feature = "cm")]
pub mod cm;
pub mod cold;
pub mod control;
pub mod counters;
pub mod create_qp_ex;
pub mod data;
pub mod device;
pub mod events;
pub mod extended;
pub mod fork;
pub mod gid;
pub mod handle;
pub mod interfaces;
pub mod lanes;
mod layout;
pub mod libraries;
pub mod list;
#[cfg(all(test, loom))]
mod loom_tests;
pub mod mem;
pub mod memory;
pub mod persist;
pub mod polling;
pub mod provider;
pub mod query;
pub mod refusal;
pub mod session;
mod siw;
pub mod srd;
mod symbols;
#[cfg(not(all(loom, feature = "loom")))]
pub mod sync;
#[cfg(all(loom, feature = "loom"))]
#[path = "tests/loom.rs"]
pub mod sync;
pub mod terms;
#[cfg(any(test, feature = "testing"))]
pub mod tests;
pub mod tuning;
pub mod types;
pub mod wait;
pub mod window;
pub mod xrc;
