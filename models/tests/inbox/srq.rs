//! The shared parts of `src/srq`.

#[allow(dead_code)] // the models use only a part of it
#[path = "../../../src/srq/dependents.rs"]
pub mod dependents;
