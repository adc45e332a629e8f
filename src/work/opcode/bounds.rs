//! Which opcodes may carry inline data, and which the solicited flag: each says so itself. The
//! other bounds are in `rules`, above the opcodes; these two are asked for where a work request is
//! described.

use super::Opcode;

/// INLINE is for SEND and RDMA WRITE, with and without immediate (R2.6).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inline",
    label = "only SEND and RDMA WRITE carry inline data",
    note = "the data of a READ or an atomic comes from the peer and needs a registered buffer (R2.6)"
)]
pub trait InlineOp: Opcode {}

/// SOLICITED is for what consumes a receive at the peer (R2.3).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be solicited",
    label = "`{Self}` raises no completion at the peer",
    note = "IBV_SEND_SOLICITED is for every SEND and for RDMA_WRITE_WITH_IMM (R2.3)"
)]
pub trait SolicitedOp: Opcode {}
