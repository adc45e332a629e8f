//! The work of the devices: it moves data over the state.

pub(crate) mod clock;
pub(crate) mod completion;
pub(crate) mod datagram;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod run;
pub(crate) mod sends;
pub(crate) mod srd;
