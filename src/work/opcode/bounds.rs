//! Which opcodes support inline data, and which the solicited flag. The other bounds are in
//! `rules`, above the opcodes. These two are needed where a work request is described.

use super::Opcode;

/// INLINE is for SEND and RDMA WRITE, with and without immediate
/// ([R2.6](crate::guide::rules#r2-6)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inline",
    label = "inline data is for SEND and RDMA WRITE only",
    note = "the data of an RDMA READ or an atomic comes from the peer: give `new` a registered `Buf`"
)]
pub trait InlineOp: Opcode {}

allows! { [X, O: InlineOp] X: Inline<O>; }

/// SOLICITED is for opcodes that consume a receive at the peer ([R2.3](crate::guide::rules#r2-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be solicited",
    label = "`{Self}` does not complete at the peer",
    note = "IBV_SEND_SOLICITED is for every SEND and for RDMA_WRITE_WITH_IMM"
)]
pub trait SolicitedOp: Opcode {}
