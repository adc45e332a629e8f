//! The numbers, states, transports and errors of verbs, which all crates share.

#![forbid(unsafe_code)]

pub mod absence;
pub mod bounded;
pub mod bounds;
pub mod counters;
pub mod depth;
pub mod error;
pub mod gid;
pub mod odp;
pub mod post_error;
pub mod rate;
pub mod refused;
pub mod state;
pub mod threads;
pub mod transport;
pub mod wc;
