//! `src/srq`, what of it is shared.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/srq/dependents.rs"]
pub mod dependents;
