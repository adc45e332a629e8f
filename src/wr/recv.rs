//! Receive work requests.

#![allow(unsafe_code)] // writes C work requests

use std::marker::PhantomData;

use super::data::{Data, Empty, RecvSink, Use};
use super::port::Port;
use super::{Pending, slot};
use crate::entry::Entry;
use crate::sys::types::ibv_recv_wr;

/// A receive work request (`struct ibv_recv_wr` of ibv_post_recv(3)): where an incoming message may be put.
///
/// The whole capacity of each buffer counts. On UD queue pairs the first 40 bytes are for the GRH (R5.8).
///
/// ```
/// # use proverbs::*;
/// # let proverbs::guide::Ends { mut b, pool, .. } = proverbs::guide::ends()?;
/// b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?; // up to 256 bytes
/// b.post_recv(Recv::empty())?;                              // a message of none
/// assert_eq!((b.recvs_outstanding(), b.recv_room()), (2, 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a work request does nothing until it is posted"]
pub struct Recv<D> {
    data: D,
}

impl<D: RecvSink> Recv<D> {
    /// A receive into `data`: a buffer, or several in order.
    #[inline(always)]
    pub fn new(data: D) -> Self {
        Recv { data }
    }
}

impl Recv<Empty> {
    /// A receive of no bytes, as a credit for RDMA_WRITE_WITH_IMM or messages of zero length.
    #[inline(always)]
    pub fn empty() -> Self {
        Recv { data: Empty }
    }
}

impl<D> Recv<D> {
    /// Writes the work request, all but `wr_id` and `next`.
    ///
    /// # Safety
    /// `slot` is writable and stays until the post.
    #[inline(always)]
    pub(crate) unsafe fn emit<E: Entry>(
        self,
        slot: *mut slot::RecvSlot<D::Sges>,
        port: &mut Port,
    ) -> Pending<E, D>
    where
        D: Data<E>,
    {
        // SAFETY: the caller's contract.
        let sges = unsafe { slot::Slot::sges(slot) };
        // SAFETY: the caller's contract.
        let wr: *mut ibv_recv_wr = unsafe { slot::Slot::wr(slot) };
        // SAFETY: the slot has room for `D::Sges`.
        let emitted = unsafe { self.data.emit(sges, Use::Fill, 0, port) };
        // SAFETY: `wr` is writable.
        unsafe { (*wr).sg_list = sges };
        // SAFETY: as above.
        unsafe { (*wr).num_sge = emitted.count };
        Pending { entry: emitted.entry, wr_id: emitted.wr_id, _data: PhantomData }
    }
}
