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

/// A work request with `.fence()`.
pub enum Fenced {}
/// A work request without `.fence()`.
pub enum Unfenced {}
/// A work request with `.signaled()`.
pub enum Signaled {}
/// A work request without `.signaled()`.
pub enum Plain {}
