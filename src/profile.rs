//! The properties of a queue pair that are fixed at creation, and that determine which calls
//! compile.

use std::marker::PhantomData;

use crate::device::Context;
use crate::in_flight::SendMode;
use crate::in_flight::credits::Credits;
use crate::in_flight::ring::Ring;
use crate::memory::Entry;
use crate::sys::data::{PostSend, Verb};
use crate::sys::types::{ibv_qp, ibv_qp_type, ibv_send_flags, ibv_send_wr};
use crate::terms::bounded::ReadDepth;
pub use crate::terms::depth::{InitiatorDepth, NoDepth};
use crate::terms::error::Error;
pub use crate::terms::threads::{AnyThread, InLane, Threads};
use crate::terms::transport::Transport;
use crate::work::limits::{Limit, Max};

/// All properties of a queue pair that are fixed at its creation, except the transport
/// (`struct ibv_qp_init_attr` of ibv_create_qp(3)).
///
/// A profile is a named set of choices. Implement it for your own empty type, or use
/// [`profile!`](crate::profile!), which has defaults. Depths are run-time values.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::{AnyThread, Initiator, Limit, Max, ReceiveSource, Signaling};
/// /// Sends WRITEs from up to four buffers, and never reads.
/// enum Stream {}
///
/// impl Profile for Stream {
///     type Receive = OwnRq;
///     type Signaling = Selective;
///     type MaxSendSge = Max<4>;
///     type MaxRecvSge = Max<1>;
///     type MaxInline = Max<128>;
///     type Initiator = NoReads;
///     type Entry = BufList;
///     type Threads = AnyThread;
///     type Posting = OrdinaryPosting;
/// }
///
/// /// A library that accepts any profile states its requirements as bounds.
/// fn limits<
///     P: Profile<Receive: ReceiveSource, Signaling: Signaling, Initiator: Initiator>,
/// >() -> (u32, u32) {
///     (P::MaxSendSge::VALUE, P::MaxInline::VALUE)
/// }
/// assert_eq!(limits::<Stream>(), (4, 128));
/// assert_eq!(limits::<DefaultProfile>(), (1, 64));
/// ```
///
/// The same with [`profile!`](crate::profile!), which has defaults:
///
/// ```
/// # use proverbs::prelude::*;
/// profile! { Stream { signaling: Selective, max_send_sge: 4, max_inline: 128, initiator: NoReads, entry: BufList } }
/// profile! { Reader { receive: OwnRq, signaling: SignalAll, initiator: Reads } } // the defaults
/// profile! { Server { receive: SharedRq } }
/// ```
#[doc(alias("ibv_qp_init_attr", "sq_sig_all", "ibv_qp_cap", "max_inline_data"))]
pub trait Profile: 'static {
    /// [`OwnRq`], [`SharedRq`], or for an XRC initiator [`NoRq`]. A queue pair that never receives
    /// has [`OwnRq`] with a depth of 0.
    type Receive: ReceiveSource;
    /// [`SignalAll`] or [`Selective`].
    type Signaling: Signaling;
    /// The maximum number of scatter/gather elements of a send, `Max<N>`. On iWARP, more than one
    /// requires [`NoReads`].
    type MaxSendSge: Limit;
    /// The maximum number of scatter/gather elements of a receive, `Max<N>`.
    type MaxRecvSge: Limit;
    /// The maximum length of an inline send in bytes, `Max<N>`.
    type MaxInline: Limit;
    /// [`Reads`] or [`NoReads`].
    type Initiator: Initiator;
    /// The type of the buffers or handles that move to the device with a work request and return
    /// with its completion.
    type Entry: Entry;
    /// [`AnyThread`] or [`InLane`].
    type Threads: Threads;
    /// [`OrdinaryPosting`], or [sessions](crate::ext::extended_posting).
    type Posting: Posting;
    /// Whether posts and their bytes are counted, for monitoring
    /// ([`QueuePair::counters`](crate::QueuePair::counters)). Each post then adds to counters in
    /// memory. In [`profile!`](crate::profile!), write `counted: true`.
    const COUNTED: bool = false;
}

/// Defines a [`Profile`], the properties that ibv_create_qp(3) fixes. Keys that you omit have the
/// value of [`DefaultProfile`]. Unknown and repeated keys do not compile.
///
/// ```
/// use proverbs::{profile, qp::{Selective, SharedRq}};
/// profile! {
///     /// Unsignaled sends and receives from a shared queue.
///     pub Busy { receive: SharedRq, signaling: Selective, max_send_sge: 4, max_inline: 128 }
/// }
///
/// // Types can have any path.
/// struct Session;
/// profile! { Served { receive: proverbs::qp::SharedRq, entry: proverbs::memory::AnyBuf<Session> } }
/// ```
#[macro_export]
macro_rules! profile {
    ($(#[$doc:meta])* $vis:vis $name:ident { $($body:tt)* }) => {
        $crate::__profile! { [$(#[$doc])* $vis $name] [] $($body)* }
    };
}

/// Processes the keys of a profile, each with one token or a type as its value. The arguments are
/// the values so far, and the remaining keys. Each key becomes a type, which shadows the default of
/// that name.
#[doc(hidden)]
#[macro_export]
macro_rules! __profile {
    ([$($head:tt)*] [$($said:tt)*] $key:ident : $v:tt $(, $($rest:tt)*)?) => {
        $crate::__profile! { [$($head)*] [$($said)* ($key $v)] $($($rest)*)? }
    };
    ([$($head:tt)*] [$($said:tt)*] $key:ident : $v:ty $(, $($rest:tt)*)?) => {
        $crate::__profile! { [$($head)*] [$($said)* ($key $v)] $($($rest)*)? }
    };
    ([$(#[$doc:meta])* $vis:vis $name:ident] [$(($key:ident $v:tt))*]) => {
        $(#[$doc])*
        $vis enum $name {}
        #[allow(non_camel_case_types, unused)]
        const _: fn($crate::macros::ProfileKeys) = {
            use $crate::macros::defaults::*;
            $crate::__profile_impl! { $name $(($key $v))* }
            fn each_once($($key: ()),*) {}
            |keys| { $(keys.$key;)* }
        };
    };
}

/// Implements a profile in a block for each key.
#[doc(hidden)]
#[macro_export]
macro_rules! __profile_impl {
    ($name:ident ($key:ident $v:tt) $($rest:tt)*) => {{
        type $key = $crate::__profile_value!($key $v);
        $crate::__profile_impl! { $name $($rest)* }
    }};
    ($name:ident) => {
        impl $crate::Profile for $name {
            type Receive = receive;
            type Signaling = signaling;
            type MaxSendSge = max_send_sge;
            type MaxRecvSge = max_recv_sge;
            type MaxInline = max_inline;
            type Initiator = initiator;
            type Entry = entry;
            type Threads = threads;
            type Posting = posting;
            const COUNTED: bool = <counted as $crate::qp::Limit>::VALUE != 0;
        }
    };
}

/// The type of a key's value.
#[doc(hidden)]
#[macro_export]
macro_rules! __profile_value {
    (max_send_sge $v:tt) => { $crate::qp::Max<$v> };
    (max_recv_sge $v:tt) => { $crate::qp::Max<$v> };
    (max_inline $v:tt) => { $crate::qp::Max<$v> };
    (counted $v:tt) => { $crate::qp::Max<{ $v as usize }> };
    ($key:ident $v:literal) => { $crate::qp::Max<$v> };
    ($key:ident $v:ty) => { $v };
}

/// The defaults of a profile.
#[doc(hidden)]
#[allow(missing_docs, non_camel_case_types)]
pub mod defaults {
    use super::*;

    pub type receive = OwnRq;
    pub type signaling = SignalAll;
    pub type max_send_sge = Max<1>;
    pub type max_recv_sge = Max<1>;
    pub type max_inline = Max<64>;
    pub type initiator = Reads;
    pub type entry = crate::Buf;
    pub type threads = AnyThread;
    pub type posting = OrdinaryPosting;
    pub type counted = Max<0>;
}

profile! {
    /// One buffer per work request, every send signaled, its own receive queue, 64 bytes inline:
    /// the default [`Profile`] of a queue pair type (ibv_create_qp(3)).
    #[derive(Debug)]
    pub DefaultProfile {}
}

/// The keys of [`profile!`](crate::profile!). The compiler reports unknown and repeated keys.
#[doc(hidden)]
#[allow(missing_docs)]
pub struct ProfileKeys {
    pub receive: (),
    pub signaling: (),
    pub max_send_sge: (),
    pub max_recv_sge: (),
    pub max_inline: (),
    pub initiator: (),
    pub entry: (),
    pub threads: (),
    pub posting: (),
    pub counted: (),
}

/// Receives come from the queue pair's own receive queue (`receive` of a [`Profile`];
/// [R7.2](crate::guide::rules#r7-2)).
#[derive(Debug)]
pub enum OwnRq {}
/// Receives come from a shared receive queue (`receive` of a [`Profile`]): `post_recv` does not
/// exist ([R7.1](crate::guide::rules#r7-1)).
#[derive(Debug)]
pub enum SharedRq {}

/// There are no receives (`receive` of a [`Profile`]). The queue pair is an initiator of
/// [XRC](crate::transport::Xrc) ([R26.2](crate::guide::rules#r26-2)).
pub enum NoRq {}

/// [`OwnRq`], [`SharedRq`] or [`NoRq`] (`srq` of ibv_create_qp(3)), in a [`Profile`].
pub trait ReceiveSource: sealed::Sealed + 'static {}
impl ReceiveSource for OwnRq {}
impl ReceiveSource for SharedRq {}
impl ReceiveSource for NoRq {}

/// Every send completes (`sq_sig_all` of ibv_create_qp(3); `signaling` of a [`Profile`]), so there
/// is no `.signaled()`. If entries may be pieces of regions, `sq_sig_all` is not set, and each work
/// request sets IBV_SEND_SIGNALED ([R18.18](crate::guide::rules#r18-18)).
#[derive(Debug)]
pub enum SignalAll {}
/// Only signaled sends generate completions (`signaling` of a [`Profile`];
/// [R2.4](crate::guide::rules#r2-4)). Safe posts signal a single send and the last send of a list,
/// except for the unsignaled variants. iWARP and unknown providers do not support selective
/// signaling ([R24.13](crate::guide::rules#r24-13); [`Provider`](crate::device::Provider)).
#[derive(Debug)]
pub enum Selective {}

/// [`SignalAll`] or [`Selective`] (`sq_sig_all` of ibv_create_qp(3)), in a [`Profile`].
pub trait Signaling: sealed::Sealed + SendMode + 'static {}
impl Signaling for SignalAll {}
impl Signaling for Selective {}

/// The queue pair issues RDMA READs and atomics (`initiator` of a [`Profile`];
/// [R4.6](crate::guide::rules#r4-6)).
#[derive(Debug)]
pub enum Reads {}
/// The queue pair does not issue RDMA READs or atomics (`initiator` of a [`Profile`]): its
/// initiator depth is 0 ([R4.6](crate::guide::rules#r4-6)).
#[derive(Debug)]
pub enum NoReads {}

/// [`Reads`] or [`NoReads`] (`max_rd_atomic` of ibv_modify_qp(3)), in a [`Profile`].
pub trait Initiator: sealed::Sealed + 'static {
    /// The initiator depth that RTR -> RTS requires: [`ReadDepth`], or [`NoDepth`].
    type Depth: InitiatorDepth;
}
impl Initiator for Reads {
    type Depth = ReadDepth;
}
impl Initiator for NoReads {
    type Depth = NoDepth;
}

/// Sends are posted with `ibv_post_send` (`posting` of a [`Profile`]).
#[derive(Debug)]
pub enum OrdinaryPosting {}

/// [`OrdinaryPosting`] or [`ExtendedPosting`](crate::ext::extended_posting::ExtendedPosting), in a
/// [`Profile`]: ibv_post_send(3), or ibv_wr_post(3).
pub trait Posting: sealed::Sealed + 'static {
    /// The verb that posts a list.
    #[doc(hidden)]
    type Verb: Verb<Object = ibv_qp, Wr = ibv_send_wr>;

    /// Whether the queue pair is created for sessions.
    #[doc(hidden)]
    const IS_EXTENDED: bool;

    /// Additional operations, beyond the operations of its transport and profile.
    #[doc(hidden)]
    const MORE_OPS: u64 = 0;

    /// Checks that the device has the additional operations among `send_ops`. Providers may create
    /// a queue pair for operations that the device lacks.
    #[doc(hidden)]
    const CHECK: CheckOps = |_, _, _| Ok(());

    /// Explains why a queue pair cannot be created for these operations.
    #[doc(hidden)]
    const WHY_NOT: fn(u64) -> String = |_| String::new();
}

/// A check of a device, for a verb and its `send_ops`.
pub(crate) type CheckOps = fn(&Context, &'static str, u64) -> Result<(), Error>;

impl Posting for OrdinaryPosting {
    type Verb = PostSend;
    const IS_EXTENDED: bool = false;
}

/// How the sends of a queue pair are signaled.
///
/// If a queue pair signals all sends, the provider may deliver the bytes of a short READ with its
/// completion. The poll then copies them to the element's address with the processor (mlx5's
/// "scatter to CQE"; [R18.18](crate::guide::rules#r18-18)). This is wrong for memory that the
/// processor cannot access at that address. So a queue pair whose READs may go to such memory does
/// not set `sq_sig_all`. Each work request sets IBV_SEND_SIGNALED instead.
pub(crate) struct Signals<T, P>(PhantomData<(T, P)>);

impl<T: Transport, P: Profile> Signals<T, P> {
    /// `sq_sig_all` of `ibv_qp_init_attr`.
    pub const SQ_SIG_ALL: bool = P::Signaling::SIG_ALL && !Self::MAY_READ_TO_OPEN;
    /// The flags of each work request.
    pub const EACH: u32 = match P::Signaling::SIG_ALL && Self::MAY_READ_TO_OPEN {
        true => ibv_send_flags::IBV_SEND_SIGNALED.0,
        false => 0,
    };
    /// The default flags of a single work request, and of the last of a list.
    pub const LAST: u32 = Self::EACH | P::Signaling::SIGNAL_LAST;
    /// The same, for a prepared work request without these flags.
    pub const MORE: Option<u32> = if Self::LAST == 0 { None } else { Some(Self::LAST) };

    /// (SRD has READs too, but its provider delivers no bytes with a completion, and signals all.)
    const MAY_READ_TO_OPEN: bool = P::Entry::MAY_BE_OPEN
        && matches!(T::QP_TYPE, ibv_qp_type::IBV_QPT_RC | ibv_qp_type::IBV_QPT_XRC_SEND);
}

impl SendMode for SignalAll {
    type InFlight<E: Entry> = Credits<E>;
    const SIG_ALL: bool = true;
    const SIGNAL_LAST: u32 = 0;
}

impl SendMode for Selective {
    type InFlight<E: Entry> = Ring<E>;
    const SIG_ALL: bool = false;
    const SIGNAL_LAST: u32 = ibv_send_flags::IBV_SEND_SIGNALED.0;
}

pub(crate) mod sealed {
    use super::*;

    pub trait Sealed {}

    macro_rules! sealed {
        ($($t:ty),*) => { $(impl Sealed for $t {})* };
    }

    sealed! {
        OwnRq, SharedRq, NoRq, SignalAll, Selective, Reads, NoReads, OrdinaryPosting
    }
}
