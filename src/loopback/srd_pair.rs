//! Two SRD queue pairs for tests and examples.

use super::pair::device;
use super::{Fabric, World};
use crate::bounded::{Psn, Qkey, Qpn};
use crate::completion::CompletionQueue;
use crate::device::{AddressVector, Context, ProtectionDomain};
use crate::ext::srd::SrdRts;
use crate::memory::Pool;
use crate::profile;
use crate::qp::{Depth, QueuePair, UdInit, UdRtr};
use crate::state::Rts;
use crate::terms::error::Error;
use crate::transport::Srd;
use crate::wr::{self, Destination};

profile! {
    /// The profile of an [`SrdPair`]: like [`DefaultProfile`](crate::DefaultProfile), but with the
    /// posting that EFA requires, with RDMA, and with EFA's small inline capacity.
    pub Spreading { posting: crate::ext::extended_posting::ExtendedPosting<(Srd, wr::RdmaWrite)>, max_inline: 32 }
}

/// Two SRD queue pairs that can reach each other, on their own fabric: see [`srd_pair`].
pub struct SrdPair {
    /// The fabric, to [inject](Fabric::inject) faults or open more devices.
    pub fabric: Fabric,
    /// The device of both queue pairs, an EFA.
    pub context: Context,
    /// The protection domain of both queue pairs.
    pub pd: ProtectionDomain,
    /// The completion queue of all sends and receives, with room for 64.
    pub cq: CompletionQueue,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    /// One end, with room for 8 sends and 8 receives.
    pub a: QueuePair<Srd, Rts, Spreading>,
    /// The other end, like `a`.
    pub b: QueuePair<Srd, Rts, Spreading>,
    /// The destination of a send from `b` to `a`.
    pub to_a: Destination,
    /// The destination of a send from `a` to `b`.
    pub to_b: Destination,
}

/// Creates two SRD queue pairs on a new [`Fabric`] of [`World::efa`], which reorders messages. Each
/// has an address handle for the other.
///
/// ```
/// use proverbs::{loopback::{self, SrdPair}, prelude::*};
///
/// let SrdPair { mut a, mut b, mut cq, pool, pd, to_b, .. } = loopback::srd_pair()?;
/// let region = pd.register::<RemoteWrite>(64)?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(wr::Send::inline(b"hello").to(to_b))?;
/// a.post_send(wr::RdmaWrite::inline(b"here", region.remote().write()).to(to_b))?; // may be first
/// assert_eq!(loopback::poll(&mut cq, 3)?.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno of the verb that failed: the process is
/// out of memory or of file descriptors.
pub fn srd_pair() -> Result<SrdPair, Error> {
    let (fabric, context, pd, cq, pool) = device(Fabric::with(World::efa()))?;
    let (qkey, sq_psn) = (Qkey::try_from(0x1111)?, Psn::try_from(0)?);
    let ready = || -> Result<_, Error> {
        let qp = pd.create_qp::<Srd, Spreading>(&cq, &cq, Depth { send: 8, recv: 8 })?;
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
        let qp = qp.modify(UdRtr::default())?;
        Ok(qp.modify(SrdRts::new(sq_psn))?)
    };
    let (mut a, mut b) = (ready()?, ready()?);
    let vector = AddressVector::roce(1, context.query_gid(1, 1)?, 1);
    let way = |from: &mut QueuePair<Srd, Rts, Spreading>, to: u32| -> Result<_, Error> {
        let address_handle = from.add_address_handle(pd.create_ah(vector)?)?;
        Ok(Destination { address_handle, qpn: Qpn::try_from(to)?, qkey })
    };
    let (to_b, to_a) = (way(&mut a, b.qp_num())?, way(&mut b, a.qp_num())?);
    Ok(SrdPair { fabric, context, pd, cq, pool, a, b, to_a, to_b })
}

impl_debug!(SrdPair, |SrdPair { a, b, .. }| "SrdPair {{ a: {a:?}, b: {b:?}, .. }}");
