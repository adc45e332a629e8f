//! A software RDMA device in pure Rust, inside this process. It implements the provider interface
//! of `proverbs-sys`.
//!
//! Programs use `proverbs::loopback`, which has the documentation. Everything here may change with
//! any release: `proverbs` requires one exact version. Each public item is nevertheless sound for
//! any caller.
//!
//! A layer imports only from those above it in this table (`tests/rooms.rs` of `proverbs`).
//!
//! | layer | what |
//! |---|---|
//! | `words` | plain data: work requests, attributes, worlds, personalities, fault scripts |
//! | `objects` | regions, windows, queues, queue pairs, channels, ids: each with its own data |
//! | `state` | all objects of a fabric by number, and the capabilities of its devices |
//! | `verbs` | changes of the state, one file for each kind of object |
//! | `engine` | requester, responder, datagrams, SRD: moves data over the state |
//! | `shared` | the one lock: the engine works before a verb, and after a post |
//! | `c_api` | the C boundary and the table of verbs: converts pointers to numbers |
//! | `fabric` | the controls of a test: worlds, faults, the clock |
//! | `cm` | rdma_cm: ids, their events, and the boundary to C |

#![deny(unsafe_code)]
// A message that cannot be sent is returned by value.
#![allow(clippy::result_large_err)]

mod c_api;
#[cfg(feature = "cm")]
pub mod cm;
mod engine;
mod fabric;
mod objects;
mod shared;
mod state;
mod verbs;
mod words;

#[cfg(test)]
mod tests;

pub use c_api::LOOPBACK;
pub use fabric::Fabric;
#[doc(hidden)]
pub use shared::is_at_work;
pub use words::injected::Injected;
pub use words::personality::{Personality, UnknownPersonality};
pub use words::script::{Fault, Rule, Script};
pub use words::world::{Capacity, Grants, World};
