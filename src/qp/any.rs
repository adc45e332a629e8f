//! A queue pair whose state is known at run time, for fields of structs.

#![allow(unsafe_code)] // moves a value out of a place and back

use std::any::{Any, TypeId};
use std::{fmt, mem, process, ptr};

use super::modify::Transition;
use super::query::QpAttr;
use super::{DefaultProfile, QueuePair};
use crate::profile::Profile;
use crate::rules::StopsSending;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Draining, Err, Init, QpState, Reset, Rtr, Rts, Sqd, Sqe, State};
use crate::terms::transport::Transport;

const VERB: &str = "ibv_modify_qp";

/// A queue pair in whichever state this program moved it to, for a field of a struct: transitions
/// happen in place, and a refused one leaves it as it was.
///
/// Posting needs the state: [`as_state`](Self::as_state), or a `match`.
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
///     /// Back to INIT: what was posted comes home, and the next peer may come.
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
    /// The state that this program moved it to. The device may have moved it on since
    /// ([R8.15](crate::guide::rules#r8-15)): [`query`](Self::query).
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
    /// It is given back if it is in another one.
    pub fn into_state<S: State>(self) -> Result<QueuePair<T, S, P>, Self> {
        match each!(&self, qp => state_of(qp).0 == TypeId::of::<S>()) {
            true => Ok(each!(self, qp => QueuePair::from_core(qp.core))),
            false => Result::Err(self),
        }
    }

    /// Moves the queue pair from state `S` by `attr`, as [`QueuePair::modify`] does. Where the
    /// attributes lead on from one state only, `S` may be left to the compiler:
    /// `qp.modify(RcRtr::new(..))`.
    ///
    /// # Errors
    /// It is as it was: [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL if it is not in `S`,
    /// and otherwise as for [`QueuePair::modify`].
    pub fn modify<S: State, A: Transition<T, S, P>>(&mut self, attr: A) -> Result<(), Error> {
        self.step::<S, _>(|qp| Ok((qp.modify(attr)?.into(), ())))
    }

    /// Moves the queue pair to the error state, where everything posted is flushed
    /// ([`QueuePair::to_error`]). In that state it stays.
    ///
    /// # Errors
    /// It is as it was: [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL in RESET, which has no
    /// way to it ([R8.1](crate::guide::rules#r8-1)), and otherwise as for [`QueuePair::to_error`].
    pub fn to_error(&mut self) -> Result<(), Error> {
        macro_rules! from {
            ($($state:ident)*) => {
                match self {
                    $(AnyQueuePair::$state(_) => {
                        self.step::<$state, _>(|qp| Ok((qp.to_error()?.into(), ())))
                    })*
                    AnyQueuePair::Err(_) => Ok(()),
                    AnyQueuePair::Reset(_) => {
                        let asked = "RESET -> ERR, which is no transition: move it to INIT first";
                        Result::Err(Error::os(VERB, libc::EINVAL, asked))
                    }
                }
            };
        }
        from!(Init Rtr Rts Draining Sqd Sqe)
    }

    /// Moves the queue pair to RESET, and gives the entries that its ring still held
    /// ([`QueuePair::reset`]).
    ///
    /// # Errors
    /// It is as it was, as for [`QueuePair::reset`].
    pub fn reset(&mut self) -> Result<Vec<P::Entry>, Error> {
        macro_rules! from {
            ($($state:ident)*) => {
                match self {
                    $(AnyQueuePair::$state(_) => self.step::<$state, _>(|qp| {
                        let (qp, entries, rest) = qp.reset_alone()?;
                        Ok((qp.into(), (entries, rest)))
                    })?,)*
                }
            };
        }
        let (entries, rest) = from!(Reset Init Rtr Rts Draining Sqd Sqe Err);
        // In its place again, so that a panic of the program's leaves a queue pair in RESET.
        rest.send_home();
        Ok(entries)
    }

    /// From [`Draining`] to [SQD](Sqd), if the device reports that the send queue has drained
    /// ([`QueuePair::into_sqd`]).
    ///
    /// # Errors
    /// It is as it was: [`ErrorKind::Os`](crate::ErrorKind::Os) with EAGAIN while it drains, with
    /// EINVAL if it is not in `Draining`, and otherwise as for [`QueuePair::into_sqd`].
    pub fn to_sqd(&mut self) -> Result<(), Error> {
        self.step::<Draining, _>(|qp| Ok((qp.into_sqd()?.into(), ())))
    }

    /// From RTS to [SQE](Sqe), if the device reports that state ([`QueuePair::into_sqe`]).
    ///
    /// # Errors
    /// It is as it was: [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL if it is not in RTS,
    /// and otherwise as for [`QueuePair::into_sqe`].
    pub fn to_sqe(&mut self) -> Result<(), Error>
    where
        T: StopsSending,
    {
        self.step::<Rts, _>(|qp| Ok((qp.into_sqe()?.into(), ())))
    }

    /// The attributes that the device reports now ([`QueuePair::query`]).
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

    /// The number of sends posted and not known to be complete.
    pub fn sends_outstanding(&self) -> usize {
        each!(self, qp => qp.sends_outstanding())
    }

    /// The number of receives posted and not known to be complete.
    pub fn recvs_outstanding(&self) -> usize {
        each!(self, qp => qp.recvs_outstanding())
    }

    /// Destroys the queue pair ([`QueuePair::destroy`]).
    ///
    /// # Errors
    /// As for [`QueuePair::destroy`].
    pub fn destroy(self) -> Result<Vec<P::Entry>, Refused<Self>> {
        each!(self, qp => qp.destroy().map_err(|refused| refused.map(Self::from)))
    }

    /// Takes the queue pair through `transition`, if it is in state `S`, and puts back what comes
    /// of it.
    #[allow(clippy::type_complexity)]
    fn step<S: State, R>(
        &mut self,
        transition: impl FnOnce(QueuePair<T, S, P>) -> Result<(Self, R), Refused<QueuePair<T, S, P>>>,
    ) -> Result<R, Error> {
        in_place(self, |any| match any.into_state::<S>() {
            Ok(qp) => match transition(qp) {
                Ok((qp, result)) => (qp, Ok(result)),
                Result::Err(refused) => {
                    let (qp, error) = refused.into_parts();
                    (qp.into(), Result::Err(error))
                }
            },
            Result::Err(any) => {
                let asked = format!("a step from {} of a queue pair in {}", S::STATE, any.state());
                (any, Result::Err(Error::os(VERB, libc::EINVAL, asked)))
            }
        })
    }
}

/// Replaces the value of `place` by what `change` makes of it. If that panics, the process ends: so
/// no code of the program's runs in it.
fn in_place<V, R>(place: &mut V, change: impl FnOnce(V) -> (V, R)) -> R {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            process::abort();
        }
    }
    let abort = Abort;
    // SAFETY: `place` is read once and written once before anyone sees it again: `change` cannot
    // reach what is borrowed here, and a panic ends the process.
    let result = unsafe {
        let (value, result) = change(ptr::read(place));
        ptr::write(place, value);
        result
    };
    mem::forget(abort);
    result
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::in_place;

    const INSIDE: &str = "PROVERBS_TEST_PANIC_IN_PLACE";

    #[test]
    fn a_value_is_replaced_in_its_place() {
        let mut place = 5;
        assert_eq!((in_place(&mut place, |value| (value + 1, "done")), place), ("done", 6));
    }

    /// Run by the next test, in a process of its own.
    #[test]
    #[ignore = "ends its process"]
    fn panics_in_place() {
        if std::env::var_os(INSIDE).is_some() {
            let _ = std::panic::catch_unwind(|| {
                in_place::<i32, ()>(&mut 5, |_| panic!("without a value"))
            });
        }
    }

    /// A value that was moved out and not put back would be dropped twice.
    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn a_panic_without_a_value_ends_the_process() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["qp::any::tests::panics_in_place", "--exact", "--ignored", "--quiet"])
            .env(INSIDE, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert_eq!(status.unwrap().signal(), Some(libc::SIGABRT));
    }
}
