//! rdma_cm on every device: on a loopback fabric, and on a real device if `PROVERBS_DEVICE` names
//! one (`PROVERBS_ADDRESS`: its IP address; otherwise `PROVERBS_GID_INDEX`: the index of its RoCE
//! v2 GID, 1 if unset). `leaks` counts the process's resources, so it runs in its own process:
//! `cargo test --test cm -- --ignored`.
// Except for one query of the allocator, in `leaks`.
#![deny(unsafe_code)]
// A refused step returns everything by value.
#![allow(clippy::result_large_err)]

#[cfg(all(feature = "tokio", not(miri)))]
mod awaited;
mod channel;
mod connect;
mod datagram;
mod death;
mod endpoint;
mod ends;
mod fabric;
mod failure;
mod ib_addresses;
#[cfg(target_env = "gnu")] // mallinfo2(3)
mod leaks;
mod options;
mod order;
#[path = "../patience/mod.rs"]
mod patience;
mod removal;
mod removed;
mod replaced;
mod scenarios;
mod steps;
mod support;
mod table;
mod waits;

use patience::long;
