//! A queue pair whose state is a run-time value, for struct fields.

#![allow(unsafe_code)] // moves a value out of a place and back

use std::any::{Any, TypeId};
use std::{fmt, ptr};

use super::modify::Transition;
use super::{Core, DefaultProfile, QpAttr, QueuePair};
use crate::allows::{Allows, call};
use crate::profile::Profile;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Draining, Err, Init, QpState, Reset, Rtr, Rts, Sqd, Sqe, State};
use crate::terms::transport::Transport;

const VERB: &str = "ibv_modify_qp";

/// A queue pair whose state is a run-time value, for a struct field. Transitions happen in place,
/// and a failed transition leaves it unchanged.
///
/// To post, get the typed queue pair with [`as_state`](Self::as_state), or `match` on the variant.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::{qp::AnyQueuePair, state::QpState};
///
/// struct Link {
///     qp: AnyQueuePair<Rc>,
///     cq: CompletionQueue,
/// }
///
/// impl Link {
///     fn greet(&mut self) -> Result<(), Box<dyn std::error::Error>> {
///         let qp = self.qp.as_state::<Rts>().ok_or("not connected")?;
///         Ok(qp.post_send(wr::Send::inline(b"hello"))?)
///     }
///
/// // Back to INIT. The buffers come back, and the next peer can connect.
///     fn hang_up(&mut self) -> Result<(), Box<dyn std::error::Error>> {
///         self.qp.to_error()?;
///         if let AnyQueuePair::Err(qp) = &mut self.qp {
///             qp.drain(&mut self.cq, |_| ())?;
///         }
///         self.qp.reset()?;
///         let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
///         Ok(self.qp.modify(init)?)
///     }
/// }
///
/// # let proverbs::loopback::Pair { a, b: _b, cq, .. } = proverbs::loopback::pair()?;
/// let mut link = Link { qp: a.into(), cq };
/// link.greet()?;
/// link.hang_up()?;
/// assert_eq!(link.qp.state(), QpState::Init);
/// assert!(link.greet().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(clippy::large_enum_variant)] // each is the same queue pair
pub enum AnyQueuePair<T: Transport, P: Profile = DefaultProfile> {
    /// In RESET.
    Reset(QueuePair<T, Reset, P>),
    /// In INIT.
    Init(QueuePair<T, Init, P>),
    /// In RTR.
    Rtr(QueuePair<T, Rtr, P>),
    /// In RTS.
    Rts(QueuePair<T, Rts, P>),
    /// In SQD, while its send queue drains.
    Draining(QueuePair<T, Draining, P>),
    /// In SQD.
    Sqd(QueuePair<T, Sqd, P>),
    /// In SQE.
    Sqe(QueuePair<T, Sqe, P>),
    /// In ERR.
    Err(QueuePair<T, Err, P>),
}

/// `$body` for the queue pair in any state.
macro_rules! each {
    ($any:expr, $qp:ident => $body:expr) => {
        match $any {
            AnyQueuePair::Reset($qp) => $body,
            AnyQueuePair::Init($qp) => $body,
            AnyQueuePair::Rtr($qp) => $body,
            AnyQueuePair::Rts($qp) => $body,
            AnyQueuePair::Draining($qp) => $body,
            AnyQueuePair::Sqd($qp) => $body,
            AnyQueuePair::Sqe($qp) => $body,
            AnyQueuePair::Err($qp) => $body,
        }
    };
}

/// The state of the queue pair's type.
fn state_of<T: Transport, S: State, P: Profile>(_: &QueuePair<T, S, P>) -> (TypeId, QpState) {
    (TypeId::of::<S>(), S::STATE)
}

impl<T: Transport, P: Profile> AnyQueuePair<T, P> {
    /// The state that this program last requested. The device may have changed it since
    /// ([R8.15](crate::guide::rules#r8-15)); see [`query`](Self::query).
    pub fn state(&self) -> QpState {
        each!(self, qp => state_of(qp).1)
    }

    /// The queue pair, if it is in state `S`.
    pub fn as_state<S: State>(&mut self) -> Option<&mut QueuePair<T, S, P>> {
        each!(self, qp => (qp as &mut dyn Any).downcast_mut())
    }

    /// The queue pair, if it is in state `S`.
    ///
    /// # Errors
    /// The queue pair, if it is in another state.
    pub fn into_state<S: State>(self) -> Result<QueuePair<T, S, P>, Self> {
        match self.check_is::<S>() {
            Ok(()) => Ok(each!(self, qp => QueuePair::from_core(qp.core))),
            Result::Err(_) => Result::Err(self),
        }
    }

    /// Moves the queue pair from state `S` with `attr`, like [`QueuePair::modify`]. If only one
    /// state accepts the attributes, the compiler infers `S`: `qp.modify(RcRtr::new(..))`.
    ///
    /// # Errors
    /// The queue pair is unchanged. [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL if it is
    /// not in `S`; otherwise as for [`QueuePair::modify`].
    pub fn modify<S: State, A: Transition<T, S, P>>(&mut self, attr: A) -> Result<(), Error> {
        self.check_is::<S>()?;
        self.core().step::<T, S, A>(&attr)?;
        self.set_state::<A::To>();
        Ok(())
    }

    /// Moves the queue pair to the error state, which flushes all posted work
    /// ([`QueuePair::to_error`]). If it is already in that state, returns `Ok`.
    ///
    /// # Errors
    /// The queue pair is unchanged. [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL in RESET,
    /// which has no transition to ERR ([R8.1](crate::guide::rules#r8-1)); otherwise as for
    /// [`QueuePair::to_error`].
    pub fn to_error(&mut self) -> Result<(), Error> {
        match self {
            AnyQueuePair::Err(_) => Ok(()),
            AnyQueuePair::Reset(_) => {
                let asked = "RESET -> ERR is not a transition: move the queue pair to INIT first";
                Result::Err(Error::os(VERB, libc::EINVAL, asked))
            }
            _ => {
                let from = self.state();
                self.core().move_to(from, QpState::Err)?;
                self.set_state::<Err>();
                Ok(())
            }
        }
    }

    /// Moves the queue pair to RESET ([`QueuePair::reset`]).
    ///
    /// # Errors
    /// As for [`QueuePair::reset`]. The queue pair is unchanged.
    pub fn reset(&mut self) -> Result<(), Error> {
        let from = self.state();
        let rest = self.core().reset(from)?;
        self.set_state::<Reset>();
        // Last, so that if the program's code panics, the queue pair is in RESET.
        rest.give_back();
        Ok(())
    }

    /// Moves from [`Draining`] to [SQD](Sqd), if the device reports that the send queue has drained
    /// ([`QueuePair::into_sqd`]).
    ///
    /// # Errors
    /// The queue pair is unchanged. [`ErrorKind::Os`](crate::ErrorKind::Os) with EAGAIN while it
    /// drains, with EINVAL if it is not in `Draining`; otherwise as for [`QueuePair::into_sqd`].
    pub fn to_sqd(&mut self) -> Result<(), Error> {
        self.check_is::<Draining>()?;
        self.core().has_drained()?;
        self.set_state::<Sqd>();
        Ok(())
    }

    /// Moves from RTS to [SQE](Sqe), if the device reports that state ([`QueuePair::into_sqe`]).
    ///
    /// # Errors
    /// The queue pair is unchanged. [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL if it is
    /// not in RTS; otherwise as for [`QueuePair::into_sqe`].
    pub fn to_sqe(&mut self) -> Result<(), Error>
    where
        Self: Allows<call::IntoSqe>,
    {
        self.check_is::<Rts>()?;
        self.core().is_in(QpState::Sqe)?;
        self.set_state::<Sqe>();
        Ok(())
    }

    /// Returns the current attributes from the device ([`QueuePair::query`]).
    ///
    /// # Errors
    /// As for [`QueuePair::query`].
    pub fn query(&self) -> Result<QpAttr, Error> {
        each!(self, qp => qp.query())
    }

    /// The queue pair number.
    pub fn qp_num(&self) -> u32 {
        each!(self, qp => qp.qp_num())
    }

    /// The number of posted sends that are not known to be complete.
    pub fn sends_outstanding(&self) -> usize {
        each!(self, qp => qp.sends_outstanding())
    }

    /// The number of posted receives that are not known to be complete.
    pub fn recvs_outstanding(&self) -> usize {
        each!(self, qp => qp.recvs_outstanding())
    }

    /// Destroys the queue pair ([`QueuePair::destroy`]).
    ///
    /// # Errors
    /// As for [`QueuePair::destroy`].
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        each!(self, qp => qp.destroy().map_err(|refused| refused.map(Self::from)))
    }

    fn core(&mut self) -> &mut Core<P> {
        each!(self, qp => &mut qp.core)
    }

    fn check_is<S: State>(&self) -> Result<(), Error> {
        if each!(self, qp => state_of(qp).0) == TypeId::of::<S>() {
            return Ok(());
        }
        let asked =
            format!("the transition starts in {}, the queue pair is in {}", S::STATE, self.state());
        Result::Err(Error::os(VERB, libc::EINVAL, asked))
    }

    /// Records that the queue pair was moved to state `To`.
    fn set_state<To: State>(&mut self) {
        // SAFETY: the value is read once and written once. In between it is only moved, which
        // cannot panic.
        unsafe {
            let core = each!(ptr::read(self), qp => qp.core);
            ptr::write(self, QueuePair::<T, To, P>::from_core(core).into());
        }
    }
}

impl<T: Transport, S: State, P: Profile> From<QueuePair<T, S, P>> for AnyQueuePair<T, P> {
    fn from(qp: QueuePair<T, S, P>) -> Self {
        macro_rules! into {
            ($($state:ident)*) => {
                match TypeId::of::<S>() {
                    $(id if id == TypeId::of::<$state>() => {
                        AnyQueuePair::$state(QueuePair::from_core(qp.core))
                    })*
                    _ => unreachable!("`State` is sealed"),
                }
            };
        }
        into!(Reset Init Rtr Rts Draining Sqd Sqe Err)
    }
}

impl<T: Transport, P: Profile> fmt::Debug for AnyQueuePair<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each!(self, qp => qp.fmt(f))
    }
}
