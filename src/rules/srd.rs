//! The rules of SRD, which supports RDMA but does not preserve order (R27).

use super::{CompletesEach, PostOn, TakesDestinations};
use crate::profile::{ExtendedPosting, OrdinaryPosting, Posting, SignalAll, Signaling};
use crate::terms::transport::{Rc, Srd, Transport, Uc, Ud, Xrc};
use crate::work::limits::{Limit, Max};
use crate::work::opcode::{
    AtomicWrite, Flush, Opcode, RdmaRead, RdmaWrite, RdmaWriteWithImm, Send, SendWithImm,
};

holds! { PostOn<Srd>: Send, SendWithImm, RdmaRead, RdmaWrite, RdmaWriteWithImm; }

impl TakesDestinations for Srd {}

/// Transports whose work requests complete in posting order ([R27.1](crate::guide::rules#r27-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "messages of a `{Self}` queue pair keep no order, which is relied on here",
    label = "`{Self}` keeps no order",
    note = "a list of run-time length cannot have a plain WRITE, because a later work request may arrive first: post WRITEs with `post_send!`, which checks the ones after them, or individually; or use `RdmaWriteWithImm` (R27.4)"
)]
pub trait KeepsOrder: Transport {}

impl KeepsOrder for Rc {}
impl KeepsOrder for Uc {}
impl KeepsOrder for Ud {}
impl KeepsOrder for Xrc {}

/// Every work request of an SRD queue pair is signaled ([R27.3](crate::guide::rules#r27-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an SRD queue pair cannot be created with `{Self}` signaling",
    label = "with the profile's signaling, a completion would speak for the work requests before it",
    note = "on SRD they complete in any order, so a buffer would come back that is still sent: use a profile with `SignalAll`, which is the default (R27.3)"
)]
pub trait TellsOfEach: Signaling + CompletesEach {}

impl TellsOfEach for SignalAll {}

/// SRD work requests have one scatter/gather element ([R27.6](crate::guide::rules#r27-6)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an SRD queue pair cannot be created with `{Self}` for its sends",
    label = "the profile's `MaxSendSge` is not one scatter/gather element",
    note = "an RDMA READ or WRITE of SRD has one element: use a profile with `max_send_sge: 1`, which is the default (R27.6)"
)]
pub trait OneElement: Limit {}

impl OneElement for Max<1> {}

/// SRD is posted in sessions that set the destination of each work request
/// ([R27.2](crate::guide::rules#r27-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an SRD queue pair cannot be created with `{Self}`",
    label = "the profile's `Posting` is `{Self}`",
    note = "RDMA of SRD is in no `ibv_post_send`, which has no room for its destination: use a profile with `posting: ExtendedPosting<Srd>`, or `ExtendedPosting<(Srd, wr::RdmaWrite)>` if it writes"
)]
pub trait ForSrd: Posting {}

impl ForSrd for ExtendedPosting<Srd> {}
impl ForSrd for ExtendedPosting<(Srd, RdmaWrite)> {}

/// Queue pairs that are created for RDMA WRITE: all, except SRD queue pairs that did not request
/// it, because older SRD devices lack it ([R27.7](crate::guide::rules#r27-7)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "RDMA WRITE cannot be posted to a queue pair that was not created for it",
    label = "the profile's `Posting` is `{Self}`",
    note = "older SRD devices do not have it, so the profile must request it: use a profile with `posting: ExtendedPosting<(Srd, wr::RdmaWrite)>`"
)]
pub trait Writes: Posting {}

impl Writes for OrdinaryPosting {}
impl Writes for ExtendedPosting<()> {}
impl Writes for ExtendedPosting<Flush> {}
impl Writes for ExtendedPosting<AtomicWrite> {}
impl Writes for ExtendedPosting<(Flush, AtomicWrite)> {}
impl Writes for ExtendedPosting<(Srd, RdmaWrite)> {}

/// Opcodes that can follow an opcode `B` in one post ([R27.4](crate::guide::rules#r27-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot follow `{B}` in one post to a `{T}` queue pair",
    label = "it may arrive before the WRITE does",
    note = "`{T}` keeps no order, so it does not prove that the WRITE has arrived: post it after the completion of the WRITE, or use `RdmaWriteWithImm` for the WRITE (R27.4)"
)]
pub trait MayFollow<B, T: Transport>: Opcode {}

impl<B, T: KeepsOrder, O: Opcode> MayFollow<B, T> for O {}
impl MayFollow<RdmaWrite, Srd> for RdmaWrite {}
impl<B: AllowedInList<Srd>, O: Opcode> MayFollow<B, Srd> for O {}
impl<O: Opcode> MayFollow<(), Srd> for O {}

/// Opcodes that can be in a list whose opcodes are known only at run time
/// ([R27.4](crate::guide::rules#r27-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be in a list of run-time length on a `{T}` queue pair",
    label = "what follows it may arrive before the WRITE does",
    note = "`{T}` keeps no order: post WRITEs with `post_send!`, which checks the work requests after them, or individually; or use `RdmaWriteWithImm` (R27.4)"
)]
pub trait AllowedInList<T: Transport>: Opcode {}

impl<T: KeepsOrder, O: Opcode> AllowedInList<T> for O {}
impl AllowedInList<Srd> for Send {}
impl AllowedInList<Srd> for SendWithImm {}
impl AllowedInList<Srd> for RdmaRead {}
impl AllowedInList<Srd> for RdmaWriteWithImm {}
