//! The guide: from the first queue pair to a small key-value store, and pages for porting programs.
//!
//! Read it in order if verbs are new to you. Every example runs on the [loopback](crate::loopback)
//! device inside the test program; on hardware, use [`Context::open`](crate::Context::open)
//! instead. The common setup is shown once, in [`queue_pairs`], and left out afterwards, here and
//! on the pages of the types: `context` is an open device, `pd` is a protection domain of it, `a`
//! and `b` are two connected queue pairs that complete into `cq`, and `pool` has 16 buffers of 256
//! bytes.
//!
//! | page | for |
//! |---|---|
//! | [`queue_pairs`] | the objects, and how to connect two queue pairs |
//! | [`memory`] | registered memory: which code may access it, and when |
//! | [`posting`] | work requests, chains and lists, and full queues |
//! | [`completions`] | how buffers come back, successes and failures |
//! | [`shutdown`] | calls that block, and how to exit in bounded time when a device has stopped |
//! | [`one_sided`] | READ, WRITE and atomics: a key-value store that does not use the server's processor |
//! | [`layout`] | program structure: structs, threads, several types of buffers |
//! | [`tokio`] | awaiting completions, connections and drains; other executors |
//! | [`testing`] | faults, different devices and rdma_cm on the loopback device |
//! | [`porting`] | each C call and its counterpart here |
//! | [`bookkeeping`] | a C program with its own wr_ids and credits, ported to the `unsafe` functions |
//! | [`from_ibverbs`], [`from_sideway`] | the same for programs that use these crates |
//! | [`compile_errors`] | how to read the compiler's messages |
//! | [`performance`] | chains, signaling, inline data: when each pays, and how to measure it |
//! | [`rules`] | the rules of verbs, such as `R2.7`, and how the crate enforces them |

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
