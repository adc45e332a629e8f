//! The attributes of each transition: required ones are fields, foreign ones do not exist.
//!
//! There is one struct for each row of the state tables (rules, section 8.1). Optional attributes
//! are `Option`s in `optional`; `Default::default()` leaves all of them out.

use crate::device::AddressVector;
use crate::memory::remote::by_fields;
use crate::profile::{Initiator, Profile};
use crate::qp::c_attr::{Attr, Fill, attributes};
use crate::qp::{AlternatePath, Migration, QpAccess, QpQkey};
use crate::terms::bounded::{
    MinRnrTimer, Mtu, Psn, Qpn, ResponderDepth, RetryCount, RnrRetry, Timeout,
};

attributes! {
    /// RESET -> INIT of RC and UC (ibv_modify_qp(3)), as [`UcRtr`] shows.
    #[doc(alias("IBV_QP_STATE", "IBV_QP_ACCESS_FLAGS", "IBV_QP_PKEY_INDEX", "IBV_QP_PORT"))]
    pub struct ConnectedInit {
        /// Index in the port's P_Key table.
        pub pkey_index: u16 = 0,
        /// The port, counted from 1.
        pub port: u8,
        /// The rights of peers.
        pub access: QpAccess,
    } new {
        /// With the first P_Key, as rdma-core's examples have it.
        ///
        /// ```
        /// # use proverbs::prelude::*;
        /// let init = ConnectedInit::new(1, QpAccess::REMOTE_READ);
        /// assert_eq!((init.pkey_index, init.port), (0, 1));
        /// ```
    }

    /// INIT -> INIT of RC and UC (ibv_modify_qp(3)), as [`UcRtr`] shows.
    pub struct ConnectedReinit: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// The rights of peers.
        pub access: Option<QpAccess>,
    }

    /// INIT -> RTR of RC (ibv_modify_qp(3)).
    #[doc(alias("IBV_QP_AV", "IBV_QP_PATH_MTU", "IBV_QP_DEST_QPN", "IBV_QP_RQ_PSN"))]
    #[doc(alias("IBV_QP_MAX_DEST_RD_ATOMIC", "IBV_QP_MIN_RNR_TIMER", "ibv_qp_attr_mask"))]
    #[doc(alias("ibv_qp_attr", "ah_attr"))]
    pub struct RcRtr {
        /// The address vector of the peer.
        pub address: AddressVector,
        /// The path MTU.
        pub path_mtu: Mtu = Mtu::Bytes1024,
        /// The peer's queue pair.
        pub dest_qpn: Qpn,
        /// The peer's `sq_psn` ([R8.7](crate::guide::rules#r8-7)).
        pub rq_psn: Psn,
        /// Reads and atomics that the peer may have outstanding here
        /// ([R4.7](crate::guide::rules#r4-7)).
        pub max_dest_rd_atomic: ResponderDepth = ResponderDepth::ONE,
        /// How long the peer waits when there is no receive.
        pub min_rnr_timer: MinRnrTimer = MinRnrTimer::MS_82,
        /// Optional attributes.
        pub optional: RtrOptional = RtrOptional::default(),
    } new {
        /// The MTU of rdma-core's examples, 1024, one read or atomic of the peer's at a time,
        /// and an RNR timer of 82 ms (code 26).
    }

    /// INIT -> RTR of UC (ibv_modify_qp(3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{qp::{ConnectedReinit, Drain, RtrOptional, UcReturn, UcRtsOptional, UcSqd}, state::QpState};
    /// # let proverbs::loopback::Pair { context, pd, cq, .. } = proverbs::loopback::pair()?;
    /// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
    /// let qp = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// # let peer = Qpn::try_from(qp.qp_num())?;
    /// let access = QpAccess::REMOTE_WRITE;
    /// let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access })?;
    /// // A change of mind.
    /// let qp = qp.modify(ConnectedReinit { pkey_index: Some(0), ..Default::default() })?;
    /// let optional = RtrOptional { access: Some(QpAccess::empty()), ..Default::default() }; // another
    /// let to_peer = UcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, peer, psn);
    /// let qp = qp.modify(UcRtr { path_mtu: Mtu::Bytes4096, optional, ..to_peer })?;
    /// let qp = qp.modify(UcRts::new(psn))?;
    /// let qp = qp.modify(UcReturn(UcRtsOptional { access: Some(access), ..Default::default() }))?; // and back, in RTS
    /// let qp = qp.modify(Drain::default())?.into_sqd()?.modify(UcSqd::default())?;
    /// let qp = qp.into_sqd()?.modify(UcReturn::default())?;
    /// assert_eq!(qp.query()?.state, Some(QpState::Rts));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct UcRtr {
        /// The address vector of the peer.
        pub address: AddressVector,
        /// The path MTU.
        pub path_mtu: Mtu = Mtu::Bytes1024,
        /// The peer's queue pair.
        pub dest_qpn: Qpn,
        /// The peer's `sq_psn` ([R8.7](crate::guide::rules#r8-7)).
        pub rq_psn: Psn,
        /// Optional attributes.
        pub optional: RtrOptional = RtrOptional::default(),
    } new {
        /// The values of rdma-core's examples: MTU 1024.
    }

    /// Optional attributes of INIT -> RTR, RC and UC (ibv_modify_qp(3)), as [`UcRtr`] shows.
    pub struct RtrOptional: Default {
        /// The rights of peers.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// A second way to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
    }

    /// RTR -> RTS of RC (ibv_modify_qp(3)).
    ///
    /// `max_rd_atomic` is a [`ReadDepth`](crate::bounded::ReadDepth), at least 1, or
    /// [`NoDepth`](crate::qp::NoDepth) if the profile has [`NoReads`](crate::qp::NoReads)
    /// ([R4.6](crate::guide::rules#r4-6)).
    #[doc(alias("IBV_QP_TIMEOUT", "IBV_QP_RETRY_CNT", "IBV_QP_RNR_RETRY", "IBV_QP_SQ_PSN"))]
    #[doc(alias = "IBV_QP_MAX_QP_RD_ATOMIC")]
    pub struct RcRts<P> {
        /// How long to wait for an acknowledgement.
        pub timeout: Timeout = Timeout::MS_67,
        /// Transport retries.
        pub retry_cnt: RetryCount = RetryCount::SIX,
        /// RNR retries.
        pub rnr_retry: RnrRetry = RnrRetry::SIX,
        /// The first PSN that is sent.
        pub sq_psn: Psn,
        /// Reads and atomics that may be outstanding.
        pub max_rd_atomic: <P::Initiator as Initiator>::Depth,
        /// Optional attributes.
        pub optional: RcRtsOptional = RcRtsOptional::default(),
    } new {
        /// With a timeout of 67 ms (exponent 14), six retries and six RNR retries.
        ///
        /// A peer that has no receive posted ends the connection with
        /// [`RnrRetryExc`](crate::completion::WcStatus::RnrRetryExc) after six times its
        /// `min_rnr_timer`. [`RnrRetry::Infinite`] waits forever.
        ///
        /// Six, not C's usual seven: Soft-RoCE treats seven as "forever", and would never report a
        /// dead peer ([R8.10](crate::guide::rules#r8-10)).
    }

    /// Optional attributes of RC, on the way to RTS and in it (ibv_modify_qp(3)), as [`Drain`]
    /// shows.
    pub struct RcRtsOptional: Default {
        /// The rights of peers.
        pub access: Option<QpAccess>,
        /// How long the peer waits when there is no receive.
        pub min_rnr_timer: Option<MinRnrTimer>,
        /// A second way to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// What to do with it.
        pub migration: Option<Migration>,
    }

    /// RTR -> RTS of UC (ibv_modify_qp(3)), as [`UcRtr`] shows.
    pub struct UcRts {
        /// The first PSN that is sent.
        pub sq_psn: Psn,
        /// Optional attributes.
        pub optional: UcRtsOptional = UcRtsOptional::default(),
    } new {
        /// Without optional attributes.
    }

    /// Optional attributes of UC, on the way to RTS and in it (ibv_modify_qp(3)), as [`UcRtr`]
    /// shows.
    pub struct UcRtsOptional: Default {
        /// The rights of peers.
        pub access: Option<QpAccess>,
        /// A second way to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// What to do with it.
        pub migration: Option<Migration>,
    }

    /// RESET -> INIT of UD and SRD (ibv_modify_qp(3)), as [`UdRtr`] shows.
    #[doc(alias = "IBV_QP_QKEY")]
    pub struct UdInit {
        /// Index in the port's P_Key table.
        pub pkey_index: u16,
        /// The port, counted from 1.
        pub port: u8,
        /// The key that messages must carry to be received ([R5.5](crate::guide::rules#r5-5)).
        pub qkey: QpQkey,
    }

    /// INIT -> INIT of UD and SRD (ibv_modify_qp(3)), as [`UdRtr`] shows.
    pub struct UdReinit: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// The key that messages must carry to be received.
        pub qkey: Option<QpQkey>,
    }

    /// INIT -> RTR of UD and SRD (ibv_modify_qp(3)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::qp::{Drain, QpQkey, UdReinit, UdReturn, UdSqd};
    /// # let proverbs::loopback::Pair { pd, cq, .. } = proverbs::loopback::pair()?;
    /// let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    /// let qkey: QpQkey = Qkey::try_from(0x1111)?.into();
    /// let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey })?;
    /// let qp = qp.modify(UdReinit { pkey_index: Some(0), ..Default::default() })?;
    /// let qp = qp.modify(UdRtr::default())?;
    /// let qp = qp.modify(UdRts::new(Psn::try_from(0)?))?;
    /// let qp = qp.modify(Drain::default())?.into_sqd()?.modify(UdSqd::default())?;
    /// let qp = qp.into_sqd()?.modify(UdReturn { qkey: Some(Qkey::try_from(0x2222)?.into()) })?;
    /// assert_eq!(qp.query()?.qkey, 0x2222);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct UdRtr: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The key that messages must carry to be received.
        pub qkey: Option<QpQkey>,
    }

    /// RTR -> RTS of UD (ibv_modify_qp(3)), as [`UdRtr`] shows.
    pub struct UdRts {
        /// The first PSN that is sent.
        pub sq_psn: Psn,
        /// The key that messages must carry to be received.
        pub qkey: Option<QpQkey> = None,
    } new {
        /// Without optional attributes.
    }

    /// RTR -> RTS of SRD (ibv_modify_qp(3)), as [`QueuePair::sender`](crate::QueuePair::sender)
    /// shows.
    pub struct SrdRts {
        /// The first PSN that is sent.
        pub sq_psn: Psn,
        /// The key that messages must carry to be received.
        pub qkey: Option<QpQkey> = None,
        /// How often a message is sent again whose receiver has no receive for it; without, for
        /// ever. A device may know no such attribute, and refuses it then.
        pub rnr_retry: Option<RnrRetry> = None,
    } new {
        /// Without optional attributes.
    }

    /// SQE -> RTS of UC (ibv_modify_qp(3)): a send queue that stopped goes on. [`State`] has an
    /// example.
    ///
    /// [`State`]: crate::state::State
    pub struct UcResume: Default {
        /// The rights of peers.
        pub access: Option<QpAccess>,
    }

    /// RTS -> RTS, SQD -> RTS and SQE -> RTS of UD, and RTS -> RTS of SRD (ibv_modify_qp(3)), as
    /// [`UdRtr`] shows.
    pub struct UdReturn: Default {
        /// The key that messages must carry to be received.
        pub qkey: Option<QpQkey>,
    }

    /// RTS -> SQD (ibv_modify_qp(3)): sends that have begun are finished, later ones are held.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{bounded::Timeout, qp::{Drain, RcReturn, RcRtsOptional, RcSqd}};
    /// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
    /// let qp: QueuePair<Rc, Draining> = a.modify(Drain { notify: false })?;
    /// // Posts are taken, and held. Once nothing is outstanding the path may change:
    /// let qp: QueuePair<Rc, Sqd> = qp.into_sqd()?;
    /// let patient = Timeout::exponent(20);
    /// let qp = qp.modify(RcSqd { timeout: patient, ..RcSqd::default() })?;
    /// let access = Some(QpAccess::REMOTE_READ);
    /// let qp = qp.into_sqd()?.modify(RcReturn(RcRtsOptional { access, ..Default::default() }))?;
    /// assert_eq!(qp.query()?.access, QpAccess::REMOTE_READ);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("IBV_QP_EN_SQD_ASYNC_NOTIFY", "en_sqd_async_notify"))]
    pub struct Drain: Default {
        /// Whether the device raises an event when the send queue has drained (SQ_DRAINED).
        pub notify: bool,
    }

    /// SQD -> SQD of RC (ibv_modify_qp(3)), as [`Drain`] shows: the attributes that may change
    /// while the send queue stands still. Some devices drain anew, hence `Draining`
    /// ([R8.21](crate::guide::rules#r8-21)).
    pub struct RcSqd<P>: Default {
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// The address vector of the peer.
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
        /// The rights of peers.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// How long the peer waits when there is no receive.
        pub min_rnr_timer: Option<MinRnrTimer>,
        /// A second way to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// What to do with it.
        pub migration: Option<Migration>,
    }

    /// SQD -> SQD of UC (ibv_modify_qp(3)), as [`UcRtr`] shows.
    pub struct UcSqd: Default {
        /// The address vector of the peer.
        pub address: Option<AddressVector>,
        /// The rights of peers.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// A second way to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// What to do with it.
        pub migration: Option<Migration>,
    }

    /// SQD -> SQD of UD (ibv_modify_qp(3)), as [`UdRtr`] shows.
    pub struct UdSqd: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The key that messages must carry to be received.
        pub qkey: Option<QpQkey>,
    }
}

/// RTS -> RTS and SQD -> RTS of RC (ibv_modify_qp(3)), as [`Drain`] shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RcReturn(pub RcRtsOptional);

impl Fill for RcReturn {
    fn fill(&self, attr: &mut Attr) {
        self.0.fill(attr);
    }
}

/// RTS -> RTS and SQD -> RTS of UC (ibv_modify_qp(3)), as [`UcRtr`] shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UcReturn(pub UcRtsOptional);

impl Fill for UcReturn {
    fn fill(&self, attr: &mut Attr) {
        self.0.fill(attr);
    }
}

impl UdInit {
    /// With the first P_Key, as rdma-core's examples have it.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let init = UdInit::new(1, Qkey::try_from(0x1111_1111)?);
    /// assert_eq!((init.pkey_index, init.port), (0, 1));
    /// # Ok::<(), proverbs::Error>(())
    /// ```
    pub fn new(port: u8, qkey: impl Into<QpQkey>) -> Self {
        UdInit { pkey_index: 0, port, qkey: qkey.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The short forms say what rdma-core's examples do.
    #[test]
    fn short_forms() {
        let init = ConnectedInit::new(3, QpAccess::empty());
        assert_eq!((init.pkey_index, init.port, init.access), (0, 3, QpAccess::empty()));
        let key = crate::terms::bounded::Qkey::try_from(0x1111_1111).unwrap();
        let init = UdInit::new(3, key);
        assert_eq!((init.pkey_index, init.port, init.qkey), (0, 3, key.into()));
    }
}
