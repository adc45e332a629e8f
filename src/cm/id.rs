//! The id: a connection end as a typestate.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use super::channel;
use super::channel::EventChannel;
use super::event::{EventKind, IdKey};
use super::space::{PortSpace, Tcp};
use super::state::{CmState, Created, Mode, OnChannel, Synchronous};
use super::table::Waiting;
use super::turn::Turn;
use crate::allows::{Allows, call};
use crate::sys::absence::{self, Wanted};
use crate::sys::cm::{Channel, Id};
use crate::sys::device::Identity;
use crate::terms::bounded::Timeout;
use crate::terms::error::{Error, ErrorKind, Refused};

/// A communication id (`rdma_cm_id`) of port space `PS` in state `S`: the rdma_cm side of a
/// connection.
///
/// A step takes the id and returns it in its next state; a step that is refused gives it back.
/// There is no other way from one state to another, so no call can come too early
/// ([R16.1](crate::guide::rules#r16-1) to [R16.7](crate::guide::rules#r16-7)).
///
/// The id does not own a queue pair: [`create_qp`](Self::create_qp) makes an ordinary
/// [`QueuePair`](crate::QueuePair), and connecting takes it along. So either may be dropped first,
/// and posting costs what it costs without rdma_cm.
///
/// Dropping an id destroys it (`rdma_destroy_id`): the peer of a connection is notified, and an
/// unanswered request is rejected. A forgotten id leaks.
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use proverbs::bounded::Timeout;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let mut id = CmId::<Tcp, _>::new()?;
/// id.set_tos(8)?;
/// id.set_ack_timeout(Timeout::MS_67)?;
/// let id = id.bind_addr("10.77.0.2:0".parse()?)?; // to come from this address
/// println!("from {:?}", id.local_addr());
/// let id = id.resolve_addr("10.77.0.1:7471".parse()?, second)?;
/// println!("by port {} of {:?} to {:?}", id.port(), id.device(), id.peer_addr());
/// let id = id.resolve_route(second)?;
/// // ... `create_qp`, `connect`: see the module's example ...
/// id.destroy()?; // dropping it does the same, and says nothing
///
/// let mut listening = CmId::<Tcp, _>::new()?;
/// listening.set_reuse_addr(true)?;
/// listening.set_af_only(true)?;
/// let listening = listening.bind_addr("[::]:7471".parse()?)?.listen(8)?;
/// match listening.get_request_timeout(second) {
///     Ok(request) => request.reject(&RejectData::none())?,
///     Err(error) => println!("{error}"),
/// }
///
/// // Its events can go to a channel from here on, and back.
/// let channel = EventChannel::new()?;
/// let listening = listening.migrate_to(&channel)?;
/// println!("events name it {:?}", listening.key());
/// let listening = listening.into_synchronous()?;
/// # drop(listening);
/// # Ok(())
/// # }
/// ```
#[doc(alias("rdma_cm_id", "rdma_route", "rdma_addr"))]
pub struct CmId<PS: PortSpace, S: CmState, M: Mode = Synchronous> {
    pub(super) core: Core,
    _types: PhantomData<(PS, S, M)>,
}

/// An id without its types.
pub(super) struct Core {
    pub id: Id,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// Name and port; `Some` in every state that `HasDevice`.
    pub device: Option<(String, u8)>,
    /// What tells the device from others, if the provider shares no contexts.
    pub identity: Option<Identity>,
    /// Who of several threads waits for its requests.
    pub turn: Turn,
}

impl Core {
    pub fn new(id: Id) -> Self {
        Core { id, local: None, peer: None, device: None, identity: None, turn: Turn::new() }
    }

    /// Copies the device's name from librdmacm, which may write it during the next event.
    pub fn look(&mut self) {
        (self.local, self.peer) = self.id.addresses();
        self.device = self.id.device();
        self.identity = self.id.identity();
    }

    /// The error of an event that ended what waits, whichever call took the event.
    pub fn end(&self, verb: &'static str, waiting: Waiting) -> Option<Error> {
        let seen = self.id.seen();
        let broken = seen.broken().map(|(event, status)| (EventKind::from_c(event), status));
        let gone = seen.removal().map(|status| (EventKind::DeviceRemoval, status));
        let over = seen.is_disconnected().then_some((EventKind::Disconnected, 0));
        let mut events = [broken, gone, over].into_iter().flatten();
        let (event, status) = events.find(|(event, status)| waiting.fails_by(*event, *status))?;
        Some(ended_by(verb, event, status))
    }

    /// An error if the device is going away, after which no event comes.
    pub fn removal(&self, verb: &'static str) -> Result<(), Error> {
        let removal = self.id.seen().removal();
        removal.map_or(Ok(()), |status| Err(ended_by(verb, EventKind::DeviceRemoval, status)))
    }
}

fn ended_by(verb: &'static str, event: EventKind, status: i32) -> Error {
    Error::new(verb, ErrorKind::Cm { event: event.name(), status })
}

impl<PS: PortSpace> CmId<PS, Created> {
    /// Creates an id whose calls wait for their results (`rdma_create_id` without a channel).
    ///
    /// # Errors
    /// As for [`EventChannel::new`] and [`EventChannel::create_id`].
    pub fn new() -> Result<Self, Error> {
        CmId::create(channel::open()?)
    }
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    pub(super) fn from_core(core: Core) -> Self {
        CmId { core, _types: PhantomData }
    }

    /// The same id in the state `To`.
    pub(super) fn to<To: CmState>(self) -> CmId<PS, To, M> {
        CmId::from_core(self.core)
    }

    /// The key by which events name this id.
    pub fn key(&self) -> IdKey {
        IdKey(self.core.id.key())
    }

    /// The local address, once the id is bound.
    #[doc(alias("rdma_get_local_addr", "rdma_get_src_port", "src_addr", "src_sin", "src_sin6"))]
    #[doc(alias = "src_storage")]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.core.local
    }

    /// The peer's address, once it was resolved or the peer sent a request.
    #[doc(alias("rdma_get_peer_addr", "rdma_get_dst_port", "dst_addr", "dst_sin", "dst_sin6"))]
    #[doc(alias = "dst_storage")]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.core.peer
    }

    /// The name of the device, once the id has one.
    #[doc(alias("rdma_get_devices", "rdma_free_devices"))]
    pub fn device(&self) -> Option<&str> {
        self.core.device.as_ref().map(|(name, _)| name.as_str())
    }

    /// The port of the device, counted from 1.
    #[doc(alias = "port_num")]
    pub fn port(&self) -> u8
    where
        Self: Allows<call::UseDevice>,
    {
        self.core.device.as_ref().map_or(0, |&(_, port)| port)
    }

    /// Sets the type of service of the connection's packets (`rdma_set_option` with
    /// RDMA_OPTION_ID_TOS). The kernel reads it when it resolves the route or joins a group: later
    /// it would have no effect.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_set_option`, the option and the state.
    #[doc(alias("rdma_set_option", "RDMA_OPTION_ID_TOS", "RDMA_OPTION_ID"))]
    pub fn set_tos(&mut self, tos: u8) -> Result<(), Error>
    where
        Self: Allows<call::SetOption>,
    {
        self.set_option(0, &[tos], "RDMA_OPTION_ID_TOS")
    }

    /// Lets several ids bind to one address (`rdma_set_option` with RDMA_OPTION_ID_REUSEADDR).
    ///
    /// # Errors
    /// As for [`set_tos`](Self::set_tos).
    #[doc(alias("rdma_set_option", "RDMA_OPTION_ID_REUSEADDR"))]
    pub fn set_reuse_addr(&mut self, on: bool) -> Result<(), Error>
    where
        Self: Allows<call::SetAddrOption>,
    {
        self.set_option(1, &i32::from(on).to_ne_bytes(), "RDMA_OPTION_ID_REUSEADDR")
    }

    /// Lets an IPv6 id listen for IPv6 only (`rdma_set_option` with RDMA_OPTION_ID_AFONLY).
    ///
    /// # Errors
    /// As for [`set_tos`](Self::set_tos).
    #[doc(alias("rdma_set_option", "RDMA_OPTION_ID_AFONLY"))]
    pub fn set_af_only(&mut self, on: bool) -> Result<(), Error>
    where
        Self: Allows<call::SetAddrOption>,
    {
        self.set_option(2, &i32::from(on).to_ne_bytes(), "RDMA_OPTION_ID_AFONLY")
    }

    fn set_option(&mut self, option: i32, value: &[u8], name: &str) -> Result<(), Error> {
        let set = self.core.id.set_option(option, value);
        set.map_err(|errno| Error::os("rdma_set_option", errno, format!("{name} in {}", S::NAME)))
    }

    /// Brings an event of the program's own, [`EventKind::User`], to the id's channel
    /// (`rdma_write_cm_event`): it wakes the thread that waits there.
    ///
    /// That of a [request](super::Request) which is not accepted yet goes nowhere: librdmacm throws
    /// it away, since the kernel does not know before by which name to tell of the id.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_write_cm_event`: ENOSYS if the library is
    /// older than rdma-core 60; EINVAL, ENOSYS or EOPNOTSUPP if the kernel is older than its
    /// support.
    ///
    /// ```
    /// use proverbs::{cm::*, loopback::Fabric, prelude::*};
    ///
    /// let fabric = Fabric::new();
    /// let _device = fabric.open_device();
    /// let channel = EventChannel::on(&fabric)?; // or `EventChannel::new()`
    /// let at = "10.0.0.1:7471".parse()?;
    /// let listening = channel.create_id::<Tcp>()?.bind_addr(at)?.listen(8)?;
    /// std::thread::scope(|scope| {
    ///     let server = scope.spawn(|| loop {
    ///         let event = channel.wait()?;
    ///         match (event.kind(), event.user_arg()) {
    ///             (EventKind::User, Some(1)) => return Ok::<(), proverbs::Error>(()),
    ///             _ => println!("{event:?}"),
    ///         }
    ///     });
    ///     listening.write_cm_event(0, 1)?; // that is all for today
    ///     server.join().unwrap()
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("rdma_write_cm_event", "RDMA_CM_EVENT_USER"))]
    pub fn write_cm_event(&self, status: i32, arg: u64) -> Result<(), Error> {
        let written = self.core.id.write_event(status, arg);
        written.map_err(|errno| Error::os("rdma_write_cm_event", errno, format!("{arg:#x}")))
    }

    /// Destroys the id (`rdma_destroy_id`) and reports the error that dropping it ignores.
    ///
    /// # Errors
    /// The id is given back: [`Os`](ErrorKind::Os) with the errno of `rdma_destroy_id`.
    #[doc(alias = "rdma_destroy_id")]
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        self.core.id.destroy().map_err(|(id, errno)| {
            let id = CmId::from_core(Core { id, ..self.core });
            Refused::new(id, Error::os("rdma_destroy_id", errno, ""))
        })
    }

    fn migrate<To: Mode>(mut self, to: Arc<Channel>) -> Result<CmId<PS, S, To>, Refused<Self>> {
        match self.core.id.migrate(to) {
            Ok(()) => Ok(CmId::from_core(self.core)),
            Err(errno) => Err(Refused::new(self, Error::os("rdma_migrate_id", errno, ""))),
        }
    }

    /// Moves the id to `channel`, together with its waiting events (`rdma_migrate_id`).
    ///
    /// Requests that wait at a listening id do not come along on Linux (seen on 6.1 to 7.3): nobody
    /// gets them, and their peers are refused. A program that moves a listening id takes its
    /// requests before, or moves it before it listens ([R16.21](crate::guide::rules#r16-21)).
    ///
    /// What an `AsyncEventChannel` took and keeps stays there, and who awaits it elsewhere waits
    /// **for ever**. So a step that was begun on one is finished there before the id moves. (The
    /// end of a connection is known everywhere.)
    ///
    /// # Errors
    /// The id is given back: [`Os`](ErrorKind::Os) with the errno of `rdma_migrate_id`; EINVAL also
    /// if one is of a loopback fabric and the other is not.
    #[doc(alias = "rdma_migrate_id")]
    pub fn migrate_to(
        self,
        channel: &EventChannel,
    ) -> Result<CmId<PS, S, OnChannel>, Refused<Self>> {
        self.migrate(channel.channel.clone())
    }

    /// Makes the id synchronous, with a channel of its own (`rdma_migrate_id` with no channel).
    ///
    /// # Errors
    /// The id is given back. As for [`EventChannel::new`] and [`migrate_to`](Self::migrate_to).
    pub fn into_synchronous(self) -> Result<CmId<PS, S, Synchronous>, Refused<Self>> {
        match channel::another(self.core.id.channel()) {
            Ok(channel) => self.migrate(channel),
            Err(error) => Err(Refused::new(self, error)),
        }
    }
}

impl<S: CmState, M: Mode> CmId<Tcp, S, M> {
    /// Sets the ACK timeout of queue pairs that connect by this id (`rdma_set_option` with
    /// RDMA_OPTION_ID_ACK_TIMEOUT). [`ConnParam::ack_timeout`](super::ConnParam::ack_timeout) does
    /// so for one connection, of either side. On iWARP, TCP has time-outs of its own.
    ///
    /// # Errors
    /// As for [`set_tos`](Self::set_tos).
    #[doc(alias("rdma_set_option", "RDMA_OPTION_ID_ACK_TIMEOUT"))]
    pub fn set_ack_timeout(&mut self, timeout: Timeout) -> Result<(), Error>
    where
        Self: Allows<call::SetOption>,
    {
        self.set_option(3, &[timeout.to_c()], "RDMA_OPTION_ID_ACK_TIMEOUT")
    }
}

impl<PS: PortSpace, M: Mode> CmId<PS, Created, M> {
    pub(super) fn create(channel: Arc<Channel>) -> Result<Self, Error> {
        match Id::create(channel, PS::C) {
            Ok(id) => Ok(CmId::from_core(Core::new(id))),
            Err(errno) => Err(absence::error("rdma_create_id", Wanted::Cm, errno, PS::NAME)),
        }
    }
}

impl<PS: PortSpace, S: CmState, M: Mode> fmt::Debug for CmId<PS, S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CmId({} {}, {})", PS::NAME, self.core.id.key(), S::NAME)?;
        match self.core.peer {
            Some(peer) if peer.port() != 0 => write!(f, " with {peer}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider_tests::cm::{answer, noting, seen};

    fn id() -> CmId<Tcp, Created> {
        CmId::from_core(Core::new(noting(7)))
    }

    /// The numbers of rdma_cma.h, and values of the kernel's sizes.
    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn options_reach_c_as_they_are() {
        let mut id = id();
        id.set_tos(8).unwrap();
        id.set_reuse_addr(true).unwrap();
        id.set_af_only(false).unwrap();
        id.set_ack_timeout(Timeout::MS_67).unwrap();
        let one = 1_i32.to_ne_bytes();
        let on = format!("set_option 0, 1, {one:?}");
        let off = "set_option 0, 2, [0, 0, 0, 0]";
        assert_eq!(seen(), ["set_option 0, 0, [8]", &on, off, "set_option 0, 3, [14]"]);
        answer(libc::EINVAL);
        let error = id.set_tos(8).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL));
        assert!(error.to_string().contains("RDMA_OPTION_ID_TOS in Created"), "{error}");
        answer(0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn a_port_is_that_of_the_device() {
        use crate::cm::state::BoundToDevice;
        let mut id = id().to::<BoundToDevice>();
        id.core.device = Some(("mlx5_0".into(), 2));
        assert_eq!((id.device(), id.port()), (Some("mlx5_0"), 2));
    }

    #[test]
    #[cfg_attr(miri, ignore = "eventfd(2)")]
    fn a_destruction_that_is_refused_gives_the_id_back() {
        let id = id();
        answer(libc::EBUSY);
        let refused = id.destroy().unwrap_err();
        assert_eq!(refused.error.errno(), Some(libc::EBUSY));
        answer(0);
        refused.into_object().destroy().unwrap();
        assert_eq!(seen(), ["destroy_id", "destroy_id", "destroy_event_channel"]);
    }
}
