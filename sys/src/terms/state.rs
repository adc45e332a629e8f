//! The states of a queue pair, as types.
//!
//! The type names the state that the program requested last, not the state that the device reports.
//! A device may move a queue pair to the error state by itself; posts then succeed and are flushed
//! (rule R8.15).

use crate::types::ibv_qp_state;

/// RESET, `IBV_QPS_RESET` ([`State`]), after creation or reset: nothing may be posted.
#[derive(Debug)]
pub enum Reset {}
/// INIT, `IBV_QPS_INIT` ([`State`]): receives may be posted; nothing arrives yet.
#[derive(Debug)]
pub enum Init {}
/// RTR, `IBV_QPS_RTR` ([`State`]), ready to receive.
#[derive(Debug)]
pub enum Rtr {}
/// RTS ([`State`]), ready to send, as far as the program knows
/// ([R8.15]).
///
/// [R8.15]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-15
#[derive(Debug)]
pub enum Rts {}
/// SQD while the send queue drains ([`State`], [R8.21]): sends that have begun are finished, later
/// ones are accepted and held ([R8.19]). `into_sqd` continues to SQD.
///
/// [R8.19]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-19
/// [R8.21]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-21
#[derive(Debug)]
pub enum Draining {}
/// SQD ([`State`]), send queue drained: sends are accepted and held ([R8.19]). Attributes can be
/// changed only in this state, and only this state leads back to RTS ([R8.21]).
///
/// [R8.19]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-19
/// [R8.21]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-21
#[derive(Debug)]
pub enum Sqd {}
/// SQE ([`State`]), send queue error (UC and UD). `query` detects this state, and `modify` leaves
/// it ([R8.16]).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::UdReturn;
/// use proverbs::loopback::{Fault, Script};
///
/// # let proverbs::loopback::DatagramPair { fabric, mut a, mut cq, to_b, .. } =
/// #     proverbs::loopback::datagram_pair()?;
/// fabric.inject(Script::default().with(Fault::Fail(WcStatus::LocQpOp).nth(0)));
/// a.post_send(wr::Send::inline(b"hello").to(to_b))?;
/// while cq.poll_one()?.is_none_or(|completion| completion.status().is_ok()) {}
///
/// let a: QueuePair<Ud, Sqe> = a.into_sqe()?; // the device stopped its sends
/// let mut a: QueuePair<Ud, Rts> = a.modify(UdReturn::default())?;
/// a.post_send(wr::Send::inline(b"again").to(to_b))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R8.16]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-16
#[derive(Debug)]
pub enum Sqe {}
/// ERR ([`State`]): everything posted is flushed ([R8.19]).
///
/// [R8.19]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-19
#[derive(Debug)]
pub enum Err {}

/// A state of the queue pair state machine (ibv_modify_qp(3), [R8.1]):
/// the second type parameter of a [`QueuePair`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{qp::{Drain, UcResume}, state::State};
/// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
/// /// Whatever state it is in.
/// fn names<S: State>(_: &QueuePair<Rc, S>) -> &'static str {
///     S::NAME
/// }
/// let qp: QueuePair<Rc, Rts> = a;
/// assert_eq!(names(&qp), "Rts");
/// let qp: QueuePair<Rc, Draining> = qp.modify(Drain::default())?;
/// let qp: QueuePair<Rc, state::Err> = qp.to_error()?;
/// let qp: QueuePair<Rc, Reset> = qp.reset()?;
/// let qp: QueuePair<Rc, Init> =
///     qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// assert_eq!(names(&qp), "Init");
///
/// // On the way to RTS, and what a send error leaves on UC and UD (R8.16):
/// fn ready(qp: QueuePair<Uc, Rtr>) -> Result<QueuePair<Uc, Rts>, proverbs::Error> {
///     Ok(qp.modify(UcRts::new(Psn::try_from(0)?))?)
/// }
/// fn recovered(qp: QueuePair<Uc, Sqe>) -> Result<QueuePair<Uc, Rts>, proverbs::Error> {
///     Ok(qp.modify(UcResume::default())?)
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [R8.1]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-1
/// [`QueuePair`]: https://docs.rs/proverbs/latest/proverbs/struct.QueuePair.html
#[doc(alias = "IBV_QP_CUR_STATE")]
pub trait State: sealed::Sealed + Send + Sync + 'static {
    /// The name of the type, for messages. [`QpState::name`] is the manual pages' name.
    const NAME: &'static str;
    #[doc(hidden)]
    const STATE: QpState;
}

/// A state as a value, for states known only at run time (`enum ibv_qp_state`).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::state::QpState;
/// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
/// assert_eq!(a.query()?.state, Some(QpState::Rts));
/// assert_eq!(QpState::Err.name(), "ERR"); // as the manual pages have it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("IBV_QPS_UNKNOWN", "ibv_qp_state"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpState {
    /// RESET.
    #[doc(alias = "IBV_QPS_RESET")]
    Reset,
    /// INIT.
    #[doc(alias = "IBV_QPS_INIT")]
    Init,
    /// RTR, ready to receive.
    #[doc(alias = "IBV_QPS_RTR")]
    Rtr,
    /// RTS, ready to send.
    #[doc(alias = "IBV_QPS_RTS")]
    Rts,
    /// SQD, send queue drained.
    #[doc(alias = "IBV_QPS_SQD")]
    Sqd,
    /// SQE, send queue error.
    #[doc(alias = "IBV_QPS_SQE")]
    Sqe,
    /// ERR.
    #[doc(alias = "IBV_QPS_ERR")]
    Err,
}

macro_rules! names {
    ($($state:ident = $c:ident, $name:literal;)*) => {
        impl QpState {
            #[doc(hidden)]
            pub fn to_c(self) -> u32 {
                match self {
                    $(QpState::$state => ibv_qp_state::$c,)*
                }
            }

            #[doc(hidden)]
            pub fn from_c(state: u32) -> Option<QpState> {
                match state {
                    $(ibv_qp_state::$c => Some(QpState::$state),)*
                    _ => None,
                }
            }

            /// The name in the manual pages.
            pub fn name(self) -> &'static str {
                match self {
                    $(QpState::$state => $name,)*
                }
            }
        }
    };
}

names! {
    Reset = IBV_QPS_RESET, "RESET";
    Init = IBV_QPS_INIT, "INIT";
    Rtr = IBV_QPS_RTR, "RTR";
    Rts = IBV_QPS_RTS, "RTS";
    Sqd = IBV_QPS_SQD, "SQD";
    Sqe = IBV_QPS_SQE, "SQE";
    Err = IBV_QPS_ERR, "ERR";
}

impl std::fmt::Display for QpState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! states {
    ($($s:ident is $state:ident;)*) => {$(
        impl sealed::Sealed for $s {}
        impl State for $s {
            const NAME: &'static str = stringify!($s);
            const STATE: QpState = QpState::$state;
        }
    )*};
}

states! {
    Reset is Reset;
    Init is Init;
    Rtr is Rtr;
    Rts is Rts;
    Draining is Sqd;
    Sqd is Sqd;
    Sqe is Sqe;
    Err is Err;
}
