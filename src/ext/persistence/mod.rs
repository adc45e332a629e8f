//! FLUSH and ATOMIC_WRITE: [`Flush`] and [`AtomicWrite`] have examples.
//!
//! The design is in
//! [docs/persistence.md](https://docs.rs/crate/proverbs/latest/source/docs/persistence.md).

mod rights;

pub use rights::{Flushable, GrantsFlush, GrantsPersistence, Persistent, RemoteFlush};

use std::mem::MaybeUninit;

use crate::device::{Ability, Context, DeviceAttrEx, FlushGlobal, FlushPersistent, attr_ex};
use crate::ext::extended_posting::{ExtendedPosting, MoreOps};
use crate::memory::remote::WriteCell;
use crate::profile::{self, CheckOps, Reads};
use crate::rules::{CreatedFor, IssuedBy, PostOn, Writes, holds};
use crate::sys::data::{AtomicArm, Operands};
use crate::sys::persist::{WR_ATOMIC_WRITE, WR_FLUSH, flush_t};
use crate::sys::refusal::refusal;
use crate::sys::session::{Session, send_ops};
use crate::terms::error::Error;
use crate::terms::transport::Rc;
use crate::work::inline::Empty;
use crate::work::opcode::{Opcode, sealed};
use crate::work::request::{Use, WorkRequest, request};
use crate::work::wc_opcode::WcOpcode;

/// FLUSH (`ibv_wr_flush`, RC only). When it has completed, everything that was written before on
/// this queue pair is globally visible, or survives a loss of power.
///
/// FLUSH requires a queue pair that was created for it, with extended posting. The peer must grant
/// it twice: in the rights of the region's key, and in the rights of the peer's queue pair
/// ([`QpAccess::FLUSH_GLOBAL`](crate::qp::QpAccess::FLUSH_GLOBAL)). On devices that lack FLUSH,
/// creating the queue pair fails, and so does registering the region ([`FlushGlobal`]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::persistence::Flushable;
/// use proverbs::ext::extended_posting::ExtendedPosting;
/// profile! { Flushing { posting: ExtendedPosting<ext::persistence::Flush> } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair_of::<Flushing>()?;
/// # let b = &_b;
/// # let _ = b;
/// let region = pd.register::<Flushable<RemoteWrite>>(4096)?;
/// // At the peer:
/// let theirs = region.remote();
/// post_send!(a, [
///     wr::RdmaWrite::inline(b"an entry", theirs.write()),
///     ext::persistence::Flush::new(theirs.slice(0, 8)?.flush_global()?),
/// ])?;
/// proverbs::loopback::poll(&mut cq, 2)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ibv_wr_flush", "IBV_QP_EX_WITH_FLUSH", "IBV_WR_FLUSH", "IBV_WC_FLUSH", "ibv_qp_ex"))]
#[derive(Clone, Copy, Debug)]
pub struct Flush {
    remote: RemoteFlush,
}

impl Flush {
    /// Flushes bytes of the peer's memory, or the region that contains them.
    #[inline(always)]
    pub fn new(remote: RemoteFlush) -> WorkRequest<Flush, Empty> {
        request(Flush { remote }, Empty, Use::Send)
    }
}

impl sealed::Sealed for Flush {}

impl Opcode for Flush {
    type Addr = ();

    const CODE: u32 = WR_FLUSH;
    const NAME: &'static str = "FLUSH";
    const COMPLETES_AS: WcOpcode = WcOpcode::Flush;

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        let RemoteFlush { addr: remote_addr, len, rkey, placement, level } = self.remote;
        to.flush(flush_t { remote_addr, len, rkey, placement, level });
    }
}

/// ATOMIC_WRITE (`ibv_wr_atomic_write`, RC only): writes 8 bytes of the peer's memory atomically,
/// after everything that was written and flushed before on this queue pair. Also an [`Ability`]
/// (`IB_UVERBS_DEVICE_ATOMIC_WRITE`), which devices may lack.
///
/// It requires a queue pair that was created for it, with extended posting.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::ext::extended_posting::ExtendedPosting;
/// profile! { Publishing { posting: ExtendedPosting<ext::persistence::AtomicWrite> } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair_of::<Publishing>()?;
/// let region = pd.register::<RemoteWrite>(64)?;
/// // At the peer:
/// let tail: WriteCell = region.remote().write_cell(8)?;
/// a.post_send(ext::persistence::AtomicWrite::new(tail, 7u64.to_ne_bytes()))?;
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

impl attr_ex::sealed::Sealed for AtomicWrite {}

impl Ability for AtomicWrite {
    const NAME: &'static str = "ATOMIC_WRITE";

    fn is_in(attr: &DeviceAttrEx) -> bool {
        attr.has(40)
    }
}

holds! {
    PostOn<Rc>: Flush, AtomicWrite;
}
impl IssuedBy<Reads> for Flush {}
impl IssuedBy<Reads> for AtomicWrite {}
impl CreatedFor<ExtendedPosting<Flush>> for Flush {}
impl CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>> for Flush {}
impl CreatedFor<ExtendedPosting<AtomicWrite>> for AtomicWrite {}
impl CreatedFor<ExtendedPosting<(Flush, AtomicWrite)>> for AtomicWrite {}

macro_rules! more_ops {
    ($($ops:ty: $flags:expr;)*) => {$(
        impl profile::sealed::Sealed for $ops {}

        impl MoreOps for $ops {
            const FLAGS: u64 = $flags;
            type Verb = Session;

            const CHECK: CheckOps =
                |context, verb, ops| has_operations(context, verb, ops & Self::FLAGS);
            const WHY_NOT: fn(u64) -> String = |ops| match ops & Self::FLAGS {
                0 => <() as MoreOps>::WHY_NOT(ops),
                ops => format!(
                    ": the library or its provider lacks some of these, use a newer rdma-core \
                     (FLUSH is newer than ATOMIC_WRITE), or a profile without {}",
                    names_of(ops)
                ),
            };
        }

        impl Writes for ExtendedPosting<$ops> {}
    )*};
}

more_ops! {
    Flush: send_ops::FLUSH;
    AtomicWrite: send_ops::ATOMIC_WRITE;
    (Flush, AtomicWrite): send_ops::FLUSH | send_ops::ATOMIC_WRITE;
}

/// Checks that the device has the optional operations. Providers may create a queue pair for them
/// even if it does not.
fn has_operations(context: &Context, verb: &'static str, ops: u64) -> Result<(), Error> {
    if ops == 0 {
        return Ok(());
    }
    let abilities = context.abilities()?;
    let flushes =
        abilities.can::<FlushGlobal>().is_some() || abilities.can::<FlushPersistent>().is_some();
    let writes = abilities.can::<AtomicWrite>().is_some();
    let has = [(flushes, send_ops::FLUSH), (writes, send_ops::ATOMIC_WRITE)];
    let lacking = has.into_iter().fold(ops, |ops, (has, op)| if has { ops & !op } else { ops });
    if lacking == 0 {
        return Ok(());
    }
    let asked = format!("extended posting with {}", names_of(ops));
    let lacks = format!("has no {}", names_of(lacking));
    let instead = "use a profile with `posting: ExtendedPosting`, or another device";
    Err(refusal(&context.handle, verb, asked, &lacks, instead))
}

fn names_of(more_ops: u64) -> &'static str {
    match (more_ops & send_ops::FLUSH != 0, more_ops & send_ops::ATOMIC_WRITE != 0) {
        (true, false) => "FLUSH",
        (false, true) => "ATOMIC_WRITE",
        _ => "FLUSH and ATOMIC_WRITE",
    }
}
