//! Work requests: small movable descriptors, and how they become C's.
//!
//! Emitting one writes only the fields that its opcode reads. Which descriptor may be posted where is
//! decided in [`rules`](crate::rules).

#![allow(unsafe_code)] // writes C work requests

mod address;
pub(crate) mod chain;
pub(crate) mod data;
mod flags;
mod op;
pub(crate) mod port;
mod recv;
mod sge;
pub(crate) mod slot;

use std::marker::PhantomData;

pub use address::{Address, Connected, Datagram, Destination};
pub use data::{
    AtomicSink, Data, Empty, Fits, Inline, InlineSlice, RecvSink, Sink, Source, SrqSink,
};
pub use flags::{Fenced, Plain, Signaled, Unfenced};
pub use op::{
    CmpAndSwp, FetchAndAdd, Opcode, RdmaRead, RdmaWrite, RdmaWriteWithImm, Send, SendWithImm,
};
pub use recv::Recv;
pub use sge::{Piece, Sge};

use crate::entry::Entry;
use crate::remote::{AtomicAddr, ReadAddr, WriteAddr};
use crate::rules::{InlineOp, SolicitedOp};
use crate::sys::types::{ibv_send_wr, ibv_sge};
use data::Use;
use flags::SendFlags;
use port::Port;

/// A send work request (`struct ibv_send_wr` of ibv_post_send(3)): an opcode `O` with its operands, data `D`, an address `A`, and whether it was
/// told to be fenced (`F`) and signaled (`G`).
///
/// It is made by the opcode: `Send::new(buf)`, `RdmaWrite::inline(&bytes, remote)` and so on.
///
/// ```
/// # use proverbs::*;
/// profile! { Stream { signaling: Selective } }
///
/// /// The end of a stream: the peer is woken, and this side hears when all is done.
/// fn last(buf: Buf) -> WorkRequest<Send, Buf, Connected, Unfenced, Signaled> {
///     Send::new(buf).solicited().signaled()
/// }
/// # let proverbs::guide::Ends { mut a, mut b, mut cq, pool, .. } = proverbs::guide::ends_of::<Stream>()?;
/// # b.post_recv(Recv::new(pool.take().ok_or("no buffer")?))?;
/// a.post_send(last(pool.take().ok_or("no buffer")?))?;
/// # proverbs::guide::poll(&mut cq, 2)?;
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

/// The operands of CMP_AND_SWP, by name, so that they are not swapped (R4.10): shown at [`CmpAndSwp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareSwap {
    /// The value that the cell must hold for the swap to happen.
    pub compare: u64,
    /// The value that it holds then.
    pub swap: u64,
}

#[inline(always)]
fn request<O, D>(op: O, data: D, use_: Use) -> WorkRequest<O, D> {
    WorkRequest { op, data, address: Connected, flags: 0, use_, _marks: PhantomData }
}

#[inline(always)]
fn inline<O: InlineOp, const N: usize>(
    op: O,
    bytes: &[u8; N],
    use_: Use,
) -> WorkRequest<O, Inline<'_, N>> {
    request(op, Inline(bytes), use_)
}

#[inline(always)]
fn inline_slice<O: InlineOp>(op: O, bytes: &[u8], use_: Use) -> WorkRequest<O, InlineSlice<'_>> {
    request(op, InlineSlice(bytes), use_)
}

/// How a WRITE to this uses its data.
#[inline(always)]
fn write_to<A: WriteAddr>(_: &A) -> Use {
    if A::HAS_END { Use::Write } else { Use::Send }
}

/// How a READ from this uses its data.
#[inline(always)]
fn read_from<A: ReadAddr>(_: &A) -> Use {
    if A::HAS_END { Use::Read } else { Use::Send }
}

impl Send {
    /// Sends `data`: a buffer up to its length, several, or [`Empty`].
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: Source>(data: D) -> WorkRequest<Send, D> {
        request(Send, data, Use::Send)
    }

    /// Sends a copy of `bytes`, made while posting (`IBV_SEND_INLINE`; R2.9). The compiler counts them (R2.7).
    #[inline(always)]
    pub fn inline<const N: usize>(bytes: &[u8; N]) -> WorkRequest<Send, Inline<'_, N>> {
        inline(Send, bytes, Use::Send)
    }

    /// As [`inline`](Send::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice(bytes: &[u8]) -> WorkRequest<Send, InlineSlice<'_>> {
        inline_slice(Send, bytes, Use::Send)
    }
}

impl SendWithImm {
    /// Sends `data` and `imm_data` (host order; the wire has network order).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: Source>(data: D, imm_data: u32) -> WorkRequest<SendWithImm, D> {
        request(SendWithImm { imm_data }, data, Use::Send)
    }

    /// Sends a copy of `bytes`, made while posting.
    #[inline(always)]
    pub fn inline<const N: usize>(
        bytes: &[u8; N],
        imm_data: u32,
    ) -> WorkRequest<SendWithImm, Inline<'_, N>> {
        inline(SendWithImm { imm_data }, bytes, Use::Send)
    }

    /// As [`inline`](SendWithImm::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice(bytes: &[u8], imm_data: u32) -> WorkRequest<SendWithImm, InlineSlice<'_>> {
        inline_slice(SendWithImm { imm_data }, bytes, Use::Send)
    }
}

impl RdmaWrite {
    /// Writes `data` to the peer's memory at `remote`. What is longer than that is refused (R6.7).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: Source>(data: D, remote: impl WriteAddr) -> WorkRequest<RdmaWrite, D> {
        let use_ = write_to(&remote);
        request(RdmaWrite { remote: remote.span() }, data, use_)
    }

    /// Writes a copy of `bytes`, made while posting.
    #[inline(always)]
    pub fn inline<const N: usize>(
        bytes: &[u8; N],
        remote: impl WriteAddr,
    ) -> WorkRequest<RdmaWrite, Inline<'_, N>> {
        let use_ = write_to(&remote);
        inline(RdmaWrite { remote: remote.span() }, bytes, use_)
    }

    /// As [`inline`](RdmaWrite::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice(
        bytes: &[u8],
        remote: impl WriteAddr,
    ) -> WorkRequest<RdmaWrite, InlineSlice<'_>> {
        let use_ = write_to(&remote);
        inline_slice(RdmaWrite { remote: remote.span() }, bytes, use_)
    }
}

impl RdmaWriteWithImm {
    /// Writes `data` to the peer's memory at `remote`, if it is not longer than that (R6.7), and completes a receive of the peer's with
    /// `imm_data` (host order; the wire has network order).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: Source>(
        data: D,
        remote: impl WriteAddr,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, D> {
        let use_ = write_to(&remote);
        request(RdmaWriteWithImm { remote: remote.span(), imm_data }, data, use_)
    }

    /// Writes a copy of `bytes`, made while posting.
    #[inline(always)]
    pub fn inline<const N: usize>(
        bytes: &[u8; N],
        remote: impl WriteAddr,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, Inline<'_, N>> {
        let use_ = write_to(&remote);
        inline(RdmaWriteWithImm { remote: remote.span(), imm_data }, bytes, use_)
    }

    /// As [`inline`](RdmaWriteWithImm::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice(
        bytes: &[u8],
        remote: impl WriteAddr,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, InlineSlice<'_>> {
        let use_ = write_to(&remote);
        inline_slice(RdmaWriteWithImm { remote: remote.span(), imm_data }, bytes, use_)
    }
}

impl RdmaRead {
    /// Reads all of the peer's slice at `remote` into `data`, buffer after buffer: their lengths are set to what each
    /// of them gets, whatever they were. A slice for which their capacities do not suffice is refused, as is any but
    /// an empty one where `data` is [`Empty`]. From a [`RemoteAddr`](crate::RemoteAddr), which has no end, it reads as many bytes as
    /// the buffers' lengths say.
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: Sink>(data: D, remote: impl ReadAddr) -> WorkRequest<RdmaRead, D> {
        let use_ = read_from(&remote);
        request(RdmaRead { remote: remote.span() }, data, use_)
    }
}

impl CmpAndSwp {
    /// Swaps the peer's cell if it holds the expected value; its old value lands in the first 8 bytes
    /// of `result`, in this machine's byte order (R4.11).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: AtomicSink>(
        result: D,
        remote: impl AtomicAddr,
        operands: CompareSwap,
    ) -> WorkRequest<CmpAndSwp, D> {
        let CompareSwap { compare, swap } = operands;
        request(CmpAndSwp { remote: remote.addr(), compare, swap }, result, Use::Atomic)
    }
}

impl FetchAndAdd {
    /// Adds to the peer's cell; its old value lands in the first 8 bytes of `result`, in this
    /// machine's byte order (R4.11).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: AtomicSink>(
        result: D,
        remote: impl AtomicAddr,
        add: u64,
    ) -> WorkRequest<FetchAndAdd, D> {
        request(FetchAndAdd { remote: remote.addr(), add }, result, Use::Atomic)
    }
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
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::guide::ends()?;
    /// let region = pd.register::<RemoteAll>(256)?;
    /// let remote = region.remote();
    /// let (old, new) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
    /// post_send!(a, [
    ///     RdmaRead::new(old, remote.read()),
    ///     RdmaWrite::new(new, remote.write()).fence(), // not before the READ has its bytes
    /// ])?;
    /// # proverbs::guide::poll(&mut cq, 2)?;
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

    /// Asks for a completion (`IBV_SEND_SIGNALED`; queue pairs with selective signaling only; the last work request of a
    /// list has one anyway).
    #[inline(always)]
    pub fn signaled(self) -> WorkRequest<O, D, A, F, Signaled>
    where
        A: Copy,
    {
        let address = self.address;
        self.with(address, SendFlags::SIGNALED)
    }

    /// Raises a solicited event at the peer (`IBV_SEND_SOLICITED`; R2.3, [`Notify::Solicited`](crate::Notify)).
    #[inline(always)]
    pub fn solicited(mut self) -> Self
    where
        O: SolicitedOp,
    {
        self.flags |= SendFlags::SOLICITED.bits();
        self
    }
}

/// What emission leaves for the post: the entry, the wr_id of the `unsafe` path, and the type of the
/// data, whose borrows must last until the post.
#[doc(hidden)]
pub struct Pending<E, D> {
    pub entry: Option<E>,
    pub wr_id: u64,
    _data: PhantomData<D>,
}

impl<O: Opcode, D, A: Address, F, G> WorkRequest<O, D, A, F, G> {
    /// Writes the work request, all but `wr_id` and `next`.
    ///
    /// # Safety
    /// `wr` is writable and `sges` has room for `D::Sges`; both stay until the post.
    #[inline(always)]
    pub(crate) unsafe fn emit<E: Entry>(
        self,
        wr: *mut ibv_send_wr,
        sges: *mut ibv_sge,
        port: &mut Port,
    ) -> Pending<E, D>
    where
        D: Data<E>,
    {
        // SAFETY: the caller's contract.
        let emitted = unsafe { self.data.emit(sges, self.use_, self.op.limit(), port) };
        // SAFETY: `wr` is writable.
        unsafe { (*wr).sg_list = sges };
        // Number of elements, opcode, flags and the immediate, which is overwritten where the opcode has one: constants
        // that are one store of 16 bytes.
        let head = [emitted.count as u32, O::CODE, self.flags | emitted.flags, 0];
        // SAFETY: as above; the fields follow one another (`layout`).
        let at = unsafe { &raw mut (*wr).num_sge }.cast::<[u32; 4]>();
        // SAFETY: as above.
        unsafe { at.write(head) };
        // SAFETY: as above.
        unsafe { self.op.emit(wr) };
        // SAFETY: as above; `Addressed` lets a `Datagram` come to a UD port only, and what keeps no books has
        // an address handle of the queue pair's by the contract of its post.
        unsafe { self.address.emit(wr, port, !E::OWNED) };
        Pending { entry: emitted.entry, wr_id: emitted.wr_id, _data: PhantomData }
    }
}
