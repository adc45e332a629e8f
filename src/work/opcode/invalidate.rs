//! LOCAL_INV and SEND_WITH_INV, which end the key of a memory window.

#![allow(unsafe_code)] // says what one constructor asks for

use super::{InlineOp, Opcode, SolicitedOp, WcOpcode, sealed};
use crate::memory::rights::Access;
use crate::memory::window::{BoundWindow, Revocable, WindowEntry};
use crate::sys::data::Operands;
use crate::sys::types::ibv_wr_opcode;
use crate::work::address::Connected;
use crate::work::data::{IntoData, Takes};
use crate::work::flags::{AlwaysSignaled, SendFlags, Unfenced};
use crate::work::inline::{Empty, Inline, InlineList, InlineSlice, inline};
use crate::work::request::{Use, WorkRequest, request};

/// LOCAL_INV (`IBV_WR_LOCAL_INV`, RC only): ends the key of a memory window of this end.
///
/// On Soft-RoCE the post is refused
/// ([`LocalInvOnSoftRoce`](crate::post::PostErrorKind::LocalInvOnSoftRoce)): if a message of the
/// peer has ended the key before, LOCAL_INV crashes the kernel (Linux 6.1 to 7.3), and this end
/// cannot know of a message that it has not polled. Destroy the window there, or
/// [lend](crate::wr::WorkRequest::lend) it.
///
/// A bound window is given up, so nothing here names its key any more, and no other work request
/// can end it ([R1.6](crate::guide::rules#r1-6)). Its completion gives the window back, to be bound
/// again: [`MemoryWindow`](crate::memory::MemoryWindow) has an example.
#[doc(alias("IBV_WR_LOCAL_INV", "ibv_wr_local_inv", "IBV_QP_EX_WITH_LOCAL_INV"))]
#[derive(Clone, Copy, Debug)]
pub struct LocalInv {
    rkey: u32,
}

impl LocalInv {
    /// Ends the key of `window`.
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<A: Access>(
        window: BoundWindow<A>,
    ) -> WorkRequest<LocalInv, WindowEntry, Connected, Unfenced, AlwaysSignaled> {
        let (window, rkey) = window.into_entry();
        request(LocalInv { rkey }, window, Use::Send)
            .with(|connected| connected, SendFlags::empty())
    }

    /// Ends `rkey`, the key of a type 2 window of the queue pair's protection domain that C bound.
    /// With another key it completes with [`LocQpOp`](crate::completion::WcStatus::LocQpOp), and
    /// the queue pair is in the error state ([R1.6](crate::guide::rules#r1-6)).
    ///
    /// # Safety
    /// - The code that bound the window expects that its key is ended here.
    /// - On Soft-RoCE no message of a peer has ended the key, or can end it before this does: that
    ///   crashes the kernel (Linux 6.1 to 7.3).
    #[inline(always)]
    pub unsafe fn of_rkey(rkey: u32) -> WorkRequest<LocalInv, Empty> {
        request(LocalInv { rkey }, Empty, Use::Send)
    }
}

impl sealed::Sealed for LocalInv {}

impl Opcode for LocalInv {
    type Addr = ();

    const CODE: u32 = ibv_wr_opcode::IBV_WR_LOCAL_INV;
    const NAME: &'static str = "LOCAL_INV";
    const COMPLETES_AS: WcOpcode = WcOpcode::LocalInv;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.word(self.rkey);
    }
}

/// SEND_WITH_INV (`IBV_WR_SEND_WITH_INV`, RC only): a SEND that ends the key of a memory window at
/// the peer, whose completion names it.
///
/// The slice that the peer lent is given up. Its key is that of a type 2 window (R1.6), or, if the
/// peer is a kernel, of a region that it registered by a work request: Linux's NVMe host lends such
/// regions, and the example `nvme_target` invalidates them. With any other key the peer's receive
/// fails with [`RemInvReq`](crate::completion::WcStatus::RemInvReq) and its queue pair is in the
/// error state; on this side the SEND may have succeeded. If the peer has Soft-RoCE and the
/// window's key was ended before, the peer's kernel crashes (Linux 6.1 to 7.3). (A post that is
/// refused ends no key: [`Revocable::new`] makes the slice of its numbers again.)
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, fabric, .. } =
/// #     proverbs::loopback::pair()?;
/// // The peer opens a window, and says so; here is what it sent.
/// # let region = pd.register::<RemoteWrite>(64)?;
/// # let window = fabric.open_window(region.remote())?;
/// # let rkey = window.rkey();
/// # let told = proverbs::memory::Revocable::new(window).to_bytes();
/// let lent = proverbs::memory::Revocable::<RemoteWrite>::from_bytes(&told).ok_or("other rights")?;
///
/// for _ in 0..3 {
///     b.post_recv(wr::Recv::empty())?;
/// }
/// a.post_send(wr::RdmaWrite::inline(b"the answer", lent.write()))?;
/// a.post_send(wr::SendWithInv::new(wr::Empty, lent))?; // done with it
/// let mut ended = Vec::new();
/// while ended.is_empty() {
///     cq.poll()?.for_each(|completion| ended.extend(completion.invalidated_rkey()));
/// }
/// assert_eq!(ended, [rkey]); // nobody writes there any more
/// # assert!(!fabric.close_window(window));
/// # let again = || proverbs::memory::Revocable::new(window);
/// # a.post_send(wr::SendWithInv::inline(b"", again()))?;
/// # let _ = wr::SendWithInv::inline_slice(b"", again());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_SEND_WITH_INV", "ibv_send_wr", "invalidate_rkey", "ibv_wr_send_inv"))]
#[doc(alias = "IBV_QP_EX_WITH_SEND_WITH_INV")]
#[derive(Clone, Copy, Debug)]
pub struct SendWithInv {
    pub(crate) rkey: u32,
}

impl SendWithInv {
    /// Sends `data`, and ends the key of `window`, a slice that the peer lent.
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D, A: Access>(
        data: impl IntoData<Data = D>,
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, D>
    where
        Self: Takes<D>,
    {
        request(SendWithInv { rkey: window.rkey() }, data.into_data(), Use::Send)
    }

    /// Sends a copy of `bytes`, made while posting.
    #[inline(always)]
    pub fn inline<const N: usize, A: Access>(
        bytes: &[u8; N],
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, Inline<'_, N>> {
        inline(SendWithInv { rkey: window.rkey() }, Inline(bytes), Use::Send)
    }

    /// As [`inline`](SendWithInv::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice<A: Access>(
        bytes: &[u8],
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, InlineSlice<'_>> {
        inline(SendWithInv { rkey: window.rkey() }, InlineSlice(bytes), Use::Send)
    }

    /// Sends a copy of `slices`, one behind the other, as
    /// [`Send::inline_list`](crate::wr::Send::inline_list) does.
    #[inline(always)]
    pub fn inline_list<const N: usize, A: Access>(
        slices: [&[u8]; N],
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, InlineList<'_, N>> {
        inline(SendWithInv { rkey: window.rkey() }, InlineList(slices), Use::Send)
    }
}

impl sealed::Sealed for SendWithInv {}

impl Opcode for SendWithInv {
    type Addr = ();

    const CODE: u32 = ibv_wr_opcode::IBV_WR_SEND_WITH_INV;
    const NAME: &'static str = "SEND_WITH_INV";
    const COMPLETES_AS: WcOpcode = WcOpcode::Send;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.word(self.rkey);
    }
}

#[diagnostic::do_not_recommend]
impl InlineOp for SendWithInv {}
impl SolicitedOp for SendWithInv {}
