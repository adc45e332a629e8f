//! The states of an id, as types.

/// New: neither address nor device.
pub enum Created {}
/// Bound to a local address; to a device, if the address was one of a device.
pub enum Bound {}
/// `rdma_resolve_addr` is under way.
pub enum ResolvingAddr {}
/// The peer's address is known, and the device that leads there.
pub enum AddrResolved {}
/// `rdma_resolve_route` is under way.
pub enum ResolvingRoute {}
/// The route is known: ready to connect.
pub enum RouteResolved {}
/// A connection request was sent.
pub enum Connecting {}
/// A connection request arrived and waits for an answer.
pub enum Requested {}
/// A connection request was accepted, and the peer has not confirmed yet.
pub enum Accepting {}
/// Connected, as far as this program knows. On UDP: the peer was found, or told who we are.
pub enum Connected {}
/// Listening for connection requests.
pub enum Listening {}
/// Disconnected by this side.
pub enum Disconnected {}
/// An attempt failed: nothing is left to do with the id but to destroy it.
pub enum Spent {}

/// A state of an id.
pub trait CmState: sealed::Sealed + 'static {
    /// Its name.
    const NAME: &'static str;
}

/// States in which the id has a device, so that queue pairs and regions can be made (R16.5).
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` has no device yet",
    label = "this id is in state `{Self}`",
    note = "resolve the address first (`resolve_addr`), or take the id from a connection request (R16.5)"
)]
pub trait HasDevice: CmState {}
impl HasDevice for AddrResolved {}
impl HasDevice for RouteResolved {}
impl HasDevice for Requested {}
impl HasDevice for Accepting {}
impl HasDevice for Connecting {}
impl HasDevice for Connected {}

/// States from which an address is resolved.
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` cannot resolve an address",
    label = "this id is in state `{Self}`",
    note = "the way is created [-> bound] -> address resolved -> route resolved -> connected; start with a new id (R16.1)"
)]
pub trait Resolves: CmState {}
impl Resolves for Created {}
impl Resolves for Bound {}

/// Whether events go to a channel that the program reads ([`OnChannel`]), or each call waits for its own
/// ([`Synchronous`]).
pub trait Mode: sealed::Sealed + 'static {}
/// Each call waits for its result.
#[derive(Debug)]
pub enum Synchronous {}
/// Each call returns at once; its result is an event of the id's [`EventChannel`](super::EventChannel).
#[derive(Debug)]
pub enum OnChannel {}
impl Mode for Synchronous {}
impl Mode for OnChannel {}

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

states!(Created Bound ResolvingAddr AddrResolved ResolvingRoute RouteResolved Connecting Requested);
states!(Accepting Connected Listening Disconnected Spent);
