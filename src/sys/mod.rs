//! The C library: its types, its data path, its control path, its objects.
//!
//! This is the only room that names rdma-sys.

#![allow(unsafe_code)] // the verbs themselves

pub(crate) mod cm;
pub(crate) mod control;
pub(crate) mod data;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod handle;
mod layout;
pub(crate) mod types;
