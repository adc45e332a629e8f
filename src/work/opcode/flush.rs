//! FLUSH.

use super::{Opcode, WcOpcode, sealed};
use crate::memory::flush::RemoteFlush;
use crate::sys::data::Operands;
use crate::sys::persist::{WR_FLUSH, flush_t};
use crate::work::inline::Empty;
use crate::work::request::{Use, WorkRequest, request};

/// FLUSH (`ibv_wr_flush`, RC only). When it has completed, everything that was written before on
/// this queue pair is globally visible, or survives a loss of power.
///
/// It requires a queue pair that was created for it, with extended posting. The peer grants it with
/// two rights: of the region's key, and of its queue pair
/// ([`QpAccess::FLUSH_GLOBAL`](crate::qp::QpAccess::FLUSH_GLOBAL)). Devices that lack FLUSH refuse
/// to create the queue pair, and to register the region
/// ([`FlushGlobal`](crate::device::FlushGlobal)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::memory::Flushable;
/// profile! { Flushing { posting: ExtendedPosting<wr::Flush> } }
///
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, .. } = proverbs::loopback::pair_of::<Flushing>()?;
/// # let b = &_b;
/// # let _ = b;
/// let region = pd.register::<Flushable<RemoteWrite>>(4096)?;
/// // At the peer:
/// let theirs = region.remote();
/// post_send!(a, [
///     wr::RdmaWrite::inline(b"an entry", theirs.write()),
///     wr::Flush::new(theirs.slice(0, 8)?.flush_global()?),
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
