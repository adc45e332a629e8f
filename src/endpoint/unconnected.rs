//! Why connecting failed, and the queue pair that is left.

use std::fmt;

use super::Service;
use super::exchange::ExchangeError;
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::terms::error::{Error, Refused};
use crate::terms::state::{Init, Rtr, Rts};
use crate::terms::transport::Rc;

/// A queue pair that could not be connected, in the state that it reached.
///
/// `?` in a function that returns [`ConnectError`] keeps the error and drops the queue pair.
pub enum Stage<P: Profile> {
    /// It is unchanged.
    Init(QueuePair<Rc, Init, P>),
    /// It can receive from the peer.
    Rtr(QueuePair<Rc, Rtr, P>),
    /// It is connected, but the peer may not be.
    Rts(QueuePair<Rc, Rts, P>),
}

/// Why connecting failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The peer's endpoint was not received.
    Exchange(ExchangeError),
    /// The peer has another transport.
    NotRc(Service),
    /// This side's profile issues reads, but the peer serves none
    /// ([R4.6](crate::guide::rules#r4-6), [R4.8](crate::guide::rules#r4-8)).
    NoReads,
    /// A verbs call failed.
    Verbs(Error),
    /// The peer received this side's endpoint and refused to connect.
    PeerRefused,
    /// The peer's last message is neither "ready" nor "refused".
    NoVerdict([u8; 4]),
}

impl From<ExchangeError> for ConnectError {
    fn from(error: ExchangeError) -> Self {
        ConnectError::Exchange(error)
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        ConnectError::Verbs(error)
    }
}

impl<P: Profile> From<Refused<Stage<P>, ConnectError>> for ConnectError {
    fn from(refused: Refused<Stage<P>, ConnectError>) -> Self {
        refused.error
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Exchange(error) => error.fmt(f),
            ConnectError::NotRc(service) => {
                write!(f, "an RC queue pair cannot connect to the peer's {service:?}")
            }
            ConnectError::NoReads => f.write_str(
                "the peer serves no reads or atomics (its responder depth is 0): \
                 use a profile with `initiator: NoReads`",
            ),
            ConnectError::Verbs(error) => error.fmt(f),
            ConnectError::PeerRefused => f.write_str("the peer refused to connect"),
            ConnectError::NoVerdict(word) => {
                let word = word.escape_ascii();
                write!(f, "the peer sent \"{word}\" instead of a verdict (pvok or pvno)")
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Exchange(error) => Some(error),
            ConnectError::Verbs(error) => Some(error),
            _ => None,
        }
    }
}

impl<P: Profile> fmt::Debug for Stage<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Init(qp) => qp.fmt(f),
            Stage::Rtr(qp) => qp.fmt(f),
            Stage::Rts(qp) => qp.fmt(f),
        }
    }
}
