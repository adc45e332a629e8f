//! Name resolution and endpoints: `rdma_getaddrinfo` and `rdma_create_ep`.

use std::ffi::CString;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use super::ep::{Ep, EpState};
use super::id::CmId;
use super::provider::Provider;
use super::space::PortSpace;
use super::state::{Bound, Listening, RouteResolved};
use crate::device::pd::ProtectionDomain;
use crate::profile::{AnyThread, Profile};
use crate::qp::CreatedWith;
use crate::sys::absence::{self, Wanted};
use crate::sys::cm::{Found, NotFound, getaddrinfo};
use crate::terms::error::{Error, ErrorKind};

const VERB: &str = "rdma_getaddrinfo";

/// An address to connect to, of port space `PS` (`rdma_addrinfo`).
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), proverbs::Error> {
/// let second = Duration::from_secs(1);
/// let found = AddrInfo::<Tcp>::look_up("storage", "7471")?;
/// let depth = Depth { send: 8, recv: 8 };
/// let ep = found[0].create_ep::<DefaultProfile>(None, depth, second)?;
/// let ep = ep.connect(&ConnParam::default(), second)?;
/// # drop(ep);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rdma_addrinfo")]
#[derive(Debug)]
pub struct AddrInfo<PS: PortSpace> {
    /// The local address to use, if the resolver returns one.
    #[doc(alias("ai_family", "ai_next"))]
    pub local: Option<SocketAddr>,
    /// The peer's address.
    pub peer: SocketAddr,
    provider: Provider,
    _space: PhantomData<PS>,
}

/// An address to listen on, of port space `PS` (`rdma_addrinfo` with RAI_PASSIVE).
///
/// ```no_run
/// use proverbs::{cm::*, prelude::*};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), proverbs::Error> {
/// let any = PassiveInfo::<Tcp>::look_up(None, "7471")?;
/// let mut bound = any[0].bind()?; // `any[0].listen(8)` if there are no options to set
/// bound.set_tos(8)?;
/// let listening = bound.listen(8)?;
/// let request = listening.get_request()?;
/// let depth = Depth { send: 8, recv: 8 };
/// let ep = request.create_ep::<DefaultProfile>(None, depth)?;
/// let ep = ep.accept(&AcceptParam::default(), Duration::from_secs(1))?;
/// # drop(ep);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PassiveInfo<PS: PortSpace> {
    /// The local address.
    pub local: SocketAddr,
    provider: Provider,
    _space: PhantomData<PS>,
}

/// Converts librdmacm's results with `of`. Returns at least one.
fn look_up<T>(
    node: Option<&str>,
    service: &str,
    ps: u32,
    passive: bool,
    of: impl Fn(Found) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let asked = format!("{}:{service}", node.unwrap_or("*"));
    let c =
        |name| CString::new(name).map_err(|_| Error::os(VERB, libc::EINVAL, "a NUL in the name"));
    let (node, service) = (node.map(c).transpose()?, c(service)?);
    match getaddrinfo(node.as_deref(), &service, ps, passive) {
        Ok(found) => at_least_one(found.into_iter().filter_map(of).collect(), &asked),
        Err(NotFound::Errno(errno)) => Err(absence::error(VERB, Wanted::Cm, errno, &asked)),
        Err(NotFound::Words(words)) => {
            Err(Error::new(VERB, ErrorKind::NotFound(format!("{asked}: {words}"))))
        }
    }
}

fn at_least_one<T>(all: Vec<T>, asked: &str) -> Result<Vec<T>, Error> {
    if all.is_empty() {
        let asked = format!("{asked} has no IP address");
        return Err(Error::new(VERB, ErrorKind::NotFound(asked)));
    }
    Ok(all)
}

impl<PS: PortSpace> AddrInfo<PS> {
    pub(super) fn of(local: Option<SocketAddr>, peer: SocketAddr, provider: Provider) -> Self {
        AddrInfo { local, peer, provider, _space: PhantomData }
    }

    /// Resolves a node and a service, by name or number (`rdma_getaddrinfo`). Returns at least one
    /// address. The call has no deadline, because neither getaddrinfo(3) nor ibacm(1) supports a
    /// timeout: it waits for the system's resolver, and for ibacm if it runs.
    ///
    /// # Errors
    /// - [`NotFound`](ErrorKind::NotFound) with the resolver's text: the node, service or IP
    ///   address is unknown.
    /// - [`Absent`](ErrorKind::Absent): this process cannot use rdma_cm.
    /// - [`Os`](ErrorKind::Os): any other errno of the call, or EINVAL for a NUL in a name.
    #[doc(alias("rdma_getaddrinfo", "rdma_freeaddrinfo", "ai_flags", "ai_port_space"))]
    #[doc(alias("ai_qp_type", "ai_src_addr", "ai_src_len", "ai_dst_addr", "ai_dst_len"))]
    pub fn look_up(node: &str, service: &str) -> Result<Vec<Self>, Error> {
        look_up(Some(node), service, PS::C, false, |Found { local, peer }| {
            Some(AddrInfo::of(local, peer?, Provider::System))
        })
    }

    /// Creates an endpoint with a resolved route (`rdma_create_ep`). Each step takes at most
    /// `timeout`. If `pd` is `None`, the endpoint uses the [`pd`](CmId::pd) of its id.
    ///
    /// # Errors
    /// As for [`CmId::new`], [`bind_addr`](CmId::bind_addr), [`resolve_addr`](CmId::resolve_addr),
    /// [`resolve_route`](CmId::resolve_route) and [`create_ep`](CmId::create_ep).
    pub fn create_ep<P: Profile<Threads = AnyThread>>(
        &self,
        pd: Option<&ProtectionDomain>,
        depth: impl CreatedWith<PS::Transport, P>,
        timeout: Duration,
    ) -> Result<Ep<PS, RouteResolved, P>, Error>
    where
        PS: PortSpace,
        RouteResolved: EpState<PS, Qp = PS::Made>,
    {
        let id = self.provider.create_id()?;
        let id = match self.local {
            Some(local) => id.bind_addr(local)?.resolve_addr(self.peer, timeout)?,
            None => id.resolve_addr(self.peer, timeout)?,
        };
        Ok(id.resolve_route(timeout)?.create_ep(pd, depth)?)
    }
}

impl<PS: PortSpace> PassiveInfo<PS> {
    pub(super) fn of(local: SocketAddr, provider: Provider) -> Self {
        PassiveInfo { local, provider, _space: PhantomData }
    }

    /// Resolves a service to listen on, by name or number (`rdma_getaddrinfo` with RAI_PASSIVE): on
    /// the addresses of `node`, or on any address of this machine. Returns at least one address.
    /// The call has no deadline: it waits for the system's resolver.
    ///
    /// # Errors
    /// As for [`AddrInfo::look_up`].
    #[doc(alias("rdma_getaddrinfo", "rdma_freeaddrinfo", "RAI_PASSIVE"))]
    pub fn look_up(node: Option<&str>, service: &str) -> Result<Vec<Self>, Error> {
        look_up(node, service, PS::C, true, |found| {
            Some(PassiveInfo::of(found.local?, Provider::System))
        })
    }

    /// Creates an id that is bound to the address (`rdma_create_ep`). Create endpoints from its
    /// [requests](super::Request::create_ep).
    ///
    /// # Errors
    /// As for [`CmId::new`] and [`bind_addr`](CmId::bind_addr).
    pub fn bind(&self) -> Result<CmId<PS, Bound>, Error> {
        Ok(self.provider.create_id()?.bind_addr(self.local)?)
    }

    /// Creates an id that listens on the address, with at most `backlog` pending requests
    /// (`rdma_create_ep`, `rdma_listen`).
    ///
    /// # Errors
    /// As for [`bind`](Self::bind) and [`CmId::listen`].
    pub fn listen(&self, backlog: u32) -> Result<CmId<PS, Listening>, Error> {
        Ok(self.bind()?.listen(backlog)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resolver may find only addresses of other families for a name.
    #[test]
    fn a_name_without_addresses_is_not_found() {
        assert_eq!(at_least_one(vec![1, 2], "node:1").unwrap(), [1, 2]);
        let error = at_least_one(Vec::<u8>::new(), "node:1").unwrap_err();
        let expected = ErrorKind::NotFound("node:1 has no IP address".into());
        assert_eq!(*error.kind(), expected);
    }
}
