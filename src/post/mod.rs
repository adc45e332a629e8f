//! How a work request reaches the device: one path for sends, receives and shared receives.
//!
//! | file | what |
//! |---|---|
//! | `path` | the path of one work request, or of a list |
//! | `queue` | the three kinds of queues, and their properties that a post needs |
//! | `chain` | chains on the stack, for the posting macros |
//! | `list` | the public interface of lists whose length is known at run time |
//! | `list_path` | how these lists are built |
//! | `raw_list` | lists of the `unsafe` path whose work requests differ |
//! | `unchecked` | the `unsafe` path, which does no bookkeeping |
//! | `slow`, `list_slow` | their cold functions |
//! | `refusal` | the error of a rejected post, with the entries |
//! | `counted` | counts of posts for monitoring |
//! | `trace` | the event that reports a rejected post |
//! | `next_slot` | going through an array of slots with one pointer |

pub(crate) mod chain;
mod counted;
pub(crate) mod list;
pub(crate) mod list_path;
mod list_slow;
mod next_slot;
pub(crate) mod path;
pub(crate) mod queue;
pub(crate) mod raw_list;
pub(crate) mod refusal;
mod slow;
mod trace;
pub(crate) mod unchecked;
mod with_verb;

pub use crate::terms::post_error::{PostErrorKind, Refusal};
pub use chain::Unsettled;
pub use list::{RecvList, RecvSlots, SendList, SendSlots};
pub use raw_list::RawSendList;
pub use refusal::{PostError, PostFailure, Rejected};
pub use unchecked::RawPostError;
