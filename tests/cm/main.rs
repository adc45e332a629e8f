//! rdma_cm on a real device: `cargo xtask test guest`, or with `PROVERBS_DEVICE` (and
//! `PROVERBS_GID_INDEX`, the RoCE v2 GID of an IP address, 1 if unset) naming a device,
//! `cargo test --test cm -- --ignored`.
// But for one look at the allocator, in `leaks`.
#![deny(unsafe_code)]
// A refused step gives everything back, by value.
#![allow(clippy::result_large_err)]

mod channel;
mod connect;
mod datagram;
mod death;
mod endpoint;
mod failure;
mod leaks;
mod removal;
mod support;
mod waits;
