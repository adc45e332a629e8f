//! Work requests: small movable descriptors, and how they become C's.
//!
//! Emitting one writes only the fields that its opcode reads. Which descriptor may be posted where
//! is decided in [`rules`](crate::rules).

#![allow(unsafe_code)] // writes C work requests

use std::marker::PhantomData;

use crate::memory::entry::Entry;
use crate::sys::types::ibv_send_wr;
use crate::work::address::{Address, Connected, Datagram, Destination};
use crate::work::check::Check;
use crate::work::data::{Data, Emitted, Inline, InlineSlice, Use};
use crate::work::flags::{Fenced, Plain, SendFlags, Signaled, Unfenced};
use crate::work::opcode::Opcode;
use crate::work::opcode::bounds::{InlineOp, SolicitedOp};
use crate::work::slot::{SendSlot, Slot};

/// A send work request (`struct ibv_send_wr` of ibv_post_send(3)): an opcode `O` with its operands,
/// data `D`, an address `A`, and whether it was told to be fenced (`F`) and signaled (`G`).
///
/// It is made by the opcode: `wr::Send::new(buf)`, `wr::RdmaWrite::inline(&bytes, remote)` and so
/// on.
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Stream { signaling: Selective } }
///
/// /// The end of a stream: the peer is woken, and this side hears when all is done.
/// fn last(buf: Buf) -> wr::WorkRequest<wr::Send, Buf, wr::Connected, wr::Unfenced, wr::Signaled> {
///     wr::Send::new(buf).solicited().signaled()
/// }
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair_of::<Stream>()?;
/// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(last(pool.take().ok_or("no buffer")?))?;
/// # proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a work request does nothing until it is posted"]
pub struct WorkRequest<O, D, A = Connected, F = Unfenced, G = Plain> {
    op: O,
    data: D,
    address: A,
    flags: u32,
    use_: Use,
    _marks: PhantomData<(F, G)>,
}

#[inline(always)]
pub(super) fn request<O, D>(op: O, data: D, use_: Use) -> WorkRequest<O, D> {
    WorkRequest { op, data, address: Connected, flags: 0, use_, _marks: PhantomData }
}

#[inline(always)]
pub(super) fn inline<O: InlineOp, const N: usize>(
    op: O,
    bytes: &[u8; N],
    use_: Use,
) -> WorkRequest<O, Inline<'_, N>> {
    request(op, Inline(bytes), use_)
}

#[inline(always)]
pub(super) fn inline_slice<O: InlineOp>(
    op: O,
    bytes: &[u8],
    use_: Use,
) -> WorkRequest<O, InlineSlice<'_>> {
    request(op, InlineSlice(bytes), use_)
}

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    #[inline(always)]
    fn with<A2, F2, G2>(self, address: A2, flags: SendFlags) -> WorkRequest<O, D, A2, F2, G2> {
        let WorkRequest { op, data, use_, .. } = self;
        let flags = self.flags | flags.bits();
        WorkRequest { op, data, address, flags, use_, _marks: PhantomData }
    }

    /// With `flags` besides its own.
    #[inline(always)]
    pub(crate) fn flagged(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }

    /// Names the destination (UD only, where every send needs one; R5.1), as [`Destination`] shows.
    #[inline(always)]
    pub fn to(self, destination: Destination) -> WorkRequest<O, D, Datagram, F, G> {
        self.with(Datagram(destination), SendFlags::empty())
    }

    /// Waits for earlier RDMA READs and atomics of this queue pair (RC only; R2.1, R2.2).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteAll>(256)?;
    /// let remote = region.remote();
    /// let (old, new) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
    /// post_send!(a, [
    ///     wr::RdmaRead::new(old, remote.read()),
    ///     wr::RdmaWrite::new(new, remote.write()).fence(), // not before the READ has its bytes
    /// ])?;
    /// # proverbs::loopback::poll(&mut cq, 2)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn fence(self) -> WorkRequest<O, D, A, Fenced, G>
    where
        A: Copy,
    {
        let address = self.address;
        self.with(address, SendFlags::FENCE)
    }

    /// Asks for a completion (`IBV_SEND_SIGNALED`; queue pairs with selective signaling only; the
    /// last work request of a list has one anyway).
    #[inline(always)]
    pub fn signaled(self) -> WorkRequest<O, D, A, F, Signaled>
    where
        A: Copy,
    {
        let address = self.address;
        self.with(address, SendFlags::SIGNALED)
    }

    /// Raises a solicited event at the peer (`IBV_SEND_SOLICITED`; R2.3,
    /// [`Notify::Solicited`](crate::completion::Notify)).
    #[inline(always)]
    pub fn solicited(mut self) -> Self
    where
        O: SolicitedOp,
    {
        self.flags |= SendFlags::SOLICITED.bits();
        self
    }
}

/// What a program describes, for a queue with entries `E`: a [`WorkRequest`], or a
/// [`Recv`](crate::wr::Recv).
#[doc(hidden)]
pub trait Work<E: Entry> {
    /// C's form.
    type Wr;
    type Data: Data<E>;

    /// Writes the work request, all but `wr_id` and `next`.
    ///
    /// # Safety
    /// `slot` is writable, has room for the elements, and stays until the post. `check` knows the
    /// queue's address handles; what keeps no books has an address handle of the queue's, if it
    /// names one, by the contract of its post.
    unsafe fn emit(
        self,
        slot: *mut Slot<Self::Wr, <Self::Data as Data<E>>::Sges>,
        check: &mut Check,
    ) -> Pending<E, Self::Data>;
}

/// What emission leaves for the post: the entry, the wr_id of the `unsafe` path, and the type of
/// the data, whose borrows must last until the post.
#[doc(hidden)]
pub struct Pending<E, D> {
    pub entry: Option<E>,
    pub wr_id: u64,
    _data: PhantomData<D>,
}

impl<E, D> Pending<E, D> {
    #[inline(always)]
    pub(crate) fn new(emitted: Emitted<E>) -> Self {
        Pending { entry: emitted.entry, wr_id: emitted.wr_id, _data: PhantomData }
    }
}

impl<E: Entry, O: Opcode, D: Data<E>, A: Address, F, G> Work<E> for WorkRequest<O, D, A, F, G> {
    type Wr = ibv_send_wr;
    type Data = D;

    #[inline(always)]
    unsafe fn emit(self, slot: *mut SendSlot<D::Sges>, check: &mut Check) -> Pending<E, D> {
        // SAFETY: the slot is writable, has room for `D::Sges`, and stays until the post; the
        // fields of the head follow one another (`sys::layout`); the check knows the address
        // handles.
        unsafe {
            let (wr, sges) = (Slot::wr(slot), Slot::sges(slot));
            let emitted = self.data.emit(sges, self.use_, self.op.limit(), check);
            (*wr).sg_list = sges;
            // Number of elements, opcode, flags and the immediate, which is overwritten where the
            // opcode has one: constants that are one store of 16 bytes.
            let head = [emitted.count as u32, O::CODE, self.flags | emitted.flags, 0];
            (&raw mut (*wr).num_sge).cast::<[u32; 4]>().write(head);
            self.op.emit(wr);
            self.address.emit(wr, check, !E::OWNED);
            Pending::new(emitted)
        }
    }
}
