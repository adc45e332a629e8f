//! Waiting for the event that completes a step: the effect of each event, and the errors.

use std::time::Duration;

use super::channel::Events;
use super::event::{Event, EventKind};
use super::id::{CmId, Core};
use super::space::Tcp;
use super::state::{Established, Mode};
use super::table::{Meaning, Waiting, meaning};
use crate::sys::wait::end_of;
use crate::terms::error::{Error, ErrorKind, Refused};

/// The effect of an event on an id that waits: the result of each `advance`.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
///
/// /// Waits for a step on a channel that serves only this id.
/// fn resolved(channel: &EventChannel, mut id: CmId<Tcp, ResolvingAddr, OnChannel>)
///     -> Result<CmId<Tcp, AddrResolved, OnChannel>, proverbs::Error>
/// {
///     loop {
///         match id.advance(&channel.wait()?) {
///             Progress::Done(id) => return Ok(id),
///             Progress::Waiting(waiting) => id = waiting,
///             Progress::Failed(refused) => return Err(refused.error),
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub enum Progress<D, W, F> {
    /// The step is done.
    Done(D),
    /// The event belongs to another id or is of another kind. The id still waits.
    Waiting(W),
    /// The step failed.
    Failed(Refused<F>),
}

impl<D, W, F> Progress<D, W, F> {
    /// Adds `kept` to each result.
    pub(super) fn beside<T>(self, kept: T) -> Progress<(D, T), (W, T), (F, T)> {
        match self {
            Progress::Done(done) => Progress::Done((done, kept)),
            Progress::Waiting(waiting) => Progress::Waiting((waiting, kept)),
            Progress::Failed(refused) => Progress::Failed(refused.map(|failed| (failed, kept))),
        }
    }
}

impl<D, W, F> From<Result<D, Refused<F>>> for Progress<D, W, F> {
    fn from(result: Result<D, Refused<F>>) -> Self {
        result.map_or_else(Progress::Failed, Progress::Done)
    }
}

/// A step that waits for an event of its id: a step of a [`CmId`], a [`Pending`](super::Pending) or
/// an [`Accepted`](super::Accepted) connection, or a [`Connection`](super::Connection) until the
/// peer disconnects. Each has `advance`. With the feature `tokio`, `AsyncEventChannel::finish`
/// awaits it.
pub trait Waits: Sized {
    /// The result of the step.
    type Done;
    /// The object that is returned if the step fails.
    type Failed;

    #[doc(hidden)]
    fn awaits(&self) -> Awaited<'_>;

    /// The result of the event that completes the step.
    #[doc(hidden)]
    fn done(self, event: &Event) -> Progress<Self::Done, Self, Self::Failed>;

    /// The result for a step that completes when the connection ends.
    #[doc(hidden)]
    fn ended(self) -> Progress<Self::Done, Self, Self::Failed> {
        Progress::Waiting(self)
    }

    /// Stops waiting.
    #[doc(hidden)]
    fn give_up(self) -> Self::Failed;

    #[doc(hidden)]
    fn step(self, event: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        let Awaited { verb, waiting, core } = self.awaits();
        if event.id().0 != core.id.key() {
            return Progress::Waiting(self);
        }
        match meaning(waiting, event) {
            Meaning::Done => self.done(event),
            Meaning::Fails => Progress::Failed(Refused::new(self.give_up(), failure(verb, event))),
            Meaning::Nothing if waiting.is_for_the_end() => self.look(),
            Meaning::Nothing => Progress::Waiting(self),
        }
    }

    /// The result of events that were taken earlier, perhaps from another channel.
    #[doc(hidden)]
    fn look(self) -> Progress<Self::Done, Self, Self::Failed> {
        let Awaited { verb, waiting, core } = self.awaits();
        if waiting.is_for_the_end() && core.id.seen().is_disconnected() {
            return self.ended();
        }
        match core.end(verb, waiting) {
            None => Progress::Waiting(self),
            Some(error) => Progress::Failed(Refused::new(self.give_up(), error)),
        }
    }
}

/// The step, its id, and the verb to name in errors.
#[doc(hidden)]
pub struct Awaited<'id> {
    pub(super) verb: &'static str,
    pub(super) waiting: Waiting,
    pub(super) core: &'id Core,
}

impl<'id> Awaited<'id> {
    pub(super) fn new(verb: &'static str, waiting: Waiting, core: &'id Core) -> Self {
        Awaited { verb, waiting, core }
    }

    /// Waits for the end of an established connection.
    pub(super) fn of_an_end<M: Mode>(id: &'id CmId<Tcp, Established, M>) -> Self {
        Awaited::new("rdma_get_cm_event", Waiting::End, &id.core)
    }
}

/// Waits for the result, at most `timeout`. The calling thread sleeps.
pub(crate) fn finish<W: Waits>(
    mut begun: W,
    timeout: Duration,
) -> Result<W::Done, Refused<W::Failed>> {
    let Awaited { verb, core, .. } = begun.awaits();
    let mut events = Events::until(core.id.channel(), end_of(Some(timeout)));
    loop {
        let error = match events.next() {
            Ok(Some(event)) => match begun.step(&event) {
                Progress::Done(done) => return Ok(done),
                Progress::Failed(refused) => return Err(refused),
                Progress::Waiting(waiting) => {
                    begun = waiting;
                    continue;
                }
            },
            Ok(None) => Error::new(verb, ErrorKind::TimedOut { after: timeout }),
            Err(error) => error,
        };
        return Err(Refused::new(begun.give_up(), error));
    }
}

/// The error that an event reports.
pub(super) fn failure(verb: &'static str, event: &Event) -> Error {
    let status = event.status();
    let kind = match event.kind() {
        EventKind::Rejected => {
            ErrorKind::Rejected { reason: status, private_data: event.private_data().to_vec() }
        }
        other => ErrorKind::Cm { event: other.name(), status },
    };
    Error::new(verb, kind)
}
