//! The opcodes. Each has its operands, its constructors, and the fields of `ibv_send_wr` that it
//! reads. The module [`rules`](crate::rules) defines on which transports and queue pairs it can be
//! posted.

#![allow(unsafe_code)] // reads C work requests
#![allow(clippy::new_ret_no_self)] // `new` of an opcode returns a work request with it

mod addr;
mod atomic;
pub(crate) mod bounds;
mod read;
mod send;
mod write;

pub use addr::{AtomicAddr, ReadAddr, StartsAt, WriteAddr};
pub use atomic::*;
use bounds::{InlineOp, SolicitedOp};
pub use read::*;
pub use send::*;
pub use write::*;

use crate::memory::span::READS_NOTHING;
use crate::sys::data::{Operands, arm, behind_rkey};
use crate::sys::types::{ibv_send_wr, ibv_wr_opcode};
use crate::terms::post_error::PostErrorKind;
use crate::work::flags::SendFlags;
use crate::work::request::Use;
use crate::work::wc_opcode::WcOpcode;

/// An opcode of ibv_post_send(3) with its operands. The set is closed: an integer cannot be
/// converted to an opcode ([R1.3](crate::guide::rules#r1-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { pool, .. } = proverbs::loopback::pair()?;
/// /// Bytes of operands in a descriptor.
/// fn operands<O: wr::Opcode, D>(_: &wr::WorkRequest<O, D>) -> usize {
///     std::mem::size_of::<O>()
/// }
/// let buf = pool.take().ok_or("no buffer")?;
/// assert_eq!(operands(&wr::Send::new(buf)), 0);
/// assert_eq!(<wr::CmpAndSwp as wr::Opcode>::NAME, "ATOMIC_CMP_AND_SWP");
/// assert_eq!(operands(&wr::SendWithImm::new(wr::Empty, 7)), 4); // `imm_data`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "ibv_wr_opcode_str")]
pub trait Opcode: sealed::Sealed {
    #[doc(hidden)]
    const CODE: u32;

    /// The name in the manual pages.
    const NAME: &'static str;

    /// The type of its address in the peer's memory, or `()`.
    #[doc(hidden)]
    type Addr;

    /// How it uses a buffer, if its remote address has a length.
    #[doc(hidden)]
    const USE: Use = Use::Send;

    /// Whether it names memory of the peer. (A SEND has its destination there.)
    #[doc(hidden)]
    const IS_RDMA: bool = false;

    /// The opcode of its completion (`opcode` of ibv_poll_cq(3)).
    const COMPLETES_AS: WcOpcode;

    /// The maximum number of bytes that it may transfer; for a READ, how many it transfers.
    /// Unlimited, if it does not have a remote span.
    #[doc(hidden)]
    #[inline(always)]
    fn limit(&self) -> u32 {
        u32::MAX
    }

    /// Writes the fields that the opcode reads, except the gather list.
    #[doc(hidden)]
    fn emit(self, to: &mut Operands<'_>);
}

/// The error of a work request whose message exceeds its slice or its buffers, if it does. Cold:
/// everything is read from the C struct.
///
/// # Safety
/// `wr` is emitted, and its gather list has `len` bytes.
#[cold]
pub(crate) unsafe fn beyond(wr: *mut ibv_send_wr, len: u64) -> Option<PostErrorKind> {
    // SAFETY: the work request is emitted, by the contract, so its opcode is written.
    let opcode = unsafe { (*wr).opcode };
    let is_read = opcode == RdmaRead::CODE;
    if !is_read && opcode != RdmaWrite::CODE && opcode != RdmaWriteWithImm::CODE {
        return None;
    }
    // SAFETY: the work request is emitted, and these opcodes write all of this union arm.
    let limit = behind_rkey(unsafe { arm::<[u64; 2]>(wr).read() });
    let slice = if is_read && limit == READS_NOTHING { 0 } else { limit.into() };
    // A READ fills its buffers as far as its bytes go.
    match (is_read, slice < len, len < slice) {
        (false, true, _) => Some(PostErrorKind::ExceedsSlice { asked: len, max: slice }),
        (true, _, true) => Some(PostErrorKind::ExceedsBuffers { asked: slice, max: len }),
        _ => None,
    }
}

/// Why iWARP rejects a work request, if its opcode and flags are the reason: iWARP does not support
/// immediates or atomics ([R24.4](crate::guide::rules#r24-4)). siw also rejects SEND_WITH_INV with
/// inline data, and a READ with a fence or of no bytes.
///
/// # Safety
/// `wr` is emitted.
#[cold]
pub(crate) unsafe fn why_not_on_iwarp(wr: *mut ibv_send_wr, is_siw: bool) -> Option<PostErrorKind> {
    // SAFETY: the work request is emitted, by the contract, so its opcode, its flags and the number
    // of its elements are written.
    let (opcode, flags, num_sge) = unsafe { ((*wr).opcode, (*wr).send_flags, (*wr).num_sge) };
    let has = |flag: SendFlags| flags & flag.bits() != 0;
    match opcode {
        SendWithImm::CODE | RdmaWriteWithImm::CODE | CmpAndSwp::CODE | FetchAndAdd::CODE => {
            Some(PostErrorKind::NotOnIwarp)
        }
        ibv_wr_opcode::IBV_WR_SEND_WITH_INV if is_siw && has(SendFlags::INLINE) => {
            Some(PostErrorKind::InlineInvOnSiw)
        }
        RdmaRead::CODE if is_siw && has(SendFlags::FENCE) => Some(PostErrorKind::FencedReadOnSiw),
        RdmaRead::CODE if is_siw && num_sge == 0 => Some(PostErrorKind::EmptyReadOnSiw),
        _ => None,
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}
