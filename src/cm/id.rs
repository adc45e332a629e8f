//! The id: one end of a connection, as a typestate.

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
/// Each step consumes the id and returns it in its next state. If the step fails, the error
/// contains the id. There is no other way from one state to another, so no call can be made too
/// early ([R16.1](crate::guide::rules#r16-1) to [R16.7](crate::guide::rules#r16-7)).
///
/// The id does not own a queue pair. [`create_qp`](Self::create_qp) returns an ordinary
/// [`QueuePair`](crate::QueuePair), and connecting takes it as an argument. You can drop either
/// first, and posting costs the same as without rdma_cm.
///
/// Dropping an id destroys it (`rdma_destroy_id`). The peer of a connection is notified, and an
/// unanswered request is rejected. An id that is leaked with `mem::forget` leaks its resources.
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
/// let id = id.bind_addr("10.77.0.2:0".parse()?)?; // to connect from this address
/// println!("from {:?}", id.local_addr());
/// let id = id.resolve_addr("10.77.0.1:7471".parse()?, second)?;
/// println!("by port {} of {:?} to {:?}", id.port(), id.device(), id.peer_addr());
/// let id = id.resolve_route(second)?;
/// // ... `create_qp`, `connect`: see the module's example ...
/// id.destroy()?; // dropping it does the same, and reports no error
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
/// // From here on its events can go to a channel, and back.
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
    pub(crate) core: Core,
    _types: PhantomData<(PS, S, M)>,
}

/// An id without its types.
pub(crate) struct Core {
    pub id: Id,
    pub local: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// Name and port. `Some` in every state that `HasDevice`.
    pub device: Option<(String, u8)>,
    /// Distinguishes the device from others, if the provider does not share contexts.
    pub identity: Option<Identity>,
    /// Which of several threads waits for requests.
    pub(super) turn: Turn,
}

impl Core {
    pub fn new(id: Id) -> Self {
        Core { id, local: None, peer: None, device: None, identity: None, turn: Turn::new() }
    }

    /// Copies the device's name from librdmacm, which may overwrite it during the next event.
    pub fn look(&mut self) {
        (self.local, self.peer) = self.id.addresses();
        self.device = self.id.device();
        self.identity = self.id.identity();
    }

    /// The error of an event that ended the step in progress, whichever call took the event.
    pub(super) fn end(&self, verb: &'static str, waiting: Waiting) -> Option<Error> {
        let seen = self.id.seen();
        let broken = seen.broken().map(|(event, status)| (EventKind::from_c(event), status));
        let gone = seen.removal().map(|status| (EventKind::DeviceRemoval, status));
        let over = seen.is_disconnected().then_some((EventKind::Disconnected, 0));
        let mut events = [broken, gone, over].into_iter().flatten();
        let (event, status) = events.find(|(event, status)| waiting.fails_by(*event, *status))?;
        Some(ended_by(verb, event, status))
    }

    /// An error if the device is being removed. No event follows.
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

    /// Returns the id in the state `To`.
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

    /// The port of the device. The first is port 1.
    #[doc(alias = "port_num")]
    pub fn port(&self) -> u8
    where
        Self: Allows<call::UseDevice>,
    {
        self.core.device.as_ref().map_or(0, |&(_, port)| port)
    }

    /// Sets the type of service of the connection's packets (`rdma_set_option` with
    /// RDMA_OPTION_ID_TOS). The kernel reads the option when it resolves the route or joins a
    /// group; setting it later has no effect.
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

    /// Allows several ids to bind to one address (`rdma_set_option` with RDMA_OPTION_ID_REUSEADDR).
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

    /// Restricts an IPv6 id to IPv6 when it listens (`rdma_set_option` with RDMA_OPTION_ID_AFONLY).
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

    /// Writes an event of the program, [`EventKind::User`], to the id's channel
    /// (`rdma_write_cm_event`). It wakes a thread that waits on the channel.
    ///
    /// An event for a [request](super::Request) that is not accepted yet is lost: librdmacm
    /// discards it, because the kernel does not know the library's handle of the id before the
    /// request is accepted.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_write_cm_event`. ENOSYS: the library is older
    /// than rdma-core 60. EINVAL, ENOSYS or EOPNOTSUPP: the kernel does not support it.
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
    ///     listening.write_cm_event(0, 1)?; // stops the server
    ///     server.join().unwrap()
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("rdma_write_cm_event", "RDMA_CM_EVENT_USER"))]
    pub fn write_cm_event(&self, status: i32, arg: u64) -> Result<(), Error> {
        let written = self.core.id.write_event(status, arg);
        written.map_err(|errno| Error::os("rdma_write_cm_event", errno, format!("{arg:#x}")))
    }

    /// Destroys the id (`rdma_destroy_id`). Unlike dropping it, this reports an error.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_destroy_id`. The error contains the id.
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

    /// Moves the id to `channel`, with its pending events (`rdma_migrate_id`).
    ///
    /// On Linux (seen on 6.1 to 7.3) and on a fabric, pending requests of a listening id do not
    /// move with it: no program receives them, and their peers are rejected. To move a listening
    /// id, take its requests first, or move it before it listens
    /// ([R16.21](crate::guide::rules#r16-21)).
    ///
    /// Events already buffered by an `AsyncEventChannel` stay there. Awaiting them elsewhere waits
    /// **forever**, so finish a step on the channel that it was started on before you move the id.
    /// (The end of a connection is recorded in the id, and is found on every channel.)
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_migrate_id`; EINVAL also if only the id or
    /// only the channel is on a loopback fabric. The error contains the id.
    #[doc(alias = "rdma_migrate_id")]
    pub fn migrate_to(
        self,
        channel: &EventChannel,
    ) -> Result<CmId<PS, S, OnChannel>, Refused<Self>> {
        self.migrate(channel.channel.clone())
    }

    /// Makes the id synchronous, with its own channel (`rdma_migrate_id` without a channel).
    ///
    /// # Errors
    /// As for [`EventChannel::new`] and [`migrate_to`](Self::migrate_to). The error contains the
    /// id.
    pub fn into_synchronous(self) -> Result<CmId<PS, S, Synchronous>, Refused<Self>> {
        let channel = or_refused!(self, channel::another(self.core.id.channel()));
        self.migrate(channel)
    }
}

impl<S: CmState, M: Mode> CmId<Tcp, S, M> {
    /// Sets the ACK timeout of queue pairs that connect with this id (`rdma_set_option` with
    /// RDMA_OPTION_ID_ACK_TIMEOUT). [`ConnParam::ack_timeout`](super::ConnParam::ack_timeout) sets
    /// it for one connection, on either side. On iWARP, TCP has its own timeouts.
    ///
    /// # Errors
    /// As for [`set_tos`](Self::set_tos).
    // Not a call that waits: it stores a time for the device.
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

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::provider_tests::cm::{answer, noting, seen};

    fn id() -> CmId<Tcp, Created> {
        CmId::from_core(Core::new(noting(7)))
    }

    /// The numbers of rdma_cma.h, and values of the sizes that the kernel expects.
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
