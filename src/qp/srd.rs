//! SRD: the creation flags of its queue pairs, and the senders of its messages.

#![allow(unsafe_code)] // reads fields that SRD promises

use super::QueuePair;
use crate::completion::{Completion, Direction};
use crate::memory::Owned;
use crate::profile::Profile;
use crate::sys::device::name_of;
use crate::sys::handle;
use crate::sys::session::send_ops::RDMA_WRITE;
use crate::sys::srd::INLINE_WRITE;
use crate::terms::bounded::Qpn;
use crate::terms::state::State;
use crate::terms::transport::Srd;
use crate::work::limits::Limit;

pub(super) const VERB: &str = "efadv_create_qp_ex";

/// The creation flags for the device. Inline data must be enabled if WRITEs may use it.
pub(super) fn flags<P: Profile>(send_ops: u64) -> u16 {
    let writes_inline = send_ops & RDMA_WRITE != 0 && P::MaxInline::VALUE != 0;
    if writes_inline { INLINE_WRITE } else { 0 }
}

/// Explains why such a queue pair cannot be created.
pub(super) fn why(send_ops: u64, errno: i32, context: &handle::Context) -> String {
    let writes = match send_ops & RDMA_WRITE {
        0 => "",
        _ => ", and one without RDMA WRITE needs `posting: ExtendedPosting<Srd>`",
    };
    match errno {
        libc::ENOSYS => ": no installed libefa.so.1 supports it; install Debian's \
                         ibverbs-providers, or rdma-core 26 or newer"
            .into(),
        libc::EOPNOTSUPP => format!(
            ": {} does not support SRD, or not all of these operations. SRD needs an EFA; one \
             without RDMA READ needs a profile with `NoReads`{writes}",
            name_of(context)
        ),
        _ => String::new(),
    }
}

/// The sender of a message on SRD. Returned by [`QueuePair::sender`] (ibv_poll_cq(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sender {
    /// The number of the queue pair that sent it.
    pub qpn: Qpn,
    /// The device's number of the address handle for the sender (`slid` of ibv_poll_cq(3)); `None`
    /// if there is none. [`AddressHandle::efa_number`](crate::device::AddressHandle::efa_number)
    /// returns the number of an address handle.
    pub ah_number: Option<u16>,
}

/// The value that means that there is no such address handle.
const UNKNOWN: u16 = 0xffff;

impl<S: State, P: Profile<Entry: Owned>> QueuePair<Srd, S, P> {
    /// The sender of this message, if the completion is a successful receive of this queue pair.
    /// Call it before you take the completion apart.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{loopback::{Fabric, World}, qp::Sender, wr::Destination};
    /// profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, max_inline: 32 } }
    ///
    /// let context = Fabric::with(World::efa()).open_device();
    /// let pd = context.alloc_pd()?;
    /// let pool = pd.create_pool(16, 256)?;
    /// let mut cq: CompletionQueue = context.create_cq(64)?;
    /// let (qkey, psn) = (Qkey::try_from(0x1111)?, Psn::try_from(0)?);
    /// let ready = || -> Result<QueuePair<Srd, Rts, Spread>, Box<dyn std::error::Error>> {
    ///     let qp = pd.create_qp::<Srd, Spread>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    ///     let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
    ///     Ok(qp.modify(UdRtr::default())?.modify(SrdRts::new(psn))?)
    /// };
    /// let (mut client, mut server) = (ready()?, ready()?);
    /// let gid = context.roce_v2_gid(1)?;
    /// let way = || pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?);
    /// let address_handle = client.add_address_handle(way()?)?;
    /// let to = Destination { address_handle, qpn: Qpn::try_from(server.qp_num())?, qkey };
    ///
    /// // The WRITE has its own completion at the peer: a SEND after it could arrive first.
    /// let region = pd.register::<RemoteWrite>(64)?;
    /// server.post_recv(wr::Recv::empty())?;
    /// let written = wr::RdmaWriteWithImm::inline(b"in any order", region.remote().write(), 7);
    /// client.post_send(written.to(to))?;
    ///
    /// let mut from: Option<Sender> = None;
    /// while from.is_none() || client.sends_outstanding() != 0 {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         from = from.or(server.sender(&completion));
    ///     }
    /// }
    /// let mut there = [0; 12];
    /// region.read_at(0, &mut there)?;
    /// assert_eq!((&there, from.unwrap().qpn), (b"in any order", Qpn::try_from(client.qp_num())?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn sender(&self, completion: &Completion<'_, P::Entry>) -> Option<Sender> {
        if completion.direction() != Direction::Receive
            || !completion.belongs_to(&self.core.counters)
        {
            return None;
        }
        // SAFETY: it belongs to a receive of this queue pair, whose arrivals have a source like
        // those of UD (EFA's provider writes it with each).
        let (src_qp, slid) = unsafe { completion.source() }?;
        let qpn = Qpn::new(src_qp & Qpn::MAX.get()).unwrap_or(Qpn::MAX);
        Some(Sender { qpn, ah_number: (slid != UNKNOWN).then_some(slid) })
    }
}
