//! The data of the `unsafe` path: pieces of regions, with a wr_id that the caller chooses.

#![allow(unsafe_code)] // writes C scatter/gather elements

use std::marker::PhantomData;
use std::ops::Range;

use crate::memory::entry::Raw;
use crate::memory::region::MemoryRegion;
use crate::memory::remote::{Container, OutOfBounds};
use crate::memory::rights::Access;
use crate::sys::types::ibv_sge;
use crate::work::data::Data;
use crate::work::flags::SendFlags;
use crate::work::request::{Check, Emitted, How};

/// A piece of a registered region: one element of an [`Sge`] (`struct ibv_sge` of
/// ibv_post_send(3)).
#[derive(Clone, Copy)]
#[repr(transparent)] // a slice of them is C's `sg_list`
pub struct Piece<'mr> {
    pub(crate) sge: ibv_sge,
    region: PhantomData<&'mr ()>,
}

impl<'mr> Piece<'mr> {
    /// The bytes `range` of `region`.
    ///
    /// # Errors
    /// [`OutOfBounds`] if the range is not inside the region, or its length exceeds 32 bits
    /// ([R3.8](crate::guide::rules#r3-8)).
    pub fn new<A: Access, M>(
        region: &'mr MemoryRegion<A, M>,
        range: Range<usize>,
    ) -> Result<Self, OutOfBounds> {
        let len = range.end.saturating_sub(range.start);
        let (addr, lkey) = region.locate(range.start, len)?;
        let addr = addr.expose_provenance() as u64;
        // The length of an element has 32 bits (R3.8).
        let length = u32::try_from(len).map_err(|_| {
            let (offset, available) = (range.start as u64, u32::MAX as u64);
            OutOfBounds::new(Container::Element, offset, len as u64, available)
        })?;
        Ok(Piece { sge: ibv_sge { addr, length, lkey }, region: PhantomData })
    }

    /// The `length` bytes at `addr` of any region with the local key `lkey`, such as one that C
    /// code registered. With [`inline`](Sge::inline) the bytes can be anywhere in memory and the
    /// key is ignored.
    ///
    /// This is safe because a piece only contains numbers. Posting it is `unsafe`, and its contract
    /// requires that they are valid.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// let piece = wr::Piece::from_raw(0x7f00_0000_1000, 64, 0x1234); // from an `ibv_mr` of C code
    /// let sge: wr::Sge<'static, 1> = wr::Sge::new(7, [piece]);
    /// assert!(format!("{sge:?}").contains("64 bytes"));
    /// ```
    #[doc(alias("ibv_sge", "lkey"))]
    pub fn from_raw(addr: u64, length: u32, lkey: u32) -> Self {
        Piece { sge: ibv_sge { addr, length, lkey }, region: PhantomData }
    }
}

/// `N` scatter/gather elements (`sg_list` of ibv_post_send(3)) and the wr_id of their completion:
/// the data of the `unsafe` path.
///
/// It borrows the regions until it is posted. The contract of the `unsafe` post requires that they
/// live until the completion. The length of a [`RemoteSlice`](crate::RemoteSlice) does not limit a
/// WRITE or determine a READ with this data: they transfer as many bytes as the pieces have, and
/// only the peer's device checks the bounds of the region.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Raw;
/// # let proverbs::loopback::Pair { context, pd, .. } = proverbs::loopback::pair()?;
/// profile! { Unchecked { max_send_sge: 2, entry: Raw } }
///
/// let region = pd.register::<LocalWrite>(4096)?;
/// region.write_at(0, b"head")?;
/// region.write_at(100, b"body")?;
/// let pieces = [wr::Piece::new(&region, 0..4)?, wr::Piece::new(&region, 100..104)?];
/// // Its wr_id is 42.
/// let wr: wr::WorkRequest<wr::Send, wr::Sge<'_, 2>> = wr::Send::new(wr::Sge::new(42, pieces));
/// // Copied during the post.
/// let copied = wr::Send::new(wr::Sge::new(43, [wr::Piece::new(&region, 0..4)?]).inline());
/// # let _: wr::WorkRequest<wr::Send, wr::Sge<'_, 1>> = copied;
/// # drop(wr);
/// // Post them with `post_send_unchecked` to queue pairs whose entry is `Raw`.
/// let cq: CompletionQueue<Raw> = context.create_cq(32)?;
/// let qp = pd.create_qp::<Rc, Unchecked>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// assert!(wr::Piece::new(&region, 4090..4100).is_err());
/// # drop(qp);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_send_wr", "sg_list", "num_sge", "ibv_recv_wr", "ibv_sge", "ibv_wr_set_sge"))]
#[doc(alias = "ibv_wr_set_sge_list")]
#[derive(Clone, Copy, Debug)]
pub struct Sge<'mr, const N: usize> {
    pub(crate) pieces: [Piece<'mr>; N],
    pub(crate) wr_id: u64,
    pub(crate) flags: u32,
}

impl<'mr, const N: usize> Sge<'mr, N> {
    /// Creates the list of elements of a work request.
    pub fn new(wr_id: u64, pieces: [Piece<'mr>; N]) -> Self {
        Sge { pieces, wr_id, flags: 0 }
    }

    /// Sends the bytes inline: they are copied during the post.
    ///
    /// Their total must not exceed the queue pair's inline capacity, or the device rejects the
    /// post.
    pub fn inline(mut self) -> Self {
        self.flags = SendFlags::INLINE.bits();
        self
    }
}

impl<const N: usize> crate::work::data::sealed::Of<Raw> for Sge<'_, N> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl<const N: usize> Data<Raw> for Sge<'_, N> {
    type Sges = [ibv_sge; N];

    #[inline(always)]
    unsafe fn emit(self, sges: *mut ibv_sge, _: How, _: &mut Check) -> Emitted<Raw> {
        for (i, piece) in self.pieces.iter().enumerate() {
            // SAFETY: there are as many writable elements as pieces.
            unsafe { sges.add(i).write(piece.sge) };
        }
        Emitted { sges, count: N as i32, entry: None, flags: self.flags, wr_id: self.wr_id }
    }
}

impl_debug!([] Piece<'_>, |it|
    "Piece({} bytes at {:#x}, lkey {:#x})", it.sge.length, it.sge.addr, it.sge.lkey);
