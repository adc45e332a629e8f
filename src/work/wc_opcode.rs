//! What a completion says was done.

use crate::sys::persist::{WC_ATOMIC_WRITE, WC_FLUSH};
use crate::sys::types::ibv_wc_opcode;

/// What a completed work request did (`opcode` of ibv_poll_cq(3)):
/// [`Completion::opcode`](crate::Completion::opcode).
#[doc(alias = "ibv_wc_opcode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)] // C's numbers, so that most are decoded by a comparison
pub enum WcOpcode {
    /// A SEND, with or without immediate.
    #[doc(alias = "IBV_WC_SEND")]
    Send = ibv_wc_opcode::IBV_WC_SEND as u8,
    /// An RDMA WRITE, with or without immediate.
    #[doc(alias = "IBV_WC_RDMA_WRITE")]
    RdmaWrite = ibv_wc_opcode::IBV_WC_RDMA_WRITE as u8,
    /// An RDMA READ.
    #[doc(alias = "IBV_WC_RDMA_READ")]
    RdmaRead = ibv_wc_opcode::IBV_WC_RDMA_READ as u8,
    /// An atomic compare and swap.
    #[doc(alias = "IBV_WC_COMP_SWAP")]
    CompSwap = ibv_wc_opcode::IBV_WC_COMP_SWAP as u8,
    /// An atomic fetch and add.
    #[doc(alias = "IBV_WC_FETCH_ADD")]
    FetchAdd = ibv_wc_opcode::IBV_WC_FETCH_ADD as u8,
    /// The binding of a memory window.
    #[doc(alias = "IBV_WC_BIND_MW")]
    BindMw = ibv_wc_opcode::IBV_WC_BIND_MW as u8,
    /// The end of a key.
    #[doc(alias = "IBV_WC_LOCAL_INV")]
    LocalInv = ibv_wc_opcode::IBV_WC_LOCAL_INV as u8,
    /// A FLUSH.
    Flush = WC_FLUSH as u8,
    /// An ATOMIC WRITE.
    AtomicWrite = WC_ATOMIC_WRITE as u8,
    /// A message in the receive's buffer.
    #[doc(alias = "IBV_WC_RECV")]
    Recv = ibv_wc_opcode::IBV_WC_RECV as u8,
    /// An RDMA WRITE with immediate, its data in the region it named.
    #[doc(alias = "IBV_WC_RECV_RDMA_WITH_IMM")]
    RecvRdmaWithImm = ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM as u8,
}

impl WcOpcode {
    #[inline(always)]
    pub(crate) fn from_c(opcode: u32) -> Option<Self> {
        Some(match opcode {
            ibv_wc_opcode::IBV_WC_SEND => WcOpcode::Send,
            ibv_wc_opcode::IBV_WC_RDMA_WRITE => WcOpcode::RdmaWrite,
            ibv_wc_opcode::IBV_WC_RDMA_READ => WcOpcode::RdmaRead,
            ibv_wc_opcode::IBV_WC_COMP_SWAP => WcOpcode::CompSwap,
            ibv_wc_opcode::IBV_WC_FETCH_ADD => WcOpcode::FetchAdd,
            ibv_wc_opcode::IBV_WC_BIND_MW => WcOpcode::BindMw,
            ibv_wc_opcode::IBV_WC_LOCAL_INV => WcOpcode::LocalInv,
            WC_FLUSH => WcOpcode::Flush,
            WC_ATOMIC_WRITE => WcOpcode::AtomicWrite,
            ibv_wc_opcode::IBV_WC_RECV => WcOpcode::Recv,
            ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => WcOpcode::RecvRdmaWithImm,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has the number that verbs.h gives it, and others are none.
    #[test]
    fn numbers_of_c() {
        let known: Vec<_> = (0..256).filter_map(WcOpcode::from_c).map(|it| it as u8).collect();
        assert_eq!(known, [0, 1, 2, 3, 4, 5, 6, 8, 9, 128, 129]);
        use ibv_wc_opcode as c;
        for (theirs, ours) in [
            (c::IBV_WC_SEND, WcOpcode::Send),
            (c::IBV_WC_RDMA_WRITE, WcOpcode::RdmaWrite),
            (c::IBV_WC_RDMA_READ, WcOpcode::RdmaRead),
            (c::IBV_WC_COMP_SWAP, WcOpcode::CompSwap),
            (c::IBV_WC_FETCH_ADD, WcOpcode::FetchAdd),
            (c::IBV_WC_LOCAL_INV, WcOpcode::LocalInv),
            (8, WcOpcode::Flush),
            (9, WcOpcode::AtomicWrite),
            (c::IBV_WC_RECV, WcOpcode::Recv),
            (c::IBV_WC_RECV_RDMA_WITH_IMM, WcOpcode::RecvRdmaWithImm),
        ] {
            assert_eq!(WcOpcode::from_c(theirs), Some(ours));
        }
    }
}
