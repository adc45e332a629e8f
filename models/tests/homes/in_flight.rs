//! `src/in_flight`, what of it the models take in.

#[allow(dead_code)] // all that the crate uses
#[path = "../../../src/in_flight/pending.rs"]
mod pending;

pub(crate) use pending::Pending;

/// Headers name one.
pub struct Counter;
