//! Devices: context, attributes, protection domain, address handles, asynchronous events.

// First, because rustdoc shows methods in the order of the modules that define them.
pub(crate) mod context;

pub(crate) mod pd;

pub(crate) mod gid;

// The rest.
pub(crate) mod ah;
pub(crate) mod attr_ex;
#[cfg(feature = "tokio")]
pub(crate) mod awaited;
pub(crate) mod comp_vector;
pub(crate) mod events;
pub(crate) mod lane;
pub(crate) mod protocol;
pub(crate) mod query;

pub use ah::AddressHandle;
pub use attr_ex::{
    Abilities, Ability, Can, CqModeration, DeviceMemory, FlushGlobal, FlushPersistent,
    MemoryWindows2B, PacketPacing, ResizeSrq, Timestamps,
};
#[cfg(feature = "tokio")]
pub use awaited::AsyncDeviceEvents;
pub use comp_vector::CompVector;
pub use context::Context;
pub use events::DeviceEvents;
pub use lane::Lane;
pub use pd::ProtectionDomain;

pub use crate::sys::ah_table::AhIndex;
pub use crate::sys::attr::address::{AddressVector, GlobalRoute};
pub use crate::sys::attr::clock::Clock;
pub use crate::sys::attr::device::{
    AtomicCap, DeviceAttr, DeviceCap, Guid, NodeType, TransportType,
};
pub use crate::sys::attr::device_ex::{DeviceAttrEx, QpTypes};
pub use crate::sys::attr::event::{CqId, DeviceEvent, PortEvent, QpEvent, SrqEvent, SrqId};
pub use crate::sys::attr::gid::{GidEntry, RoceV2Gid};
pub use crate::sys::attr::odp::OdpCaps;
pub use crate::sys::attr::port::{LinkLayer, PortAttr, PortState};
pub use crate::sys::attr::protocol::Protocol;
pub use crate::sys::fork::{ForkStatus, fork_init, fork_status};
pub use crate::sys::list::{Device, DevicePort, devices};
pub use crate::sys::provider::Provider;
pub use crate::terms::absence::Absence;
pub use crate::terms::gid::{Gid, GidKind};
pub use crate::terms::odp::OdpOps;
pub use crate::terms::rate::StaticRate;
