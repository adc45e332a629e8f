//! rdma_cm on every device: on a loopback fabric, and on a real device when `PROVERBS_DEVICE` names
//! one (`PROVERBS_ADDRESS`: its IP address; without, `PROVERBS_GID_INDEX`: its RoCE v2 GID of one,
//! 1 if unset). `leaks` counts what
//! the process holds, so it runs alone: `cargo test --test cm -- --ignored`.
// But for one look at the allocator, in `leaks`.
#![deny(unsafe_code)]
// A refused step gives everything back, by value.
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
mod leaks;
mod options;
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
