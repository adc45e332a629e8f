//! The C types and functions that this crate uses, of libibverbs and librdmacm.
//!
//! Their ABI has been stable since rdma-core 20, so they are written down here once, and a build needs neither headers nor
//! libclang. The names are those of rdma-sys; with its feature (a default) its bindings, generated from the installed
//! headers, take the place of these, and `agreement` holds the two against each other. Who needs another name adds it here
//! and there.

#![allow(dead_code, non_camel_case_types)] // C's names, and whole enums

mod attr;
mod cm;
mod enums;
#[cfg(not(feature = "rdma-sys"))]
mod functions;
mod ops;
mod structs;
mod wr;

#[cfg(all(test, feature = "rdma-sys"))]
mod agreement;

pub use attr::*;
pub use cm::*;
pub use enums::*;
#[cfg(not(feature = "rdma-sys"))]
pub use functions::*;
pub use ops::*;
pub use structs::*;
pub use wr::*;
