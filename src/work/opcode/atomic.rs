//! ATOMIC_CMP_AND_SWP, and ATOMIC_FETCH_AND_ADD.

use std::mem::MaybeUninit;

use super::{Opcode, WcOpcode, sealed};
use crate::memory::remote::RemoteCell;
use crate::memory::remote::sealed::Sealed;
use crate::sys::data::{AtomicArm, Operands};
use crate::sys::types::ibv_wr_opcode;
use crate::work::data::{AtomicSink, IntoData};
use crate::work::request::{Use, WorkRequest, request};

/// ATOMIC_CMP_AND_SWP (`IBV_WR_ATOMIC_CMP_AND_SWP`): the old value of the peer's 8 bytes lands in
/// the buffer.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteAtomic>(8)?;
/// let lock = region.remote().atomic(0)?;
/// let operands = wr::CompareSwap { compare: 0, swap: 1 };
/// a.post_send(wr::CmpAndSwp::new(pool.take().ok_or("no buffer")?, lock, operands))?;
/// let result = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("an atomic has a buffer")?;
/// assert_eq!(result[..], 0u64.to_ne_bytes()); // it was free, and is ours
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_ATOMIC_CMP_AND_SWP", "ibv_send_wr", "compare_add", "ibv_wr_atomic_cmp_swp"))]
#[doc(alias = "IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP")]
#[derive(Clone, Copy, Debug)]
pub struct CmpAndSwp {
    pub(crate) remote: RemoteCell,
    pub(crate) compare: u64,
    pub(crate) swap: u64,
}

impl CmpAndSwp {
    /// Swaps the peer's cell if it holds the expected value; its old value lands in the first 8
    /// bytes of `result`, in this machine's byte order ([R4.11](crate::guide::rules#r4-11)).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: AtomicSink>(
        result: impl IntoData<Data = D>,
        remote: impl AtomicAddr,
        operands: CompareSwap,
    ) -> WorkRequest<CmpAndSwp, D> {
        let CompareSwap { compare, swap } = operands;
        request(CmpAndSwp { remote: remote.addr(), compare, swap }, result.into_data(), Use::Atomic)
    }
}

impl sealed::Sealed for CmpAndSwp {}

impl Opcode for CmpAndSwp {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
    const NAME: &'static str = "ATOMIC_CMP_AND_SWP";
    const USE: Use = Use::Atomic;
    const COMPLETES_AS: WcOpcode = WcOpcode::CompSwap;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.arm(arm(self.remote, self.compare, MaybeUninit::new(self.swap)));
    }
}

/// The operands of CMP_AND_SWP, by name, so that they are not swapped
/// ([R4.10](crate::guide::rules#r4-10)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareSwap {
    /// The value that the cell must hold for the swap to happen.
    pub compare: u64,
    /// The value that it holds then.
    pub swap: u64,
}

/// ATOMIC_FETCH_AND_ADD (`IBV_WR_ATOMIC_FETCH_AND_ADD`): the old value of the peer's 8 bytes lands
/// in the buffer.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteAtomic>(8)?;
/// let ticket = region.remote().atomic(0)?;
/// a.post_send(wr::FetchAndAdd::new(pool.take().ok_or("no buffer")?, ticket, 5))?;
/// let result = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("an atomic has a buffer")?;
/// assert_eq!(result[..], 0u64.to_ne_bytes());              // what was there before
/// assert_eq!(region.cell(0)?.load(std::sync::atomic::Ordering::Acquire), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_ATOMIC_FETCH_AND_ADD", "remote_addr", "rkey", "ibv_wr_atomic_fetch_add"))]
#[doc(alias = "IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD")]
#[derive(Clone, Copy, Debug)]
pub struct FetchAndAdd {
    pub(crate) remote: RemoteCell,
    pub(crate) add: u64,
}

impl FetchAndAdd {
    /// Adds to the peer's cell; its old value lands in the first 8 bytes of `result`, in this
    /// machine's byte order ([R4.11](crate::guide::rules#r4-11)).
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: AtomicSink>(
        result: impl IntoData<Data = D>,
        remote: impl AtomicAddr,
        add: u64,
    ) -> WorkRequest<FetchAndAdd, D> {
        request(FetchAndAdd { remote: remote.addr(), add }, result.into_data(), Use::Atomic)
    }
}

impl sealed::Sealed for FetchAndAdd {}

impl Opcode for FetchAndAdd {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
    const NAME: &'static str = "ATOMIC_FETCH_AND_ADD";
    const USE: Use = Use::Atomic;
    const COMPLETES_AS: WcOpcode = WcOpcode::FetchAdd;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.arm(arm(self.remote, self.add, MaybeUninit::uninit()));
    }
}

/// A target of an atomic: a [`RemoteCell`] ([R4.2](crate::guide::rules#r4-2),
/// [R4.3](crate::guide::rules#r4-3)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::wr::AtomicAddr;
/// fn ticket<D: wr::AtomicSink>(
///     result: D,
///     counter: impl AtomicAddr,
/// ) -> wr::WorkRequest<wr::FetchAndAdd, D> {
///     wr::FetchAndAdd::new(result, counter, 1)
/// }
/// let _ = |buf: Buf, counter: RemoteCell| ticket(buf, counter);
/// ```
#[diagnostic::on_unimplemented(
    message = "an atomic cannot be made on a `{Self}`",
    label = "not a cell of 8 aligned bytes",
    note = "`atomic(offset)` of the peer's `RemoteSlice` gives one, where REMOTE_ATOMIC was granted"
)]
pub trait AtomicAddr: Sealed {
    #[doc(hidden)]
    fn addr(self) -> RemoteCell;
}

#[diagnostic::do_not_recommend]
impl AtomicAddr for RemoteCell {
    #[inline(always)]
    fn addr(self) -> RemoteCell {
        self
    }
}

#[inline(always)]
fn arm(remote: RemoteCell, compare_add: u64, swap: MaybeUninit<u64>) -> AtomicArm {
    let RemoteCell { addr: remote_addr, rkey } = remote;
    AtomicArm { remote_addr, compare_add, swap, rkey }
}
