//! The devices at work: they move data between the objects of the state.

pub(crate) mod clock;
pub(crate) mod completion;
pub(crate) mod datagram;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod run;
pub(crate) mod sends;
pub(crate) mod srd;
