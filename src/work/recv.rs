//! Receive work requests.

#![allow(unsafe_code)] // writes C work requests

use crate::memory::entry::Entry;
use crate::sys::types::ibv_recv_wr;
use crate::work::data::{Data, IntoData, Takes};
use crate::work::inline::Empty;
use crate::work::request::{Check, How, Pending, RecvSlot, Slot, Use, Work};

/// A receive work request (`struct ibv_recv_wr` of ibv_post_recv(3)): where an incoming message may
/// be put.
///
/// The whole capacity of each buffer counts. On UD queue pairs the first 40 bytes are for the GRH
/// ([R5.8](crate::guide::rules#r5-8)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut b, pool, .. } = proverbs::loopback::pair()?;
/// b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?; // up to 256 bytes
/// b.post_recv(wr::Recv::empty())?;                              // a message of none
/// assert_eq!((b.recvs_outstanding(), b.recv_room()), (2, 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_recv_wr")]
#[must_use = "a work request does nothing until it is posted"]
pub struct Recv<D> {
    data: D,
}

impl<D> Recv<D> {
    /// A receive into `data`: a buffer, or several in order.
    #[inline(always)]
    pub fn new(data: impl IntoData<Data = D>) -> Self
    where
        Self: Takes<D>,
    {
        Recv { data: data.into_data() }
    }
}

impl Recv<Empty> {
    /// A receive of no bytes, as a credit for RDMA_WRITE_WITH_IMM or messages of zero length.
    #[inline(always)]
    pub fn empty() -> Self {
        Recv { data: Empty }
    }
}

impl<E: Entry, D: Data<E>> Work<E> for Recv<D> {
    type Wr = ibv_recv_wr;
    type Data = D;

    #[inline(always)]
    unsafe fn emit(self, slot: *mut RecvSlot<D::Sges>, check: &mut Check) -> Pending<E, D> {
        // SAFETY: the slot is writable, has room for `D::Sges`, and stays until the post.
        unsafe {
            let (wr, sges) = Slot::parts(slot);
            let emitted = self.data.emit(sges, How { use_: Use::Fill, limit: 0 }, check);
            (*wr).sg_list = emitted.sges;
            (*wr).num_sge = emitted.count;
            Pending::new(emitted.entry, emitted.wr_id)
        }
    }
}

impl_debug!([D] Recv<D>, |_| "Recv");
