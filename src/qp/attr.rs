//! The attributes of each transition. Required attributes are fields, and attributes that a
//! transition does not accept do not exist.
//!
//! There is one struct for each row of the state tables (rules, section 8.1). Optional attributes
//! are `Option`s in `optional`; `Default::default()` omits all of them.

use crate::device::AddressVector;
use crate::memory::remote::by_fields;
use crate::profile::{Initiator, Profile};
use crate::qp::c_attr::{Attr, Fill, attributes};
use crate::sys::attr::qp::{AlternatePath, Migration, QpAccess, QpQkey};
use crate::terms::bounded::{
    MinRnrTimer, Mtu, Psn, Qpn, ResponderDepth, RetryCount, RnrRetry, Timeout,
};

attributes! {
    /// RESET -> INIT of RC and UC (ibv_modify_qp(3)). [`UcRtr`] has an example.
    #[doc(alias("IBV_QP_STATE", "IBV_QP_ACCESS_FLAGS", "IBV_QP_PKEY_INDEX", "IBV_QP_PORT"))]
    pub struct ConnectedInit {
        /// Index in the port's P_Key table.
        pub pkey_index: u16 = 0,
        /// The port, counted from 1.
        pub port: u8,
        /// Access rights of peers.
        pub access: QpAccess,
    } new {
        /// Uses P_Key index 0, like rdma-core's examples.
        ///
        /// ```
        /// # use proverbs::prelude::*;
        /// let init = ConnectedInit::new(1, QpAccess::REMOTE_READ);
        /// assert_eq!((init.pkey_index, init.port), (0, 1));
        /// ```
    }

    /// INIT -> INIT of RC and UC (ibv_modify_qp(3)). [`UcRtr`] has an example.
    pub struct ConnectedReinit: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// Access rights of peers.
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
        /// The number of reads and atomics that the peer may have outstanding here
        /// ([R4.7](crate::guide::rules#r4-7)).
        pub max_dest_rd_atomic: ResponderDepth = ResponderDepth::ONE,
        /// How long the peer waits before a retry if no receive is posted.
        pub min_rnr_timer: MinRnrTimer = MinRnrTimer::MS_82,
        /// Optional attributes.
        pub optional: RtrOptional = RtrOptional::default(),
    } new {
        /// Uses the MTU of rdma-core's examples, 1024, one outstanding read or atomic of the peer,
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
    /// // Changed attributes.
    /// let qp = qp.modify(ConnectedReinit { pkey_index: Some(0), ..Default::default() })?;
    /// let optional = RtrOptional { access: Some(QpAccess::empty()), ..Default::default() };
    /// let to_peer = UcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, peer, psn);
    /// let qp = qp.modify(UcRtr { path_mtu: Mtu::Bytes4096, optional, ..to_peer })?;
    /// let qp = qp.modify(UcRts::new(psn))?;
    /// let qp = qp.modify(UcReturn(UcRtsOptional { access: Some(access), ..Default::default() }))?; // back, in RTS
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
        /// Uses the MTU of rdma-core's examples, 1024.
    }

    /// Optional attributes of INIT -> RTR, RC and UC (ibv_modify_qp(3)). [`UcRtr`] has an example.
    pub struct RtrOptional: Default {
        /// Access rights of peers.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// An alternate path to the peer (InfiniBand).
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
        /// The timeout for an acknowledgement.
        pub timeout: Timeout = Timeout::MS_67,
        /// Transport retries.
        pub retry_cnt: RetryCount = RetryCount::SIX,
        /// RNR retries.
        pub rnr_retry: RnrRetry = RnrRetry::SIX,
        /// The first PSN to send.
        pub sq_psn: Psn,
        /// The maximum number of outstanding reads and atomics.
        pub max_rd_atomic: <P::Initiator as Initiator>::Depth,
        /// Optional attributes.
        pub optional: RcRtsOptional = RcRtsOptional::default(),
    } new {
        /// Uses a timeout of 67 ms (exponent 14), six retries and six RNR retries.
        ///
        /// If the peer has no receive posted, the connection ends with
        /// [`RnrRetryExc`](crate::completion::WcStatus::RnrRetryExc) after six times the peer's
        /// `min_rnr_timer`. [`RnrRetry::Infinite`] retries forever.
        ///
        /// Six is not C's usual seven, because Soft-RoCE treats seven as "forever" and would never
        /// report a dead peer ([R8.10](crate::guide::rules#r8-10)).
    }

    /// Optional attributes of RC, for transitions to RTS and within RTS (ibv_modify_qp(3)).
    /// [`Drain`] has an example.
    pub struct RcRtsOptional: Default {
        /// Access rights of peers.
        pub access: Option<QpAccess>,
        /// How long the peer waits before a retry if no receive is posted.
        pub min_rnr_timer: Option<MinRnrTimer>,
        /// An alternate path to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// The action on the alternate path.
        pub migration: Option<Migration>,
    }

    /// RTR -> RTS of UC (ibv_modify_qp(3)). [`UcRtr`] has an example.
    pub struct UcRts {
        /// The first PSN to send.
        pub sq_psn: Psn,
        /// Optional attributes.
        pub optional: UcRtsOptional = UcRtsOptional::default(),
    } new {
        /// Without optional attributes.
    }

    /// Optional attributes of UC, for transitions to RTS and within RTS (ibv_modify_qp(3)).
    /// [`UcRtr`] has an example.
    pub struct UcRtsOptional: Default {
        /// Access rights of peers.
        pub access: Option<QpAccess>,
        /// An alternate path to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// The action on the alternate path.
        pub migration: Option<Migration>,
    }

    /// RESET -> INIT of UD and SRD (ibv_modify_qp(3)). [`UdRtr`] has an example.
    #[doc(alias = "IBV_QP_QKEY")]
    pub struct UdInit {
        /// Index in the port's P_Key table.
        pub pkey_index: u16,
        /// The port, counted from 1.
        pub port: u8,
        /// The Q_Key that a message must carry to be received ([R5.5](crate::guide::rules#r5-5)).
        pub qkey: QpQkey,
    }

    /// INIT -> INIT of UD and SRD (ibv_modify_qp(3)). [`UdRtr`] has an example.
    pub struct UdReinit: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// The Q_Key that a message must carry to be received.
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
        /// The Q_Key that a message must carry to be received.
        pub qkey: Option<QpQkey>,
    }

    /// RTR -> RTS of UD (ibv_modify_qp(3)). [`UdRtr`] has an example.
    pub struct UdRts {
        /// The first PSN to send.
        pub sq_psn: Psn,
        /// The Q_Key that a message must carry to be received.
        pub qkey: Option<QpQkey> = None,
    } new {
        /// Without optional attributes.
    }

    /// SQE -> RTS of UC (ibv_modify_qp(3)): restarts a stopped send queue. [`State`] has an
    /// example.
    ///
    /// [`State`]: crate::state::State
    pub struct UcResume: Default {
        /// Access rights of peers.
        pub access: Option<QpAccess>,
    }

    /// RTS -> RTS, SQD -> RTS and SQE -> RTS of UD, and RTS -> RTS of SRD (ibv_modify_qp(3)).
    /// [`UdRtr`] has an example.
    pub struct UdReturn: Default {
        /// The Q_Key that a message must carry to be received.
        pub qkey: Option<QpQkey>,
    }

    /// RTS -> SQD (ibv_modify_qp(3)): the device finishes the sends that it has started, and holds
    /// later ones.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{bounded::Timeout, qp::{Drain, RcReturn, RcRtsOptional, RcSqd}};
    /// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
    /// let qp: QueuePair<Rc, Draining> = a.modify(Drain { notify: false })?;
    /// // Posts are accepted, and held. Once no send is outstanding, the path may change:
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

    /// SQD -> SQD of RC (ibv_modify_qp(3)): the attributes that may change while the send queue is
    /// stopped. Some devices drain the send queue again, so the new state is `Draining`
    /// ([R8.21](crate::guide::rules#r8-21)). [`Drain`] has an example.
    pub struct RcSqd<P>: Default {
        /// The port, counted from 1.
        pub port: Option<u8>,
        /// The address vector of the peer.
        pub address: Option<AddressVector>,
        /// The timeout for an acknowledgement.
        pub timeout: Option<Timeout>,
        /// Transport retries.
        pub retry_cnt: Option<RetryCount>,
        /// RNR retries.
        pub rnr_retry: Option<RnrRetry>,
        /// The maximum number of outstanding reads and atomics.
        pub max_rd_atomic: Option<<P::Initiator as Initiator>::Depth>,
        /// The number of reads and atomics that the peer may have outstanding here.
        pub max_dest_rd_atomic: Option<ResponderDepth>,
        /// Access rights of peers.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// How long the peer waits before a retry if no receive is posted.
        pub min_rnr_timer: Option<MinRnrTimer>,
        /// An alternate path to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// The action on the alternate path.
        pub migration: Option<Migration>,
    }

    /// SQD -> SQD of UC (ibv_modify_qp(3)). [`UcRtr`] has an example.
    pub struct UcSqd: Default {
        /// The address vector of the peer.
        pub address: Option<AddressVector>,
        /// Access rights of peers.
        pub access: Option<QpAccess>,
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// An alternate path to the peer (InfiniBand).
        pub alternate: Option<AlternatePath>,
        /// The action on the alternate path.
        pub migration: Option<Migration>,
    }

    /// SQD -> SQD of UD (ibv_modify_qp(3)). [`UdRtr`] has an example.
    pub struct UdSqd: Default {
        /// Index in the port's P_Key table.
        pub pkey_index: Option<u16>,
        /// The Q_Key that a message must carry to be received.
        pub qkey: Option<QpQkey>,
    }
}

/// RTS -> RTS and SQD -> RTS of RC (ibv_modify_qp(3)). [`Drain`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RcReturn(pub RcRtsOptional);

impl Fill for RcReturn {
    fn fill(&self, attr: &mut Attr) {
        self.0.fill(attr);
    }
}

/// RTS -> RTS and SQD -> RTS of UC (ibv_modify_qp(3)). [`UcRtr`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UcReturn(pub UcRtsOptional);

impl Fill for UcReturn {
    fn fill(&self, attr: &mut Attr) {
        self.0.fill(attr);
    }
}

impl UdInit {
    /// Uses P_Key index 0, like rdma-core's examples.
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

    /// The constructors use the values of rdma-core's examples.
    #[test]
    fn short_forms() {
        let init = ConnectedInit::new(3, QpAccess::empty());
        assert_eq!((init.pkey_index, init.port, init.access), (0, 3, QpAccess::empty()));
        let key = crate::terms::bounded::Qkey::try_from(0x1111_1111).unwrap();
        let init = UdInit::new(3, key);
        assert_eq!((init.pkey_index, init.port, init.qkey), (0, 3, key.into()));
    }
}
