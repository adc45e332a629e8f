//! Two ways to a peer: the alternate path, and the migration to it (`alt_ah_attr` and
//! `path_mig_state` of ibv_modify_qp(3)).

use super::{Core, QueuePair};
use crate::device::ah::AddressVector;
use crate::device::attr::DeviceCap;
use crate::device::protocol::{Protocol, refusal};
use crate::profile::Profile;
use crate::sys::types::raw::ibv_mig_state as c;
use crate::sys::types::{ibv_qp_attr, ibv_qp_attr_mask as Mask};
use crate::terms::bounded::Timeout;
use crate::terms::error::Error;
use crate::terms::state::State;
use crate::terms::transport::Transport;

/// A second way to the peer of an RC or UC queue pair, on InfiniBand (`alt_ah_attr`,
/// `alt_port_num`, `alt_pkey_index` and `alt_timeout` of ibv_modify_qp(3)).
///
/// It is given to the device on the way to RTR or later, while the queue pair is *migrated*, as it
/// is at first. [`Migration::Rearm`] on both sides arms it; then a queue pair whose way is broken
/// goes on by it, and its peer follows ([R8.13](crate::guide::rules#r8-13)). Fabrics without LIDs,
/// and devices without [`AUTO_PATH_MIG`](crate::device::DeviceCap::AUTO_PATH_MIG), are refused
/// before they are asked.
///
/// ```
/// use proverbs::device::{DeviceEvent, QpEvent};
/// use proverbs::loopback::{Fabric, Fault, Script, World};
/// use proverbs::prelude::*;
/// use proverbs::qp::{AlternatePath, Migration, MigrationState, RcRtsOptional, RtrOptional};
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
#[doc(alias("IBV_QP_ALT_PATH", "ibv_qp_attr", "alt_ah_attr", "alt_pkey_index", "alt_port_num"))]
#[doc(alias = "alt_timeout")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlternatePath {
    /// The address vector of the peer. Its port is the one that this way begins at.
    pub address: AddressVector,
    /// Index in that port's P_Key table.
    pub pkey_index: u16,
    /// How long to wait for an acknowledgement by this way (RC).
    pub timeout: Timeout,
}

impl AlternatePath {
    /// With P_Key index 0 and a timeout of 67 ms, as [`RcRts::new`](super::RcRts::new) has.
    pub fn new(address: AddressVector) -> AlternatePath {
        AlternatePath { address, pkey_index: 0, timeout: Timeout::MS_67 }
    }
}

/// What to do with the [alternate path](AlternatePath) (`path_mig_state` of ibv_modify_qp(3)).
#[doc(alias = "path_mig_state")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Migration {
    /// Arm it (`IBV_MIG_REARM`): once the peer's is armed too, the device migrates when the first
    /// way is broken.
    Rearm,
    /// Take it now, while it is armed (`IBV_MIG_MIGRATED`). The peer follows.
    Migrate,
}

impl Migration {
    pub(super) fn to_c(self) -> c::Type {
        match self {
            Migration::Rearm => c::IBV_MIG_REARM,
            Migration::Migrate => c::IBV_MIG_MIGRATED,
        }
    }
}

/// Where a queue pair stands with its [alternate path](AlternatePath) (`path_mig_state` of
/// ibv_query_qp(3)): in [`QpPaths`].
#[doc(alias("IBV_QP_PATH_MIG_STATE", "ibv_mig_state"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MigrationState {
    /// It has none, or has taken it: it is the only path now.
    #[doc(alias = "IBV_MIG_MIGRATED")]
    Migrated,
    /// It is to be armed, and the peer's is not yet known to be.
    #[doc(alias = "IBV_MIG_REARM")]
    Rearm,
    /// It is armed.
    #[doc(alias = "IBV_MIG_ARMED")]
    Armed,
}

/// The ways of a queue pair to its peer, as the device reports them: [`QueuePair::query_paths`].
/// [`AlternatePath`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QpPaths {
    /// The one that is in use; after a migration, what was the alternate path.
    pub primary: AddressVector,
    /// The other; `None` if none was given to the device, and after a migration whatever the device
    /// says.
    pub alternate: Option<AlternatePath>,
    /// What becomes of the other; `None` if the device reports no legal value.
    pub migration: Option<MigrationState>,
}

impl<T: Transport, S: State, P: Profile> QueuePair<T, S, P> {
    /// The ways to the peer of an RC or UC queue pair, from RTR on (`ibv_query_qp`).
    ///
    /// [Blocks](crate::guide::shutdown) while the device does not answer.
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno.
    pub fn query_paths(&self) -> Result<QpPaths, Error> {
        let mask = Mask::IBV_QP_AV.0 | Mask::IBV_QP_ALT_PATH.0 | Mask::IBV_QP_PATH_MIG_STATE.0;
        self.core.ask(mask).map(|c| QpPaths::from_c(&c))
    }
}

impl QpPaths {
    fn from_c(c: &ibv_qp_attr) -> QpPaths {
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

const VERB: &str = "ibv_modify_qp";

impl<P: Profile> Core<P> {
    /// Refuses a second path where there can be none: by what the port speaks, and by what the
    /// device can. `port` is that of the first path.
    pub(super) fn check_migrates<T: Transport>(
        &self,
        alternate: Option<&AlternatePath>,
        port: u8,
    ) -> Result<(), Error> {
        let context = self.context();
        let refused = |lacks: &str| {
            let asked = match alternate {
                Some(alternate) => format!("an alternate path by {}", alternate.address),
                None => "a migration of the path".to_owned(),
            };
            let instead = "connect a second queue pair by the other way";
            refusal(&context.handle, VERB, asked, lacks, instead)
        };
        for port in [Some(port), alternate.map(|it| it.address.port)].into_iter().flatten() {
            let protocol = context.protocol(port)?;
            if protocol != Protocol::InfiniBand {
                return Err(refused(&format!("speaks {protocol}, which has no alternate paths")));
            }
        }
        let can = DeviceCap::from_bits_retain(context.limits()?.device_cap_flags);
        if !can.contains(DeviceCap::AUTO_PATH_MIG) {
            return Err(refused("has no AUTO_PATH_MIG"));
        }
        let Some(AlternatePath { address, .. }) = alternate else { return Ok(()) };
        address.check_path_bits(&context, VERB, address.port)?;
        self.fits_alternate::<T>(port, address.port)
    }

    /// The port, which another may be after a migration.
    pub(super) fn find_port(&self) -> Result<u8, Error> {
        if !self.may_migrate {
            return Ok(self.port);
        }
        self.ask(Mask::IBV_QP_PORT.0).map(|c| c.port_num)
    }
}

#[cfg(test)]
mod tests;
