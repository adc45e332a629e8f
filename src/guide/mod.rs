//! The guide: from what a queue pair is to a small key-value store, and pages for who comes from C.
//!
//! Read in order if verbs are new to you. Every example here runs, on the [loopback](crate::loopback) device inside the
//! test program; on hardware, [`Context::open`](crate::Context::open) takes its place. What every example needs is shown once, in
//! [`queue_pairs`], and left out after that, here and on the pages of the types: `context` is an open device, `pd` a protection
//! domain of it, `a` and `b` are two connected queue pairs that complete into `cq`, and `pool` has 16 buffers of 256 bytes.
//!
//! | page | for |
//! |---|---|
//! | [`queue_pairs`] | what the objects are, and how two queue pairs get connected |
//! | [`memory`] | registered memory: who may touch it, and when |
//! | [`posting`] | work requests, chains and lists; what happens when the queue is full |
//! | [`completions`] | how buffers come home, successes and failures |
//! | [`one_sided`] | READ, WRITE and atomics: a key-value store whose server sleeps |
//! | [`porting`] | each C call beside its form here |
//! | [`compile_errors`] | how to read what the compiler says |
//! | [`performance`] | chains, signaling, inline: when each pays, and how to measure it |

#[cfg(feature = "loopback")]
mod ends;

#[cfg(feature = "loopback")]
#[doc(hidden)]
pub use ends::{DatagramEnds, Ends, datagram_ends, ends, ends_of, poll};

#[doc = include_str!("queue_pairs.md")]
pub mod queue_pairs {}

#[doc = include_str!("memory.md")]
pub mod memory {}

#[doc = include_str!("posting.md")]
pub mod posting {}

#[doc = include_str!("completions.md")]
pub mod completions {}

#[doc = include_str!("one_sided.md")]
pub mod one_sided {}

#[doc = include_str!("porting.md")]
pub mod porting {}

#[doc = include_str!("compile_errors.md")]
pub mod compile_errors {}

#[doc = include_str!("performance.md")]
pub mod performance {}
