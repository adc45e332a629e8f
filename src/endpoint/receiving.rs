//! Access to a queue pair for posting receives only.

use std::ops::Deref;

use crate::allows::{Allows, call};
use crate::memory::entry::Owned;
use crate::post::chain::{Begun, RecvPost};
use crate::post::list::{RecvList, RecvSlots};
use crate::post::refusal::PostError;
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::rules::RecvOn;
use crate::terms::state::Init;
use crate::terms::transport::Rc;

/// Access to the queue pair of an [`RcConnector`](super::RcConnector), or of a pending rdma_cm
/// connection, for posting receives (ibv_post_recv(3)). It dereferences to a `&QueuePair`. The
/// queue pair cannot be replaced, because the peer receives its number.
///
/// ```
/// use proverbs::{endpoint::{RcConnector, Receiving}, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = proverbs::loopback::Fabric::new().open_device();
/// # let pd = context.alloc_pd()?;
/// # let cq: CompletionQueue = context.create_cq(16)?;
/// # let pool = pd.create_pool(4, 64)?;
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
/// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// let gid = context.roce_v2_gid(1)?.index();
/// let mut connector = RcConnector::new(qp, Some(gid))?;
/// let buf = || pool.take().ok_or("no buffer");
/// connector.qp().post_recv(wr::Recv::new(buf()?))?;
/// let mut qp: Receiving<'_> = connector.qp();
/// post_recv!(qp, [wr::Recv::new(buf()?), wr::Recv::empty()])?;
/// let mut slots = RecvSlots::<4>::new();
/// let mut list = qp.recv_list(&mut slots);
/// list.push(wr::Recv::new(buf()?))?;
/// list.post()?;
/// assert_eq!((qp.recvs_outstanding(), qp.recv_room()), (4, 0));
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0596
/// # use proverbs::endpoint::RcConnector;
/// # // A connector lends its queue pair only to receive, so it cannot be exchanged
/// # // for another.
/// fn exchange(one: &mut RcConnector, other: &mut RcConnector) {
///     std::mem::swap(&mut *one.qp(), &mut *other.qp());
/// }
/// ```
pub struct Receiving<'c, P: Profile = DefaultProfile>(pub(crate) &'c mut QueuePair<Rc, Init, P>);

impl<P: Profile> Deref for Receiving<'_, P> {
    type Target = QueuePair<Rc, Init, P>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl<P: Profile> Receiving<'_, P> {
    /// The number of receives that can be posted now.
    pub fn recv_room(&mut self) -> usize {
        self.0.recv_room()
    }
}

impl<P> Receiving<'_, P>
where
    P: Profile,
    QueuePair<Rc, Init, P>: Allows<call::PostRecv>,
{
    /// Like [`QueuePair::post_recv`].
    ///
    /// # Errors
    /// As for [`QueuePair::post_recv`].
    pub fn post_recv<W>(&mut self, wr: W) -> Result<(), PostError<P::Entry>>
    where
        P::Entry: Owned,
        W: RecvOn<P>,
    {
        self.0.post_recv(wr)
    }

    /// Like [`QueuePair::recv_list`].
    pub fn recv_list<'d, const N: usize, const G: usize>(
        &'d mut self,
        slots: &'d mut RecvSlots<N, G>,
    ) -> RecvList<'d, Rc, P, G>
    where
        P::Entry: Owned,
    {
        self.0.recv_list(slots)
    }

    #[doc(hidden)]
    pub fn begin_recv(&mut self) -> Begun<RecvPost<'_, Rc, P>> {
        self.0.begin_recv()
    }
}

impl_debug!([P: Profile] Receiving<'_, P>, |it| "Receiving({:?})", it.0);
