//! The values in C's attribute structs: of devices, ports, queue pairs and events.

pub mod address;
pub mod clock;
pub mod device;
pub mod device_ex;
pub mod event;
pub mod gid;
pub mod grh;
pub mod odp;
pub mod port;
pub mod protocol;
pub mod qp;
pub mod transition;
