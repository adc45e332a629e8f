//! Events: owned copies, acknowledged before they are returned.

use std::fmt;

use super::datagram::UdPeer;
pub use crate::sys::cm::PeerParam;
use crate::sys::cm::{Arm, Copied};

/// Identifies the id that an event belongs to. The key is unique in the process and never reused,
/// so you can use it as the key of a map.
///
/// ```no_run
/// use std::collections::HashMap;
///
/// use proverbs::{cm::*, prelude::*};
///
/// /// Finds the attempt that an event belongs to.
/// fn take(attempts: &mut HashMap<IdKey, Pending>, event: &Event) -> Option<Pending> {
///     attempts.remove(&event.id())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdKey(pub(super) u64);

/// An event of an [`EventChannel`](super::EventChannel) (`rdma_get_cm_event`). It is a copy of C's
/// event, which is already acknowledged, so no call waits for the copy to be dropped
/// ([R16.12](crate::guide::rules#r16-12)).
///
/// Pass the event to [`advance`](super::CmId::advance) of the id that waits for it. Pass a
/// connection request to [`request`](super::CmId::request) of the listening id. A dropped request
/// is rejected.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// fn tell(event: &Event) {
///     println!("{:?}: {}, status {}", event.id(), event.kind().name(), event.status());
///     if let Some(PeerParam { initiator_depth, srq, .. }) = event.peer_param() {
///         println!("the peer serves {initiator_depth} reads at once; shared receives: {srq}");
///     }
///     if event.kind() == EventKind::Rejected {
///         println!("its program says {}", event.private_data().escape_ascii());
///     }
/// }
/// ```
#[doc(alias("rdma_cm_event", "rdma_ud_param"))]
#[must_use = "an id waits for this event; a dropped connection request is rejected"]
pub struct Event {
    pub(super) copied: Copied,
}

/// The numbers of rdma_cma.h.
#[allow(non_snake_case)]
mod Type {
    pub(super) use crate::sys::cm::RDMA_CM_EVENT_USER;
    pub(super) use crate::sys::types::raw::rdma_cm_event_type::*;
}

macro_rules! kinds {
    ($($name:ident = $c:ident, $words:literal;)*) => {
        /// The kind of an event (`enum rdma_cm_event_type`).
        ///
        /// ```
        /// use proverbs::cm::EventKind;
        /// assert_eq!(EventKind::ConnectRequest.name(), "RDMA_CM_EVENT_CONNECT_REQUEST");
        /// ```
        #[doc(alias("RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR"))]
        #[doc(alias("RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR"))]
        #[doc(alias("RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE"))]
        #[doc(alias("RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE"))]
        #[doc(alias("RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED"))]
        #[doc(alias("RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL"))]
        #[doc(alias("RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR"))]
        #[doc(alias("RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT"))]
        #[doc(alias = "rdma_cm_event_type")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum EventKind {
            $(#[doc = $words] $name,)*
            /// An event that this crate does not know.
            Unknown(u32),
        }

        impl EventKind {
            pub(super) fn from_c(event: u32) -> Self {
                match event {
                    $(Type::$c => EventKind::$name,)*
                    other => EventKind::Unknown(other),
                }
            }

            /// The number in C.
            #[cfg(feature = "loopback")]
            pub(super) fn to_c(self) -> u32 {
                match self {
                    $(EventKind::$name => Type::$c,)*
                    EventKind::Unknown(other) => other,
                }
            }

            /// The name in the manual pages.
            #[doc(alias = "rdma_event_str")]
            pub fn name(self) -> &'static str {
                match self {
                    $(EventKind::$name => stringify!($c),)*
                    EventKind::Unknown(_) => "unknown event",
                }
            }
        }
    };
}

kinds! {
    AddrResolved = RDMA_CM_EVENT_ADDR_RESOLVED, "The address was resolved.";
    AddrError = RDMA_CM_EVENT_ADDR_ERROR, "The address was not resolved.";
    RouteResolved = RDMA_CM_EVENT_ROUTE_RESOLVED, "The route was resolved.";
    RouteError = RDMA_CM_EVENT_ROUTE_ERROR, "The route was not resolved.";
    ConnectRequest = RDMA_CM_EVENT_CONNECT_REQUEST, "A peer requests a connection.";
    ConnectResponse = RDMA_CM_EVENT_CONNECT_RESPONSE, "The peer accepted.";
    ConnectError = RDMA_CM_EVENT_CONNECT_ERROR, "The connection failed.";
    Unreachable = RDMA_CM_EVENT_UNREACHABLE, "The peer does not answer, or cannot be reached.";
    Rejected = RDMA_CM_EVENT_REJECTED, "The peer rejected the request.";
    Established = RDMA_CM_EVENT_ESTABLISHED, "The connection is established; on UDP, the peer answered.";
    Disconnected = RDMA_CM_EVENT_DISCONNECTED, "Either side disconnected.";
    DeviceRemoval = RDMA_CM_EVENT_DEVICE_REMOVAL, "The device is being removed.";
    MulticastJoin = RDMA_CM_EVENT_MULTICAST_JOIN, "The group was joined.";
    MulticastError = RDMA_CM_EVENT_MULTICAST_ERROR, "The group was not joined, or was lost.";
    AddrChange = RDMA_CM_EVENT_ADDR_CHANGE, "The network device's address changed.";
    TimewaitExit = RDMA_CM_EVENT_TIMEWAIT_EXIT, "The queue pair number may be used again.";
    User = RDMA_CM_EVENT_USER, "An event that the program wrote ([`CmId::write_cm_event`](super::CmId::write_cm_event)).";
}

impl Event {
    /// The id that the event belongs to; for a connection request, the listening id.
    #[doc(alias = "listen_id")]
    pub fn id(&self) -> IdKey {
        IdKey(self.copied.key)
    }

    /// The kind of event.
    pub fn kind(&self) -> EventKind {
        EventKind::from_c(self.copied.event)
    }

    /// 0 or a negative errno; for [`EventKind::Rejected`], the peer's reason; for
    /// [`EventKind::User`], the value that was written.
    pub fn status(&self) -> i32 {
        self.copied.status
    }

    /// The private data of the event, possibly padded with zeroes
    /// ([R16.15](crate::guide::rules#r16-15)).
    #[doc(alias("private_data_len", "ah_attr"))]
    pub fn private_data(&self) -> &[u8] {
        &self.copied.data
    }

    /// The connection's parameters, as the peer requests or uses them; `None` for datagrams.
    pub fn peer_param(&self) -> Option<PeerParam> {
        match self.copied.arm {
            Arm::Conn(param) => Some(param),
            Arm::Ud { .. } | Arm::User { .. } => None,
        }
    }

    /// The argument of an event that the program wrote, [`EventKind::User`].
    pub fn user_arg(&self) -> Option<u64> {
        match self.copied.arm {
            Arm::User { arg } => Some(arg),
            Arm::Conn(_) | Arm::Ud { .. } => None,
        }
    }

    /// Whether the id that the event belongs to is gone.
    #[cfg(feature = "tokio")]
    pub(super) fn is_of_none(&self) -> bool {
        self.copied.life.is_over()
    }

    pub(super) fn ud_peer(&self) -> Option<UdPeer> {
        match &self.copied.arm {
            Arm::Ud { ah_attr, qp_num, qkey, .. } => UdPeer::from_c(ah_attr, *qp_num, *qkey),
            Arm::Conn(_) | Arm::User { .. } => None,
        }
    }

    pub(super) fn group(&self) -> u64 {
        match self.copied.arm {
            Arm::Ud { group, .. } => group,
            Arm::Conn(_) | Arm::User { .. } => 0,
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, data) = (self.copied.key, self.copied.data.len());
        write!(f, "{} (id {key}, status {}, {data} bytes)", self.kind().name(), self.status())
    }
}
