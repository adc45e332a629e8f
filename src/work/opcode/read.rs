//! RDMA_READ.

use super::{Opcode, StartsAt, WcOpcode, sealed};
use crate::memory::span::{RemoteSpan, ToRead};
use crate::sys::data::{Operands, behind_rkey};
use crate::sys::types::ibv_wr_opcode;
use crate::work::data::{IntoData, Takes};
use crate::work::request::{Use, WorkRequest, request};

/// RDMA_READ (`IBV_WR_RDMA_READ`): reads the peer's memory into the buffer.
///
/// ```
/// # use proverbs::prelude::*;
/// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pool, pd, .. } =
/// #     proverbs::loopback::pair()?;
/// let region = pd.register::<RemoteRead>(256)?;
/// region.write_at(0, b"at the peer")?;
/// a.post_send(wr::RdmaRead::new(pool.take().ok_or("no buffer")?, region.remote().read()))?;
/// let read = proverbs::loopback::poll(&mut cq, 1)?.remove(0).ok_or("a READ has a buffer")?;
/// assert_eq!(&read[..11], b"at the peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_WR_RDMA_READ", "ibv_wr_rdma_read", "IBV_QP_EX_WITH_RDMA_READ"))]
#[derive(Clone, Copy, Debug)]
pub struct RdmaRead {
    pub(crate) remote: RemoteSpan<ToRead>,
}

impl RdmaRead {
    /// Reads the peer's whole slice at `remote` into `data`, one buffer after the other. Each
    /// buffer's length is set to the number of bytes that it receives. The post is rejected if the
    /// buffers' capacities are too small for the slice. `data` can be [`Empty`](crate::wr::Empty)
    /// only for an empty slice; siw does not support a READ of no bytes
    /// ([R24.18](crate::guide::rules#r24-18)).
    ///
    /// A [`RemoteAddr`](crate::memory::RemoteAddr) does not have a length, so a READ from it reads
    /// as many bytes as the lengths of the buffers add up to.
    #[inline(always)]
    pub fn new<D, R>(data: impl IntoData<Data = D>, remote: R) -> WorkRequest<RdmaRead, D>
    where
        Self: Takes<D> + StartsAt<R>,
    {
        let (remote, use_) = Self::at(remote);
        request(RdmaRead { remote }, data.into_data(), use_)
    }
}

impl sealed::Sealed for RdmaRead {}

impl Opcode for RdmaRead {
    type Addr = RemoteSpan<ToRead>;

    const CODE: u32 = ibv_wr_opcode::IBV_WR_RDMA_READ;
    const NAME: &'static str = "RDMA_READ";
    const IS_RDMA: bool = true;
    const USE: Use = Use::Read;
    const COMPLETES_AS: WcOpcode = WcOpcode::RdmaRead;

    #[inline(always)]
    fn limit(&self) -> u32 {
        behind_rkey(self.remote.c)
    }

    #[inline(always)]
    fn emit(self, to: &mut Operands<'_>) {
        to.rdma(self.remote.c);
    }
}
