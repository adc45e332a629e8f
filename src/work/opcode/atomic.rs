//! ATOMIC_CMP_AND_SWP, and ATOMIC_FETCH_AND_ADD.

use std::mem::MaybeUninit;

use super::{Opcode, StartsAt, WcOpcode, sealed};
use crate::memory::remote::RemoteCell;
use crate::sys::data::{AtomicArm, Operands};
use crate::sys::types::ibv_wr_opcode;
use crate::work::data::{IntoData, Takes};
use crate::work::request::{Use, WorkRequest, request};

/// ATOMIC_CMP_AND_SWP (`IBV_WR_ATOMIC_CMP_AND_SWP`): an atomic compare and swap of 8 bytes at the
/// peer. The buffer receives the old value.
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
    /// Swaps the peer's cell if it contains the expected value. The first 8 bytes of `result`
    /// receive the old value, in host byte order ([R4.11](crate::guide::rules#r4-11)).
    #[inline(always)]
    pub fn new<D, R>(
        result: impl IntoData<Data = D>,
        remote: R,
        operands: CompareSwap,
    ) -> WorkRequest<CmpAndSwp, D>
    where
        Self: Takes<D> + StartsAt<R>,
    {
        let CompareSwap { compare, swap } = operands;
        let (remote, use_) = Self::at(remote);
        request(CmpAndSwp { remote, compare, swap }, result.into_data(), use_)
    }
}

impl sealed::Sealed for CmpAndSwp {}

impl Opcode for CmpAndSwp {
    type Addr = RemoteCell;

    const CODE: u32 = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
    const NAME: &'static str = "ATOMIC_CMP_AND_SWP";
    const USE: Use = Use::Atomic;
    const COMPLETES_AS: WcOpcode = WcOpcode::CompSwap;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.atomic(arm(self.remote, self.compare, MaybeUninit::new(self.swap)));
    }
}

/// The operands of CMP_AND_SWP, by name, so that they cannot be confused
/// ([R4.10](crate::guide::rules#r4-10)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareSwap {
    /// The value that the cell must contain for the swap to happen.
    pub compare: u64,
    /// The new value.
    pub swap: u64,
}

/// ATOMIC_FETCH_AND_ADD (`IBV_WR_ATOMIC_FETCH_AND_ADD`): an atomic addition to 8 bytes at the peer.
/// The buffer receives the old value.
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
    /// Adds to the peer's cell. The first 8 bytes of `result` receive the old value, in host byte
    /// order ([R4.11](crate::guide::rules#r4-11)).
    #[inline(always)]
    pub fn new<D, R>(
        result: impl IntoData<Data = D>,
        remote: R,
        add: u64,
    ) -> WorkRequest<FetchAndAdd, D>
    where
        Self: Takes<D> + StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        request(FetchAndAdd { remote, add }, result.into_data(), use_)
    }
}

impl sealed::Sealed for FetchAndAdd {}

impl Opcode for FetchAndAdd {
    type Addr = RemoteCell;

    const CODE: u32 = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
    const NAME: &'static str = "ATOMIC_FETCH_AND_ADD";
    const USE: Use = Use::Atomic;
    const COMPLETES_AS: WcOpcode = WcOpcode::FetchAdd;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.atomic(arm(self.remote, self.add, MaybeUninit::uninit()));
    }
}

#[inline(always)]
fn arm(remote: RemoteCell, compare_add: u64, swap: MaybeUninit<u64>) -> AtomicArm {
    let RemoteCell { addr: remote_addr, rkey } = remote;
    AtomicArm { remote_addr, compare_add, swap, rkey }
}
