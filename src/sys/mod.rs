//! The C library: its types, its data path, its control path, and the owners of its objects.
//!
//! This is the only room that names the C bindings: `bindings`, or with its feature rdma-sys.

#![allow(unsafe_code)] // the verbs themselves

pub(crate) mod asking;
#[cfg(any(not(feature = "rdma-sys"), test))]
pub(crate) mod bindings;
#[cfg(feature = "cm")]
pub(crate) mod cm;
pub(crate) mod control;
pub(crate) mod create_qp_ex;
pub(crate) mod data;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod extended;
pub(crate) mod gid;
pub(crate) mod handle;
pub(crate) mod lanes;
mod layout;
pub(crate) mod memory;
pub(crate) mod persist;
pub(crate) mod polling;
pub(crate) mod provider;
pub(crate) mod session;
mod siw;
pub(crate) mod srd;
mod symbols;
#[cfg(test)]
mod tests;
pub(crate) mod tuning;
pub(crate) mod types;
pub(crate) mod window;
pub(crate) mod xrc;
