//! ATOMIC_WRITE.

use std::mem::MaybeUninit;

use super::{Opcode, WcOpcode, sealed};
use crate::device::{Ability, DeviceAttrEx};
use crate::memory::remote::WriteCell;
use crate::sys::data::{AtomicArm, Operands};
use crate::sys::persist::WR_ATOMIC_WRITE;
use crate::work::inline::Empty;
use crate::work::request::{Use, WorkRequest, request};

/// ATOMIC_WRITE (`ibv_wr_atomic_write`, RC only): writes 8 bytes of the peer's memory atomically,
/// after everything that was written and flushed before on this queue pair. Also an [`Ability`]
/// (`IB_UVERBS_DEVICE_ATOMIC_WRITE`), which devices may lack.
///
/// It requires a queue pair that was created for it, with extended posting.
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Publishing { posting: ExtendedPosting<wr::AtomicWrite> } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair_of::<Publishing>()?;
/// let region = pd.register::<RemoteWrite>(64)?;
/// // At the peer:
/// let tail: WriteCell = region.remote().write_cell(8)?;
/// a.post_send(wr::AtomicWrite::new(tail, 7u64.to_ne_bytes()))?;
/// proverbs::loopback::poll(&mut cq, 1)?;
/// assert_eq!(region.cell(8)?.load(std::sync::atomic::Ordering::Acquire), 7);
/// # use proverbs::memory::WriteCell;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_wr_atomic_write", "IBV_QP_EX_WITH_ATOMIC_WRITE", "IBV_WR_ATOMIC_WRITE"))]
#[doc(alias("IBV_WC_ATOMIC_WRITE", "ibv_qp_ex"))]
#[derive(Clone, Copy, Debug)]
pub struct AtomicWrite {
    remote: WriteCell,
    bytes: [u8; 8],
}

impl AtomicWrite {
    /// Writes `bytes`, without byte order conversion, to the peer's cell.
    #[inline(always)]
    pub fn new(remote: WriteCell, bytes: [u8; 8]) -> WorkRequest<AtomicWrite, Empty> {
        request(AtomicWrite { remote, bytes }, Empty, Use::Send)
    }
}

impl sealed::Sealed for AtomicWrite {}

impl Opcode for AtomicWrite {
    type Addr = ();

    const CODE: u32 = WR_ATOMIC_WRITE;
    const NAME: &'static str = "ATOMIC_WRITE";
    const COMPLETES_AS: WcOpcode = WcOpcode::AtomicWrite;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        let WriteCell { addr: remote_addr, rkey } = self.remote;
        // A session passes a pointer to these 8 bytes.
        let compare_add = u64::from_ne_bytes(self.bytes);
        to.atomic(AtomicArm { remote_addr, compare_add, swap: MaybeUninit::new(0), rkey });
    }
}

impl crate::device::attr_ex::sealed::Sealed for AtomicWrite {}

impl Ability for AtomicWrite {
    const NAME: &'static str = "ATOMIC_WRITE";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.has(40)
    }
}
