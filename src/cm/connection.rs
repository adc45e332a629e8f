//! Connections, and their end.

#![allow(unsafe_code)] // one call that needs a device

use std::fmt;
use std::time::{Duration, Instant};

use super::channel::Events;
use super::event::PeerParam;
use super::id::CmId;
use super::space::{PortSpace, Tcp};
use super::state::{
    CmState, Disconnected, Established, HasDevice, Mode, Synchronous, WaitsInCalls,
};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::state::{Err, Rts};
use crate::terms::transport::Rc;

/// A connection: an id and the queue pair that it connected.
///
/// The two may be taken apart and used on different threads. Dropping a connection destroys the
/// queue pair first, then the id, which notifies the peer. [`disconnect`](Self::disconnect) is the
/// orderly end.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// fn end(connection: Connection, cq: &mut CompletionQueue) -> Result<(), proverbs::Error> {
///     println!("the peer {:?} said {:?}", connection.peer, connection.private_data);
///     let mut ended = connection.disconnect()?;
///     ended.qp.drain(cq, |_| ())?; // every buffer comes home, whatever the peer does
///     ended.qp.destroy()?;
///     ended.id.wait_disconnected(Duration::from_secs(1))?; // the peer confirms
///     Ok(ended.id.destroy()?)
/// }
/// ```
pub struct Connection<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The queue pair, ready to send.
    pub qp: QueuePair<Rc, Rts, P>,
    /// The id.
    pub id: CmId<Tcp, Established, M>,
    /// The peer's parameters.
    pub peer: PeerParam,
    /// The private data of the peer's request or answer, perhaps padded with zeroes (R16.15).
    pub private_data: Vec<u8>,
}

/// A connection after this side disconnected.
pub struct Ended<P: Profile = DefaultProfile, M: Mode = Synchronous> {
    /// The queue pair, in the error state: [`drain`](QueuePair::drain) brings every buffer back.
    pub qp: QueuePair<Rc, Err, P>,
    /// The id, whose last event is [`EventKind::Disconnected`](super::EventKind::Disconnected).
    pub id: CmId<Tcp, Disconnected, M>,
}

impl<P: Profile, M: Mode> Connection<P, M> {
    /// Ends the connection, or confirms that the peer ended it (`rdma_disconnect`): both sides do
    /// so (R16.20), even after the device was removed. The queue pair moves to the error state,
    /// where posted work is flushed.
    ///
    /// # Errors
    /// The connection is given back as it was: [`Os`](crate::ErrorKind::Os) with the errno of
    /// `rdma_disconnect`.
    pub fn disconnect(mut self) -> Result<Ended<P, M>, Refused<Self>> {
        // SAFETY: in this state the id has a device.
        match unsafe { self.id.core.id.disconnect() } {
            Ok(()) => Ok(Ended { qp: self.qp.give_up(), id: self.id.to() }),
            Err(errno) => Err(Refused::new(self, Error::os("rdma_disconnect", errno, ""))),
        }
    }
}

impl<M: Mode> CmId<Tcp, Established, M> {
    /// Ends the connection of a queue pair that is elsewhere (`rdma_disconnect`), like
    /// [`Connection::disconnect`]. The program has to move the queue pair to the error state.
    ///
    /// # Errors
    /// The id is given back as it was: [`Os`](crate::ErrorKind::Os) with the errno of
    /// `rdma_disconnect`.
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
    pub fn disconnect(mut self) -> Result<CmId<Tcp, Disconnected, M>, Refused<Self>> {
        // SAFETY: in this state the id has a device.
        match unsafe { self.core.id.disconnect() } {
            Ok(()) => Ok(self.to()),
            Err(errno) => Err(Refused::new(self, Error::os("rdma_disconnect", errno, ""))),
        }
    }

    /// Reports to rdma_cm that a message arrived before the peer's confirmation (`rdma_notify` with
    /// COMM_EST, an event of the queue pair).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_notify`.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// use proverbs::device::{DeviceEvent, QpEvent};
    /// # fn example(connection: &mut Connection, event: DeviceEvent) -> Result<(), proverbs::Error> {
    /// if let DeviceEvent::Qp { event: QpEvent::CommunicationEstablished, .. } = event {
    ///     connection.id.notify_established()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn notify_established(&mut self) -> Result<(), Error> {
        self.core.id.notify_comm_est().map_err(|errno| Error::os("rdma_notify", errno, "COMM_EST"))
    }
}

/// States that end with a DISCONNECTED event, for which
/// [`wait_disconnected`](CmId::wait_disconnected) waits.
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` is not connected, so nothing disconnects it",
    label = "this id is in state `{Self}`",
    note = "connect or accept first (R16.1)"
)]
pub trait Ends: CmState {}
impl Ends for Established {}
impl Ends for Disconnected {}

impl<S: CmState, M: Mode> CmId<Tcp, S, M> {
    /// Waits, for at most `timeout`, until the connection has ended: the peer ended it or confirmed
    /// this side's [`disconnect`](Connection::disconnect). After the end, every call returns at
    /// once.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut) if the connection has not ended; [`Cm`](ErrorKind::Cm), at
    /// once and from then on, if the device is going away; [`Os`](ErrorKind::Os) with the errno of
    /// `rdma_get_cm_event` or poll(2).
    pub fn wait_disconnected(&mut self, timeout: Duration) -> Result<(), Error>
    where
        S: Ends,
        M: WaitsInCalls,
    {
        const VERB: &str = "rdma_get_cm_event";
        let deadline = Instant::now().checked_add(timeout);
        let mut events = Events::until(self.core.id.channel(), deadline);
        // Events are noted where they are taken, perhaps from another channel before.
        while !self.core.id.seen().is_disconnected() {
            self.core.removal(VERB)?;
            if events.next()?.is_none() {
                return Err(Error::new(VERB, ErrorKind::TimedOut { after: timeout }));
            }
        }
        Ok(())
    }
}

impl<P: Profile, M: Mode> fmt::Debug for Connection<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?}, {:?})", self.id, self.qp)
    }
}

impl<P: Profile, M: Mode> fmt::Debug for Ended<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ended({:?}, {:?})", self.id, self.qp)
    }
}

/// A compile-time reminder that connected ids keep their device, for `disconnect`.
const _: fn() = || {
    fn has_device<PS: PortSpace, S: HasDevice>() {}
    has_device::<Tcp, Established>();
};
