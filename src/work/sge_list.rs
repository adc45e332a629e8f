//! Data of the `unsafe` path with a run-time number of elements.

#![allow(unsafe_code)] // names C scatter/gather elements

use crate::memory::entry::Raw;
use crate::sys::types::ibv_sge;
use crate::work::data::Data;
use crate::work::flags::SendFlags;
use crate::work::request::{Check, Emitted, How};
use crate::work::sge::Piece;

/// A run-time number of scatter/gather elements (`sg_list` and `num_sge` of ibv_post_send(3)), and
/// the wr_id of their completion.
///
/// For the `unsafe` path, like [`Sge`](crate::wr::Sge), which has a fixed number of elements. The
/// pieces are not copied: the device reads them during the post. The contract of the post requires
/// that there are at most as many as the queue allows.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Raw;
/// profile! { Gathering { max_send_sge: 4, entry: Raw } }
///
/// # let proverbs::loopback::Pair { pd, context, .. } = proverbs::loopback::pair()?;
/// # let (gid, psn) = (context.roce_v2_gid(1)?, Psn::try_from(0)?);
/// let region = pd.register::<RemoteWrite>(4096)?;
/// let mut cq: CompletionQueue<Raw> = context.create_cq(32)?;
/// let qp = pd.create_qp::<Rc, Gathering>(&cq, &cq, Depth { send: 8, recv: 8 })?;
/// # let myself = Qpn::try_from(qp.qp_num())?;
/// # let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// # let qp = qp.modify(RcRtr::new(AddressVector::roce_v2(gid, gid.gid())?, myself, psn))?;
/// let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?; // connected to itself
/// region.write_at(0, b"a..b..c.")?;
/// let mut pieces = Vec::new();
/// for start in [0, 3, 6] {
///     pieces.push(wr::Piece::new(&region, start..start + 1)?);
/// }
/// let to = region.remote().slice(2048, 3)?;
/// // SAFETY: 3 pieces are within `max_send_sge`, the region outlives the queue pair, nobody else
/// // touches it before the completion, and `cq` has room.
/// unsafe {
///     qp.post_send_unchecked(wr::RdmaWrite::new(wr::SgeList::new(9, &pieces), to.write()))?;
/// }
/// while cq.poll()?.count() == 0 {}
/// let mut there = [0; 3];
/// region.read_at(2048, &mut there)?;
/// assert_eq!(&there, b"abc");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("sg_list", "num_sge", "ibv_sge", "ibv_wr_set_sge_list"))]
#[derive(Clone, Copy, Debug)]
pub struct SgeList<'a> {
    pieces: &'a [Piece<'a>],
    wr_id: u64,
    flags: u32,
}

impl<'a> SgeList<'a> {
    /// Creates the data of a work request.
    pub fn new(wr_id: u64, pieces: &'a [Piece<'a>]) -> Self {
        SgeList { pieces, wr_id, flags: 0 }
    }

    /// Sends the bytes inline, like [`Sge::inline`](crate::wr::Sge::inline).
    pub fn inline(mut self) -> Self {
        self.flags = SendFlags::INLINE.bits();
        self
    }
}

impl crate::work::data::sealed::Of<Raw> for SgeList<'_> {
    type This = Self;
}

#[diagnostic::do_not_recommend]
impl Data<Raw> for SgeList<'_> {
    type Sges = [ibv_sge; 0];

    #[inline(always)]
    unsafe fn emit(self, _: *mut ibv_sge, _: How, _: &mut Check) -> Emitted<Raw> {
        // A `Piece` is an `ibv_sge`. Nothing writes to them: an unchecked post does not trim its
        // elements.
        let sges = self.pieces.as_ptr().cast::<ibv_sge>().cast_mut();
        let count = self.pieces.len() as i32;
        Emitted { sges, count, entry: None, flags: self.flags, wr_id: self.wr_id }
    }
}
