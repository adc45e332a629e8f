//! The rules of transports that keep order (R27). `ext::srd` has the impls for SRD, which does not
//! keep order.

use crate::profile::{OrdinaryPosting, Posting};
use crate::terms::transport::{Rc, Transport, Uc, Ud, Xrc};
use crate::work::opcode::Opcode;

/// Transports whose work requests complete in posting order ([R27.1](crate::guide::rules#r27-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this relies on the order of messages, which a `{Self}` queue pair does not preserve",
    label = "`{Self}` does not preserve order",
    note = "a list of run-time length cannot have a plain WRITE, because a later work request may arrive first: post each WRITE on its own, or with `post_send!`, which checks the work requests after it, or use `RdmaWriteWithImm` (R27.4)"
)]
pub trait KeepsOrder: Transport {}

impl KeepsOrder for Rc {}
impl KeepsOrder for Uc {}
impl KeepsOrder for Ud {}
impl KeepsOrder for Xrc {}

/// Posting of queue pairs that support RDMA WRITE: all, except SRD queue pairs whose profile does
/// not request it. Older SRD devices lack it ([R27.7](crate::guide::rules#r27-7)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "RDMA WRITE cannot be posted to a queue pair that was not created for it",
    label = "the profile's `Posting` is `{Self}`",
    note = "older SRD devices do not have it, so the profile must request it: use a profile with `posting: ExtendedPosting<(Srd, wr::RdmaWrite)>`"
)]
pub trait Writes: Posting {}

impl Writes for OrdinaryPosting {}

/// Opcodes that can follow an opcode `B` in one post ([R27.4](crate::guide::rules#r27-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot follow `{B}` in one post to a `{T}` queue pair",
    label = "it may arrive before the WRITE does",
    note = "`{T}` does not preserve order, so this does not prove that the WRITE has arrived: post it after the completion of the WRITE, or use `RdmaWriteWithImm` for the WRITE (R27.4)"
)]
pub trait MayFollow<B, T: Transport>: Opcode {}

impl<B, T: KeepsOrder, O: Opcode> MayFollow<B, T> for O {}

/// Opcodes that can be in a list whose opcodes are known only at run time
/// ([R27.4](crate::guide::rules#r27-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a list of run-time length on a `{T}` queue pair",
    label = "what follows it may arrive before the WRITE does",
    note = "`{T}` does not preserve order: post each WRITE on its own, or with `post_send!`, which checks the work requests after it, or use `RdmaWriteWithImm` (R27.4)"
)]
pub trait AllowedInList<T: Transport>: Opcode {}

impl<T: KeepsOrder, O: Opcode> AllowedInList<T> for O {}
