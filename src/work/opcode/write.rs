//! RDMA_WRITE, and RDMA_WRITE_WITH_IMM.

use super::{InlineOp, Opcode, SolicitedOp, StartsAt, WcOpcode, sealed};
use crate::memory::span::RemoteSpan;
use crate::sys::data::{Operands, behind_rkey};
use crate::sys::types::ibv_wr_opcode;
use crate::work::data::{IntoData, Takes};
use crate::work::inline::{Inline, InlineList, InlineSlice, inline};
use crate::work::request::{Use, WorkRequest, request};

/// RDMA_WRITE (`IBV_WR_RDMA_WRITE`): writes the data to the peer's memory. The peer is not
/// notified.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteWrite>(8)?;
/// a.post_send(wr::RdmaWrite::inline(b"8 bytes!", region.remote().write()))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// let mut there = [0; 8];
/// region.read_at(0, &mut there)?;
/// assert_eq!(&there, b"8 bytes!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteWrite>(256)?;
/// let (start, rest) = (region.remote(), region.remote().slice(128, 128)?);
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"of a buffer")?;
/// post_send!(a, [
///     wr::RdmaWrite::new(buf, start.write()),
///     wr::RdmaWrite::inline_slice("any length".as_bytes(), rest.write()),
/// ])?;
/// proverbs::loopback::poll(&mut cq, 2)?;
/// let mut there = [0; 10];
/// region.read_at(128, &mut there)?;
/// assert_eq!(&there, b"any length");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_RDMA_WRITE", "ibv_wr_opcode", "ibv_send_wr", "remote_addr", "rkey"))]
#[doc(alias("ibv_wr_rdma_write", "IBV_QP_EX_WITH_RDMA_WRITE"))]
#[derive(Clone, Copy, Debug)]
pub struct RdmaWrite {
    pub(crate) remote: RemoteSpan,
}

impl RdmaWrite {
    /// Writes `data` to the peer's memory at `remote`. The post is rejected if the data is longer
    /// than `remote` ([R6.7](crate::guide::rules#r6-7)).
    #[inline(always)]
    pub fn new<D, R>(data: impl IntoData<Data = D>, remote: R) -> WorkRequest<RdmaWrite, D>
    where
        Self: Takes<D> + StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        request(RdmaWrite { remote }, data.into_data(), use_)
    }

    /// Writes a copy of `bytes`, made during the post.
    #[inline(always)]
    pub fn inline<const N: usize, R>(
        bytes: &[u8; N],
        remote: R,
    ) -> WorkRequest<RdmaWrite, Inline<'_, N>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        inline(RdmaWrite { remote }, Inline(bytes), use_)
    }

    /// Like [`inline`](RdmaWrite::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice<R>(bytes: &[u8], remote: R) -> WorkRequest<RdmaWrite, InlineSlice<'_>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        inline(RdmaWrite { remote }, InlineSlice(bytes), use_)
    }

    /// Writes a copy of `slices`, one after the other, made during the post, like
    /// [`Send::inline_list`](crate::wr::Send::inline_list). The post is rejected if their total
    /// length exceeds `remote` ([R6.7](crate::guide::rules#r6-7)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Framed { max_send_sge: 2 } }
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Framed>()?;
    /// let region = pd.register::<RemoteWrite>(64)?;
    /// let at = region.remote().write();
    /// a.post_send(wr::RdmaWrite::inline_list([b"head", b"and body"], at))?;
    /// proverbs::loopback::poll(&mut cq, 1)?;
    /// let mut there = [0; 12];
    /// region.read_at(0, &mut there)?;
    /// assert_eq!(&there, b"headand body");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn inline_list<const N: usize, R>(
        slices: [&[u8]; N],
        remote: R,
    ) -> WorkRequest<RdmaWrite, InlineList<'_, N>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        inline(RdmaWrite { remote }, InlineList(slices), use_)
    }
}

impl sealed::Sealed for RdmaWrite {}

impl Opcode for RdmaWrite {
    type Addr = RemoteSpan;

    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
    const NAME: &'static str = "RDMA_WRITE";
    const IS_RDMA: bool = true;
    const USE: Use = Use::Write;
    const COMPLETES_AS: WcOpcode = WcOpcode::RdmaWrite;

    #[inline(always)]
    fn limit(&self) -> u32 {
        behind_rkey(self.remote.c)
    }

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.rdma(self.remote.c);
    }
}

#[diagnostic::do_not_recommend]
impl InlineOp for RdmaWrite {}

/// RDMA_WRITE_WITH_IMM (`IBV_WR_RDMA_WRITE_WITH_IMM`): a WRITE that also consumes a receive at the
/// peer ([R1.5](crate::guide::rules#r1-5)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::completion::WcOpcode;
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteWrite>(64)?;
/// let at = region.remote().write();
/// for _ in 0..3 {
///     b.post_recv(wr::Recv::empty())?; // consumed by the immediates
/// }
/// a.post_send(wr::RdmaWriteWithImm::new(wr::Empty, at, 1))?;
/// a.post_send(wr::RdmaWriteWithImm::inline(b"8 bytes!", at, 2))?;
/// a.post_send(wr::RdmaWriteWithImm::inline_slice("any length".as_bytes(), at, 3))?;
/// let mut noticed = Vec::new();
/// while noticed.len() < 3 {
///     for completion in cq.poll()? {
///         if completion.opcode() == Some(WcOpcode::RecvRdmaWithImm) {
///             noticed.extend(completion.imm_data());
///         }
///     }
/// }
/// assert_eq!(noticed, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_RDMA_WRITE_WITH_IMM", "ibv_wr_rdma_write_imm"))]
#[doc(alias = "IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM")]
#[derive(Clone, Copy, Debug)]
pub struct RdmaWriteWithImm {
    pub(crate) remote: RemoteSpan,
    pub(crate) imm_data: u32,
}

impl RdmaWriteWithImm {
    /// Writes `data` to the peer's memory at `remote`, and completes a receive at the peer with
    /// `imm_data` (host byte order; it is converted to network order). The post is rejected if the
    /// data is longer than `remote` ([R6.7](crate::guide::rules#r6-7)).
    #[inline(always)]
    pub fn new<D, R>(
        data: impl IntoData<Data = D>,
        remote: R,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, D>
    where
        Self: Takes<D> + StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        request(RdmaWriteWithImm { remote, imm_data }, data.into_data(), use_)
    }

    /// Writes a copy of `bytes`, made during the post.
    #[inline(always)]
    pub fn inline<const N: usize, R>(
        bytes: &[u8; N],
        remote: R,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, Inline<'_, N>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        inline(RdmaWriteWithImm { remote, imm_data }, Inline(bytes), use_)
    }

    /// Like [`inline`](RdmaWriteWithImm::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice<R>(
        bytes: &[u8],
        remote: R,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, InlineSlice<'_>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        inline(RdmaWriteWithImm { remote, imm_data }, InlineSlice(bytes), use_)
    }

    /// Writes a copy of `slices`, one after the other, like [`RdmaWrite::inline_list`].
    #[inline(always)]
    pub fn inline_list<const N: usize, R>(
        slices: [&[u8]; N],
        remote: R,
        imm_data: u32,
    ) -> WorkRequest<RdmaWriteWithImm, InlineList<'_, N>>
    where
        Self: StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        inline(RdmaWriteWithImm { remote, imm_data }, InlineList(slices), use_)
    }
}

impl sealed::Sealed for RdmaWriteWithImm {}

impl Opcode for RdmaWriteWithImm {
    type Addr = RemoteSpan;

    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
    const NAME: &'static str = "RDMA_WRITE_WITH_IMM";
    const IS_RDMA: bool = true;
    const USE: Use = Use::Write;
    const COMPLETES_AS: WcOpcode = WcOpcode::RdmaWrite;

    #[inline(always)]
    fn limit(&self) -> u32 {
        behind_rkey(self.remote.c)
    }

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.rdma(self.remote.c);
        to.word(self.imm_data.to_be());
    }
}

#[diagnostic::do_not_recommend]
impl InlineOp for RdmaWriteWithImm {}
impl SolicitedOp for RdmaWriteWithImm {}
