//! The runtime of generated programs, and the properties that each of them must have.
//!
//! | file | what |
//! |---|---|
//! | `world` | a fabric, threads, faults, the choices of a turn (`choice`) |
//! | `oracle`, `bytes` | the properties of every program |
//! | `calls` | the calls that programs are made of |
//! | `connect`, `profiles` | helpers of programs besides the crate |
//! | `awaited` | awaiting with an executor |
//! | `lanes` | objects that one thread uses |
//! | `fields` | completion queues that are polled for fields |
//! | `own` | the program's own memory, contexts that hold other values |
//! | `srd` | a transport without order |
//! | `watch` | detects programs that sleep forever |
#![forbid(unsafe_code)]
#![allow(clippy::result_large_err)] // As in the crate itself.

mod awaited;
mod bytes;
mod calls;
mod choice;
mod connect;
mod fields;
mod lanes;
mod oracle;
mod own;
mod profiles;
mod srd;
mod watch;
mod world;
mod xrc;

pub use bytes::*;
pub use connect::{Connects, psn, qkey, qpn};
pub use own::*;
pub use profiles::*;
pub use srd::End;
pub use watch::Watch;
pub use world::*;
