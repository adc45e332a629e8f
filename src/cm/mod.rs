//! rdma_cm: connection management as a typestate, and the calls of rdma_verbs.h.
//!
//! A [`CmId`] is a typestate. On the active side it is created (and bound, if the local address
//! matters), then resolves an address and a route, and connects. On the passive side it is bound
//! and listens, and each [`Request`] that it returns is accepted or rejected. Each step consumes
//! the id and returns it in its next state. If a step fails, its error contains everything that was
//! passed to it.
//!
//! Ids have two modes. A **synchronous** id ([`CmId::new`]) waits inside each call, at most the
//! call's timeout. The calls of an id **on a channel** ([`EventChannel::create_id`]) return at
//! once. The program polls the channel's file descriptor, takes [`Event`]s, and passes each to the
//! [`advance`](CmId::advance) of the id that it names. Events are owned copies that are already
//! acknowledged.
//!
//! The types in full. Programs mostly leave them to inference:
//!
//! ```no_run
//! use proverbs::{cm::*, prelude::*};
//! use std::time::Duration;
//!
//! fn active(qp: QueuePair<Rc, Init>) -> Result<(), Box<dyn std::error::Error>> {
//!     let second = Duration::from_secs(1);
//!     let id: CmId<Tcp, Created, Synchronous> = CmId::new()?;
//!     let id: CmId<Tcp, Bound> = id.bind_addr("10.77.0.2:0".parse()?)?; // if it matters
//!     let id: CmId<Tcp, AddrResolved> = id.resolve_addr("10.77.0.1:7471".parse()?, second)?;
//!     let id: CmId<Tcp, RouteResolved> = id.resolve_route(second)?;
//!     let connected = id.connect(qp, &ConnParam::default(), second);
//!     match connected.map_err(Refused::into_parts) {
//!         Ok(connection) => {
//!             let ended: Ended = connection.disconnect()?;
//!             let id: CmId<Tcp, Disconnected> = ended.id;
//!             id.destroy()?;
//!         }
//!         Err((NotConnected::Failed { id, .. }, error)) => {
//!             let id: CmId<Tcp, Unusable> = id;
//!             println!("{id:?}: {error}");
//!         }
//!         Err((_, error)) => println!("nothing was sent: {error}"),
//!     }
//!     Ok(())
//! }
//!
//! fn passive(
//!     qp: QueuePair<Rc, Init>,
//! ) -> Result<CmId<Tcp, Established>, Box<dyn std::error::Error>> {
//!     let id: CmId<Tcp, Bound> = CmId::new()?.bind_addr("0.0.0.0:7471".parse()?)?;
//!     let id: CmId<Tcp, Listening> = id.listen(8)?;
//!     let request: Request<Tcp> = id.get_request()?;
//!     let _: &CmId<Tcp, Requested> = &request.id;
//!     let connection: Connection =
//!         request.accept(qp, &AcceptParam::default(), Duration::from_secs(1))?;
//!     Ok(connection.id)
//! }
//!
//! /// On a channel, a step in progress has its own state.
//! enum Attempt {
//!     Address(CmId<Tcp, ResolvingAddr, OnChannel>),
//!     Route(CmId<Tcp, ResolvingRoute, OnChannel>),
//!     Asked(Pending),     // its id is `Connecting`
//!     Answered(Accepted), // its id is `Accepting`
//!     Connected(Connection<DefaultProfile, OnChannel>),
//! }
//!
//! fn key(attempt: &Attempt) -> IdKey {
//!     fn asked(pending: &Pending) -> &CmId<Tcp, Connecting, OnChannel> {
//!         pending.id()
//!     }
//!     fn answered(accepted: &Accepted) -> &CmId<Tcp, Accepting, OnChannel> {
//!         accepted.id()
//!     }
//!     match attempt {
//!         Attempt::Address(id) => id.key(),
//!         Attempt::Route(id) => id.key(),
//!         Attempt::Asked(pending) => asked(pending).key(),
//!         Attempt::Answered(accepted) => answered(accepted).key(),
//!         Attempt::Connected(connection) => connection.id.key(),
//!     }
//! }
//! ```
//!
//! # Queue pairs
//!
//! [`CmId::create_qp`] returns an ordinary [`QueuePair`](crate::QueuePair): RC in INIT on [`Tcp`],
//! so that receives can be posted; UD in RTS on [`Udp`]. `connect` and `accept` take it and return
//! it in RTS, in a [`Connection`]. librdmacm never sees the queue pair: this crate moves it with
//! the attributes that rdma_cm negotiates (`rdma_init_qp_attr`), destroys it with `ibv_destroy_qp`,
//! and counts its work requests as usual. So you can drop id and queue pair in any order, reuse a
//! queue pair after a failed attempt, and create it on any [`Context`](crate::Context) of the id's
//! device.
//!
//! ```no_run
//! use proverbs::{cm::*, prelude::*};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let second = Duration::from_secs(1);
//! let id = CmId::<Tcp, _>::new()?;
//! let id = id.resolve_addr("10.77.0.1:7471".parse()?, second)?.resolve_route(second)?;
//!
//! let (context, pd) = (id.context()?, id.pd()?);
//! let cq = context.create_cq(32)?;
//! let pool = pd.create_pool(8, 64)?;
//! let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })?;
//! qp.post_recv(wr::Recv::new(pool.take().expect("8 buffers")))?; // before the peer can send
//!
//! let mut connection = id.connect(qp, &ConnParam::default(), second)?;
//! post_send!(connection.qp, [wr::Send::inline(b"hello")])?;
//! // ... poll `cq` ...
//! let ended = connection.disconnect()?; // and `ended.qp.drain(..)` returns every buffer
//! # Ok(())
//! # }
//! ```
//!
//! # The passive side
//!
//! ```no_run
//! use proverbs::{cm::*, prelude::*};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let second = Duration::from_secs(1);
//! let listening = CmId::<Tcp, _>::new()?.bind_addr("0.0.0.0:7471".parse()?)?.listen(8)?;
//! loop {
//!     let request = listening.get_request()?;
//!     if request.private_data.starts_with(b"no") {
//!         request.reject(&RejectData::of(b"as you wish"))?;
//!         continue;
//!     }
//!     let (context, pd) = (request.id.context()?, request.id.pd()?);
//!     let mut cq = context.create_cq(32)?;
//!     let pool = pd.create_pool(8, 64)?;
//!     let depth = Depth { send: 8, recv: 8 };
//!     let mut qp = request.id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
//!     qp.post_recv(wr::Recv::new(pool.take().expect("8 buffers")))?; // before the peer can send
//!
//!     let mut connection = request.accept(qp, &AcceptParam::default(), second)?;
//!     // ... poll `cq` ...
//!     // The peer disconnects, or the wait times out.
//!     let ends = connection.id.wait_disconnected(60 * second);
//!     let mut ended = connection.disconnect()?; // this side confirms either way (R16.20)
//!     ended.qp.drain(&mut cq, |_| ())?;
//!     println!("{ends:?}");
//! }
//! # }
//! ```
//!
//! Disconnection as an event: [`Connection::advance`]. Vendor options of the connection (ECE):
//! [`ConnParam::ece`], [`CmId::remote_ece`].
//!
//! Both sides in one thread, with events: [`EventChannel`]. On tokio: `AsyncEventChannel`.
//! Datagrams: [`UdPeer`]. Multicast: [`Group`]. The calls of rdma_verbs.h: [`verbs`].
//!
//! # Peers that serve no READs
//!
//! Some peers do not serve READs or atomics: Linux's NVMe-oF and iSER targets accept with depths of
//! 0, and so do C programs that leave `rdma_conn_param` zeroed. SENDs and WRITEs work on such a
//! connection with every profile. [`Connection::peer`] and [`Request::peer`] then have an
//! [`initiator_depth`](PeerParam::initiator_depth) of 0. The peer refuses a READ or atomic, which
//! completes with [`RemInvReq`](crate::completion::WcStatus::RemInvReq) and breaks the connection.
//! On iWARP such a READ would never complete, so connecting fails with
//! [`Limit`](crate::ErrorKind::Limit) unless the profile has no reads. If your program does not
//! need READs, use a profile with [`NoReads`](crate::qp::NoReads), on which they do not compile:
//!
//! ```no_run
//! use proverbs::{cm::*, prelude::*};
//! use proverbs::qp::NoReads;
//! use std::time::Duration;
//!
//! profile! { Storage { initiator: NoReads } }
//!
//! fn connect(
//!     id: CmId<Tcp, RouteResolved>,
//!     qp: QueuePair<Rc, Init, Storage>,
//! ) -> Result<Connection<Storage>, proverbs::Error> {
//!     // Issues no READs, and serves 16 at once for the peer.
//!     let param = ConnParam {
//!         responder_resources: proverbs::bounded::ResponderDepth::new(16).expect("at most 128"),
//!         ..Default::default()
//!     };
//!     Ok(id.connect(qp, &param, Duration::from_secs(1))?)
//! }
//! ```
//!
//! # Events
//!
//! The effect of each event on a call or a future that waits for its id:
//!
//! | event (`RDMA_CM_EVENT_`) | `resolve_addr` | `resolve_route` | `connect` | `accept` | end of a connection |
//! |---|---|---|---|---|---|
//! | `ADDR_RESOLVED` | done | | | | |
//! | `ADDR_ERROR` | fails | | UDP: fails | | |
//! | `ROUTE_RESOLVED` | | done | | | |
//! | `ROUTE_ERROR` | | fails | | | |
//! | `CONNECT_RESPONSE` | | | TCP: done | | |
//! | `ESTABLISHED` | | | UDP, iWARP: done | done | |
//! | `CONNECT_ERROR`, `REJECTED` | | | fails | fails | fails |
//! | `UNREACHABLE` | | fails | fails | fails | fails |
//! | `DISCONNECTED`, `TIMEWAIT_EXIT` | | | TCP: fails | fails | done |
//! | `DEVICE_REMOVAL` | fails | fails | fails | fails | fails |
//! | `ADDR_CHANGE`, `USER`, unknown ones | | | | | |
//!
//! A step that an event completes fails if the event's status is not 0. An empty cell has no
//! effect: the step still waits. A call that waits on a listening id returns the request of a
//! `CONNECT_REQUEST`, and fails at `DEVICE_REMOVAL`. `MULTICAST_JOIN` and `MULTICAST_ERROR` end the
//! join of their group.
//!
//! Notes on the events that Linux sends (from the sources of 6.12):
//!
//! - An id that listens on a wildcard address (`0.0.0.0` or `::`) never gets `DEVICE_REMOVAL`. It
//!   keeps listening on the other devices, and on devices that are added later. The connections of
//!   the removed device get the event. To detect the removal itself, read the
//!   [events](crate::Context::events) of the device, or listen on an address of the device.
//! - A server that rejects a datagram lookup ([`Udp`]) is reported as `UNREACHABLE`, not as
//!   `REJECTED`. The client gets [`Cm`](crate::ErrorKind::Cm) with the status of the reply, which
//!   is positive. A lookup without an answer has the status -110 (ETIMEDOUT).
//! - `ADDR_CHANGE` is sent only when a bonding interface fails over.
//! - On iWARP, `DISCONNECTED` does not distinguish an orderly end from a broken TCP connection. A
//!   protocol that has to distinguish them needs a last message.
//! - No kernel sends these: `CONNECT_ERROR` for `accept` and for the end of a connection;
//!   `DISCONNECTED` and `TIMEWAIT_EXIT` for `connect` except on iWARP; `UNREACHABLE` and `REJECTED`
//!   for the end of a connection on iWARP. If they are sent nevertheless, the calls fail.
//!
//! [`CmId::wait_disconnected`], [`Connection::advance`] and `AsyncEventChannel::disconnected` wait
//! for the end of a connection. They fail with [`Cm`](crate::ErrorKind::Cm) and the event if the
//! connection broke. Linux 6.0 and later sends `UNREACHABLE` for an established connection when the
//! MAC address of its neighbour changes (on RoCE, and only to the side that resolved the route):
//! messages no longer arrive. [`Connection::disconnect`] ends such a connection without the peer.
//! Once the end was reported, every later call reports it at once. This includes waiting for the
//! peer's confirmation after `disconnect`, which fails with the event that broke the connection.
//!
//! # Without a device
//!
//! With the feature `loopback`, all of this runs on a [`Fabric`](crate::loopback::Fabric), whose
//! first device has the address 10.0.0.1. Only the code that creates the first object names the
//! fabric: [`EventChannel::on`], [`CmId::on`], [`AddrInfo::look_up_on`] and
//! [`PassiveInfo::look_up_on`] take it, and objects that they create are on it. Functions that take
//! the channel or the id can therefore be tested without changes. [`loopback_pair`] returns two
//! connected ends.
//!
//! ```
//! use proverbs::{cm::*, loopback::Fabric, prelude::*};
//! use std::time::Duration;
//!
//! /// The function to test: a client that receives the reason for a rejection.
//! fn ask(id: CmId<Tcp, Created>, at: std::net::SocketAddr) -> Result<String, proverbs::Error> {
//!     let second = Duration::from_secs(1);
//!     let id = id.resolve_addr(at, second)?.resolve_route(second)?;
//!     let (pd, cq) = (id.pd()?, id.context()?.create_cq(32)?);
//!     let qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })?;
//!     match id.connect(qp, &ConnParam::default(), second).map_err(|refused| refused.error) {
//!         Ok(_) => Ok("welcome".into()),
//!         Err(error) => match error.kind() {
//!             ErrorKind::Rejected { private_data, .. } => {
//!                 Ok(String::from_utf8_lossy(private_data).trim_end_matches('\0').into())
//!             }
//!             _ => Err(error),
//!         },
//!     }
//! }
//!
//! let fabric = Fabric::new();
//! let _device = fabric.open_device();
//! let at = "10.0.0.1:7471".parse()?;
//! let listening = CmId::<Tcp, _>::on(&fabric)?.bind_addr(at)?.listen(8)?;
//! std::thread::scope(|scope| {
//!     let said = scope.spawn(|| ask(CmId::on(&fabric)?, at));
//!     listening.get_request()?.reject(&RejectData::of(b"closed today"))?;
//!     assert_eq!(said.join().unwrap()?, "closed today");
//!     Ok::<(), proverbs::Error>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There is no clock: each event is in its channel when the call that caused it returns. A step
//! whose answer can never come times out at once, such as resolving an address that no device has,
//! or connecting to a device that the test [silenced](crate::loopback::Fabric::silence_device). If
//! the answer can still come, such as from a slow listener, the step waits for its timeout. A test
//! removes a device with [`remove_device`](crate::loopback::Fabric::remove_device).
//!
//! # Differences from C
//!
//! - Calls in the wrong order, which crash C programs, do not compile: each method exists only in
//!   the states that allow it.
//! - `connect` and `accept` take timeouts. In librdmacm they may take more than a minute.
//! - Transport retries are six by default, not seven, because Soft-RoCE treats seven as "forever".
//!   RNR retries are six too, because seven is infinite. The RNR timer is 82 ms.
//! - The default context and protection domain belong to this crate, not to librdmacm.

mod accept;
mod addrinfo;
#[cfg(feature = "tokio")]
mod awaited;
mod channel;
mod connect;
mod connection;
mod datagram;
mod devices;
mod ece;
mod ep;
mod event;
mod id;
mod listen;
#[cfg(feature = "loopback")]
mod loopback;
mod multicast;
mod param;
mod private_data;
mod provider;
mod queue_pair;
pub(crate) mod resolve;
mod space;
mod state;
mod table;
mod turn;
pub mod verbs;
pub(crate) mod waits;

pub use accept::{Accepted, NotAccepted};
pub use addrinfo::{AddrInfo, PassiveInfo};
#[cfg(feature = "tokio")]
pub use awaited::AsyncEventChannel;
pub use channel::EventChannel;
pub use connect::{NotConnected, Pending};
pub use connection::{Connection, Disconnects, Ended, HasAnswered};
pub use datagram::{Found, NotFound, RDMA_UDP_QKEY, UdPeer};
pub use ece::HeardPeer;
pub use ep::{Ep, EpParts, EpPending, EpSends, EpState};
pub use event::{Event, EventKind, IdKey, PeerParam};
pub use id::CmId;
pub use listen::Request;
#[cfg(feature = "loopback")]
pub use loopback::{ConnectedPair, loopback_pair};
pub use multicast::{
    FullMember, Group, Join, Joining, Membership, ReceivesFromGroup, SendOnlyFullMember,
};
pub use param::{AcceptParam, ConnParam};
pub use private_data::{
    AcceptData, ConnectData, LookupData, PrivateBytes, PrivateData, PrivateWithin, RejectData,
    ReplyData,
};
pub use queue_pair::{MadeBy, NewFor};
pub use space::{PortSpace, Tcp, Udp};
pub use state::*;
pub use waits::{Progress, Waits};
