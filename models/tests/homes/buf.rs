//! `src/buf`, what of it the models take in.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/buf/header.rs"]
pub mod header;
