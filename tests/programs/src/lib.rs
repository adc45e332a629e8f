//! The runtime of generated programs, and the properties that each of them must have.
//!
//! | file | what |
//! |---|---|
//! | `world` | a fabric, threads, faults, what a turn of a program chooses (`choice`) |
//! | `oracle`, `bytes` | what must hold |
//! | `calls` | the calls that programs are made of |
//! | `connect`, `profiles` | what programs use besides the crate |
//! | `awaited` | what an executor waits for |
//! | `lanes` | what one thread uses |
//! | `fields` | completion queues that are polled for fields |
//! | `own` | memory of the program's own, contexts that hold other values |
//! | `srd` | a transport without order |
//! | `watch` | nothing sleeps without end |
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
