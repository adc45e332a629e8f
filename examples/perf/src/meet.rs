//! perftest's -R: rdma_cm connects once for messages and once for the traffic.

use std::net::{Ipv4Addr, ToSocketAddrs};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proverbs::bounded::ResponderDepth;
use proverbs::cm::{
    AcceptParam, CmId, ConnParam, Connection, Established, Found, Listening, PortSpace,
    PrivateData, RouteResolved, Tcp, Udp,
};
use proverbs::prelude::*;
use proverbs::{ErrorKind, Refused};

use crate::Result;
use crate::connect::{Issues, Perf};
use crate::patience::{STEP, patience};
use crate::words::Words;

/// The timeout for the other end's second connection.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(60)));

/// No program listens on TCP (R16.22).
const NO_LISTENER: i32 = 8;

/// The backlog of connection requests: the maximum on Linux.
const BACKLOG: u32 = 1024;

/// The address where the two ends connect, and connect again.
pub enum Meeting {
    Server { words: Box<CmId<Tcp, Listening>>, datagrams: Box<CmId<Udp, Listening>> },
    Client { server: String, port: u16 },
}

/// The objects that keep the connection open.
pub enum Kept {
    Connection(CmId<Tcp, Established>),
    Datagrams(#[allow(dead_code, reason = "it is kept")] CmId<Udp, Established>),
}

impl Kept {
    /// Both ends disconnect.
    pub fn close(self) -> Result<()> {
        if let Kept::Connection(id) = self {
            let mut id = id.disconnect().map_err(Refused::into_error)?;
            id.wait_disconnected(*STEP)?;
        }
        Ok(())
    }
}

impl Meeting {
    /// Listens for all connections that a client may request. perftest's own server does this
    /// later, and a client that is too early fails.
    pub fn listen(port: u16) -> Result<Meeting> {
        Ok(Meeting::Server { words: Box::new(listen(port)?), datagrams: Box::new(listen(port)?) })
    }

    /// The connection for messages of up to `len` bytes.
    pub fn words(&self, len: usize) -> Result<Words> {
        match self {
            Meeting::Server { words, .. } => Words::accept(words.get_request()?, len),
            Meeting::Client { server, port } => Words::connect(route::<Tcp>(server, *port)?, len),
        }
    }

    /// The connection of a queue pair; `None` if the server does not listen yet.
    pub fn connect<R: Issues>(
        &self,
        qp: QueuePair<Rc, Init, Perf<R>>,
        depth: R::Depth,
        responder_resources: ResponderDepth,
    ) -> Result<Option<Connection<Perf<R>>>> {
        match self {
            Meeting::Server { words, .. } => {
                let request = words.get_request_timeout(*PATIENCE)?;
                let param = AcceptParam {
                    initiator_depth: depth,
                    responder_resources,
                    ..Default::default()
                };
                let accepted = request.accept(qp, &param, *STEP);
                Ok(Some(accepted.map_err(Refused::into_error)?))
            }
            Meeting::Client { server, port } => {
                let param =
                    ConnParam { initiator_depth: depth, responder_resources, ..Default::default() };
                let connected = route::<Tcp>(server, *port)?.connect(qp, &param, *STEP);
                match connected.map_err(Refused::into_error) {
                    Ok(connection) => Ok(Some(connection)),
                    Err(error) => match error.kind() {
                        ErrorKind::Rejected { reason: NO_LISTENER, .. } => Ok(None),
                        _ => Err(error.into()),
                    },
                }
            }
        }
    }

    /// Announces a datagram queue pair, or finds the peer's. `None` as above.
    pub fn find<R: Issues>(
        &self,
        qp: &QueuePair<Ud, Rts, Perf<R>>,
    ) -> Result<Option<CmId<Udp, Established>>> {
        match self {
            Meeting::Server { datagrams, .. } => {
                let request = datagrams.get_request_timeout(*PATIENCE)?;
                let answered = request.accept(qp, &PrivateData::none());
                Ok(Some(answered.map_err(Refused::into_error)?))
            }
            Meeting::Client { server, port } => {
                let found = route::<Udp>(server, *port)?.connect(&PrivateData::none(), *STEP);
                match found.map_err(Refused::into_error) {
                    // The result also contains its keys.
                    Ok(Found { id, .. }) => Ok(Some(id)),
                    Err(error) => match error.kind() {
                        ErrorKind::Rejected { .. } => Ok(None),
                        _ => Err(error.into()),
                    },
                }
            }
        }
    }
}

/// An id that listens on all devices.
fn listen<PS: PortSpace>(port: u16) -> Result<CmId<PS, Listening>> {
    let at = (Ipv4Addr::UNSPECIFIED, port).into();
    Ok(CmId::<PS, _>::new()?.bind_addr(at)?.listen(BACKLOG)?)
}

/// An id with a route to `host`.
fn route<PS: PortSpace>(host: &str, port: u16) -> Result<CmId<PS, RouteResolved>> {
    let found = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?.next();
    let to = found.ok_or_else(|| format!("{host} has no address"))?;
    Ok(CmId::<PS, _>::new()?.resolve_addr(to, *STEP)?.resolve_route(*STEP)?)
}

/// Calls `attempt` until the other end is ready, and returns its result.
pub fn until<T>(mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        if began.elapsed() > *PATIENCE {
            let time = PATIENCE.as_secs();
            return Err(format!("the server did not listen again within {time} s").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
