//! The guide: from the first queue pair to a small key-value store, and pages for porting programs.
//!
//! Read it in order if verbs are new to you. Every example runs, on the [loopback](crate::loopback)
//! device inside the test program; on hardware, [`Context::open`](crate::Context::open) takes its
//! place. The common set-up is shown once, in [`queue_pairs`], and left out afterwards, here and on
//! the pages of the types: `context` is an open device, `pd` a protection domain of it, `a` and `b`
//! are two connected queue pairs that complete into `cq`, and `pool` has 16 buffers of 256 bytes.
//!
//! | page | for |
//! |---|---|
//! | [`queue_pairs`] | the objects, and how two queue pairs get connected |
//! | [`memory`] | registered memory: who may access it, and when |
//! | [`posting`] | work requests, chains and lists, and full queues |
//! | [`completions`] | how buffers come back, successes and failures |
//! | [`shutdown`] | calls that block, and ending in bounded time beside a device that has stopped |
//! | [`one_sided`] | READ, WRITE and atomics: a key-value store whose server sleeps |
//! | [`layout`] | where a program keeps its objects: structs, threads, several kinds of buffers |
//! | [`tokio`] | awaiting completions, connections and drains; other executors |
//! | [`testing`] | faults, devices that differ, rdma_cm: on the loopback device |
//! | [`porting`] | each C call beside its form here |
//! | [`bookkeeping`] | a C program with wr_ids and credits of its own, ported to the `unsafe` path |
//! | [`from_ibverbs`], [`from_sideway`] | the same for programs that use these crates |
//! | [`compile_errors`] | how to read the compiler's messages |
//! | [`performance`] | chains, signaling, inline data: when each pays, and how to measure it |
//! | [`rules`] | the rules of verbs, such as `R2.7`, and how the crate enforces each |

macro_rules! pages {
    ($($page:ident)*) => {
        $(#[doc = include_str!(concat!(stringify!($page), ".md"))] pub mod $page {})*
    };
}

pages! {
    queue_pairs memory posting completions shutdown one_sided layout tokio testing porting
    bookkeeping from_ibverbs from_sideway compile_errors performance
}

#[doc = include_str!("../../RULES.md")]
pub mod rules {}
