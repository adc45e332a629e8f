//! How a work request reaches the device: one path for sends, receives and shared receives.
//!
//! | file | what |
//! |---|---|
//! | `queue` | the three queues, and the trait that the path is written over |
//! | `chain` | one work request, or a chain of them on the stack |
//! | `list` | lists whose length is known at run time |
//! | `unchecked` | the `unsafe` path, which keeps no books |
//! | `slow`, `list_slow` | what these leave to cold functions |
//! | `refusal` | what a refused post gives back |
//! | `begun` | what the posting macros begin with |
//! | `bad_wr`, `plain`, `bump` | tricks for the optimiser, each with what it saves |

mod bad_wr;
pub(crate) mod begun;
mod bump;
pub(crate) mod chain;
pub(crate) mod list;
mod list_slow;
mod plain;
pub(crate) mod queue;
pub(crate) mod refusal;
mod slow;
pub(crate) mod unchecked;

pub use crate::work::refusal::PostErrorKind;
pub use chain::Unsettled;
pub use list::{RecvList, RecvSlots, SendList, SendSlots};
pub use refusal::{PostError, Rejected};
pub use unchecked::RawPostError;
