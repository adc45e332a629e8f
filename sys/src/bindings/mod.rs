//! The C types and functions that this crate uses, of libibverbs and librdmacm.
//!
//! The ABI has been stable since rdma-core 20, so the types are written down here, and a build
//! needs neither headers nor libclang. The names are those of rdma-sys. With the feature
//! `rdma-sys`, its bindings replace these, and handles are available as its types. `agreement`
//! compares the two with each other and with the C headers. Add a new name in both places.

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
