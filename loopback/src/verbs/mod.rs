//! The verbs, which change the state of a fabric.

pub(crate) mod address;
pub(crate) mod channel;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod device_memory;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod migration;
pub(crate) mod modify;
pub(crate) mod multicast;
pub(crate) mod on_demand;
pub(crate) mod qp;
pub(crate) mod srq;
pub(crate) mod tuning;
pub(crate) mod unused;
pub(crate) mod window;
pub(crate) mod xrc;
