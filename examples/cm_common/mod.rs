//! What the rdma_cm examples share: addresses, ids on their way, and sessions on a connection.

#![allow(dead_code, unused_imports)] // each example uses its part

mod datagrams;
#[path = "../patience/mod.rs"]
pub mod patience;
mod session;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use proverbs::cm::{CmId, Listening, PortSpace, RouteResolved};

pub use datagrams::Datagrams;
use patience::patience;
pub use session::{Buffers, Session};

/// Whatever goes wrong, as one line.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Each step of connecting takes at most this long.
pub static STEP: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(10)));
/// A peer that says nothing for so long says nothing more.
pub static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(30)));

/// Whether there is anything to do, for an option.
pub fn some(count: &u32) -> bool {
    *count >= 1
}
pub const SOME: &str = "must be at least 1";

/// Whether this many messages fit into the queues, for an option.
pub fn few(count: &u32) -> bool {
    (1..=1000).contains(count)
}
pub const FEW: &str = "must be from 1 to 1000";

/// Connections that may ask at once: Linux's most.
pub const BACKLOG: u32 = 1024;

/// Reports failure as C programs do.
pub fn report(program: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where a host is.
pub fn address(host: &str, port: u16) -> Result<SocketAddr> {
    let found = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?.next();
    found.ok_or_else(|| format!("{host} has no address").into())
}

/// An id that listens, on all devices if no address is given.
pub fn listen<PS: PortSpace>(host: Option<&str>, port: u16) -> Result<CmId<PS, Listening>> {
    let at = match host {
        Some(host) => address(host, port)?,
        None => (Ipv4Addr::UNSPECIFIED, port).into(),
    };
    Ok(CmId::<PS, _>::new()?.bind_addr(at)?.listen(BACKLOG)?)
}

/// An id that knows its way to `host`.
pub fn route<PS: PortSpace>(host: &str, port: u16) -> Result<CmId<PS, RouteResolved>> {
    let to = address(host, port)?;
    Ok(CmId::<PS, _>::new()?.resolve_addr(to, *STEP)?.resolve_route(*STEP)?)
}
