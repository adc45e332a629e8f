//! RDMA_READ.

#![allow(unsafe_code)] // writes C work requests

use super::{Opcode, WcOpcode, emit_remote, sealed};
use crate::memory::span::{ReadAddr, RemoteSpan, ToRead};
use crate::sys::types::{ibv_send_wr, ibv_wr_opcode};
use crate::work::data::{Sink, Use};
use crate::work::request::{WorkRequest, request};

/// RDMA_READ (`IBV_WR_RDMA_READ`): the peer's memory lands in the buffer.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } = proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteRead>(256)?;
/// region.write_at(0, b"at the peer")?;
/// a.post_send(wr::RdmaRead::new(pool.take().ok_or("no buffer")?, region.remote().read()))?;
/// let read = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..11], b"at the peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RdmaRead {
    pub(crate) remote: RemoteSpan<ToRead>,
}

impl RdmaRead {
    /// Reads all of the peer's slice at `remote` into `data`, buffer after buffer: their lengths
    /// are set to what each of them gets, whatever they were. A slice for which their capacities do
    /// not suffice is refused, as is any but an empty one where `data` is
    /// [`Empty`](crate::wr::Empty). From a [`RemoteAddr`](crate::memory::RemoteAddr), which has no
    /// end, it reads as many bytes as the buffers' lengths say.
    #[inline(always)]
    #[allow(clippy::new_ret_no_self)]
    pub fn new<D: Sink>(data: D, remote: impl ReadAddr) -> WorkRequest<RdmaRead, D> {
        let use_ = read_from(&remote);
        request(RdmaRead { remote: remote.span() }, data, use_)
    }
}

impl sealed::Sealed for RdmaRead {}

impl Opcode for RdmaRead {
    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_READ;
    const COMPLETES_AS: WcOpcode = WcOpcode::RdmaRead;

    #[inline(always)]
    fn limit(&self) -> u32 {
        self.remote.limit()
    }

    #[inline(always)]
    unsafe fn emit(self, wr: *mut ibv_send_wr) {
        // SAFETY: `wr` is writable by this function's contract.
        unsafe { emit_remote(wr, self.remote) };
    }
}

/// How a READ from this uses its data.
#[inline(always)]
fn read_from<A: ReadAddr>(_: &A) -> Use {
    if A::HAS_END { Use::Read } else { Use::Send }
}
