//! Transports, by number in C.

use crate::words::Verb;
use proverbs_sys::types::ibv_qp_type;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Rc,
    Uc,
    Ud,
    /// The two ends of XRC: an initiator, and a target.
    XrcSend,
    XrcRecv,
    Srd,
}

impl Transport {
    pub(crate) fn from_c(qp_type: ibv_qp_type::Type) -> Verb<Transport> {
        match qp_type {
            ibv_qp_type::IBV_QPT_RC => Ok(Transport::Rc),
            ibv_qp_type::IBV_QPT_UC => Ok(Transport::Uc),
            ibv_qp_type::IBV_QPT_UD => Ok(Transport::Ud),
            ibv_qp_type::IBV_QPT_XRC_SEND => Ok(Transport::XrcSend),
            ibv_qp_type::IBV_QPT_XRC_RECV => Ok(Transport::XrcRecv),
            ibv_qp_type::IBV_QPT_DRIVER => Ok(Transport::Srd),
            _ => Err(libc::EOPNOTSUPP),
        }
    }

    pub(crate) fn to_c(self) -> ibv_qp_type::Type {
        match self {
            Transport::Rc => ibv_qp_type::IBV_QPT_RC,
            Transport::Uc => ibv_qp_type::IBV_QPT_UC,
            Transport::Ud => ibv_qp_type::IBV_QPT_UD,
            Transport::XrcSend => ibv_qp_type::IBV_QPT_XRC_SEND,
            Transport::XrcRecv => ibv_qp_type::IBV_QPT_XRC_RECV,
            Transport::Srd => ibv_qp_type::IBV_QPT_DRIVER,
        }
    }

    /// The transport at the other end of a connection.
    pub(crate) fn of_peer(self) -> Transport {
        match self {
            Transport::XrcSend => Transport::XrcRecv,
            Transport::XrcRecv => Transport::XrcSend,
            same => same,
        }
    }

    /// Whether messages are acknowledged.
    pub(crate) fn is_reliable(self) -> bool {
        matches!(self, Transport::Rc | Transport::XrcSend | Transport::XrcRecv)
    }

    /// Whether a message that is lost is sent again.
    pub(crate) fn resends(self) -> bool {
        self.is_reliable() || self == Transport::Srd
    }
}
