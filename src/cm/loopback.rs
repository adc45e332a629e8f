//! rdma_cm on a loopback fabric: how to create its ids, channels and addresses.

use std::ffi::c_int;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::addrinfo::{AddrInfo, PassiveInfo};
use super::channel::EventChannel;
use super::connection::Connection;
use super::event::{Event, EventKind};
use super::id::CmId;
use super::param::{AcceptParam, ConnParam};
use super::provider::Provider;
use super::space::{PortSpace, Tcp};
use super::state::{CmState, Created, Mode};
use super::waits::Progress;
use crate::completion::queue::CompletionQueue;
use crate::device::context::Context;
use crate::device::pd::ProtectionDomain;
use crate::loopback::{self, Fabric, device};
use crate::memory::Pool;
use crate::qp::Depth;
use crate::sys::absence::{self, Wanted};
use crate::sys::cm::Channel;
use crate::terms::error::{Error, ErrorKind};

const EVENT: &str = "rdma_get_cm_event";

fn open(fabric: &Fabric) -> Result<Arc<Channel>, Error> {
    loopback::cm::open_channel(&fabric.0).map(Arc::new).map_err(unopened)
}

fn unopened(errno: c_int) -> Error {
    absence::error("rdma_create_event_channel", Wanted::Cm, errno, "on a loopback fabric")
}

impl EventChannel {
    /// Opens a channel on a [loopback fabric](Fabric), instead of [`new`](Self::new). Its ids and
    /// their queue pairs are on the devices of the fabric.
    ///
    /// # Errors
    /// [`Absent`](ErrorKind::Absent): the process has no file descriptors left.
    pub fn on(fabric: &Fabric) -> Result<Self, Error> {
        let opened = loopback::cm::open_channel(&fabric.0).and_then(Channel::watched);
        opened.map(EventChannel::of).map_err(unopened)
    }
}

impl<PS: PortSpace> CmId<PS, Created> {
    /// Creates an id on a [loopback fabric](Fabric), instead of [`new`](Self::new). The first
    /// device of a fabric has the address 10.0.0.1, the next one 10.0.0.2 ([`Fabric::ip_of`]).
    ///
    /// ```
    /// use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// let fabric = Fabric::new();
    /// let (_here, there) = (fabric.open_device(), fabric.open_device());
    /// let id = CmId::<Tcp, _>::on(&fabric)?.bind_addr("10.0.0.1:0".parse()?)?;
    /// let id = id.resolve_addr("10.0.0.2:7471".parse()?, second)?.resolve_route(second)?;
    /// assert_eq!(id.device(), Some("loop0"));
    ///
    /// let listening =
    ///     CmId::<Tcp, _>::on(&fabric)?.bind_addr("10.0.0.2:7471".parse()?)?.listen(8)?;
    /// assert_eq!(listening.device(), Some(there.name().as_str()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`EventChannel::on`] and [`EventChannel::create_id`].
    pub fn on(fabric: &Fabric) -> Result<Self, Error> {
        CmId::create(open(fabric)?)
    }
}

impl Fabric {
    /// Raises an event on an id of this fabric, as a kernel may at any time. For example,
    /// UNREACHABLE with status -ETIMEDOUT means that the address of a neighbour changed. The event
    /// does not change the fabric's state of the connection, except that DEVICE_REMOVAL is the id's
    /// last event.
    ///
    /// Returns false if the id is not on this fabric or its device was removed, and for events that
    /// need more than an id: CONNECT_REQUEST (connect an id instead), events of multicast groups
    /// (join one), and USER ([`CmId::write_cm_event`]).
    ///
    /// ```
    /// use proverbs::{cm::*, prelude::*};
    /// use std::time::Duration;
    ///
    /// let ConnectedPair { fabric, mut a, b: _b, .. } = loopback_pair()?;
    /// assert!(fabric.raise_cm(&a.id, EventKind::Unreachable, -libc::ETIMEDOUT));
    /// let error = a.id.wait_disconnected(Duration::from_secs(60)).unwrap_err(); // at once
    /// assert!(error.to_string().contains("RDMA_CM_EVENT_UNREACHABLE"));
    /// # Ok::<(), proverbs::Error>(())
    /// ```
    pub fn raise_cm<PS: PortSpace, S: CmState, M: Mode>(
        &self,
        id: &CmId<PS, S, M>,
        event: EventKind,
        status: i32,
    ) -> bool {
        loopback::cm::raise(&self.0, &id.core.id, event.to_c(), status)
    }
}

/// Two connected ends on their own loopback fabric, with everything that a test needs: see
/// [`loopback_pair`].
pub struct ConnectedPair {
    /// The fabric, to open more devices, or to [silence](Fabric::silence_device) or
    /// [remove](Fabric::remove_device) this one.
    pub fabric: Fabric,
    /// The device of both ends.
    pub context: Context,
    /// The protection domain of both ends.
    pub pd: ProtectionDomain,
    /// The completion queue of all four work queues, with room for 64 completions.
    pub cq: CompletionQueue,
    /// 16 buffers of 256 bytes.
    pub pool: Pool,
    /// The end that connected, with room for 8 sends and 8 receives.
    pub a: Connection,
    /// The end that accepted, with the same room as `a`.
    pub b: Connection,
}

/// Connects two queue pairs with rdma_cm on a new [`Fabric`]. ([`loopback::pair`] does not use
/// rdma_cm.) Use this function to test a program's functions without a device.
///
/// ```
/// use proverbs::{cm::{self, *}, loopback, prelude::*};
/// use std::time::Duration;
///
/// // The function to test:
/// fn leave(mut connection: Connection) -> Result<Ended, Box<dyn std::error::Error>> {
///     connection.qp.post_send(wr::Send::inline(b"bye"))?;
///     Ok(connection.disconnect()?)
/// }
///
/// let ConnectedPair { a, mut b, mut cq, pool, .. } = cm::loopback_pair()?;
/// b.qp.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
/// let mut ended = leave(a)?;
///
/// let done = loopback::poll(&mut cq, 2)?; // the send, which has no buffer, and the receive
/// let received = done.into_iter().flatten().next().ok_or("nothing was received")?;
/// assert_eq!(&received[..3], b"bye");
/// b.id.wait_disconnected(Duration::ZERO)?;
/// b.disconnect()?;
/// ended.id.wait_disconnected(Duration::ZERO)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Os`](ErrorKind::Os) with the errno of the failed call: the process is out of memory or of file
/// descriptors.
pub fn loopback_pair() -> Result<ConnectedPair, Error> {
    let (fabric, context, pd, cq, pool) = device(Fabric::new())?;
    let depth = Depth { send: 8, recv: 8 };

    let channel = EventChannel::on(&fabric)?;
    let at = SocketAddr::new(fabric.ip_of(&context).unwrap_or(fabric.0.unspecified_ip()), 0);
    let listening = channel.create_id::<Tcp>()?.bind_addr(at)?.listen(1)?;
    let at = listening.local_addr().unwrap_or(at);
    let id = channel.create_id::<Tcp>()?.resolve_addr(at, Duration::ZERO)?;
    let id = done(id.advance(&channel.wait()?))?.resolve_route(Duration::ZERO)?;
    let id = done(id.advance(&channel.wait()?))?;
    let qp = id.create_qp(&pd, &cq, &cq, depth)?;
    let pending = id.connect(qp, &ConnParam::default())?;
    let request = listening.request(channel.wait()?).map_err(|event| unexpected(&event))?;
    let qp = request.id.create_qp(&pd, &cq, &cq, depth)?;
    let accepted = request.accept(qp, &AcceptParam::default())?;
    let a = done(pending.advance(&channel.wait()?))?;
    let b = done(accepted.advance(&channel.wait()?))?;
    let (a, b) = (a.into_synchronous()?, b.into_synchronous()?);
    Ok(ConnectedPair { fabric, context, pd, cq, pool, a, b })
}

/// The result of a step. On a fabric its event is pending when the call returns.
fn done<D, W, F>(step: Progress<D, W, F>) -> Result<D, Error> {
    match step {
        Progress::Done(done) => Ok(done),
        Progress::Failed(refused) => Err(refused.error),
        Progress::Waiting(_) => Err(Error::os(EVENT, libc::EPROTO, "an event of another step")),
    }
}

fn unexpected(event: &Event) -> Error {
    Error::os(EVENT, libc::EPROTO, format!("{event:?} instead of a request"))
}

/// The address of a node (an IP address or the name of a device) and a service (a port).
fn look_up(fabric: &Fabric, node: Option<&str>, service: &str) -> Result<SocketAddr, Error> {
    let ip = match node {
        None => Some(fabric.0.unspecified_ip()),
        Some(node) => node.parse::<IpAddr>().ok().or_else(|| fabric.0.ip_of_name(node)),
    };
    let port = service.parse::<u16>().ok();
    ip.zip(port).map(SocketAddr::from).ok_or_else(|| {
        let asked = format!("{}:{service}", node.unwrap_or("*"));
        let possible = "a loopback fabric resolves IP addresses, names of its devices, and ports";
        Error::new("rdma_getaddrinfo", ErrorKind::NotFound(format!("{asked}: {possible}")))
    })
}

impl<PS: PortSpace> AddrInfo<PS> {
    /// Resolves a node and a service on a [loopback fabric](Fabric), instead of
    /// [`look_up`](Self::look_up). The node is an IP address or the name of a device, the service
    /// is a port.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) for any other node or service.
    pub fn look_up_on(fabric: &Fabric, node: &str, service: &str) -> Result<Vec<Self>, Error> {
        let peer = look_up(fabric, Some(node), service)?;
        Ok(vec![AddrInfo::of(None, peer, Provider::Fabric(fabric.clone()))])
    }
}

impl<PS: PortSpace> PassiveInfo<PS> {
    /// Resolves a service to listen on, on a [loopback fabric](Fabric), instead of
    /// [`look_up`](Self::look_up).
    ///
    /// # Errors
    /// As for [`AddrInfo::look_up_on`].
    pub fn look_up_on(
        fabric: &Fabric,
        node: Option<&str>,
        service: &str,
    ) -> Result<Vec<Self>, Error> {
        let local = look_up(fabric, node, service)?;
        Ok(vec![PassiveInfo::of(local, Provider::Fabric(fabric.clone()))])
    }
}

impl fmt::Debug for ConnectedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectedPair { a, b, .. } = self;
        f.debug_struct("ConnectedPair").field("a", a).field("b", b).finish_non_exhaustive()
    }
}
