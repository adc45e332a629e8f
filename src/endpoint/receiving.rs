//! A queue pair lent to post receives.

use std::ops::Deref;

use crate::entry::Owned;
use crate::in_flight::PostError;
use crate::profile::{DefaultProfile, Profile};
use crate::qp::{Begun, QueuePair, RecvList, RecvPost, RecvSlots};
use crate::rules::HasRecvQueue;
use crate::state::Init;
use crate::transport::Rc;
use crate::wr::{Data, Fits, Recv};

/// The queue pair of an [`RcConnector`](super::RcConnector), lent to post receives (ibv_post_recv(3)). What a `&QueuePair` can is
/// there too. It cannot be exchanged for another one, because the peer is told its number.
///
/// ```
/// use proverbs::{endpoint::RcConnector, *};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = loopback::Fabric::new().open_device();
/// # let pd = context.alloc_pd()?;
/// # let cq: CompletionQueue = context.create_cq(16)?;
/// # let pool = pd.create_pool(4, 64)?;
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
/// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// let mut connector = RcConnector::new(qp, Some(1))?;
/// let buf = || pool.take().ok_or("no buffer");
/// connector.qp().post_recv(Recv::new(buf()?))?;
/// let mut qp: endpoint::Receiving<'_> = connector.qp();
/// post_recv!(qp, [Recv::new(buf()?), Recv::empty()])?;
/// let mut slots = RecvSlots::<4>::new();
/// let mut list = qp.recv_list(&mut slots);
/// list.push(Recv::new(buf()?))?;
/// list.post()?;
/// assert_eq!((qp.recvs_outstanding(), qp.recv_room()), (4, 0));
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0596
/// # use proverbs::endpoint::RcConnector;
/// fn exchange(one: &mut RcConnector, other: &mut RcConnector) {
///     std::mem::swap(&mut *one.qp(), &mut *other.qp());
/// }
/// ```
pub struct Receiving<'c, P: Profile = DefaultProfile>(pub(super) &'c mut QueuePair<Rc, Init, P>);

impl<P: Profile> Deref for Receiving<'_, P> {
    type Target = QueuePair<Rc, Init, P>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl<P: Profile> Receiving<'_, P> {
    /// How many receives may be posted now.
    pub fn recv_room(&mut self) -> usize {
        self.0.recv_room()
    }
}

impl<P> Receiving<'_, P>
where
    P: Profile,
    P::Receive: HasRecvQueue,
{
    /// As [`QueuePair::post_recv`].
    ///
    /// # Errors
    /// As there.
    pub fn post_recv<D>(&mut self, wr: Recv<D>) -> Result<(), PostError<P::Entry>>
    where
        P::Entry: Owned,
        D: Data<P::Entry> + Fits<P::MaxRecvSge, P::MaxInline>,
    {
        self.0.post_recv(wr)
    }

    /// As [`QueuePair::recv_list`].
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
