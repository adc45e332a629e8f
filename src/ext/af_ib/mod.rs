//! InfiniBand addresses (AF_IB), for ids without an IP address. [`IbAddr`] has an example.
//!
//! The design is in [docs/af-ib.md](https://docs.rs/crate/proverbs/latest/source/docs/af-ib.md).

#![allow(clippy::type_complexity)] // shows what is returned

use std::fmt;
use std::time::Duration;

use crate::allows::{Allows, call};
use crate::cm::resolve::patience;
use crate::cm::waits::finish;
use crate::cm::{
    AddrResolved, Bound, CmId, CmState, Mode, OnChannel, PortSpace, ResolvingAddr, Synchronous,
};
use crate::sys::cm::{IbSocket, ib_to_c};
use crate::terms::error::Refused;
use crate::terms::gid::Gid;

/// A native InfiniBand address: a GID, a partition, and a port of the id's port space (`struct
/// sockaddr_ib` of rdma/ib.h, family AF_IB). The network interface does not need an IP address, and
/// no IP address of the peer is looked up.
///
/// ```
/// use proverbs::{cm::*, ext::af_ib::IbAddr, loopback::{Fabric, World}, prelude::*};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let second = Duration::from_secs(1);
/// let fabric = Fabric::with(World::infiniband());
/// let device = fabric.open_device();
/// let at = IbAddr::new(device.query_gid(1, 0)?, 7471);
///
/// let listening = CmId::<Tcp, _>::on(&fabric)?.bind_ib_addr(at)?.listen(8)?; // or `CmId::new()`
/// assert_eq!((listening.local_ib_addr(), listening.local_addr()), (Some(at), None));
/// let id = CmId::<Tcp, _>::on(&fabric)?.resolve_ib_addr(at, second)?.resolve_route(second)?;
/// assert_eq!(id.peer_ib_addr(), Some(at));
/// # Ok(())
/// # }
/// ```
#[doc(alias("RDMA_IB_IP_PS_TCP", "RDMA_IB_IP_PS_UDP"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IbAddr {
    /// The GID of the port; all zeroes for any port of this machine.
    pub gid: Gid,
    /// The partition, which must be in the P_Key table of the port.
    pub pkey: u16,
    /// The port in the id's port space; 0 selects a free one.
    pub port: u16,
}

impl IbAddr {
    /// An address in the default partition, 0xffff.
    pub fn new(gid: Gid, port: u16) -> IbAddr {
        IbAddr { gid, pkey: 0xffff, port }
    }

    fn to_socket<PS: PortSpace>(self) -> IbSocket {
        // `RDMA_IB_IP_PS_TCP` and `RDMA_IB_IP_PS_UDP` have the same values as the port spaces.
        let sid = u64::from(PS::C) << 16 | u64::from(self.port);
        IbSocket { gid: self.gid.0, pkey: self.pkey, sid }
    }

    fn of(socket: IbSocket) -> IbAddr {
        IbAddr { gid: Gid(socket.gid), pkey: socket.pkey, port: socket.sid as u16 }
    }
}

impl fmt::Display for IbAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GID {}, P_Key {:#06x}, port {}", self.gid, self.pkey, self.port)
    }
}

impl<PS: PortSpace, S: CmState, M: Mode> CmId<PS, S, M> {
    /// Binds the id to a local InfiniBand address (`rdma_bind_addr`).
    ///
    /// # Errors
    /// The error contains the id. [`Os`](crate::ErrorKind::Os) with the errno of `rdma_bind_addr`
    /// and the address. ENODEV: no device has the address, or the device's fabric does not have
    /// such addresses. EADDRINUSE: another id uses the port.
    pub fn bind_ib_addr(self, address: IbAddr) -> Result<CmId<PS, Bound, M>, Refused<Self>>
    where
        Self: Allows<call::BindAddr>,
    {
        self.bind_to(ib_to_c(address.to_socket::<PS>()), |_| address.to_string())
    }

    /// The local address, if the id is bound to an InfiniBand address.
    pub fn local_ib_addr(&self) -> Option<IbAddr> {
        self.core.id.ib_addresses().0.map(IbAddr::of)
    }

    /// The peer's address, if it is an InfiniBand address. `None` before the id has resolved it or
    /// the peer has sent a request.
    pub fn peer_ib_addr(&self) -> Option<IbAddr> {
        self.core.id.ib_addresses().1.map(IbAddr::of)
    }
}

impl<PS: PortSpace, S: CmState> CmId<PS, S, Synchronous> {
    /// Finds the device that reaches `peer`, within `timeout`, like
    /// [`resolve_addr`](Self::resolve_addr).
    ///
    /// # Errors
    /// As for [`resolve_addr`](Self::resolve_addr).
    pub fn resolve_ib_addr(
        self,
        peer: IbAddr,
        timeout: Duration,
    ) -> Result<CmId<PS, AddrResolved>, Refused<CmId<PS, Bound>>>
    where
        Self: Allows<call::ResolveAddr>,
    {
        let to = ib_to_c(peer.to_socket::<PS>());
        finish(self.begin_addr(to, timeout, |_| peer.to_string())?, patience(timeout))
    }
}

impl<PS: PortSpace, S: CmState> CmId<PS, S, OnChannel> {
    /// Starts to find the device that reaches `peer`, like [`resolve_addr`](Self::resolve_addr).
    ///
    /// # Errors
    /// As for [`resolve_addr`](Self::resolve_addr).
    pub fn resolve_ib_addr(
        self,
        peer: IbAddr,
        timeout: Duration,
    ) -> Result<CmId<PS, ResolvingAddr, OnChannel>, Refused<CmId<PS, Bound, OnChannel>>>
    where
        Self: Allows<call::ResolveAddr>,
    {
        self.begin_addr(ib_to_c(peer.to_socket::<PS>()), timeout, |_| peer.to_string())
    }
}
