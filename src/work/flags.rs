//! Send flags: which may be said is a type, what was said is a number.

use bitflags::bitflags;

use crate::sys::types::ibv_send_flags;

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

/// A [`WorkRequest`](crate::wr::WorkRequest) with `.fence()` (`IBV_SEND_FENCE`;
/// [`Address`](crate::wr::Address) names it).
pub enum Fenced {}
/// A [`WorkRequest`](crate::wr::WorkRequest) without `.fence()` (R2.1).
pub enum Unfenced {}
/// A [`WorkRequest`](crate::wr::WorkRequest) with `.signaled()` (`IBV_SEND_SIGNALED`).
pub enum Signaled {}
/// A [`WorkRequest`](crate::wr::WorkRequest) without `.signaled()` (R2.4;
/// [`Address`](crate::wr::Address) names it).
pub enum Plain {}
