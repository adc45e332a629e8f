//! The C types and functions that this crate uses, of libibverbs and librdmacm.
//!
//! Their ABI has been stable since rdma-core 20, so they are written down here once, and a build
//! needs neither headers nor libclang. The names are rdma-sys's: with its feature, its bindings
//! replace these, and handles are available as its types. `agreement` compares both with each other
//! and with the C headers. A new name is added in both places.

#![allow(dead_code, missing_docs, non_camel_case_types)] // C's names, whole enums, documented in the manual pages

mod attr;
#[cfg(feature = "cm")]
mod cm;
mod enums;
#[cfg(not(feature = "rdma-sys"))]
mod functions;
mod ops;
mod structs;
mod wr;

#[cfg(all(test, feature = "cm", not(miri)))]
mod agreement;

pub use attr::*;
#[cfg(feature = "cm")]
pub use cm::*;
pub use enums::*;
#[cfg(not(feature = "rdma-sys"))]
pub use functions::*;
pub use ops::*;
pub use structs::*;
pub use wr::*;
