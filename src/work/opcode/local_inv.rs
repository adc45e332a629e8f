//! LOCAL_INV.

#![allow(unsafe_code)] // writes C work requests

use super::{Opcode, WcOpcode, sealed};
use crate::sys::data::emit_word;
use crate::sys::types::{ibv_send_wr, ibv_wr_opcode};
use crate::work::inline::Empty;
use crate::work::request::{Use, WorkRequest, request};

/// LOCAL_INV (`IBV_WR_LOCAL_INV`, RC only): ends the key of a memory window of this end's.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, fabric, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteWrite>(64)?;
/// let window = fabric.open_window(region.remote())?;
/// // SAFETY: nothing relies on the window any more.
/// a.post_send(unsafe { wr::LocalInv::new(window.rkey()) })?;
/// # proverbs::loopback::poll(&mut cq, 1)?;
/// assert!(!fabric.close_window(window)); // it is closed already
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LocalInv {
    rkey: u32,
}

impl LocalInv {
    /// Ends `rkey`, the key of a type 2 window of the queue pair's protection domain. With another
    /// key it completes with [`LocQpOp`](crate::completion::WcStatus::LocQpOp), and the queue pair
    /// is in the error state (R1.6). (Soft-RoCE of Linux 6.1 crashes the kernel if the window's key
    /// was ended before.)
    ///
    /// # Safety
    /// Whoever opened the window expects that its key is ended here. (A type that makes this safe
    /// comes with memory windows.)
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub unsafe fn new(rkey: u32) -> WorkRequest<LocalInv, Empty> {
        request(LocalInv { rkey }, Empty, Use::Send)
    }
}

impl sealed::Sealed for LocalInv {}

impl Opcode for LocalInv {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_LOCAL_INV;
    const COMPLETES_AS: WcOpcode = WcOpcode::LocalInv;

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: `wr` is writable by this function's contract.
        unsafe { emit_word(wr, self.rkey) };
    }
}
