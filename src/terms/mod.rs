//! The numbers, states, transports and errors of verbs: terms that all rooms share.

pub(crate) mod absence;
pub(crate) mod bounded;
pub(crate) mod error;
pub(crate) mod gid;
pub(crate) mod rate;
pub(crate) mod state;
pub(crate) mod threads;
pub(crate) mod transport;
