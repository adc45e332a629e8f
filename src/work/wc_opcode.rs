//! The operation that a completion reports.

use crate::sys::persist::{WC_ATOMIC_WRITE, WC_FLUSH};
use crate::sys::types::ibv_wc_opcode;

macro_rules! opcodes {
    (
        $(#[$meta:meta])*
        pub enum WcOpcode { $($(#[$doc:meta])* $opcode:ident = $c:path;)* }
    ) => {
        $(#[$meta])*
        #[repr(u8)] // C's numbers, so that most are decoded by one comparison
        pub enum WcOpcode {
            $($(#[$doc])* $opcode = $c as u8,)*
        }

        impl WcOpcode {
            #[inline(always)]
            pub(crate) fn from_c(opcode: u32) -> Option<Self> {
                match opcode {
                    $($c => Some(WcOpcode::$opcode),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    /// The operation of a completed work request (`opcode` of ibv_poll_cq(3)). Returned by
    /// [`Completion::opcode`](crate::Completion::opcode).
    #[doc(alias = "ibv_wc_opcode")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum WcOpcode {
        /// A SEND, with or without immediate.
        #[doc(alias = "IBV_WC_SEND")]
        Send = ibv_wc_opcode::IBV_WC_SEND;
        /// An RDMA WRITE, with or without immediate.
        #[doc(alias = "IBV_WC_RDMA_WRITE")]
        RdmaWrite = ibv_wc_opcode::IBV_WC_RDMA_WRITE;
        /// An RDMA READ.
        #[doc(alias = "IBV_WC_RDMA_READ")]
        RdmaRead = ibv_wc_opcode::IBV_WC_RDMA_READ;
        /// An atomic compare and swap.
        #[doc(alias = "IBV_WC_COMP_SWAP")]
        CompSwap = ibv_wc_opcode::IBV_WC_COMP_SWAP;
        /// An atomic fetch and add.
        #[doc(alias = "IBV_WC_FETCH_ADD")]
        FetchAdd = ibv_wc_opcode::IBV_WC_FETCH_ADD;
        /// A bind of a memory window.
        #[doc(alias = "IBV_WC_BIND_MW")]
        BindMw = ibv_wc_opcode::IBV_WC_BIND_MW;
        /// The invalidation of a key (LOCAL_INV).
        #[doc(alias = "IBV_WC_LOCAL_INV")]
        LocalInv = ibv_wc_opcode::IBV_WC_LOCAL_INV;
        /// A FLUSH.
        Flush = WC_FLUSH;
        /// An ATOMIC WRITE.
        AtomicWrite = WC_ATOMIC_WRITE;
        /// A message in the buffer of a receive.
        #[doc(alias = "IBV_WC_RECV")]
        Recv = ibv_wc_opcode::IBV_WC_RECV;
        /// An RDMA WRITE with immediate. Its data is in the region that the WRITE addressed.
        #[doc(alias = "IBV_WC_RECV_RDMA_WITH_IMM")]
        RecvRdmaWithImm = ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each opcode has the number of verbs.h. Other numbers are not opcodes.
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
