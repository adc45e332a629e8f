//! rdma_cm on a loopback fabric: where ids, channels and addresses of one come from.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::addrinfo::{AddrInfo, PassiveInfo};
use super::channel::EventChannel;
use super::id::CmId;
use super::provider::Provider;
use super::space::PortSpace;
use super::state::Created;
use crate::loopback::{self, Fabric};
use crate::sys::cm::Channel;
use crate::terms::error::{Error, ErrorKind};

fn open(fabric: &Fabric) -> Result<Arc<Channel>, Error> {
    let opened = loopback::cm::open_channel(fabric).map(Arc::new);
    opened.map_err(|errno| Error::os("rdma_create_event_channel", errno, "on a loopback fabric"))
}

impl EventChannel {
    /// Opens a channel on a [loopback fabric](Fabric), in the place of [`new`](Self::new): its ids
    /// are on the devices of the fabric, and their queue pairs too.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os): too many files are open.
    pub fn on(fabric: &Fabric) -> Result<Self, Error> {
        open(fabric).map(|channel| EventChannel { channel })
    }
}

impl<PS: PortSpace> CmId<PS, Created> {
    /// Creates an id on a [loopback fabric](Fabric), in the place of [`new`](Self::new). The first
    /// device of a fabric has the address 10.0.0.1, the next one 10.0.0.2
    /// ([`Fabric::ip_of`]).
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
    /// let listening = CmId::<Tcp, _>::on(&fabric)?.bind_addr("10.0.0.2:7471".parse()?)?.listen(8)?;
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

/// The address of a node, an IP address or the name of a device, and a service, a port.
fn look_up(fabric: &Fabric, node: Option<&str>, service: &str) -> Result<SocketAddr, Error> {
    let ip = match node {
        None => Some(fabric.unspecified_ip()),
        Some(node) => node.parse::<IpAddr>().ok().or_else(|| fabric.ip_of_name(node)),
    };
    let port = service.parse::<u16>().ok();
    ip.zip(port).map(SocketAddr::from).ok_or_else(|| {
        let asked = format!("{}:{service}", node.unwrap_or("*"));
        let possible = "a loopback fabric knows IP addresses, names of its devices, and ports";
        Error::new("rdma_getaddrinfo", ErrorKind::NotFound(format!("{asked}: {possible}")))
    })
}

impl<PS: PortSpace> AddrInfo<PS> {
    /// The address of a node and a service on a [loopback fabric](Fabric), in the place of
    /// [`look_up`](Self::look_up): the node is an IP address or the name of a device, the service a
    /// port.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if either is anything else.
    pub fn look_up_on(fabric: &Fabric, node: &str, service: &str) -> Result<Vec<Self>, Error> {
        let peer = look_up(fabric, Some(node), service)?;
        Ok(vec![AddrInfo::of(None, peer, Provider::Fabric(fabric.clone()))])
    }
}

impl<PS: PortSpace> PassiveInfo<PS> {
    /// The address to listen on for a service on a [loopback fabric](Fabric), in the place of
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
