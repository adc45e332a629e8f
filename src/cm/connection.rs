//! Connections and how they end.

#![allow(unsafe_code)] // one call that needs a device

use std::time::{Duration, Instant};

use super::channel::{EventChannel, Events};
use super::event::{Event, PeerParam};
use super::id::CmId;
use super::space::{PortSpace, Tcp};
use super::state::{
    Accepting, CmState, Disconnected, Established, HasDevice, Mode, OnChannel, Synchronous,
    Unusable, WaitsInCalls,
};
use super::table::Waiting;
use super::waits::{Awaited, Progress, Waits};
use crate::allows::{Allows, call};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::state::{Err, Rts};
use crate::terms::transport::Rc;

const WAIT: &str = "rdma_get_cm_event";

/// A connection: an id and the queue pair that it connected.
///
/// You can take the two apart and use them on different threads. Dropping a connection destroys the
/// queue pair, then the id, which notifies the peer. To end it in order, call
/// [`disconnect`](Self::disconnect).
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// fn end(connection: Connection, cq: &mut CompletionQueue) -> Result<(), proverbs::Error> {
///     println!("the peer {:?} said {:?}", connection.peer, connection.private_data);
///     let mut ended = connection.disconnect()?;
///     ended.qp.drain(cq, |_| ())?; // returns every buffer, whatever the peer does
///     ended.qp.destroy()?;
///     ended.id.wait_disconnected(Duration::from_secs(1))?; // the peer confirms
///     Ok(ended.id.destroy()?)
/// }
/// ```
pub struct Connection<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The queue pair, in RTS.
    pub qp: QueuePair<Rc, Rts, P>,
    /// The id.
    pub id: CmId<Tcp, Established, M>,
    /// The peer's parameters.
    pub peer: PeerParam,
    /// The private data of the peer's request or answer, possibly padded with zeroes
    /// ([R16.15](crate::guide::rules#r16-15)).
    pub private_data: Vec<u8>,
}

/// A connection after this side disconnected.
pub struct Ended<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The queue pair, in the error state. [`drain`](QueuePair::drain) returns every buffer.
    pub qp: QueuePair<Rc, Err, P>,
    /// The id, whose last event is [`EventKind::Disconnected`](super::EventKind::Disconnected).
    pub id: CmId<Tcp, Disconnected, M>,
}

impl<P: Profile, M: Mode> Connection<P, M> {
    /// Disconnects, or confirms that the peer disconnected (`rdma_disconnect`). Both sides have to
    /// call it ([R16.20](crate::guide::rules#r16-20)), even after the device was removed. The queue
    /// pair moves to the error state, in which posted work requests are flushed.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_disconnect`. The error contains the
    /// connection, unchanged.
    #[doc(alias = "rdma_disconnect")]
    pub fn disconnect(self) -> Result<Ended<P, M>, Refused<Self>> {
        let Connection { qp, id, peer, private_data } = self;
        match id.disconnect() {
            Ok(id) => Ok(Ended { qp: qp.give_up(), id }),
            Err(refused) => Err(refused.map(|id| Connection { qp, id, peer, private_data })),
        }
    }

    /// Moves the connection's id to `channel`, with its pending events (`rdma_migrate_id`).
    /// Disconnection is then an event of that channel.
    ///
    /// # Errors
    /// As for [`CmId::migrate_to`]. The error contains the connection.
    #[doc(alias = "rdma_migrate_id")]
    pub fn migrate_to(
        self,
        channel: &EventChannel,
    ) -> Result<Connection<P, OnChannel>, Refused<Self>> {
        self.migrate(|id| id.migrate_to(channel))
    }

    /// Makes the connection's id synchronous (`rdma_migrate_id` without a channel).
    ///
    /// # Errors
    /// As for [`CmId::into_synchronous`]. The error contains the connection.
    pub fn into_synchronous(self) -> Result<Connection<P>, Refused<Self>> {
        self.migrate(CmId::into_synchronous)
    }

    #[allow(clippy::type_complexity)]
    fn migrate<To: Mode>(
        self,
        migrate: impl FnOnce(
            CmId<Tcp, Established, M>,
        )
            -> Result<CmId<Tcp, Established, To>, Refused<CmId<Tcp, Established, M>>>,
    ) -> Result<Connection<P, To>, Refused<Self>> {
        let Connection { qp, id, peer, private_data } = self;
        match migrate(id) {
            Ok(id) => Ok(Connection { qp, id, peer, private_data }),
            Err(refused) => Err(refused.map(|id| Connection { qp, id, peer, private_data })),
        }
    }
}

impl<P: Profile> Connection<P, OnChannel> {
    /// Processes an event of this id. If the peer disconnected, this side confirms, like
    /// [`disconnect`](Self::disconnect). The [table](super#events) lists the effects of other
    /// events.
    ///
    /// [`Progress::Failed`] contains the connection, unchanged, and one of these errors:
    /// - [`Cm`](ErrorKind::Cm): the connection broke, or the device is being removed.
    ///   [`disconnect`](Self::disconnect) then ends it without the peer.
    /// - The error of [`disconnect`](Self::disconnect).
    ///
    /// ```
    /// use proverbs::{cm::*, loopback::Fabric, prelude::*};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ConnectedPair { fabric, mut cq, a, b, .. } = loopback_pair()?;
    /// let channel = EventChannel::on(&fabric)?; // or `EventChannel::new()`
    /// let mut connection = b.migrate_to(&channel)?;
    /// let a = a.disconnect()?;
    /// let mut ended: Ended<_, OnChannel> = loop {
    ///     match connection.advance(&channel.wait()?) {
    ///         Progress::Done(ended) => break ended,
    ///         Progress::Waiting(waiting) => connection = waiting,
    ///         Progress::Failed(refused) => return Err(refused.error.into()),
    ///     }
    /// };
    /// ended.qp.drain(&mut cq, |_| ())?;
    /// # drop(a);
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(self, event: &Event) -> Progress<Ended<P, OnChannel>, Self, Self> {
        self.step(event)
    }
}

impl<P: Profile, M: Mode> Waits for Connection<P, M> {
    type Done = Ended<P, M>;
    type Failed = Self;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::of_an_end(&self.id)
    }

    fn done(self, _: &Event) -> Progress<Self::Done, Self, Self> {
        self.ended()
    }

    /// This side confirms the disconnection.
    fn ended(self) -> Progress<Self::Done, Self, Self> {
        self.disconnect().into()
    }

    fn give_up(self) -> Self {
        self
    }
}

impl CmId<Tcp, Disconnected, OnChannel> {
    /// Processes an event of this id. After the peer's confirmation, the id can only be destroyed.
    /// If the peer disconnected first ([`Connection::advance`]), there is nothing to wait for.
    ///
    /// [`Progress::Failed`] contains [`Cm`](ErrorKind::Cm) if the peer cannot confirm, or the
    /// device is being removed.
    ///
    /// ```
    /// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// # let ConnectedPair { fabric, a, b, .. } = loopback_pair()?;
    /// # let channel = EventChannel::on(&fabric)?;
    /// let mut id = a.migrate_to(&channel)?.disconnect()?.id;
    /// # b.disconnect()?; // the peer
    /// let over: CmId<Tcp, Unusable, _> = loop {
    ///     match id.advance(&channel.wait()?) {
    ///         Progress::Done(over) => break over,
    ///         Progress::Waiting(waiting) => id = waiting,
    ///         Progress::Failed(refused) => return Err(refused.error.into()),
    ///     }
    /// };
    /// over.destroy()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<CmId<Tcp, Unusable, OnChannel>, Self, CmId<Tcp, Unusable, OnChannel>> {
        self.step(event)
    }
}

impl<M: Mode> Waits for CmId<Tcp, Disconnected, M> {
    type Done = CmId<Tcp, Unusable, M>;
    type Failed = CmId<Tcp, Unusable, M>;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::new(WAIT, Waiting::Confirmation, &self.core)
    }

    fn done(self, _: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        self.ended()
    }

    fn ended(self) -> Progress<Self::Done, Self, Self::Failed> {
        Progress::Done(self.to())
    }

    fn give_up(self) -> Self::Failed {
        self.to()
    }
}

impl<M: Mode> CmId<Tcp, Established, M> {
    /// Like [`Connection::disconnect`], for a connection whose queue pair was moved out
    /// (`rdma_disconnect`). Move the queue pair to the error state yourself.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_disconnect`. The error contains the id,
    /// unchanged.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(connection: Connection) -> Result<(), proverbs::Error> {
    /// let Connection { id, qp, .. } = connection; // perhaps on two threads
    /// let id = id.disconnect()?;
    /// let qp = qp.to_error()?;
    /// # drop((id, qp));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rdma_disconnect")]
    pub fn disconnect(mut self) -> Result<CmId<Tcp, Disconnected, M>, Refused<Self>> {
        // SAFETY: in this state the id has a device.
        let disconnected = unsafe { self.core.id.disconnect() };
        or_refused!(self, disconnected.map_err(|errno| Error::os("rdma_disconnect", errno, "")));
        Ok(self.to())
    }
}

impl<S: CmState, M: Mode> CmId<Tcp, S, M> {
    /// Notifies rdma_cm that a message arrived before the peer's confirmation (`rdma_notify` with
    /// COMM_EST, an event of the queue pair). The message counts as the confirmation: the
    /// connection is established. The id comes from an [`Accepted`](super::Accepted).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_notify`; EISCONN if the peer has
    /// confirmed already.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// use proverbs::device::{DeviceEvent, QpEvent};
    /// # fn example(accepted: &Accepted, event: DeviceEvent) -> Result<(), proverbs::Error> {
    /// if let DeviceEvent::Qp { event: QpEvent::CommunicationEstablished, .. } = event {
    ///     accepted.id().notify_established()?; // ESTABLISHED follows, for `advance`
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rdma_notify")]
    pub fn notify_established(&self) -> Result<(), Error>
    where
        Self: Allows<call::NotifyEstablished>,
    {
        self.core.id.notify_comm_est().map_err(|errno| Error::os("rdma_notify", errno, "COMM_EST"))
    }
}

/// States after accepting a request, in which [`notify_established`](CmId::notify_established) can
/// replace the peer's confirmation ([R16.1](crate::guide::rules#r16-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` does not wait for a confirmation",
    label = "this id is in state `{Self}`",
    note = "accept a request first: `Accepted::id`"
)]
pub trait HasAnswered: HasDevice {}
impl HasAnswered for Accepting {}
impl HasAnswered for Established {}

/// States that end with a DISCONNECTED event, for which
/// [`wait_disconnected`](CmId::wait_disconnected) waits ([R16.1](crate::guide::rules#r16-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` is not connected, so it cannot be disconnected",
    label = "this id is in state `{Self}`",
    note = "connect or accept first"
)]
pub trait Disconnects: CmState {}
impl Disconnects for Established {}
impl Disconnects for Disconnected {}

allows! {
    [S: HasAnswered, M: Mode] CmId<Tcp, S, M>: NotifyEstablished;
    [S: Disconnects, M: WaitsInCalls] CmId<Tcp, S, M>: WaitDisconnected;
    [S: Disconnects] CmId<Tcp, S, OnChannel>: Disconnected;
}

impl<S: CmState, M: Mode> CmId<Tcp, S, M> {
    /// Waits until the connection has ended, at most `timeout`. It ends when the peer disconnects,
    /// or confirms this side's [`disconnect`](Connection::disconnect). Later calls return at once.
    ///
    /// # Errors
    /// - [`TimedOut`](ErrorKind::TimedOut): the connection has not ended.
    /// - [`Cm`](ErrorKind::Cm): the connection broke, or the device is being removed. The error
    ///   names the event, such as UNREACHABLE. Later calls return it at once.
    /// - [`Os`](ErrorKind::Os) with the errno of `rdma_get_cm_event` or poll(2).
    pub fn wait_disconnected(&mut self, timeout: Duration) -> Result<(), Error>
    where
        Self: Allows<call::WaitDisconnected>,
    {
        let deadline = Instant::now().checked_add(timeout);
        let mut events = Events::until(self.core.id.channel(), deadline);
        // Events are recorded in the id when they are taken, perhaps from another channel.
        while !self.core.id.seen().is_disconnected() {
            if let Some(error) = self.core.end(WAIT, Waiting::End) {
                return Err(error);
            }
            if events.next()?.is_none() {
                return Err(Error::new(WAIT, ErrorKind::TimedOut { after: timeout }));
            }
        }
        Ok(())
    }

    /// Takes the pending events, and returns whether the connection has ended. Never sleeps.
    ///
    /// ```
    /// # use proverbs::{cm::*, prelude::*};
    /// # let ConnectedPair { a, mut b, .. } = loopback_pair()?;
    /// assert!(!b.id.is_disconnected()?);
    /// a.disconnect()?;
    /// assert!(b.id.is_disconnected()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait_disconnected`](Self::wait_disconnected), except that a connection that has not
    /// ended is not an error.
    pub fn is_disconnected(&mut self) -> Result<bool, Error>
    where
        Self: Allows<call::WaitDisconnected>,
    {
        match self.wait_disconnected(Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl_debug!([P: Profile, M: Mode] Connection<P, M>, |it| "Connection({:?}, {:?})", it.id, it.qp);

impl_debug!([P: Profile, M: Mode] Ended<P, M>, |it| "Ended({:?}, {:?})", it.id, it.qp);

/// Checks at compile time that connected ids have a device, which `disconnect` requires.
const _: fn() = || {
    fn has_device<PS: PortSpace, S: HasDevice>() {}
    has_device::<Tcp, Established>();
};
