//! What is fixed when a queue pair is created, and decides what compiles.

use crate::bounded::ReadDepth;
use crate::entry::Entry;
use crate::limits::{Limit, Max};

/// Everything about a queue pair that is fixed at creation besides its transport (`struct ibv_qp_init_attr` of
/// ibv_create_qp(3)).
///
/// A profile is a name for a set of choices: implement it for an empty type of your own, or let
/// [`profile!`](crate::profile!) do so with defaults. Depths are numbers at run time.
///
/// ```
/// # use proverbs::*;
/// /// Streams WRITEs out of up to four buffers, and never reads.
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
/// }
///
/// /// A library that takes any profile says what it needs of it.
/// fn limits<P: Profile<Receive: ReceiveSource, Signaling: Signaling, Initiator: Initiator>>() -> (u32, u32) {
///     (P::MaxSendSge::VALUE, P::MaxInline::VALUE)
/// }
/// assert_eq!(limits::<Stream>(), (4, 128));
/// assert_eq!(limits::<DefaultProfile>(), (1, 64));
/// ```
///
/// The same by [`profile!`](crate::profile!), which knows the defaults:
///
/// ```
/// # use proverbs::*;
/// profile! { Stream { signaling: Selective, max_send_sge: 4, max_inline: 128, initiator: NoReads, entry: BufList } }
/// profile! { Reader { receive: OwnRq, signaling: SignalAll, initiator: Reads } } // as they are anyway
/// profile! { Server { receive: SharedRq } }
/// ```
pub trait Profile: 'static {
    /// [`OwnRq`] or [`SharedRq`].
    type Receive: ReceiveSource;
    /// [`SignalAll`] or [`Selective`].
    type Signaling: Signaling;
    /// Most scatter/gather elements of a send, `Max<N>`.
    type MaxSendSge: Limit;
    /// Most scatter/gather elements of a receive, `Max<N>`.
    type MaxRecvSge: Limit;
    /// Most bytes of an inline send, `Max<N>`.
    type MaxInline: Limit;
    /// [`Reads`] or [`NoReads`].
    type Initiator: Initiator;
    /// What moves to the device with a work request and comes back with its completion.
    type Entry: Entry;
}

/// One buffer a work request, every send signaled, an own receive queue, 64 bytes inline: the [`Profile`] of a
/// queue pair whose type names none (ibv_create_qp(3)).
pub enum DefaultProfile {}

impl Profile for DefaultProfile {
    type Receive = OwnRq;
    type Signaling = SignalAll;
    type MaxSendSge = Max<1>;
    type MaxRecvSge = Max<1>;
    type MaxInline = Max<64>;
    type Initiator = Reads;
    type Entry = crate::Buf;
}

/// Names a [`Profile`], what is fixed by ibv_create_qp(3): what is not said is as in [`DefaultProfile`].
///
/// ```
/// use proverbs::{profile, Selective, SharedRq};
/// profile! {
///     /// Unsignaled sends and receives from a shared queue.
///     pub Busy { receive: SharedRq, signaling: Selective, max_send_sge: 4, max_inline: 128 }
/// }
/// ```
#[macro_export]
macro_rules! profile {
    ($(#[$doc:meta])* $vis:vis $name:ident { $($key:ident : $value:tt $(< $($arg:ty),* >)?),* $(,)? }) => {
        $(#[$doc])*
        $vis enum $name {}
        impl $crate::Profile for $name {
            type Receive = $crate::__profile!(receive [$($key: $value $(< $($arg),* >)?,)*]);
            type Signaling = $crate::__profile!(signaling [$($key: $value $(< $($arg),* >)?,)*]);
            type MaxSendSge = $crate::__profile!(max_send_sge [$($key: $value $(< $($arg),* >)?,)*]);
            type MaxRecvSge = $crate::__profile!(max_recv_sge [$($key: $value $(< $($arg),* >)?,)*]);
            type MaxInline = $crate::__profile!(max_inline [$($key: $value $(< $($arg),* >)?,)*]);
            type Initiator = $crate::__profile!(initiator [$($key: $value $(< $($arg),* >)?,)*]);
            type Entry = $crate::__profile!(entry [$($key: $value $(< $($arg),* >)?,)*]);
        }
    };
}

/// Finds one key of a profile, or its default.
#[doc(hidden)]
#[macro_export]
macro_rules! __profile {
    (receive [receive: $v:tt $(< $($a:ty),* >)?, $($rest:tt)*]) => { $v $(< $($a),* >)? };
    (signaling [signaling: $v:tt $(< $($a:ty),* >)?, $($rest:tt)*]) => { $v $(< $($a),* >)? };
    (initiator [initiator: $v:tt $(< $($a:ty),* >)?, $($rest:tt)*]) => { $v $(< $($a),* >)? };
    (entry [entry: $v:tt $(< $($a:ty),* >)?, $($rest:tt)*]) => { $v $(< $($a),* >)? };
    (max_send_sge [max_send_sge: $v:tt, $($rest:tt)*]) => { $crate::Max<$v> };
    (max_recv_sge [max_recv_sge: $v:tt, $($rest:tt)*]) => { $crate::Max<$v> };
    (max_inline [max_inline: $v:tt, $($rest:tt)*]) => { $crate::Max<$v> };
    ($k:ident [$other:ident : $v:tt $(< $($a:ty),* >)?, $($rest:tt)*]) => {
        $crate::__profile!($k [$($rest)*])
    };
    (receive []) => { $crate::OwnRq };
    (signaling []) => { $crate::SignalAll };
    (max_send_sge []) => { $crate::Max<1> };
    (max_recv_sge []) => { $crate::Max<1> };
    (max_inline []) => { $crate::Max<64> };
    (initiator []) => { $crate::Reads };
    (entry []) => { $crate::Buf };
}

/// Receives come from the queue pair's own receive queue (`receive` of a [`Profile`]; R7.2).
pub enum OwnRq {}
/// Receives come from a shared receive queue (`receive` of a [`Profile`]): `post_recv` does not exist (R7.1).
pub enum SharedRq {}

/// [`OwnRq`] or [`SharedRq`] (`srq` of ibv_create_qp(3)), in a [`Profile`].
pub trait ReceiveSource: sealed::Sealed + 'static {}
impl ReceiveSource for OwnRq {}
impl ReceiveSource for SharedRq {}

/// Every send completes (`sq_sig_all` of ibv_create_qp(3); `signaling` of a [`Profile`]): there is no `.signaled()` to write.
pub enum SignalAll {}
/// A send completes when it, or the list that it ends, asks for it (`signaling` of a [`Profile`]; R2.4).
pub enum Selective {}

/// [`SignalAll`] or [`Selective`] (`sq_sig_all` of ibv_create_qp(3)), in a [`Profile`].
pub trait Signaling: sealed::Sealed + crate::in_flight::SendMode + 'static {}
impl Signaling for SignalAll {}
impl Signaling for Selective {}

/// The queue pair issues RDMA READs and atomics (`initiator` of a [`Profile`]; R4.6).
pub enum Reads {}
/// The queue pair issues none (`initiator` of a [`Profile`]): its initiator depth is 0 (R4.6).
pub enum NoReads {}

/// [`Reads`] or [`NoReads`] (`max_rd_atomic` of ibv_modify_qp(3)), in a [`Profile`].
pub trait Initiator: sealed::Sealed + 'static {
    /// The initiator depth that RTR -> RTS needs: [`ReadDepth`], or nothing to say.
    type Depth: InitiatorDepth;
}
impl Initiator for Reads {
    type Depth = ReadDepth;
}
impl Initiator for NoReads {
    type Depth = NoDepth;
}

/// The initiator depth of a queue pair without reads: 0 (R4.6), an [`InitiatorDepth`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoDepth;

/// [`ReadDepth`] or [`NoDepth`] (`max_rd_atomic` of ibv_modify_qp(3); R4.6).
///
/// ```
/// # use proverbs::*;
/// /// RTR -> RTS, whatever the profile says of reads.
/// fn ready<P: Profile>(
///     qp: QueuePair<Rc, Rtr, P>,
///     depth: <P::Initiator as Initiator>::Depth,
/// ) -> Result<QueuePair<Rc, Rts, P>, VerbsError> {
///     fn show(depth: impl InitiatorDepth) {
///         println!("{depth:?}");
///     }
///     show(depth);
///     Ok(qp.modify(RcRts::new(Psn::try_from(0)?, depth))?)
/// }
/// profile! { Writer { initiator: NoReads } }
/// let _ = |qp| ready::<Writer>(qp, NoDepth);
/// let _ = |qp| ready::<DefaultProfile>(qp, ReadDepth::ONE);
/// ```
pub trait InitiatorDepth: Copy + std::fmt::Debug + sealed::Sealed {
    /// The least that there is: 1, or nothing.
    #[doc(hidden)]
    const LEAST: Self;

    #[doc(hidden)]
    fn to_c(self) -> u8;
    /// From the number that both sides agreed on; `None` if it is too small for this profile.
    #[doc(hidden)]
    fn from_agreed(depth: u8) -> Option<Self>;
}
impl InitiatorDepth for ReadDepth {
    const LEAST: Self = ReadDepth::ONE;

    fn to_c(self) -> u8 {
        self.get()
    }

    fn from_agreed(depth: u8) -> Option<Self> {
        ReadDepth::new(depth)
    }
}
impl InitiatorDepth for NoDepth {
    const LEAST: Self = NoDepth;

    fn to_c(self) -> u8 {
        0
    }

    fn from_agreed(_: u8) -> Option<Self> {
        Some(NoDepth)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::OwnRq {}
    impl Sealed for super::SharedRq {}
    impl Sealed for super::SignalAll {}
    impl Sealed for super::Selective {}
    impl Sealed for super::Reads {}
    impl Sealed for super::NoReads {}
    impl Sealed for super::ReadDepth {}
    impl Sealed for super::NoDepth {}
}
