//! An initiator and a target of XRC for tests and examples.

use super::Fabric;
use super::pair::device;
use crate::bounded::{Psn, Qpn};
use crate::completion::CompletionQueue;
use crate::device::{AddressVector, Context, ProtectionDomain};
use crate::ext::xrc::{XrcDomain, XrcRtr, XrcRts, XrcTarget, XrcTargetRtr, XrcdFile};
use crate::memory::Pool;
use crate::qp::{ConnectedInit, QpAccess, QueuePair};
use crate::srq::SharedReceiveQueue;
use crate::state::{Rtr, Rts};
use crate::terms::error::{Error, ErrorKind};
use crate::transport::Xrc;
use crate::{bounded::ReadDepth, profile};

profile! {
    /// The profile of the initiator of an [`XrcPair`]: like
    /// [`DefaultProfile`](crate::DefaultProfile), without receives.
    pub Initiating { receive: crate::qp::NoRq }
}

/// A connected initiator and target of XRC on their own fabric, with one shared receive queue: see
/// [`xrc_pair`].
pub struct XrcPair {
    /// The fabric, to [inject](Fabric::inject) faults or open more devices.
    pub fabric: Fabric,
    /// The device of both.
    pub context: Context,
    /// The protection domain of both.
    pub pd: ProtectionDomain,
    /// The completion queue of sends and receives, with room for 64.
    pub cq: CompletionQueue,
    /// 16 buffers of 256 bytes, which fill the shared receive queue.
    pub pool: Pool,
    /// One end, with room for 8 sends.
    pub initiator: QueuePair<Xrc, Rts, Initiating>,
    /// The other end.
    pub target: XrcTarget<Rtr>,
    /// The shared receive queue, with room for 16 receives.
    pub srq: SharedReceiveQueue<Xrc>,
    /// The XRC domain of the target and the shared receive queue.
    pub domain: XrcDomain,
}

/// Connects an initiator and a target of XRC on a new [`Fabric`].
///
/// ```
/// use proverbs::{loopback::{self, XrcPair}, prelude::*};
///
/// let XrcPair { mut initiator, target: _target, mut srq, mut cq, pool, .. } = loopback::xrc_pair()?;
/// srq.post_srq_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// initiator.post_send(wr::Send::inline(b"hello").to_srq(srq.number()))?;
/// assert_eq!(loopback::poll(&mut cq, 2)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno of the verb that failed: the process is
/// out of memory or of file descriptors.
pub fn xrc_pair() -> Result<XrcPair, Error> {
    let (fabric, context, pd, cq, pool) = device(Fabric::new())?;
    let none = || Error::new("ibv_query_device", ErrorKind::NotFound("XRC".into()));
    let can = context.abilities()?.can::<Xrc>().ok_or_else(none)?;
    let domain = context.open_xrcd(&can, XrcdFile::Private)?;
    let srq = domain.create_srq(&pd, &pool, &cq)?;
    let target = domain.create_target()?;
    let initiator = pd.create_xrc_initiator::<Initiating>(&can, &cq, 8)?;

    let address = AddressVector::roce(1, context.query_gid(1, 1)?, 1);
    let psn = Psn::try_from(0)?;
    let (to, from) = (Qpn::try_from(target.qp_num())?, Qpn::try_from(initiator.qp_num())?);
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let target = target.modify(init)?.modify(XrcTargetRtr::new(address, from, psn))?;
    let initiator = initiator.modify(init)?.modify(XrcRtr::new(address, to, psn))?;
    let initiator = initiator.modify(XrcRts::new(psn, ReadDepth::ONE))?;
    Ok(XrcPair { fabric, context, pd, cq, pool, initiator, target, srq, domain })
}
