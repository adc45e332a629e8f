//! The content of an asynchronous event.

use std::fmt;

use crate::types::raw::ibv_event_type as c;

/// An asynchronous event (`enum ibv_event_type`), already acknowledged. Devices differ in the
/// events that they raise ([R13.11]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::device::{DeviceEvent, PortEvent, QpEvent, SrqEvent};
/// fn is_bad(event: DeviceEvent) -> bool {
///     match event {
///         DeviceEvent::DeviceFatal | DeviceEvent::CqError { .. } => true,
///         DeviceEvent::Qp { event, .. } => {
///             matches!(event, QpEvent::Fatal | QpEvent::RequestError | QpEvent::AccessError)
///         }
///         DeviceEvent::Srq { event, .. } => event == SrqEvent::Error,
///         DeviceEvent::Port { event, .. } => event == PortEvent::Error,
///         _ => false,
///     }
/// }
/// let event = DeviceEvent::Port { port: 1, event: PortEvent::Error };
/// assert!(is_bad(event));
/// assert_eq!(event.to_string(), "port 1: port error");
/// ```
///
/// [R13.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r13-11
#[doc(alias("ibv_event_type_str", "ibv_async_event", "port_num", "event_type"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// Something happened to a queue pair.
    Qp {
        /// Its number.
        qp_num: u32,
        /// The event.
        event: QpEvent,
    },
    /// A completion queue overran or broke (`IBV_EVENT_CQ_ERR`). Its completions are lost, and
    /// polling it fails from now on ([R10.12]).
    ///
    /// [R10.12]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-12
    #[doc(alias = "IBV_EVENT_CQ_ERR")]
    CqError {
        /// The queue's [`CompletionQueue::id`].
        ///
        /// [`CompletionQueue::id`]:
        /// https://docs.rs/proverbs/latest/proverbs/struct.CompletionQueue.html#method.id
        cq: CqId,
    },
    /// Something happened to a shared receive queue.
    Srq {
        /// The queue's [`SharedReceiveQueue::id`].
        ///
        /// [`SharedReceiveQueue::id`]:
        /// https://docs.rs/proverbs/latest/proverbs/struct.SharedReceiveQueue.html#method.id
        srq: SrqId,
        /// The event.
        event: SrqEvent,
    },
    /// Something happened to a port.
    Port {
        /// The port, counted from 1.
        port: u8,
        /// The event.
        event: PortEvent,
    },
    /// The device failed for good (`IBV_EVENT_DEVICE_FATAL`): destroy the objects made from it.
    #[doc(alias = "IBV_EVENT_DEVICE_FATAL")]
    DeviceFatal,
    /// An event without a name in this crate, by its number in `enum ibv_event_type`.
    Other(u32),
}

/// Enums of events: for each event C's name, and its text in `ibv_event_type_str`.
macro_rules! events {
    ($(
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $event:ident = $c:ident, $text:literal;)* }
    )*) => {$(
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $event,)*
        }

        impl $name {
            fn from_c(event_type: u32) -> Option<Self> {
                $(if event_type == c::$c as u32 {
                    return Some($name::$event);
                })*
                None
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$event => $text,)* })
            }
        }
    )*};
}

events! {
    /// The events of a queue pair (`enum ibv_event_type`), in a [`DeviceEvent`].
    #[doc(alias = "ibv_event_type")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum QpEvent {
        /// It failed in a way that no completion reports, and is in the error state
        /// (`IBV_EVENT_QP_FATAL`).
        #[doc(alias = "IBV_EVENT_QP_FATAL")]
        Fatal = IBV_EVENT_QP_FATAL, "local work queue catastrophic error";
        /// It refused an invalid request from the peer, and is in the error state
        /// (`IBV_EVENT_QP_REQ_ERR`, [R10.17]).
        ///
        /// [R10.17]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-17
        #[doc(alias = "IBV_EVENT_QP_REQ_ERR")]
        RequestError = IBV_EVENT_QP_REQ_ERR, "invalid request local work queue error";
        /// It refused a request for which the peer lacks the right, and is in the error state
        /// (`IBV_EVENT_QP_ACCESS_ERR`, [R10.17]).
        ///
        /// [R10.17]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r10-17
        #[doc(alias = "IBV_EVENT_QP_ACCESS_ERR")]
        AccessError = IBV_EVENT_QP_ACCESS_ERR, "local access violation work queue error";
        /// A message arrived in RTR: the peer is in RTS (`IBV_EVENT_COMM_EST`).
        #[doc(alias = "IBV_EVENT_COMM_EST")]
        CommunicationEstablished = IBV_EVENT_COMM_EST, "communication established";
        /// In SQD, the send queue has drained (`IBV_EVENT_SQ_DRAINED`).
        /// [`Drain::notify`](https://docs.rs/proverbs/latest/proverbs/qp/struct.Drain.html)
        /// requests this event.
        #[doc(alias = "IBV_EVENT_SQ_DRAINED")]
        SqDrained = IBV_EVENT_SQ_DRAINED, "send queue drained";
        /// It moved to its alternate path (`IBV_EVENT_PATH_MIG`).
        #[doc(alias = "IBV_EVENT_PATH_MIG")]
        PathMigrated = IBV_EVENT_PATH_MIG, "path migrated";
        /// It could not move to its alternate path (`IBV_EVENT_PATH_MIG_ERR`).
        #[doc(alias = "IBV_EVENT_PATH_MIG_ERR")]
        PathMigrationError = IBV_EVENT_PATH_MIG_ERR, "path migration request error";
        /// In the error state, it takes no more receives from its shared receive queue
        /// (`IBV_EVENT_QP_LAST_WQE_REACHED`). Destroy it only after this event, or receives may be
        /// lost with it.
        #[doc(alias = "IBV_EVENT_QP_LAST_WQE_REACHED")]
        LastWqeReached = IBV_EVENT_QP_LAST_WQE_REACHED, "last WQE reached";
    }

    /// The events of a shared receive queue (`enum ibv_event_type`), in a [`DeviceEvent`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SrqEvent {
        /// It failed (`IBV_EVENT_SRQ_ERR`).
        #[doc(alias = "IBV_EVENT_SRQ_ERR")]
        Error = IBV_EVENT_SRQ_ERR, "SRQ catastrophic error";
        /// Fewer receives are left than the limit, which must be armed again
        /// (`IBV_EVENT_SRQ_LIMIT_REACHED`, [R7.6]).
        ///
        /// [R7.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r7-6
        #[doc(alias = "IBV_EVENT_SRQ_LIMIT_REACHED")]
        LimitReached = IBV_EVENT_SRQ_LIMIT_REACHED, "SRQ limit reached";
    }

    /// The events of a port (`enum ibv_event_type`), in a [`DeviceEvent`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum PortEvent {
        /// It can send and receive (`IBV_EVENT_PORT_ACTIVE`).
        #[doc(alias = "IBV_EVENT_PORT_ACTIVE")]
        Active = IBV_EVENT_PORT_ACTIVE, "port active";
        /// It can no longer send and receive (`IBV_EVENT_PORT_ERR`).
        #[doc(alias = "IBV_EVENT_PORT_ERR")]
        Error = IBV_EVENT_PORT_ERR, "port error";
        /// Its LID changed (`IBV_EVENT_LID_CHANGE`).
        #[doc(alias = "IBV_EVENT_LID_CHANGE")]
        LidChange = IBV_EVENT_LID_CHANGE, "LID changed";
        /// Its P_Key table changed (`IBV_EVENT_PKEY_CHANGE`).
        #[doc(alias = "IBV_EVENT_PKEY_CHANGE")]
        PkeyChange = IBV_EVENT_PKEY_CHANGE, "P_Key table changed";
        /// The subnet manager changed (`IBV_EVENT_SM_CHANGE`).
        #[doc(alias = "IBV_EVENT_SM_CHANGE")]
        SmChange = IBV_EVENT_SM_CHANGE, "SM changed";
        /// The subnet manager requires all clients to register again
        /// (`IBV_EVENT_CLIENT_REREGISTER`).
        #[doc(alias = "IBV_EVENT_CLIENT_REREGISTER")]
        ClientReregister = IBV_EVENT_CLIENT_REREGISTER, "client reregistration";
        /// Its GID table changed (`IBV_EVENT_GID_CHANGE`).
        #[doc(alias = "IBV_EVENT_GID_CHANGE")]
        GidChange = IBV_EVENT_GID_CHANGE, "GID table changed";
    }
}

/// The id of a completion queue in events: [`CompletionQueue::id`], C's `cq_context`
/// (ibv_create_cq(3)). Unique in the process, and never reused.
///
/// [`CompletionQueue::id`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.CompletionQueue.html#method.id
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CqId(u64);

impl CqId {
    /// The id in the context of an event.
    #[doc(hidden)]
    pub fn from_context(context: u64) -> CqId {
        CqId(context)
    }
}

/// The id of a shared receive queue in events: [`SharedReceiveQueue::id`], C's `srq_context`
/// (ibv_create_srq(3)). Unique in the process, and never reused.
///
/// [`SharedReceiveQueue::id`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.SharedReceiveQueue.html#method.id
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SrqId(u64);

impl SrqId {
    /// The id in the context of an event.
    #[doc(hidden)]
    pub fn from_context(context: u64) -> SrqId {
        SrqId(context)
    }
}

impl DeviceEvent {
    #[doc(hidden)]
    pub fn from_c(event_type: u32, affiliate: u64) -> Self {
        if let Some(event) = QpEvent::from_c(event_type) {
            return DeviceEvent::Qp { qp_num: affiliate as u32, event };
        }
        if let Some(event) = SrqEvent::from_c(event_type) {
            return DeviceEvent::Srq { srq: SrqId(affiliate), event };
        }
        if let Some(event) = PortEvent::from_c(event_type) {
            return DeviceEvent::Port { port: affiliate as u8, event };
        }
        if event_type == c::IBV_EVENT_CQ_ERR as u32 {
            return DeviceEvent::CqError { cq: CqId(affiliate) };
        }
        if event_type == c::IBV_EVENT_DEVICE_FATAL as u32 {
            return DeviceEvent::DeviceFatal;
        }
        DeviceEvent::Other(event_type)
    }
}

impl fmt::Display for DeviceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceEvent::Qp { qp_num, event } => write!(f, "QP {qp_num:#08x}: {event}"),
            DeviceEvent::CqError { cq } => write!(f, "{cq:?}: CQ error"),
            DeviceEvent::Srq { srq, event } => write!(f, "{srq:?}: {event}"),
            DeviceEvent::Port { port, event } => write!(f, "port {port}: {event}"),
            DeviceEvent::DeviceFatal => f.write_str("local catastrophic error"),
            DeviceEvent::Other(number) => write!(f, "event {number}"),
        }
    }
}
