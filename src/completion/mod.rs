//! Completion queues and their channels: polling, decoded completions, and the return of buffers
//! that destroyed queues left behind.

// First, because rustdoc shows methods in the order of the modules that define them.
pub(crate) mod builder;

pub(crate) mod poll;

pub(crate) mod queue;

pub(crate) mod wc;

pub(crate) mod outcome;

pub(crate) mod wait;

// The rest.
pub(crate) mod attachments;
#[cfg(feature = "tokio")]
pub(crate) mod awaited;
pub(crate) mod booking;
pub(crate) mod channel;
pub(crate) mod counted;
pub(crate) mod create;
pub(crate) mod datagram;
pub(crate) mod deferred_destroy;
mod detached;
pub(crate) mod finish;
pub(crate) mod handle;
pub(crate) mod inbox;
#[cfg(all(test, loom))]
mod loom_tests;
pub(crate) mod notify;
pub(crate) mod polled_queue;
pub(crate) mod status;
#[cfg(all(test, feature = "loopback"))]
mod tests;

pub(crate) use crate::sys::polling::adapter;

pub use crate::sys::attr::grh::{GRH_LEN, Grh};
pub use crate::sys::wait::Waker;
pub use crate::terms::counters::CqCounters;
pub use crate::work::wc_opcode::WcOpcode;
#[cfg(feature = "tokio")]
pub use awaited::AsyncCompletionChannel;
pub use builder::CqBuilder;
#[doc(hidden)]
pub use builder::{NoChannel, NoFields, TakesChannel, TakesVector, WithChannel, WithVector};
pub use channel::CompletionChannel;
pub use datagram::UdReceived;
pub use detached::DetachedCompletion;
pub use handle::CqHandle;
pub use notify::Notify;
pub use outcome::{Direction, Failed, Outcome, Received, Sent};
pub use poll::Completions;
pub use queue::CompletionQueue;
pub use status::{WcError, WcStatus};
pub use wait::AnyCompletionQueue;
pub use wc::Completion;
