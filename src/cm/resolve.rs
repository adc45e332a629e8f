//! From a new id to a route: `rdma_bind_addr`, `rdma_resolve_addr`, `rdma_resolve_route`.

#![allow(unsafe_code)] // one call that needs a device
#![allow(clippy::type_complexity)] // shows what is returned

use std::ffi::c_int;
use std::net::SocketAddr;
use std::time::Duration;

use libc::sockaddr_storage;

use super::event::Event;
use super::id::CmId;
use super::space::PortSpace;
use super::state::{
    AddrResolved, Bound, BoundToDevice, CmState, Mode, OnChannel, ResolvingAddr, ResolvingRoute,
    RouteResolved, Synchronous,
};
use super::table::Waiting;
use super::waits::{Awaited, Progress, Waits, finish};
use crate::allows::{Allows, call};
use crate::sys::cm::{AF_IB, to_c};
use crate::terms::error::{Error, Refused};

const ADDR: &str = "rdma_resolve_addr";
const ROUTE: &str = "rdma_resolve_route";

/// The timeout in milliseconds for C. More than 24 days is truncated.
fn milliseconds(timeout: Duration) -> i32 {
    timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32
}

/// The requested address, and a hint.
fn asked(address: SocketAddr, errno: c_int) -> String {
    if matches!(errno, libc::ENODEV | libc::EINVAL) && address.ip().is_loopback() {
        return format!("{address}: no RDMA device has it; use the address of a network interface");
    }
    if errno == libc::ENODEV {
        return format!("{address}: no RDMA device has this address, or a route to it");
    }
    if errno == libc::EADDRNOTAVAIL {
        return format!(
            "{address}: no network interface of this machine has this address, or another id has \
             the port"
        );
    }
    address.to_string()
}

/// The kernel enforces the timeout and reports it. This limit is for a kernel that does not.
pub(crate) fn patience(timeout: Duration) -> Duration {
    timeout.saturating_add(Duration::from_secs(1))
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Binds the id to a local address (`rdma_bind_addr`). Port 0 selects a free port. The
    /// unspecified address stands for all addresses of this machine. 127.0.0.1 is not an RDMA
    /// address: on Linux, an id that listens there listens on all addresses, and resolving it on
    /// RoCE finds no route. Use the address of the network interface
    /// ([R16.23](crate::guide::rules#r16-23)).
    ///
    /// # Errors
    /// The error contains the id. [`Os`](crate::ErrorKind::Os) with the errno of `rdma_bind_addr`
    /// and the address:
    /// - EADDRNOTAVAIL: no network interface has the address, or another id uses the port and one
    ///   of the two addresses is unspecified.
    /// - ENODEV: no RDMA device has the address.
    /// - EADDRINUSE: another id uses the port.
    #[doc(alias = "rdma_bind_addr")]
    pub fn bind_addr(self, address: SocketAddr) -> Result<CmId<PS, Bound, M>, Refused<Self>>
    where
        Self: Allows<call::BindAddr>,
    {
        self.bind_to(to_c(address), |errno| asked(address, errno))
    }

    /// Binds the id to an address of any family.
    pub(crate) fn bind_to(
        mut self,
        address: sockaddr_storage,
        asked: impl FnOnce(c_int) -> String,
    ) -> Result<CmId<PS, Bound, M>, Refused<Self>> {
        let bound = self.core.id.bind(address);
        or_refused!(self, bound.map_err(|errno| Error::os("rdma_bind_addr", errno, asked(errno))));
        self.core.look();
        Ok(self.to())
    }
}

impl<PS: PortSpace, M: Mode> CmId<PS, Bound, M> {
    /// Returns the id in a state with a device: the device of the address that the id is bound to.
    /// You can then create queue pairs and join [groups](super::Group) without resolving an
    /// address.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with ENODEV if the id is bound to an address that does not
    /// belong to one device, such as 0.0.0.0. The error contains the id.
    ///
    /// ```
    /// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// # let fabric = Fabric::new();
    /// # let _device = fabric.open_device();
    /// let id = CmId::<Udp, _>::on(&fabric)?.bind_addr("10.0.0.1:0".parse()?)?.on_device()?;
    /// println!("bound to port {} of {:?}", id.port(), id.device());
    /// let any = CmId::<Udp, _>::on(&fabric)?.bind_addr("0.0.0.0:0".parse()?)?;
    /// assert!(any.on_device().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_device(self) -> Result<CmId<PS, BoundToDevice, M>, Refused<Self>> {
        if self.core.device.is_some() {
            return Ok(self.to());
        }
        let at = self.local_addr().map(|address| address.to_string()).unwrap_or_default();
        let asked =
            format!("{at} is not the address of one device: bind to its interface's address");
        Err(Refused::new(self, Error::os("rdma_bind_addr", libc::ENODEV, asked)))
    }
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// For addresses of any family.
    pub(crate) fn begin_addr(
        mut self,
        peer: sockaddr_storage,
        timeout: Duration,
        asked: impl Fn(c_int) -> String,
    ) -> Result<CmId<PS, ResolvingAddr, M>, Refused<CmId<PS, Bound, M>>> {
        match self.core.id.resolve_addr(peer, milliseconds(timeout)) {
            Ok(()) => Ok(self.to()),
            Err(errno) => {
                let why = self.of_another_family(peer).filter(|_| errno == libc::EINVAL);
                let asked = why.map_or_else(|| asked(errno), |why| asked(0) + &why);
                Err(Refused::new(self.to(), Error::os(ADDR, errno, asked)))
            }
        }
    }

    /// The hint that the id is bound to another family, if it is.
    fn of_another_family(&self, peer: sockaddr_storage) -> Option<String> {
        let ip = self.local_addr().map(|own| (to_c(own).ss_family, own.to_string()));
        let ib = || self.local_ib_addr().map(|own| (AF_IB, own.to_string()));
        let (family, own) = ip.or_else(ib)?;
        (family != peer.ss_family).then(|| {
            format!(": the id is bound to {own}; use an unbound id, or one of the peer's family")
        })
    }
}

impl<PS: PortSpace, S: CmState> CmId<PS, S, Synchronous> {
    /// Finds the device that reaches `peer`, and resolves the peer's address, within `timeout`
    /// (`rdma_resolve_addr`). To choose the local address, bind the id first.
    ///
    /// # Errors
    /// The error contains the id, bound.
    /// - [`Cm`](crate::ErrorKind::Cm) with RDMA_CM_EVENT_ADDR_ERROR: the kernel finds no path, or
    ///   receives no answer in time.
    /// - [`TimedOut`](crate::ErrorKind::TimedOut): the kernel has not reported a timeout a second
    ///   later.
    /// - [`Os`](crate::ErrorKind::Os) with the errno of `rdma_resolve_addr` and the address.
    ///   EINVAL: the id is bound to an address of another family. ENETUNREACH: this machine has no
    ///   route to it. ENODEV: no RDMA device reaches it. After such an error the id may be unbound:
    ///   [`local_addr`](Self::local_addr) is then `None`, and [`listen`](Self::listen) listens on
    ///   any address on Linux but fails on a fabric.
    #[doc(alias = "rdma_resolve_addr")]
    pub fn resolve_addr(
        self,
        peer: SocketAddr,
        timeout: Duration,
    ) -> Result<CmId<PS, AddrResolved>, Refused<CmId<PS, Bound>>>
    where
        Self: Allows<call::ResolveAddr>,
    {
        let begun = self.begin_addr(to_c(peer), timeout, |errno| asked(peer, errno))?;
        finish(begun, patience(timeout))
    }
}

impl<PS: PortSpace, S: CmState> CmId<PS, S, OnChannel> {
    /// Starts to find the device that reaches `peer` (`rdma_resolve_addr`). To choose the local
    /// address, bind the id first. The result is an event for [`advance`](CmId::advance).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_resolve_addr` and the address. The
    /// error contains the id, which may be unbound, as for a synchronous id.
    #[doc(alias = "rdma_resolve_addr")]
    pub fn resolve_addr(
        self,
        peer: SocketAddr,
        timeout: Duration,
    ) -> Result<CmId<PS, ResolvingAddr, OnChannel>, Refused<CmId<PS, Bound, OnChannel>>>
    where
        Self: Allows<call::ResolveAddr>,
    {
        self.begin_addr(to_c(peer), timeout, |errno| asked(peer, errno))
    }
}

impl<PS: PortSpace, M: Mode> Waits for CmId<PS, ResolvingAddr, M> {
    type Done = CmId<PS, AddrResolved, M>;
    type Failed = CmId<PS, Bound, M>;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::new(ADDR, Waiting::Addr, &self.core)
    }

    fn done(mut self, _: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        self.core.look();
        if self.core.device.is_some() {
            return Progress::Done(self.to());
        }
        let error = Error::os(ADDR, libc::ENODEV, "the id has no device");
        Progress::Failed(Refused::new(self.to(), error))
    }

    fn give_up(self) -> Self::Failed {
        self.to()
    }
}

impl<PS: PortSpace> CmId<PS, ResolvingAddr, OnChannel> {
    /// Processes an event of this id. After ADDR_RESOLVED the id has a device. An event of another
    /// id changes nothing.
    ///
    /// [`Progress::Failed`] contains the bound id, and the error that `resolve_addr` of a
    /// synchronous id returns.
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<CmId<PS, AddrResolved, OnChannel>, Self, CmId<PS, Bound, OnChannel>> {
        self.step(event)
    }
}

impl<PS: PortSpace, M: Mode> CmId<PS, AddrResolved, M> {
    fn begin_route(
        mut self,
        timeout: Duration,
    ) -> Result<CmId<PS, ResolvingRoute, M>, Refused<Self>> {
        // SAFETY: in this state the id has a device.
        match unsafe { self.core.id.resolve_route(milliseconds(timeout)) } {
            Ok(()) => Ok(self.to()),
            Err(errno) => {
                let asked = self.peer_addr().map(|peer| asked(peer, errno)).unwrap_or_default();
                Err(Refused::new(self, Error::os(ROUTE, errno, asked)))
            }
        }
    }
}

impl<PS: PortSpace, S: CmState> CmId<PS, S, Synchronous> {
    /// Finds the route to the peer, within `timeout` (`rdma_resolve_route`). If ibacm(1) runs,
    /// librdmacm queries ibacm before the kernel, and waits for the answer with a separate timeout.
    ///
    /// # Errors
    /// The error contains the id, with its address resolved.
    /// - [`Cm`](crate::ErrorKind::Cm) with RDMA_CM_EVENT_ROUTE_ERROR: the kernel finds no route, or
    ///   receives no answer in time.
    /// - [`TimedOut`](crate::ErrorKind::TimedOut): the kernel has not reported a timeout a second
    ///   later.
    /// - [`Os`](crate::ErrorKind::Os) with the errno of `rdma_resolve_route`.
    #[doc(alias = "rdma_resolve_route")]
    pub fn resolve_route(
        self,
        timeout: Duration,
    ) -> Result<CmId<PS, RouteResolved>, Refused<CmId<PS, AddrResolved>>>
    where
        Self: Allows<call::ResolveRoute>,
    {
        finish(self.to::<AddrResolved>().begin_route(timeout)?, patience(timeout))
    }
}

impl<PS: PortSpace, S: CmState> CmId<PS, S, OnChannel> {
    /// Starts to find the route to the peer (`rdma_resolve_route`). If ibacm(1) runs, librdmacm
    /// queries it first. This call then waits for ibacm's answer, with a separate timeout, and
    /// locks the [channel](super::EventChannel) during the wait.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_resolve_route`. The error contains the
    /// id.
    #[doc(alias = "rdma_resolve_route")]
    pub fn resolve_route(
        self,
        timeout: Duration,
    ) -> Result<CmId<PS, ResolvingRoute, OnChannel>, Refused<Self>>
    where
        Self: Allows<call::ResolveRoute>,
    {
        self.to::<AddrResolved>().begin_route(timeout).map_err(|refused| refused.map(CmId::to))
    }
}

impl<PS: PortSpace, M: Mode> Waits for CmId<PS, ResolvingRoute, M> {
    type Done = CmId<PS, RouteResolved, M>;
    type Failed = CmId<PS, AddrResolved, M>;

    fn awaits(&self) -> Awaited<'_> {
        Awaited::new(ROUTE, Waiting::Route, &self.core)
    }

    fn done(self, _: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        Progress::Done(self.to())
    }

    fn give_up(self) -> Self::Failed {
        self.to()
    }
}

impl<PS: PortSpace> CmId<PS, ResolvingRoute, OnChannel> {
    /// Processes an event of this id. After ROUTE_RESOLVED the id can connect. An event of another
    /// id changes nothing.
    ///
    /// [`Progress::Failed`] contains the id, with its address resolved, and the error that
    /// `resolve_route` of a synchronous id returns.
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<CmId<PS, RouteResolved, OnChannel>, Self, CmId<PS, AddrResolved, OnChannel>> {
        self.step(event)
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use std::mem::forget;

    use super::*;
    use crate::cm::id::Core;
    use crate::cm::space::Tcp;
    use crate::provider_tests::cm as stub;
    use crate::sys::types::raw::rdma_cm_event_type as Type;

    /// Timeouts are rounded up and truncated to the range of C's type. The kernel has one more
    /// second to report them.
    #[test]
    fn time_outs_as_c_takes_them() {
        let micros = [0, 1, 1000, 1001, 60_000_000].map(Duration::from_micros);
        assert_eq!(micros.map(milliseconds), [0, 1, 1, 2, 60_000]);
        assert_eq!(milliseconds(Duration::MAX), i32::MAX);
        assert_eq!(patience(Duration::from_secs(2)), Duration::from_secs(3));
        assert_eq!(patience(Duration::MAX), Duration::MAX);
    }

    /// Ids in the next state have a device, which librdmacm does not check. An id without a device
    /// must not reach that state.
    #[test]
    fn an_address_without_a_device_is_not_resolved() {
        let id = CmId::<Tcp, ResolvingAddr>::from_core(Core::new(stub::id(7, None)));
        let event =
            |key| Event { copied: stub::event(key, 0, Type::RDMA_CM_EVENT_ADDR_RESOLVED, 0) };
        let Progress::Waiting(id) = id.step(&event(8)) else { panic!("not its event") };
        let Progress::Failed(refused) = id.step(&event(7)) else { panic!("it has no device") };
        assert_eq!(refused.error.errno(), Some(libc::ENODEV));
        forget(refused.into_object());
    }
}
