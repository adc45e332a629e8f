//! Attributes of queue pairs: those that a program sets, and those that the device reports.

use bitflags::bitflags;

use crate::attr::address::AddressVector;
use crate::persist::{ACCESS_FLUSH_GLOBAL, ACCESS_FLUSH_PERSISTENT};
use crate::terms::bounded::{
    MinRnrTimer, Mtu, PrivilegedQkey, Qkey, RetryCount, RnrRetry, Timeout,
};
use crate::terms::state::QpState;
use crate::types::ibv_qp_attr;
use crate::types::raw::ibv_mig_state as c;

bitflags! {
    /// The access rights that a queue pair grants its peer (`qp_access_flags` of ibv_modify_qp(3));
    /// each region must grant them as well. Also the rights of an [exported
    /// region](https://docs.rs/proverbs/latest/proverbs/endpoint/struct.ExportedRegion.html).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let readers_and_counters = QpAccess::REMOTE_READ | QpAccess::REMOTE_ATOMIC;
    /// assert!(QpAccess::all().contains(readers_and_counters));
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QpAccess: u32 {
        /// RDMA WRITE.
        const REMOTE_WRITE = 1 << 1;
        /// RDMA READ.
        const REMOTE_READ = 1 << 2;
        /// Atomics.
        const REMOTE_ATOMIC = 1 << 3;
    }
}

impl QpAccess {
    /// FLUSH to global visibility (`IBV_ACCESS_FLUSH_GLOBAL`; [R25.1]). It is not in
    /// [`all`](Self::all), since devices may lack it.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let log = QpAccess::REMOTE_WRITE | QpAccess::FLUSH_GLOBAL | QpAccess::FLUSH_PERSISTENT;
    /// assert!(log.contains(QpAccess::FLUSH_GLOBAL) && !QpAccess::all().contains(log));
    /// ```
    ///
    /// [R25.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r25-1
    pub const FLUSH_GLOBAL: QpAccess = QpAccess::from_bits_retain(ACCESS_FLUSH_GLOBAL);
    /// FLUSH to persistence, which survives a loss of power (`IBV_ACCESS_FLUSH_PERSISTENT`;
    /// [R25.1]). It is not in [`all`](Self::all) either.
    ///
    /// [R25.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r25-1
    pub const FLUSH_PERSISTENT: QpAccess = QpAccess::from_bits_retain(ACCESS_FLUSH_PERSISTENT);
}

/// A Q_Key to set on a queue pair (`qkey` of ibv_modify_qp(3); [R5.6]), as [`PrivilegedQkey`]
/// shows.
///
/// [R5.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-6
#[doc(alias = "cur_qp_state")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpQkey {
    /// A Q_Key that any process may set.
    Ordinary(Qkey),
    /// A Q_Key that only privileged processes may set ([R5.6]).
    ///
    /// [R5.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-6
    Privileged(PrivilegedQkey),
}

impl QpQkey {
    #[doc(hidden)]
    pub fn get(self) -> u32 {
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

impl From<PrivilegedQkey> for QpQkey {
    fn from(key: PrivilegedQkey) -> Self {
        QpQkey::Privileged(key)
    }
}

decoded! {
    /// The attributes of a queue pair, as the device reports them (`struct ibv_qp_attr`):
    /// [`QueuePair::query`]. Fields without a meaning for the transport or the state hold whatever
    /// the device wrote.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::bounded::{RetryCount, RnrRetry, Timeout};
    /// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
    /// let attr = a.query()?;
    /// assert_eq!((attr.timeout, attr.retry_cnt), (Some(Timeout::MS_67), Some(RetryCount::SIX)));
    /// assert_eq!(attr.rnr_retry, Some(RnrRetry::SIX));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`QueuePair::query`]:
    /// https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html#method.query
    #[doc(alias("ibv_qp_attr", "qp_state", "dest_qp_num", "qp_access_flags", "port_num"))]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub struct QpAttr = from_c(c: &ibv_qp_attr) {
        /// Its current state, which may not be the one requested last; `None` if the device reports
        /// an unknown one.
        pub state: Option<QpState> = QpState::from_c(c.qp_state),
        /// The largest payload of a packet; `None` before RTR.
        pub path_mtu: Option<Mtu> = Mtu::from_c(c.path_mtu),
        /// The peer's queue pair number (RC and UC).
        pub dest_qpn: u32 = c.dest_qp_num,
        /// The next expected PSN.
        pub rq_psn: u32 = c.rq_psn,
        /// The next PSN to send.
        pub sq_psn: u32 = c.sq_psn,
        /// The Q_Key that messages must carry (UD; [R5.5]).
        ///
        /// [R5.5]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r5-5
        pub qkey: u32 = c.qkey,
        /// The rights of peers.
        pub access: QpAccess = QpAccess::from_bits_truncate(c.qp_access_flags),
        /// The port, counted from 1.
        pub port: u8 = c.port_num,
        /// Reads and atomics that may be outstanding ([R4.6]).
        ///
        /// [R4.6]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-6
        pub max_rd_atomic: u8 = c.max_rd_atomic,
        /// Reads and atomics that the peer may have outstanding here ([R4.7]).
        ///
        /// [R4.7]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r4-7
        pub max_dest_rd_atomic: u8 = c.max_dest_rd_atomic,
        /// How long it waits for an acknowledgement (RC, from RTS on); `None` if the device reports
        /// no legal value.
        pub timeout: Option<Timeout> = Timeout::from_c(c.timeout),
        /// Transport retries before `RETRY_EXC_ERR` (RC, from RTS on); `None` as above.
        pub retry_cnt: Option<RetryCount> = RetryCount::new(c.retry_cnt),
        /// RNR retries (RC, from RTS on); `None` as above.
        pub rnr_retry: Option<RnrRetry> = RnrRetry::from_c(c.rnr_retry),
        /// How long the peer waits when there is no receive (RC, from RTR on); `None` as above.
        pub min_rnr_timer: Option<MinRnrTimer> = MinRnrTimer::new(c.min_rnr_timer),
        /// Index in the port's P_Key table.
        pub pkey_index: u16 = c.pkey_index,
        /// Whether it is in SQD with sends that have begun and are not done.
        pub sq_draining: bool = c.sq_draining != 0,
    }
}

/// An alternate path to the peer of an RC or UC queue pair, on InfiniBand (`alt_ah_attr`,
/// `alt_port_num`, `alt_pkey_index` and `alt_timeout` of ibv_modify_qp(3)).
///
/// It is set in the transition to RTR or later, while the queue pair is *migrated*, which is the
/// initial state. [`Migration::Rearm`] on both sides arms it. Then a queue pair whose path breaks
/// continues on the alternate path, and its peer follows ([R8.13]). Fabrics without LIDs, and
/// devices without [`AUTO_PATH_MIG`](crate::attr::device::DeviceCap::AUTO_PATH_MIG), are rejected
/// before the device is called.
///
/// ```
/// use proverbs::device::{DeviceEvent, QpEvent};
/// use proverbs::loopback::{Fabric, Fault, Script, World};
/// use proverbs::prelude::*;
/// use proverbs::ext::path_migration::{AlternatePath, Migration, MigrationState};
/// use proverbs::qp::{RcRtsOptional, RtrOptional};
///
/// let fabric = Fabric::with(World::infiniband().lid_mask(1));
/// let context = fabric.open_device();
/// let mut events = context.events()?;
/// let (pd, mut cq) = (context.alloc_pd()?, context.create_cq(64)?);
/// let (lid, psn) = (context.query_port(1)?.lid, Psn::try_from(0)?);
/// let depth = Depth { send: 8, recv: 8 };
/// let (a, b) = (pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?, pd.create_qp(&cq, &cq, depth)?);
///
/// // Between the first LIDs of both ports, and otherwise between the second ones:
/// let first = AddressVector::infiniband(1, lid);
/// let second = AddressVector { src_path_bits: 1, ..AddressVector::infiniband(1, lid + 1) };
/// let connect = |qp: QueuePair<Rc, Reset>, peer: u32| -> Result<QueuePair<Rc, Rts>, proverbs::Error> {
///     let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
///     let optional = RtrOptional { alternate: Some(AlternatePath::new(second)), ..Default::default() };
///     let qp = qp.modify(RcRtr { optional, ..RcRtr::new(first, Qpn::try_from(peer)?, psn) })?;
///     let optional = RcRtsOptional { migration: Some(Migration::Rearm), ..Default::default() };
///     Ok(qp.modify(RcRts { optional, ..RcRts::new(psn, ReadDepth::ONE) })?)
/// };
/// let (na, nb) = (a.qp_num(), b.qp_num());
/// let (mut a, mut b) = (connect(a, nb)?, connect(b, na)?);
/// b.post_recv(wr::Recv::empty())?;
/// a.post_send(wr::Send::inline(b""))?; // a message each way arms it
/// proverbs::loopback::poll(&mut cq, 2)?;
/// assert_eq!(a.query_paths()?.migration, Some(MigrationState::Armed));
///
/// // Nothing answers by the first way any more.
/// fabric.inject(Script::default().with(Fault::NoAnswer.always().to_lid(lid)));
/// b.post_recv(wr::Recv::empty())?;
/// a.post_send(wr::Send::inline(b""))?;
/// proverbs::loopback::poll(&mut cq, 2)?; // it arrived
/// assert_eq!(a.query_paths()?.primary, second);
/// assert_eq!(events.wait()?, DeviceEvent::Qp { qp_num: na, event: QpEvent::PathMigrated });
/// assert_eq!(events.wait()?, DeviceEvent::Qp { qp_num: nb, event: QpEvent::PathMigrated });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R8.13]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-13
#[doc(alias("IBV_QP_ALT_PATH", "ibv_qp_attr", "alt_ah_attr", "alt_pkey_index", "alt_port_num"))]
#[doc(alias = "alt_timeout")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlternatePath {
    /// The address vector of the peer. Its port is this side's port, where the path begins.
    pub address: AddressVector,
    /// Index in that port's P_Key table.
    pub pkey_index: u16,
    /// How long to wait for an acknowledgement on this path (RC).
    pub timeout: Timeout,
}

impl AlternatePath {
    /// A path with P_Key index 0 and a timeout of 67 ms, like [`RcRts::new`].
    ///
    /// [`RcRts::new`]: https://docs.rs/proverbs/latest/proverbs/qp/struct.RcRts.html#method.new
    pub fn new(address: AddressVector) -> AlternatePath {
        AlternatePath { address, pkey_index: 0, timeout: Timeout::MS_67 }
    }
}

/// The action on the [alternate path](AlternatePath) (`path_mig_state` of ibv_modify_qp(3)).
#[doc(alias = "path_mig_state")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Migration {
    /// Arms the path (`IBV_MIG_REARM`): once the peer's path is armed too, the device migrates when
    /// the primary path breaks.
    Rearm,
    /// Moves the queue pair to the armed path now (`IBV_MIG_MIGRATED`). The peer follows.
    Migrate,
}

impl Migration {
    #[doc(hidden)]
    pub fn to_c(self) -> c::Type {
        match self {
            Migration::Rearm => c::IBV_MIG_REARM,
            Migration::Migrate => c::IBV_MIG_MIGRATED,
        }
    }
}

/// The state of a queue pair's [alternate path](AlternatePath) (`path_mig_state` of
/// ibv_query_qp(3)), in [`QpPaths`].
#[doc(alias("IBV_QP_PATH_MIG_STATE", "ibv_mig_state"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MigrationState {
    /// There is no alternate path, or the queue pair moved to it and has no other path now.
    #[doc(alias = "IBV_MIG_MIGRATED")]
    Migrated,
    /// The path is being armed, and the peer has not yet reported that its path is armed.
    #[doc(alias = "IBV_MIG_REARM")]
    Rearm,
    /// The path is armed.
    #[doc(alias = "IBV_MIG_ARMED")]
    Armed,
}

/// The paths of a queue pair to its peer, as the device reports them: [`QueuePair::query_paths`].
/// [`AlternatePath`] has an example.
///
/// [`QueuePair::query_paths`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html#method.query_paths
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QpPaths {
    /// The path in use; after a migration, the former alternate path.
    pub primary: AddressVector,
    /// The alternate path; `None` if none was set. After a migration it is whatever the device
    /// reports.
    pub alternate: Option<AlternatePath>,
    /// The state of the alternate path; `None` if the device reports no legal value.
    pub migration: Option<MigrationState>,
}

impl QpPaths {
    #[doc(hidden)]
    pub fn from_c(c: &ibv_qp_attr) -> QpPaths {
        let alternate = (c.alt_port_num != 0).then(|| AlternatePath {
            address: AddressVector {
                port: c.alt_port_num,
                ..AddressVector::from_c(&c.alt_ah_attr)
            },
            pkey_index: c.alt_pkey_index,
            timeout: Timeout::from_c(c.alt_timeout).unwrap_or(Timeout::Infinite),
        });
        let migration = match c.path_mig_state {
            c::IBV_MIG_MIGRATED => Some(MigrationState::Migrated),
            c::IBV_MIG_REARM => Some(MigrationState::Rearm),
            c::IBV_MIG_ARMED => Some(MigrationState::Armed),
            _ => None,
        };
        QpPaths { primary: AddressVector::from_c(&c.ah_attr), alternate, migration }
    }
}

/// Vendor options of a connection (`struct ibv_ece` of ibv_set_ece(3), enhanced connection
/// establishment). One side sends the options that its device offers. The other side sets them and
/// sends back the options that its device accepted, which the first side sets. A program passes the
/// numbers on without interpreting them.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::tuning::Ece;
/// # let proverbs::loopback::Pair { context, pd, cq, .. } = proverbs::loopback::pair()?;
/// let depth = Depth { send: 4, recv: 4 };
/// let mut active = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
/// let mut passive = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth)?;
/// let offered: Ece = active.query_ece()?; // to the peer, with the endpoint
/// passive.set_ece(offered)?;
/// let taken = passive.query_ece()?;       // and back
/// active.set_ece(taken)?;
/// assert_eq!(active.query_ece()?, passive.query_ece()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_ece")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ece {
    /// The IEEE OUI of the vendor that defines the options.
    pub vendor_id: u32,
    /// The options.
    pub options: u32,
}

/// The rate of a queue pair (`struct ibv_qp_rate_limit_attr` of ibv_modify_qp_rate_limit(3)):
/// [`QueuePair::limit_rate`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{device::{Can, PacketPacing}, ext::tuning::RateLimit};
/// # let proverbs::loopback::Pair { context, mut a, .. } = proverbs::loopback::pair()?;
/// let can: Can<PacketPacing<Rc>> = context.abilities()?.can().ok_or("no rates of RC queue pairs")?;
/// a.limit_rate(&can, Some(RateLimit { max_burst_sz: 8192, ..RateLimit::kbps(1_000_000) }))?;
/// a.limit_rate(&can, None)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`QueuePair::limit_rate`]:
/// https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html#method.limit_rate
#[doc(alias = "ibv_qp_rate_limit_attr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// kbit/s.
    pub rate_limit: u32,
    /// The largest burst, bytes; 0 lets the device choose.
    pub max_burst_sz: u32,
    /// The typical length of a packet, bytes, for the device's calculations; 0 lets the device
    /// choose.
    pub typical_pkt_sz: u16,
}

impl RateLimit {
    /// A rate in kbit/s; the device chooses the other values.
    pub fn kbps(rate_limit: u32) -> RateLimit {
        RateLimit { rate_limit, max_burst_sz: 0, typical_pkt_sz: 0 }
    }
}
