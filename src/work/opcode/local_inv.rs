//! LOCAL_INV.

#![allow(unsafe_code)] // says what one constructor asks for

use super::{Opcode, WcOpcode, sealed};
use crate::memory::rights::Access;
use crate::memory::window::{BoundWindow, WindowEntry};
use crate::sys::data::Operands;
use crate::sys::types::ibv_wr_opcode;
use crate::work::address::Connected;
use crate::work::flags::{SendFlags, Told, Unfenced};
use crate::work::inline::Empty;
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
    ) -> WorkRequest<LocalInv, WindowEntry, Connected, Unfenced, Told> {
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
    const CODE: u32 = ibv_wr_opcode::IBV_WR_LOCAL_INV;
    const NAME: &'static str = "LOCAL_INV";
    const COMPLETES_AS: WcOpcode = WcOpcode::LocalInv;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.word(self.rkey);
    }
}
