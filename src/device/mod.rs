//! Devices: context, attributes, protection domain, address handles, asynchronous events.

// First, because rustdoc shows methods in the order of the modules that define them.
pub(crate) mod context;

pub(crate) mod pd;

pub(crate) mod gid;

// The rest.
pub(crate) mod ah;
mod ah_number;
pub(crate) mod ah_table;
pub(crate) mod attr;
pub(crate) mod attr_ex;
#[cfg(feature = "tokio")]
pub(crate) mod awaited;
pub(crate) mod clock;
pub(crate) mod comp_vector;
pub(crate) mod decoded;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod fork;
pub(crate) mod ids;
pub(crate) mod lane;
pub(crate) mod list;
pub(crate) mod odp;
pub(crate) mod pacing;
pub(crate) mod port;
pub(crate) mod protocol;
pub(crate) mod query;
pub(crate) mod refusal;
pub(crate) mod xrc;

pub use ah::{AddressHandle, AddressVector, GlobalRoute};
pub use ah_table::AhIndex;
pub use attr::{AtomicCap, DeviceAttr, DeviceCap, Guid, TransportType};
pub use attr_ex::{
    Abilities, Ability, Can, CqModeration, DeviceAttrEx, DeviceMemory, FlushGlobal,
    FlushPersistent, MemoryWindows2B, ResizeSrq, Timestamps,
};
#[cfg(feature = "tokio")]
pub use awaited::AsyncDeviceEvents;
pub use clock::Clock;
pub use comp_vector::CompVector;
pub use context::Context;
pub use event::{DeviceEvent, PortEvent, QpEvent, SrqEvent};
pub use events::DeviceEvents;
pub use fork::{ForkStatus, fork_init, fork_status};
pub use gid::{GidEntry, RoceV2Gid};
pub use ids::{CqId, SrqId};
pub use lane::Lane;
pub use list::{Device, DevicePort, devices};
pub use odp::{OdpCaps, OdpOps};
pub use pacing::PacketPacing;
pub use pd::ProtectionDomain;
pub use port::{LinkLayer, PortAttr, PortState};
pub use protocol::Protocol;
pub use query::{NodeType, QpTypes};
pub use xrc::{XrcDomain, XrcdFile};

pub use crate::sys::provider::Provider;
pub use crate::terms::absence::Absence;
pub use crate::terms::gid::{Gid, GidKind};
pub use crate::terms::rate::StaticRate;
