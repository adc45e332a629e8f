//! The legality rules as traits, in the order of the tables in the manual pages.
//!
//! `Self` of each trait is a part of the work request, so an error names what the user wrote.
//! [`SendOn`], [`RecvOn`] and [`SrqRecvOn`] combine them. `post_send!` and the methods have these
//! bounds, so they enforce the same rules.
//!
//! The traits have no methods to call. You see them in compiler errors. Generic code has two
//! bounds: a trait for the state, and [`SendOn`] for all the rules of a work request.
//!
//! ```
//! use proverbs::{prelude::*, rules::*, transport::Transport};
//!
//! /// Posts any work request with a buffer to any queue pair that accepts it.
//! fn post<O, T, S, P>(
//!     qp: &mut QueuePair<T, S, P>,
//!     wr: wr::WorkRequest<O, Buf>,
//! ) -> Result<(), PostError<Buf>>
//! where
//!     T: Transport,
//!     S: CanPostSend,
//!     P: Profile<Entry = Buf>,
//!     wr::WorkRequest<O, Buf>: SendOn<T, P>,
//! {
//!     qp.post_send(wr)
//! }
//!
//! // Bounds that are satisfied, one line for each trait:
//! fn opcodes<O: PostOn<Rc> + InlineOp + SolicitedOp>() {}
//! opcodes::<wr::Send>();
//! fn transports<A: NamesPeer, B: TakesDestinations, C: StopsSending, D: SharesReceives>() {}
//! transports::<Rc, Ud, Uc, Ud>();
//! fn of_xrc<A: NamesSrqs, B: HasBothQueues, C: UsesNoQueue>() {}
//! of_xrc::<Xrc, Rc, NoRq>();
//! fn states<A: CanPostRecv, B: CanFail>() {}
//! states::<Init, Rtr>();
//! fn receives<A: HasRecvQueue + UsesOwnQueue, B: UsesSharedQueue>() {}
//! receives::<OwnRq, SharedRq>();
//! fn signals<A: LeavesUnsignaled>() {}
//! signals::<Selective>();
//! fn posts<A: UsesPostSend>() {}
//! posts::<OrdinaryPosting>();
//! ```
//!
//! A bound that is not satisfied is an error of `cargo check`, in verbs terms ([how to read
//! it](crate::guide::compile_errors)):
//!
//! ```compile_fail,E0277
//! # use proverbs::{prelude::*, rules::*};
//! fn opcodes<O: PostOn<Ud>>() {}
//! // `proverbs::RdmaWrite` cannot be posted to a `proverbs::Ud` queue pair.
//! opcodes::<wr::RdmaWrite>();
//! ```

/// Implements a rule for types, without a list of them in errors.
macro_rules! holds {
    ($($rule:path: $($of:ty),+;)+) => {$($(
        #[diagnostic::do_not_recommend]
        impl $rule for $of {}
    )+)+};
}

pub(crate) use holds;

mod created;
mod on;
mod order;

pub(crate) use crate::allows::Seal;
pub use crate::allows::{Allows, call};
pub use crate::work::limits::Sges;
pub use crate::work::opcode::bounds::{InlineOp, SolicitedOp};
#[doc(hidden)]
pub use created::{CreateQp, CreatedBy, Creates, ReceivedAs, Serves, StaysWith, TakesFlags};
pub use on::{RecvOn, SendOn, SrqRecvOn};
pub use order::{AllowedInList, KeepsOrder, MayFollow, Writes};

use crate::profile::{
    Initiator, NoRq, OrdinaryPosting, OwnRq, Posting, Reads, ReceiveSource, Selective, SharedRq,
    SignalAll, Signaling,
};
use crate::terms::state::{Draining, Err, Init, Rtr, Rts, Sqd, Sqe, State};
use crate::terms::transport::{Rc, Transport, Uc, Ud, Xrc};
use crate::work::address::{Connected, Datagram, ToSrq};
use crate::work::flags::{AlwaysSignaled, Fenced, Plain, Signaled, Unfenced};
use crate::work::opcode::{
    CmpAndSwp, FetchAndAdd, Opcode, RdmaRead, RdmaWrite, RdmaWriteWithImm, Send, SendWithImm,
};

/// The opcode table of ibv_post_send(3): the opcodes that each transport supports
/// ([R1.1](crate::guide::rules#r1-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a `{T}` queue pair",
    label = "`{T}` does not carry `{Self}`",
    note = "UD carries SEND and SEND_WITH_IMM; UC also RDMA_WRITE and RDMA_WRITE_WITH_IMM; SRD these and RDMA_READ; RC carries every opcode; XRC every opcode except LOCAL_INV, BIND_MW, FLUSH and ATOMIC_WRITE (R1.1)"
)]
pub trait PostOn<T: Transport>: Opcode {}

holds! {
    PostOn<Rc>: Send, SendWithImm, RdmaWrite, RdmaWriteWithImm, RdmaRead, CmpAndSwp, FetchAndAdd;
    PostOn<Xrc>: Send, SendWithImm, RdmaWrite, RdmaWriteWithImm, RdmaRead, CmpAndSwp,
        FetchAndAdd;
    PostOn<Uc>: Send, SendWithImm, RdmaWrite, RdmaWriteWithImm;
    PostOn<Ud>: Send, SendWithImm;
}

/// UD and SRD work requests name a destination, XRC work requests a shared receive queue, and other
/// connected ones neither ([R1.2](crate::guide::rules#r1-2), [R5.1](crate::guide::rules#r5-1),
/// [R26.1](crate::guide::rules#r26-1)).
#[doc(hidden)]
pub trait Addressed<T: Transport> {}

impl<T: NamesPeer> Addressed<T> for Connected {}
impl<T: TakesDestinations> Addressed<T> for Datagram {}
impl<T: NamesSrqs> Addressed<T> for ToSrq {}

/// Transports whose connection determines the peer ([R5.1](crate::guide::rules#r5-1),
/// [R26.1](crate::guide::rules#r26-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a send on a `{Self}` queue pair needs a destination, and this one names none",
    label = "add `.to(destination)` on UD and SRD, `.to_srq(number)` on XRC",
    note = "on UD and SRD every send names its address handle, QPN and Q_Key, `wr::Send::new(buf).to(wr::Destination {{ .. }})`; on XRC, a shared receive queue at the peer, `wr::Send::new(buf).to_srq(number)`"
)]
pub trait NamesPeer: Transport {}

impl NamesPeer for Rc {}
impl NamesPeer for Uc {}

/// Transports whose sends each name their destination ([R5.1](crate::guide::rules#r5-1),
/// [R1.2](crate::guide::rules#r1-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` queue pair has one peer: its sends name no destination, and it takes no address handles",
    label = "leave `.to(..)` and address handles out: they are for UD and SRD queue pairs only",
    note = "on RC and UC the connection determines the destination"
)]
pub trait TakesDestinations: Transport {}

impl TakesDestinations for Ud {}

/// Transports whose work requests each name a shared receive queue at the peer
/// ([R26.1](crate::guide::rules#r26-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a work request on a `{Self}` queue pair cannot name a shared receive queue",
    label = "leave `.to_srq(..)` out: it is for XRC only",
    note = "on RC, UC and UD the peer's queue pair decides where its receives come from"
)]
pub trait NamesSrqs: Transport {}

impl NamesSrqs for Xrc {}

/// Transports of queue pairs that `ibv_create_qp` creates: those with two ordinary queues
/// ([R26.2](crate::guide::rules#r26-2), [R27.2](crate::guide::rules#r27-2)).
#[diagnostic::on_unimplemented(
    message = "`{Self}` queue pairs are not created by this call",
    label = "this is for RC, UC and UD queue pairs",
    note = "only `create_qp` creates SRD queue pairs, which do not preserve order: with a `Depth` and a profile that has `posting: ExtendedPosting<Srd>` or `ExtendedPosting<(Srd, wr::RdmaWrite)>`",
    note = "an XRC initiator does not have a receive queue, and an XRC shared receive queue has its own completion queue: use `create_xrc_initiator`, `XrcDomain::create_srq` and `XrcDomain::create_target`"
)]
pub trait HasBothQueues: KeepsOrder {}

impl HasBothQueues for Rc {}
impl HasBothQueues for Uc {}
impl HasBothQueues for Ud {}

/// FENCE is for RC and XRC ([R2.1](crate::guide::rules#r2-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a work request on a `{T}` queue pair cannot be `{Self}`",
    label = "leave `.fence()` out: it is for RC and XRC queue pairs only",
    note = "IBV_SEND_FENCE waits for earlier RDMA READs and atomics, which only RC and XRC have"
)]
pub trait FenceOn<T: Transport> {}

impl FenceOn<Rc> for Fenced {}
impl FenceOn<Xrc> for Fenced {}
impl<T: Transport> FenceOn<T> for Unfenced {}

/// SIGNALED has a meaning only if not every work request is signaled
/// ([R2.4](crate::guide::rules#r2-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`.signaled()` has no meaning on a `{M}` queue pair",
    label = "every work request of this queue pair is signaled",
    note = "leave `.signaled()` out, or use a profile with `Selective` signaling"
)]
pub trait SignaledOn<M: Signaling> {}

impl SignaledOn<Selective> for Signaled {}
impl<M: Signaling> SignaledOn<M> for Plain {}
impl<M: CompletesEach> SignaledOn<M> for AlwaysSignaled {}

/// Signaling that completes every work request. The completion reports what happened to the window
/// of the work request ([R19.2](crate::guide::rules#r19-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "BIND_MW and LOCAL_INV of a window cannot be posted to a `{Self}` queue pair",
    label = "without its own completion, the program would not know the window's state",
    note = "use a profile with `SignalAll`, which is the default (R19.2)"
)]
pub trait CompletesEach: Signaling {}

impl CompletesEach for SignalAll {}

/// READs and atomics need an initiator depth of at least 1 ([R4.6](crate::guide::rules#r4-6)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a `{I}` queue pair",
    label = "the profile gives this queue pair an initiator depth of 0",
    note = "with max_rd_atomic 0 the work request would never start; use `Reads` as the profile's `Initiator`"
)]
pub trait IssuedBy<I: Initiator>: Opcode {}

impl<I: Initiator> IssuedBy<I> for Send {}
impl<I: Initiator> IssuedBy<I> for SendWithImm {}
impl<I: Initiator> IssuedBy<I> for RdmaWrite {}
impl<I: Initiator> IssuedBy<I> for RdmaWriteWithImm {}
impl IssuedBy<Reads> for RdmaRead {}
impl IssuedBy<Reads> for CmpAndSwp {}
impl IssuedBy<Reads> for FetchAndAdd {}

/// FLUSH and ATOMIC_WRITE require extended posting and a queue pair that was created for them
/// ([R25.2](crate::guide::rules#r25-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be posted to a queue pair that was not created for it",
    label = "the profile's `Posting` is `{X}`",
    note = "`ibv_post_send` does not support FLUSH and ATOMIC_WRITE: use a profile with `posting: ExtendedPosting<ext::persistence::Flush>`, `ExtendedPosting<ext::persistence::AtomicWrite>`, or with both, `ExtendedPosting<(ext::persistence::Flush, ext::persistence::AtomicWrite)>`"
)]
pub trait CreatedFor<X: Posting>: Opcode {}

impl<X: Posting> CreatedFor<X> for Send {}
impl<X: Posting> CreatedFor<X> for SendWithImm {}
impl<X: Writes> CreatedFor<X> for RdmaWrite {}
impl<X: Writes> CreatedFor<X> for RdmaWriteWithImm {}
impl<X: Posting> CreatedFor<X> for RdmaRead {}
impl<X: Posting> CreatedFor<X> for CmpAndSwp {}
impl<X: Posting> CreatedFor<X> for FetchAndAdd {}

/// States in which sends can be posted ([R8.19](crate::guide::rules#r8-19)). In SQD they are held,
/// in ERR flushed.
#[diagnostic::on_unimplemented(
    message = "cannot post send work requests in QP state `{Self}`",
    label = "the queue pair is in state `{Self}`",
    note = "move it to RTS first: `let mut qp = qp.modify(RcRts::new(psn, ReadDepth::ONE))?` on RC, `UcRts`, `UdRts`, `SrdRts` or `XrcRts` elsewhere"
)]
pub trait CanPostSend: State {}

holds! {
    CanPostSend: Rts, Draining, Sqd, Err;
}

/// States in which receives can be posted: from INIT on, except ERR
/// ([R7.14](crate::guide::rules#r7-14), [R7.15](crate::guide::rules#r7-15)).
#[diagnostic::on_unimplemented(
    message = "cannot post receive work requests in QP state `{Self}`",
    label = "the queue pair is in state `{Self}`",
    note = "receives may be posted in INIT, RTR, RTS, SQD and SQE: move it on with `modify`, or out of ERR with `reset` (R7.14, R7.15)"
)]
pub trait CanPostRecv: State {}

holds! {
    CanPostRecv: Init, Rtr, Rts, Draining, Sqd, Sqe;
}

/// States from which a queue pair can be moved to the error state: all but RESET
/// ([R8.1](crate::guide::rules#r8-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue pair in state `{Self}` cannot be moved to the error state",
    label = "there is no transition from `{Self}` to ERR",
    note = "RESET -> ERR is not a transition; nothing is posted in RESET, so drop the queue pair or `destroy` it (R8.1)"
)]
pub trait CanFail: State {}

impl CanFail for Init {}
impl CanFail for Rtr {}
impl CanFail for Rts {}
impl CanFail for Draining {}
impl CanFail for Sqd {}
impl CanFail for Sqe {}
impl CanFail for Err {}

/// Transports whose send queue can stop in SQE: UC and UD ([R8.16](crate::guide::rules#r8-16)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `{Self}` queue pair is never in state SQE",
    label = "only UC and UD queue pairs stop in SQE",
    note = "a send error moves an RC queue pair to ERR: recover it with `reset`"
)]
pub trait StopsSending: Transport {}

impl StopsSending for Uc {}
impl StopsSending for Ud {}

/// `post_recv` requires that the queue pair has its own receive queue
/// ([R7.1](crate::guide::rules#r7-1), [R26.2](crate::guide::rules#r26-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue pair without a receive queue of its own has no `post_recv`",
    label = "its receives come from a shared receive queue, or it is an initiator of XRC",
    note = "post to the `SharedReceiveQueue` with `post_srq_recv`"
)]
pub trait HasRecvQueue: ReceiveSource {}

impl HasRecvQueue for OwnRq {}

/// Creation without a shared receive queue requires a profile with its own receive queue
/// ([R7.1](crate::guide::rules#r7-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue pair for a shared receive queue cannot be created without it",
    label = "the profile's `Receive` is `{Self}`",
    note = "create it with `Depth::on_srq(send, &srq)`, or use a profile with `receive: OwnRq`"
)]
pub trait UsesOwnQueue: ReceiveSource {}

impl UsesOwnQueue for OwnRq {}

/// A queue pair that was created elsewhere must post with `ibv_post_send`
/// ([R15.2](crate::guide::rules#r15-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue pair that was created elsewhere cannot be used with extended posting",
    label = "the profile's `Posting` is `{Self}`",
    note = "the operations that it was created for are not known: use a profile with `posting: OrdinaryPosting`"
)]
pub trait UsesPostSend: Posting {}

impl UsesPostSend for OrdinaryPosting {}

/// Creation with a shared receive queue requires a profile for it
/// ([R7.1](crate::guide::rules#r7-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a queue pair with a receive queue of its own cannot be attached to a shared one",
    label = "the profile's `Receive` is `{Self}`",
    note = "use a profile with `receive: SharedRq`, or create it with a `Depth`"
)]
pub trait UsesSharedQueue: ReceiveSource {}

impl UsesSharedQueue for SharedRq {}

/// Creation of an XRC initiator requires a profile without receives
/// ([R26.2](crate::guide::rules#r26-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an XRC initiator cannot receive",
    label = "the profile's `Receive` is `{Self}`",
    note = "use a profile with `receive: NoRq`: messages come to a shared receive queue of a target's domain"
)]
pub trait UsesNoQueue: ReceiveSource {}

impl UsesNoQueue for NoRq {}

/// A post can leave its last work request unsignaled only with selective signaling
/// ([R2.4](crate::guide::rules#r2-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an unsignaled post has no meaning on a `{Self}` queue pair",
    label = "every work request of this queue pair is signaled",
    note = "use a profile with `signaling: Selective`, or post as usual"
)]
pub trait LeavesUnsignaled: Signaling {}

impl LeavesUnsignaled for Selective {}

/// Shared receive queues are for RC, UD and XRC ([R7.3](crate::guide::rules#r7-3)).
#[diagnostic::on_unimplemented(
    message = "a `{Self}` queue pair cannot use a shared receive queue",
    label = "each `{Self}` queue pair has its own receive queue",
    note = "shared receive queues are for RC, UD and XRC"
)]
pub trait SharesReceives: Transport {}

impl SharesReceives for Rc {}
impl SharesReceives for Ud {}
impl SharesReceives for Xrc {}
