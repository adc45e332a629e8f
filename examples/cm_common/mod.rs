//! Shared code of the rdma_cm examples: addresses, ids before they connect, and sessions on a
//! connection.

#![allow(dead_code, unused_imports)] // each example uses a part

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

/// Any error, as one line.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Each step of connecting takes at most this long.
pub static STEP: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(10)));
/// A peer that is silent for this long is considered dead.
pub static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(30)));

/// Whether a count is at least 1, for an option.
pub fn some(count: &u32) -> bool {
    *count >= 1
}
pub const SOME: &str = "must be at least 1";

/// Whether the messages fit into the queues, for an option.
pub fn few(count: &u32) -> bool {
    (1..=1000).contains(count)
}
pub const FEW: &str = "must be from 1 to 1000";

/// The backlog of connection requests: the maximum on Linux.
pub const BACKLOG: u32 = 1024;

/// Reports failure like C programs.
pub fn report(program: &str, result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The address of a host.
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

/// An id with a route to `host`.
pub fn route<PS: PortSpace>(host: &str, port: u16) -> Result<CmId<PS, RouteResolved>> {
    let to = address(host, port)?;
    Ok(CmId::<PS, _>::new()?.resolve_addr(to, *STEP)?.resolve_route(*STEP)?)
}
