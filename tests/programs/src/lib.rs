//! What generated programs have around them, and what must hold for each of them.
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err)] // As in the crate itself.

mod connect;
mod watch;
mod world;

pub use connect::{Connects, join, psn, qkey, qpn};
pub use watch::Watch;
pub use world::*;
