//! Which opcodes support inline data, and which the solicited flag; and which opcodes can post
//! memory of an implicit region. The other bounds are in `rules`, above the opcodes. These three
//! are needed where a work request is described.

use super::Opcode;
use crate::memory::implicit::PagedOps;

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
    label = "`{Self}` raises no completion at the peer",
    note = "IBV_SEND_SOLICITED is for every SEND and for RDMA_WRITE_WITH_IMM"
)]
pub trait SolicitedOp: Opcode {}

/// Memory of an implicit region can be posted with the operations that the region's proof covers
/// ([R20.6](crate::guide::rules#r20-6)).
#[diagnostic::on_unimplemented(
    message = "memory of this implicit region is not posted by `{Self}`",
    label = "the region was made for `{X}`",
    note = "a device may lack the one or the other in memory on demand: ask it for both, `Can<Implicit<Rc, (wr::Send, wr::RdmaWrite)>>`, and give that to `register_implicit`"
)]
pub trait PagedIn<X: PagedOps>: Opcode {}
