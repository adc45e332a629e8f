//! What a completion says was done.

use crate::sys::types::ibv_wc_opcode;

/// What a completed work request did (`opcode` of ibv_poll_cq(3)):
/// [`Completion::opcode`](crate::Completion::opcode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcOpcode {
    /// A SEND, with or without immediate.
    Send,
    /// An RDMA WRITE, with or without immediate.
    RdmaWrite,
    /// An RDMA READ.
    RdmaRead,
    /// An atomic compare and swap.
    CompSwap,
    /// An atomic fetch and add.
    FetchAdd,
    /// The end of a key.
    LocalInv,
    /// A message in the receive's buffer.
    Recv,
    /// An RDMA WRITE with immediate, its data in the region it named.
    RecvRdmaWithImm,
}

impl WcOpcode {
    pub(crate) fn from_c(opcode: u32) -> Option<Self> {
        Some(match opcode {
            ibv_wc_opcode::IBV_WC_SEND => WcOpcode::Send,
            ibv_wc_opcode::IBV_WC_RDMA_WRITE => WcOpcode::RdmaWrite,
            ibv_wc_opcode::IBV_WC_RDMA_READ => WcOpcode::RdmaRead,
            ibv_wc_opcode::IBV_WC_COMP_SWAP => WcOpcode::CompSwap,
            ibv_wc_opcode::IBV_WC_FETCH_ADD => WcOpcode::FetchAdd,
            ibv_wc_opcode::IBV_WC_LOCAL_INV => WcOpcode::LocalInv,
            ibv_wc_opcode::IBV_WC_RECV => WcOpcode::Recv,
            ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => WcOpcode::RecvRdmaWithImm,
            _ => return None,
        })
    }
}
