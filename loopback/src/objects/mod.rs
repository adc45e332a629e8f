//! The objects, each with its own data, which knows no other object but by number.

pub(crate) mod channel;
#[cfg(feature = "cm")]
pub(crate) mod cm;
pub(crate) mod cq;
pub(crate) mod device_memory;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod memory;
pub(crate) mod qp;
pub(crate) mod signal;
pub(crate) mod srq;
pub(crate) mod window;
