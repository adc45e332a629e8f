//! Send flags. Types define which flags are allowed; a number stores which are set.

use bitflags::bitflags;

use crate::allows::{Allows, call};
use crate::sys::types::ibv_send_flags;
use crate::work::request::WorkRequest;

bitflags! {
    /// `send_flags` of ibv_post_send(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct SendFlags: u32 {
        const FENCE = ibv_send_flags::IBV_SEND_FENCE.0;
        const SIGNALED = ibv_send_flags::IBV_SEND_SIGNALED.0;
        const SOLICITED = ibv_send_flags::IBV_SEND_SOLICITED.0;
        const INLINE = ibv_send_flags::IBV_SEND_INLINE.0;
    }
}

/// A [`WorkRequest`](crate::wr::WorkRequest) with `.fence()` (`IBV_SEND_FENCE`). The example of
/// [`Address`](crate::wr::Address) names this type.
#[derive(Debug)]
pub enum Fenced {}
/// A [`WorkRequest`](crate::wr::WorkRequest) without `.fence()` ([R2.1](crate::guide::rules#r2-1)).
#[derive(Debug)]
pub enum Unfenced {}
/// A [`WorkRequest`](crate::wr::WorkRequest) with `.signaled()` (`IBV_SEND_SIGNALED`).
#[derive(Debug)]
pub enum Signaled {}
/// A [`WorkRequest`](crate::wr::WorkRequest) without `.signaled()`
/// ([R2.4](crate::guide::rules#r2-4)). The example of [`Address`](crate::wr::Address) names this
/// type.
#[derive(Debug)]
pub enum Plain {}

/// A [`WorkRequest`](crate::wr::WorkRequest) of a memory window. Its completion must report the
/// result, so it can be posted only to queue pairs that signal every work request
/// ([R19.2](crate::guide::rules#r19-2)).
#[derive(Debug)]
pub enum AlwaysSignaled {}

/// The type parameter `G` of a work request that can be signaled: [`Plain`] or [`Signaled`]
/// ([R19.2](crate::guide::rules#r19-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`.signaled()` has no meaning for a memory window's work request",
    label = "it is always signaled",
    note = "BIND_MW and LOCAL_INV are for queue pairs that complete every work request (R19.2)"
)]
pub trait MayBeSignaled {}
impl MayBeSignaled for Plain {}
impl MayBeSignaled for Signaled {}

allows! { [O, D, A, F, G: MayBeSignaled] WorkRequest<O, D, A, F, G>: SetSignaled; }

impl<O, D, A, F, G> WorkRequest<O, D, A, F, G> {
    /// Starts this work request only after earlier RDMA READs and atomics of this queue pair have
    /// completed (RC and XRC; [R2.1](crate::guide::rules#r2-1), [R2.2](crate::guide::rules#r2-2)).
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteAll>(256)?;
    /// let remote = region.remote();
    /// let (old, new) = (pool.take().ok_or("no buffer")?, pool.take().ok_or("no buffer")?);
    /// post_send!(a, [
    ///     wr::RdmaRead::new(old, remote.read()),
    ///     wr::RdmaWrite::new(new, remote.write()).fence(), // not before the READ has finished
    /// ])?;
    /// # proverbs::loopback::poll(&mut cq, 2)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "IBV_SEND_FENCE")]
    #[inline(always)]
    pub fn fence(self) -> WorkRequest<O, D, A, Fenced, G> {
        self.with(|address| address, SendFlags::FENCE)
    }

    /// Requests a completion (`IBV_SEND_SIGNALED`), on queue pairs with selective signaling. The
    /// last work request of a list is always signaled.
    #[doc(alias = "IBV_SEND_SIGNALED")]
    #[inline(always)]
    pub fn signaled(self) -> WorkRequest<O, D, A, F, Signaled>
    where
        Self: Allows<call::SetSignaled>,
    {
        self.with(|address| address, SendFlags::SIGNALED)
    }

    /// Requests a completion if `is_signaled`, for code that decides this at run time. The type is
    /// the same either way, so a list can contain both.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// profile! { Stream { signaling: Selective } }
    ///
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } =
    /// #     proverbs::loopback::pair_of::<Stream>()?;
    /// # let region = pd.register::<RemoteWrite>(64)?;
    /// let at = region.remote().write();
    /// let mut slots = SendSlots::<8>::new();
    /// let mut list = a.send_list(&mut slots);
    /// list.extend((0..8).map(|i| wr::RdmaWrite::inline(b"written!", at).signaled_if(i % 4 == 3)))?;
    /// list.post()?;
    /// # proverbs::loopback::poll(&mut cq, 2)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn signaled_if(self, is_signaled: bool) -> WorkRequest<O, D, A, F, Signaled>
    where
        Self: Allows<call::SetSignaled>,
    {
        let flags = if is_signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
        self.with(|address| address, flags)
    }
}
