//! SEND and SEND_WITH_IMM.

use super::{InlineOp, Opcode, SolicitedOp, WcOpcode, sealed};
use crate::sys::data::Operands;
use crate::sys::types::ibv_wr_opcode;
use crate::work::data::{IntoData, Takes};
use crate::work::inline::{Inline, InlineList, InlineSlice, inline};
use crate::work::request::{Use, WorkRequest, request};

/// SEND (`IBV_WR_SEND`): sends the data into a posted receive of the peer.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } = proverbs::loopback::pair()?;
/// for _ in 0..3 {
///     b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// }
/// let mut buf = pool.take().ok_or("no buffer")?;
/// buf.copy_from(b"of a buffer")?;
/// a.post_send(wr::Send::new(buf))?;
/// a.post_send(wr::Send::inline(b"copied"))?;                  // an array: the compiler counts it
/// // A slice: its length is checked during the post.
/// a.post_send(wr::Send::inline_slice("copied".as_bytes()))?;
/// proverbs::loopback::poll(&mut cq, 6)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_SEND", "ibv_wr_send", "IBV_QP_EX_WITH_SEND"))]
#[derive(Clone, Copy, Debug)]
pub struct Send;

impl Send {
    /// Sends `data`: the first `len` bytes of a buffer, several buffers, or
    /// [`Empty`](crate::wr::Empty).
    #[inline(always)]
    pub fn new<D>(data: impl IntoData<Data = D>) -> WorkRequest<Send, D>
    where
        Self: Takes<D>,
    {
        request(Send, data.into_data(), Use::Send)
    }

    /// Sends a copy of `bytes`, made during the post (`IBV_SEND_INLINE`;
    /// [R2.9](crate::guide::rules#r2-9)). The compiler checks their number
    /// ([R2.7](crate::guide::rules#r2-7)).
    #[inline(always)]
    pub fn inline<const N: usize>(bytes: &[u8; N]) -> WorkRequest<Send, Inline<'_, N>> {
        inline(Send, Inline(bytes), Use::Send)
    }

    /// Like [`inline`](Send::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice(bytes: &[u8]) -> WorkRequest<Send, InlineSlice<'_>> {
        inline(Send, InlineSlice(bytes), Use::Send)
    }

    /// Sends several slices, such as a header and a body, as one message. The post copies them in
    /// order. Each slice counts as one element, so there can be at most as many as the profile's
    /// `max_send_sge` ([R3.1](crate::guide::rules#r3-1)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Framed { max_send_sge: 2 } }
    /// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pool, .. } =
    /// #     proverbs::loopback::pair_of::<Framed>()?;
    /// # b.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
    /// let body = String::from("which has any length");
    /// let header = (body.len() as u32).to_be_bytes();
    /// a.post_send(wr::Send::inline_list([&header, body.as_bytes()]))?;
    /// let done = proverbs::loopback::poll(&mut cq, 2)?;
    /// let arrived: Vec<Buf> = done.into_iter().flatten().collect();
    /// assert_eq!(&arrived[0][..], b"\0\0\0\x14which has any length");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn inline_list<const N: usize>(slices: [&[u8]; N]) -> WorkRequest<Send, InlineList<'_, N>> {
        inline(Send, InlineList(slices), Use::Send)
    }
}

impl sealed::Sealed for Send {}

impl Opcode for Send {
    type Addr = ();

    const CODE: u32 = ibv_wr_opcode::IBV_WR_SEND;
    const NAME: &'static str = "SEND";
    const COMPLETES_AS: WcOpcode = WcOpcode::Send;

    #[inline(always)]
    fn emit(self, _: &mut Operands<'_>) {}
}

#[diagnostic::do_not_recommend]
impl InlineOp for Send {}
impl SolicitedOp for Send {}

/// SEND_WITH_IMM (`IBV_WR_SEND_WITH_IMM`): a SEND whose completion at the peer contains 32 bits of
/// immediate data.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, .. } = proverbs::loopback::pair()?;
/// for _ in 0..3 {
///     b.post_recv(wr::Recv::empty())?; // for an empty message only
/// }
/// a.post_send(wr::SendWithImm::new(wr::Empty, 1))?;
/// a.post_send(wr::SendWithImm::inline(&[], 2))?;
/// a.post_send(wr::SendWithImm::inline_slice(&[], 3))?;
/// let mut got = Vec::new();
/// while got.len() < 3 {
///     cq.poll()?.for_each(|completion| got.extend(completion.imm_data()));
/// }
/// assert_eq!(got, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_SEND_WITH_IMM", "ibv_send_wr", "imm_data", "ibv_wr_send_imm"))]
#[doc(alias = "IBV_QP_EX_WITH_SEND_WITH_IMM")]
#[derive(Clone, Copy, Debug)]
pub struct SendWithImm {
    pub(crate) imm_data: u32,
}

impl SendWithImm {
    /// Sends `data` and `imm_data` (host byte order; it is converted to network order).
    #[inline(always)]
    pub fn new<D>(data: impl IntoData<Data = D>, imm_data: u32) -> WorkRequest<SendWithImm, D>
    where
        Self: Takes<D>,
    {
        request(SendWithImm { imm_data }, data.into_data(), Use::Send)
    }

    /// Sends a copy of `bytes`, made during the post.
    #[inline(always)]
    pub fn inline<const N: usize>(
        bytes: &[u8; N],
        imm_data: u32,
    ) -> WorkRequest<SendWithImm, Inline<'_, N>> {
        inline(SendWithImm { imm_data }, Inline(bytes), Use::Send)
    }

    /// Like [`inline`](SendWithImm::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice(bytes: &[u8], imm_data: u32) -> WorkRequest<SendWithImm, InlineSlice<'_>> {
        inline(SendWithImm { imm_data }, InlineSlice(bytes), Use::Send)
    }

    /// Sends a copy of `slices`, one after the other, like [`Send::inline_list`].
    #[inline(always)]
    pub fn inline_list<const N: usize>(
        slices: [&[u8]; N],
        imm_data: u32,
    ) -> WorkRequest<SendWithImm, InlineList<'_, N>> {
        inline(SendWithImm { imm_data }, InlineList(slices), Use::Send)
    }
}

impl sealed::Sealed for SendWithImm {}

impl Opcode for SendWithImm {
    type Addr = ();

    const CODE: u32 = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
    const NAME: &'static str = "SEND_WITH_IMM";
    const COMPLETES_AS: WcOpcode = WcOpcode::Send;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.word(self.imm_data.to_be());
    }
}

#[diagnostic::do_not_recommend]
impl InlineOp for SendWithImm {}
impl SolicitedOp for SendWithImm {}
