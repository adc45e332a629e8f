//! The states of an id, as types, and the calls that each allows.

use super::id::CmId;
use super::space::{PortSpace, Udp};

/// New, without an address or a device.
#[derive(Debug)]
pub enum Created {}
/// Bound to a local address, and to its device if the address belongs to one device.
#[derive(Debug)]
pub enum Bound {}
/// Bound to the address of a device ([`on_device`](super::CmId::on_device)).
#[derive(Debug)]
pub enum BoundToDevice {}
/// `rdma_resolve_addr` is in progress.
#[derive(Debug)]
pub enum ResolvingAddr {}
/// The peer's address and the device that reaches it are known.
#[derive(Debug)]
pub enum AddrResolved {}
/// `rdma_resolve_route` is in progress.
#[derive(Debug)]
pub enum ResolvingRoute {}
/// The route is known. Ready to connect.
#[derive(Debug)]
pub enum RouteResolved {}
/// A connection request was sent.
#[derive(Debug)]
pub enum Connecting {}
/// A connection request arrived and is not answered yet.
#[derive(Debug)]
pub enum Requested {}
/// A connection request was accepted; the peer has not confirmed it yet.
#[derive(Debug)]
pub enum Accepting {}
/// Connected, as far as this program knows. On UDP, the peer was found or answered.
#[derive(Debug)]
pub enum Established {}
/// Listening for connection requests.
#[derive(Debug)]
pub enum Listening {}
/// Disconnected by this side.
#[derive(Debug)]
pub enum Disconnected {}
/// The attempt failed. The id can only be destroyed.
#[derive(Debug)]
pub enum Unusable {}

/// A state of a [`CmId`](super::CmId); [the module docs](super) describe the transitions.
///
/// ```
/// use proverbs::cm::*;
///
/// fn say<S: CmState, M: Mode>(id: &CmId<Tcp, S, M>) {
///     println!("{:?} is {}", id.key(), S::NAME);
/// }
/// assert_eq!(RouteResolved::NAME, "RouteResolved");
/// ```
///
/// Generic functions name the calls that the id must allow ([`Allows`](crate::rules::Allows)):
///
/// ```no_run
/// use std::{net::SocketAddr, time::Duration};
///
/// use proverbs::{cm::*, prelude::*};
/// use proverbs::rules::{Allows, call};
///
/// const SECOND: Duration = Duration::from_secs(1);
///
/// /// For a new id or a bound one.
/// fn reach<S: CmState>(
///     id: CmId<Tcp, S>,
///     to: SocketAddr,
/// ) -> Result<CmId<Tcp, AddrResolved>, proverbs::Error>
/// where
///     CmId<Tcp, S>: Allows<call::ResolveAddr>,
/// {
///     Ok(id.resolve_addr(to, SECOND)?)
/// }
///
/// fn memory<S: HasDevice>(id: &CmId<Tcp, S>) -> Result<Pool, proverbs::Error> {
///     id.pd()?.create_pool(8, 64)
/// }
///
/// fn listen<S: CmState, M: Mode>(
///     id: CmId<Tcp, S, M>,
/// ) -> Result<CmId<Tcp, Listening, M>, proverbs::Error>
/// where
///     CmId<Tcp, S, M>: Allows<call::Listen>,
/// {
///     Ok(id.listen(8)?)
/// }
///
/// fn low_delay<S: CmState>(id: &mut CmId<Tcp, S>) -> Result<(), proverbs::Error>
/// where
///     CmId<Tcp, S>: Allows<call::SetOption>,
/// {
///     id.set_tos(0x10)
/// }
///
/// fn is_over<S: CmState>(id: &mut CmId<Tcp, S>) -> bool
/// where
///     CmId<Tcp, S>: Allows<call::WaitDisconnected>,
/// {
///     id.wait_disconnected(Duration::ZERO).is_ok()
/// }
/// ```
#[doc(alias = "qp_type")]
pub trait CmState: sealed::Sealed + 'static {
    /// Its name.
    const NAME: &'static str;
}

/// States in which the id has a device, so that queue pairs and regions can be created
/// ([R16.5](crate::guide::rules#r16-5)).
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` has no device yet",
    label = "this id is in state `{Self}`",
    note = "resolve the address first (`resolve_addr`), take the id from a connection request, or call `on_device` on a bound id"
)]
pub trait HasDevice: CmState {}
impl HasDevice for BoundToDevice {}
impl HasDevice for AddrResolved {}
impl HasDevice for RouteResolved {}
impl HasDevice for Requested {}
impl HasDevice for Accepting {}
impl HasDevice for Connecting {}
impl HasDevice for Established {}

/// The state in which an id can be bound: created ([R16.1](crate::guide::rules#r16-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot be bound",
    label = "this id is in state `{Self}`",
    note = "bind a new id, before anything else; resolving an address binds it as well"
)]
pub trait Binds: CmState {}
impl Binds for Created {}

/// The state in which an id can start to listen: bound ([R16.1](crate::guide::rules#r16-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot listen",
    label = "this id is in state `{Self}`",
    note = "bind a new id to a local address with `bind_addr`, then listen"
)]
pub trait Listens: CmState {}
impl Listens for Bound {}
impl Listens for BoundToDevice {}

/// The state in which connection requests arrive: listening ([R16.1](crate::guide::rules#r16-1),
/// [R16.14](crate::guide::rules#r16-14)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` does not receive connection requests",
    label = "this id is in state `{Self}`",
    note = "only a listening id receives them: `bind_addr`, then `listen`"
)]
pub trait TakesRequests: CmState {}
impl TakesRequests for Listening {}

/// The state in which a route can be resolved: address resolved.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot resolve a route",
    label = "this id is in state `{Self}`",
    note = "call `resolve_addr` first; in C, resolving the route first causes a segmentation fault (R16.2)"
)]
pub trait ResolvesRoute: HasDevice {}
impl ResolvesRoute for AddrResolved {}

/// The state in which an id can connect: route resolved.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot connect",
    label = "this id is in state `{Self}`",
    note = "`resolve_addr` and `resolve_route` come first; in C this order causes a segmentation fault (R16.3)"
)]
pub trait Connects: HasDevice {}
impl Connects for RouteResolved {}

/// States in which an address can be resolved ([R16.1](crate::guide::rules#r16-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot resolve an address",
    label = "this id is in state `{Self}`",
    note = "the order is created [-> bound] -> address resolved -> route resolved -> connected; start with a new id"
)]
pub trait Resolves: CmState {}
impl Resolves for Created {}
impl Resolves for Bound {}
impl Resolves for BoundToDevice {}

/// States in which the options of a connection can be set. The kernel reads them when it resolves
/// the route.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "options can no longer be set on an id in state `{Self}`",
    label = "this id is in state `{Self}`",
    note = "the kernel reads options when it resolves the route: set them before `resolve_route`; `ConnParam` has an `ack_timeout` for one connection"
)]
pub trait TakesOptions: CmState {}
impl TakesOptions for Created {}
impl TakesOptions for Bound {}
impl TakesOptions for BoundToDevice {}
impl TakesOptions for AddrResolved {}

/// States in which an id can join multicast groups: it has a device, and no connection was started
/// ([R23.4](crate::guide::rules#r23-4)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot join a multicast group",
    label = "this id is in state `{Self}`",
    note = "bind a new id to the address of a device (`bind_addr`) and call `on_device`, or resolve the group's own address (`resolve_addr`)"
)]
pub trait JoinsGroups: HasDevice {}
impl JoinsGroups for BoundToDevice {}
impl JoinsGroups for AddrResolved {}

/// Whether events are delivered to a channel that the program reads ([`OnChannel`]), or each call
/// waits for its own event ([`Synchronous`]).
///
/// Blocking calls require a synchronous id ([R16.14](crate::guide::rules#r16-14)).
///
/// ```
/// use proverbs::cm::*;
///
/// /// Sets options in both modes.
/// fn low_delay<M: Mode>(id: &mut CmId<Tcp, Created, M>) -> Result<(), proverbs::Error> {
///     id.set_tos(0x10)
/// }
/// ```
#[doc(alias = "rdma_cm_id")]
pub trait Mode: sealed::Sealed + 'static {}
/// Each call waits for its result.
#[derive(Debug)]
pub enum Synchronous {}
/// Each call returns at once; its result is an event of the id's
/// [`EventChannel`](super::EventChannel).
#[derive(Debug)]
pub enum OnChannel {}
impl Mode for Synchronous {}
impl Mode for OnChannel {}

/// The mode in which calls wait: [`Synchronous`] ([R16.14](crate::guide::rules#r16-14)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id on an event channel does not wait inside calls",
    label = "this id's events go to its channel",
    note = "take the event from the `EventChannel`, or make the id synchronous with `into_synchronous`"
)]
pub trait WaitsInCalls: Mode {}
impl WaitsInCalls for Synchronous {}

allows! {
    [PS: PortSpace, S: HasDevice, M: Mode] CmId<PS, S, M>: UseDevice;
    [PS: PortSpace, S: Binds, M: Mode] CmId<PS, S, M>: BindAddr, SetAddrOption;
    [PS: PortSpace, S: Listens, M: Mode] CmId<PS, S, M>: Listen;
    [PS: PortSpace, S: TakesRequests, M: WaitsInCalls] CmId<PS, S, M>: GetRequest;
    [PS: PortSpace, S: Resolves, M: Mode] CmId<PS, S, M>: ResolveAddr;
    [PS: PortSpace, S: ResolvesRoute, M: Mode] CmId<PS, S, M>: ResolveRoute;
    [PS: PortSpace, S: Connects, M: Mode] CmId<PS, S, M>: Connect;
    [PS: PortSpace, S: TakesOptions, M: Mode] CmId<PS, S, M>: SetOption;
    [S: JoinsGroups, M: Mode] CmId<Udp, S, M>: JoinMulticast, LeaveMulticast;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Synchronous {}
    impl Sealed for super::OnChannel {}
}

macro_rules! states {
    ($($s:ident)*) => {$(
        impl sealed::Sealed for $s {}
        impl CmState for $s {
            const NAME: &'static str = stringify!($s);
        }
    )*};
}

states!(Created Bound BoundToDevice ResolvingAddr AddrResolved ResolvingRoute RouteResolved Connecting Requested);
states!(Accepting Established Listening Disconnected Unusable);
