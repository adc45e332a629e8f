//! The attributes of each transition: what is required is a field, what is foreign does not exist.
//!
//! One struct for each row of the state tables (rules section 8.1). Optional attributes are `Option`s in
//! `optional`, `Default::default()` if there is nothing to say.

use crate::ah::AddressVector;
use crate::bounded::{
    MinRnrTimer, Mtu, PrivilegedQkey, Psn, Qkey, Qpn, ResponderDepth, RetryCount, RnrRetry, Timeout,
};
use crate::profile::{Initiator, Profile};

bitflags::bitflags! {
    /// What peers may do: through a queue pair (`qp_access_flags`), within the rights of the regions; or with an
    /// [exported region](crate::endpoint::ExportedRegion).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct QpAccess: u32 {
        /// RDMA WRITE.
        const REMOTE_WRITE = 1 << 1;
        /// RDMA READ.
        const REMOTE_READ = 1 << 2;
        /// Atomics.
        const REMOTE_ATOMIC = 1 << 3;
    }
}

/// A Q_Key to set on a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpQkey {
    /// One that any process may set.
    Ordinary(Qkey),
    /// One for privileged processes (R5.6).
    Privileged(PrivilegedQkey),
}

impl QpQkey {
    pub(super) fn get(self) -> u32 {
        match self {
            QpQkey::Ordinary(key) => key.get(),
            QpQkey::Privileged(key) => key.get(),
        }
    }
}

impl From<Qkey> for QpQkey {
    fn from(key: Qkey) -> Self {
        QpQkey::Ordinary(key)
    }
}

/// RESET -> INIT of RC and UC.
#[derive(Clone, Copy, Debug)]
pub struct ConnectedInit {
    /// Index in the port's P_Key table.
    pub pkey_index: u16,
    /// The port, from 1.
    pub port: u8,
    /// What peers may do.
    pub access: QpAccess,
}

/// INIT -> INIT of RC and UC.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectedReinit {
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
    /// The port, from 1.
    pub port: Option<u8>,
    /// What peers may do.
    pub access: Option<QpAccess>,
}

/// INIT -> RTR of RC.
#[derive(Clone, Copy, Debug)]
pub struct RcRtr {
    /// The way to the peer.
    pub address: AddressVector,
    /// Payload of a packet.
    pub path_mtu: Mtu,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The peer's `sq_psn` (R8.7).
    pub rq_psn: Psn,
    /// Reads and atomics that the peer may have outstanding here (R4.7).
    pub max_dest_rd_atomic: ResponderDepth,
    /// How long the peer waits when there is no receive.
    pub min_rnr_timer: MinRnrTimer,
    /// What may be said besides.
    pub optional: RtrOptional,
}

/// INIT -> RTR of UC.
#[derive(Clone, Copy, Debug)]
pub struct UcRtr {
    /// The way to the peer.
    pub address: AddressVector,
    /// Payload of a packet.
    pub path_mtu: Mtu,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The peer's `sq_psn` (R8.7).
    pub rq_psn: Psn,
    /// What may be said besides.
    pub optional: RtrOptional,
}

/// Optional attributes of INIT -> RTR, RC and UC.
#[derive(Clone, Copy, Debug, Default)]
pub struct RtrOptional {
    /// What peers may do.
    pub access: Option<QpAccess>,
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
}

/// RTR -> RTS of RC.
///
/// `max_rd_atomic` is a [`ReadDepth`](crate::ReadDepth), at least 1, or [`NoDepth`](crate::NoDepth) if the
/// profile has [`NoReads`](crate::NoReads) (R4.6).
#[derive(Debug)]
pub struct RcRts<P: Profile = crate::DefaultProfile> {
    /// How long to wait for an acknowledgement.
    pub timeout: Timeout,
    /// Transport retries.
    pub retry_cnt: RetryCount,
    /// RNR retries.
    pub rnr_retry: RnrRetry,
    /// The first PSN that is sent.
    pub sq_psn: Psn,
    /// Reads and atomics that may be outstanding.
    pub max_rd_atomic: <P::Initiator as Initiator>::Depth,
    /// What may be said besides.
    pub optional: RcRtsOptional,
}

/// Optional attributes of RC, on the way to RTS and in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RcRtsOptional {
    /// What peers may do.
    pub access: Option<QpAccess>,
    /// How long the peer waits when there is no receive.
    pub min_rnr_timer: Option<MinRnrTimer>,
}

/// RTR -> RTS of UC.
#[derive(Clone, Copy, Debug)]
pub struct UcRts {
    /// The first PSN that is sent.
    pub sq_psn: Psn,
    /// What may be said besides.
    pub optional: UcRtsOptional,
}

/// Optional attributes of UC, on the way to RTS and in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct UcRtsOptional {
    /// What peers may do.
    pub access: Option<QpAccess>,
}

/// RESET -> INIT of UD.
#[derive(Clone, Copy, Debug)]
pub struct UdInit {
    /// Index in the port's P_Key table.
    pub pkey_index: u16,
    /// The port, from 1.
    pub port: u8,
    /// The key that messages must carry to be received (R5.5).
    pub qkey: QpQkey,
}

/// INIT -> INIT of UD.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdReinit {
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
    /// The port, from 1.
    pub port: Option<u8>,
    /// The key that messages must carry to be received.
    pub qkey: Option<QpQkey>,
}

/// INIT -> RTR of UD.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdRtr {
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
    /// The key that messages must carry to be received.
    pub qkey: Option<QpQkey>,
}

/// RTR -> RTS of UD.
#[derive(Clone, Copy, Debug)]
pub struct UdRts {
    /// The first PSN that is sent.
    pub sq_psn: Psn,
    /// The key that messages must carry to be received.
    pub qkey: Option<QpQkey>,
}

/// RTS -> RTS, SQD -> RTS and SQE -> RTS of RC.
#[derive(Clone, Copy, Debug, Default)]
pub struct RcReturn(pub RcRtsOptional);

/// RTS -> RTS, SQD -> RTS and SQE -> RTS of UC.
#[derive(Clone, Copy, Debug, Default)]
pub struct UcReturn(pub UcRtsOptional);

/// RTS -> RTS, SQD -> RTS and SQE -> RTS of UD.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdReturn {
    /// The key that messages must carry to be received.
    pub qkey: Option<QpQkey>,
}

/// RTS -> SQD: sends already begun are finished, later ones are held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drain {
    /// Whether the device raises an event when the send queue has drained (SQ_DRAINED).
    pub notify: bool,
}

/// SQD -> SQD of RC: what may be changed while the send queue stands still.
#[derive(Debug)]
pub struct RcSqd<P: Profile = crate::DefaultProfile> {
    /// The port, from 1.
    pub port: Option<u8>,
    /// The way to the peer.
    pub address: Option<AddressVector>,
    /// How long to wait for an acknowledgement.
    pub timeout: Option<Timeout>,
    /// Transport retries.
    pub retry_cnt: Option<RetryCount>,
    /// RNR retries.
    pub rnr_retry: Option<RnrRetry>,
    /// Reads and atomics that may be outstanding.
    pub max_rd_atomic: Option<<P::Initiator as Initiator>::Depth>,
    /// Reads and atomics that the peer may have outstanding here.
    pub max_dest_rd_atomic: Option<ResponderDepth>,
    /// What peers may do.
    pub access: Option<QpAccess>,
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
    /// How long the peer waits when there is no receive.
    pub min_rnr_timer: Option<MinRnrTimer>,
}

/// SQD -> SQD of UC.
#[derive(Clone, Copy, Debug, Default)]
pub struct UcSqd {
    /// The way to the peer.
    pub address: Option<AddressVector>,
    /// What peers may do.
    pub access: Option<QpAccess>,
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
}

/// SQD -> SQD of UD.
#[derive(Clone, Copy, Debug, Default)]
pub struct UdSqd {
    /// Index in the port's P_Key table.
    pub pkey_index: Option<u16>,
    /// The key that messages must carry to be received.
    pub qkey: Option<QpQkey>,
}

impl RcRtr {
    /// With what rdma-core's examples use: MTU 1024, one read or atomic of the peer's at a time, RNR timer
    /// code 12 (0.64 ms).
    pub fn new(address: AddressVector, dest_qpn: Qpn, rq_psn: Psn) -> Self {
        RcRtr {
            address,
            path_mtu: Mtu::Bytes1024,
            dest_qpn,
            rq_psn,
            max_dest_rd_atomic: ResponderDepth::ONE,
            min_rnr_timer: MinRnrTimer::MS_0_64,
            optional: RtrOptional::default(),
        }
    }
}

impl UcRtr {
    /// With what rdma-core's examples use: MTU 1024.
    pub fn new(address: AddressVector, dest_qpn: Qpn, rq_psn: Psn) -> Self {
        let optional = RtrOptional::default();
        UcRtr { address, path_mtu: Mtu::Bytes1024, dest_qpn, rq_psn, optional }
    }
}

impl<P: Profile> RcRts<P> {
    /// With a timeout of 67 ms (exponent 14), six retries and infinite RNR retries.
    ///
    /// Six, not C's usual seven: Soft-RoCE takes seven as "for ever", and a dead peer is never reported
    /// (R8.10).
    pub fn new(sq_psn: Psn, max_rd_atomic: <P::Initiator as Initiator>::Depth) -> Self {
        RcRts {
            timeout: Timeout::MS_67,
            retry_cnt: RetryCount::SIX,
            rnr_retry: RnrRetry::Infinite,
            sq_psn,
            max_rd_atomic,
            optional: RcRtsOptional::default(),
        }
    }
}

impl<P: Profile> Clone for RcRts<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Profile> Copy for RcRts<P> {}

impl<P: Profile> Clone for RcSqd<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Profile> Copy for RcSqd<P> {}

impl<P: Profile> Default for RcSqd<P> {
    fn default() -> Self {
        RcSqd {
            port: None,
            address: None,
            timeout: None,
            retry_cnt: None,
            rnr_retry: None,
            max_rd_atomic: None,
            max_dest_rd_atomic: None,
            access: None,
            pkey_index: None,
            min_rnr_timer: None,
        }
    }
}
