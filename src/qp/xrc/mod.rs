//! XRC: the attributes of an initiator's transitions, and targets.

mod attr;
mod target;

pub use attr::{XrcReturn, XrcRtr, XrcRts, XrcRtsOptional, XrcSqd, XrcTargetRtr, XrcTargetRts};
pub use target::{TargetTransition, XrcTarget};
