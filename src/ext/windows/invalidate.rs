//! LOCAL_INV, SEND_WITH_INV, and the invalidated keys in completions.

#![allow(unsafe_code)] // declares an unsafe constructor; reads the inbox

use super::{BoundWindow, LentWindow, MemoryWindow, Revocable, WindowEntry};
use crate::allows::Seal;
use crate::completion::inbox::Inbox;
use crate::completion::{Completion, Outcome, Received};
use crate::counters::queue_counters::QueueCounters;
use crate::memory::rights::Access;
use crate::memory::{Entry, Owned};
use crate::profile::{Initiator, Posting};
use crate::rules::{CreatedFor, InlineOp, IssuedBy, PostOn, SolicitedOp, holds};
use crate::sys::data::Operands;
use crate::sys::types::{ibv_wc_flags, ibv_wr_opcode};
use crate::terms::transport::{Rc, Xrc};
use crate::work::address::Connected;
use crate::work::data::{IntoData, Source, Takes};
use crate::work::flags::{AlwaysSignaled, SendFlags, Unfenced};
use crate::work::inline::{Empty, Inline, InlineList, InlineSlice, inline};
use crate::work::opcode::{Opcode, sealed};
use crate::work::request::{Use, WorkRequest, request};
use crate::work::wc_opcode::WcOpcode;

/// LOCAL_INV (`IBV_WR_LOCAL_INV`, RC only): invalidates the key of a local memory window.
///
/// On Soft-RoCE the post is rejected
/// ([`LocalInvOnSoftRoce`](crate::post::PostErrorKind::LocalInvOnSoftRoce)). If a message from the
/// peer has invalidated the key already, LOCAL_INV crashes the kernel (Linux 6.1 to 7.3), and this
/// side may not have polled that message yet. Destroy the window instead, or
/// [lend](crate::wr::WorkRequest::lend) it.
///
/// It consumes the bound window, so nothing else can name or invalidate its key
/// ([R1.6](crate::guide::rules#r1-6)). The completion returns the window, ready to be bound again.
/// [`MemoryWindow`](crate::ext::windows::MemoryWindow) has an example.
#[doc(alias("IBV_WR_LOCAL_INV", "ibv_wr_local_inv", "IBV_QP_EX_WITH_LOCAL_INV"))]
#[derive(Clone, Copy, Debug)]
pub struct LocalInv {
    rkey: u32,
}

impl LocalInv {
    /// Invalidates the key of `window`.
    #[inline(always)]
    pub fn new<A: Access>(
        window: BoundWindow<A>,
    ) -> WorkRequest<LocalInv, WindowEntry, Connected, Unfenced, AlwaysSignaled> {
        let (window, rkey) = window.into_entry();
        request(LocalInv { rkey }, window, Use::Send)
            .with(|connected| connected, SendFlags::empty())
    }

    /// Invalidates `rkey`, the key of a type 2 window of the queue pair's protection domain that C
    /// code bound. Any other key makes it complete with
    /// [`LocQpOp`](crate::completion::WcStatus::LocQpOp), and moves the queue pair to the error
    /// state ([R1.6](crate::guide::rules#r1-6)).
    ///
    /// # Safety
    /// - The code that bound the window expects that its key is invalidated here.
    /// - On Soft-RoCE, no message from a peer has invalidated the key, or can do so before this
    ///   work request: that crashes the kernel (Linux 6.1 to 7.3).
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

/// SEND_WITH_INV (`IBV_WR_SEND_WITH_INV`, RC only): a SEND that also invalidates the key of a
/// memory window at the peer. The peer's completion contains the key.
///
/// It consumes the slice that the peer lent. Its key must be the key of a type 2 window (R1.6), or,
/// if the peer is a kernel, of a region that it registered with a work request: Linux's NVMe host
/// lends such regions, and the example `nvmf_target` invalidates them. With any other key the
/// peer's receive fails with [`RemInvReq`](crate::completion::WcStatus::RemInvReq) and its queue
/// pair moves to the error state; on this side the SEND may have succeeded. If the peer has
/// Soft-RoCE and the key was invalidated before, the peer's kernel crashes (Linux 6.1 to 7.3). (A
/// rejected post invalidates no key. [`Revocable::new`] recreates the slice from its numbers.)
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, mut b, mut cq, pd, fabric, .. } =
/// #     proverbs::loopback::pair()?;
/// // The peer binds a window and sends its slice, received here.
/// # let region = pd.register::<RemoteWrite>(64)?;
/// # let window = fabric.open_window(region.remote())?;
/// # let rkey = window.rkey();
/// # let told = proverbs::ext::windows::Revocable::new(window).to_bytes();
/// let lent = proverbs::ext::windows::Revocable::<RemoteWrite>::from_bytes(&told).ok_or("other rights")?;
///
/// for _ in 0..3 {
///     b.post_recv(wr::Recv::empty())?;
/// }
/// a.post_send(wr::RdmaWrite::inline(b"the answer", lent.write()))?;
/// a.post_send(ext::windows::SendWithInv::new(wr::Empty, lent))?; // done with it
/// let mut ended = Vec::new();
/// while ended.is_empty() {
///     cq.poll()?.for_each(|completion| ended.extend(completion.invalidated_rkey()));
/// }
/// assert_eq!(ended, [rkey]); // peers cannot write there any more
/// # assert!(!fabric.close_window(window));
/// # let again = || proverbs::ext::windows::Revocable::new(window);
/// # a.post_send(ext::windows::SendWithInv::inline(b"", again()))?;
/// # let _ = ext::windows::SendWithInv::inline_slice(b"", again());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_SEND_WITH_INV", "ibv_send_wr", "invalidate_rkey", "ibv_wr_send_inv"))]
#[doc(alias = "IBV_QP_EX_WITH_SEND_WITH_INV")]
#[derive(Clone, Copy, Debug)]
pub struct SendWithInv {
    pub(crate) rkey: u32,
}

impl SendWithInv {
    /// Sends `data`, and invalidates the key of `window`, a slice that the peer lent.
    #[inline(always)]
    pub fn new<D, A: Access>(
        data: impl IntoData<Data = D>,
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, D>
    where
        Self: Takes<D>,
    {
        request(SendWithInv { rkey: window.rkey() }, data.into_data(), Use::Send)
    }

    /// Sends a copy of `bytes`, made during the post.
    #[inline(always)]
    pub fn inline<const N: usize, A: Access>(
        bytes: &[u8; N],
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, Inline<'_, N>> {
        inline(SendWithInv { rkey: window.rkey() }, Inline(bytes), Use::Send)
    }

    /// Like [`inline`](SendWithInv::inline), for a length known at run time.
    #[inline(always)]
    pub fn inline_slice<A: Access>(
        bytes: &[u8],
        window: Revocable<A>,
    ) -> WorkRequest<SendWithInv, InlineSlice<'_>> {
        inline(SendWithInv { rkey: window.rkey() }, InlineSlice(bytes), Use::Send)
    }

    /// Sends a copy of `slices`, one after the other, like
    /// [`Send::inline_list`](crate::wr::Send::inline_list).
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

impl<D: Source> Takes<D> for SendWithInv {
    const SEAL: Seal = Seal;
}

holds! {
    PostOn<Rc>: SendWithInv, LocalInv;
    PostOn<Xrc>: SendWithInv;
}
impl<I: Initiator> IssuedBy<I> for SendWithInv {}
impl<I: Initiator> IssuedBy<I> for LocalInv {}
impl<X: Posting> CreatedFor<X> for SendWithInv {}
impl<X: Posting> CreatedFor<X> for LocalInv {}

impl LentWindow {
    /// Checks whether the received message `by` invalidated this window's key. If so, returns the
    /// unbound window and the message. `by` must be a receive of the window's queue pair that
    /// reports the key ([`invalidated_rkey`](Completion::invalidated_rkey);
    /// [R10.3](crate::guide::rules#r10-3)).
    ///
    /// A [`LentWindow`] comes from the completion of its bind, so process that completion first. If
    /// sends and receives complete on two queues, poll the queue of the sends before you process a
    /// message that names a key. If the bind's completion nevertheless arrives after the message
    /// was processed, destroy the window. In the callback of a [drain](crate::QueuePair::drain),
    /// call `revoked` at once, because the callback cannot keep the completion.
    ///
    /// A completion proves only once that a key has ended, so it is consumed. Keys repeat: a window
    /// gets its earlier keys again after 256 binds, and devices reuse the keys of deallocated
    /// windows. An earlier completion with the same key is never accepted as proof, because
    /// [`BindMw::new`](crate::ext::windows::BindMw::new) skips such keys. If no key is left,
    /// `revoked` rejects every completion, and the window can only be dropped or destroyed. That
    /// takes 255 windows with the same upper 24 bits of a key, or 2^20 windows on one receive
    /// queue, all of them dropped or destroyed while they were bound.
    ///
    /// The bound region stays registered until the window's next bind has completed, or until the
    /// window is dropped or destroyed, because the device checks the window and the region for each
    /// access ([R6.11](crate::guide::rules#r6-11)). [`BindMw`](crate::ext::windows::BindMw) has an
    /// example.
    ///
    /// # Errors
    /// The window and the completion, unchanged.
    #[doc(alias = "revoke")]
    #[allow(clippy::type_complexity)] // the caller gets both back
    pub fn revoked<'cq, E: Owned>(
        self,
        by: Completion<'cq, E>,
    ) -> Result<(MemoryWindow, Received<E>), (Self, Completion<'cq, E>)> {
        let is_of = |counters: &QueueCounters| by.belongs_to(counters);
        if !self.is_ended_by(by.qp_num(), by.invalidated_rkey(), is_of) {
            return Err((self, by));
        }
        match by.outcome() {
            Outcome::Received(message) => Ok((self.into_revoked(), message)),
            _ => unreachable!("a receive of an RC queue pair that succeeded"),
        }
    }
}

impl<E: Entry> Completion<'_, E> {
    /// The key that a received message invalidated, if any
    /// ([`SendWithInv`](crate::ext::windows::SendWithInv), [R10.3](crate::guide::rules#r10-3)).
    ///
    /// Call it before [`outcome`](Completion::outcome), because an [`Outcome`] does not contain the
    /// key. A peer can also invalidate the key of a window that was not lent. Destroy that
    /// [`BoundWindow`](crate::ext::windows::BoundWindow), because LOCAL_INV would fail.
    ///
    /// On Soft-RoCE, this reads the flag that the kernel sets, which differs from the flag of the C
    /// library.
    #[doc(alias = "IBV_WC_WITH_INV")]
    #[inline]
    pub fn invalidated_rkey(&self) -> Option<u32> {
        let arrival = self.arrival()?;
        let key = arrival.word(ibv_wc_flags::IBV_WC_WITH_INV);
        if key.is_none() && arrival.wc_flags() & ibv_wc_flags::IBV_WC_IP_CSUM_OK.0 != 0 {
            return self.invalidated_on_soft_roce();
        }
        key
    }

    /// The key in a completion of Soft-RoCE. Its kernel's `IB_WC_WITH_INVALIDATE` has the value of
    /// `IBV_WC_IP_CSUM_OK`, which Soft-RoCE never sets, and which other devices set on datagrams.
    #[cold]
    fn invalidated_on_soft_roce(&self) -> Option<u32> {
        let arrival = self.arrival()?;
        // SAFETY: this completion was polled into an inbox that lives as long as its queue is
        // borrowed.
        let is_soft_roce = unsafe { Inbox::of(self.wc.at) }.is_soft_roce;
        is_soft_roce.then(|| arrival.word(ibv_wc_flags::IBV_WC_IP_CSUM_OK))?
    }
}
