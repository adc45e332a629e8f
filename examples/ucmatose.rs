//! Many rdma_cm connections: messages in each direction on each, then disconnection, like
//! rdma-core's `ucmatose`.
//!
//! ```text
//! ucmatose [-b ADDRESS] [-c CONNECTIONS] [-C COUNT] [-S SIZE]
//! ucmatose -s ADDRESS [-c CONNECTIONS] [-C COUNT] [-S SIZE]      # ours, or rdma-core's
//! ```
//! Both ends need the same numbers. The server sends first, and closes the connections.

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use bpaf::Bpaf;
use cm_common::{Buffers, Result, SOME, STEP, Session, address, listen, report, some};
use proverbs::cm::{CmId, RouteResolved, Tcp};
use proverbs::wr;

/// Messages over many rdma_cm connections
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of the server; without it, this is the server
    #[bpaf(short('s'), argument("ADDRESS"))]
    server: Option<String>,
    /// Address of this end [default: any]
    #[bpaf(short('b'), argument("ADDRESS"))]
    bind: Option<String>,
    /// Port to listen on or to connect to
    #[bpaf(short('p'), argument("PORT"), fallback(7471), display_fallback)]
    port: u16,
    /// Connections
    #[bpaf(short('c'), argument("CONNECTIONS"), fallback(1), display_fallback, guard(some, SOME))]
    connections: u32,
    /// Messages each way on each connection
    #[bpaf(short('C'), argument("COUNT"), fallback(10), display_fallback, guard(|n| *n <= 1000, "at most 1000"))]
    count: u32,
    /// Bytes of a message
    #[bpaf(
        short('S'), argument("SIZE"), fallback(100), display_fallback,
        guard(|n| (1..=0x10_0000).contains(n), "must be from 1 to 1048576")
    )]
    size: u32,
    /// The client's type of service
    #[bpaf(short('t'), argument("TOS"))]
    tos: Option<u8>,
}

fn main() -> ExitCode {
    let options = options().run();
    let result = match &options.server {
        Some(server) => client(server, &options),
        None => server(&options),
    };
    report("ucmatose", result)
}

fn server(options: &Options) -> Result<()> {
    println!("ucmatose: starting server");
    let listening = listen::<Tcp>(options.bind.as_deref(), options.port)?;
    let accept = |_| Session::accept(listening.get_request()?, options.buffers());
    let mut sessions = (0..options.connections).map(accept).collect::<Result<Vec<_>>>()?;
    for session in &mut sessions {
        send(session, options)?;
    }
    for session in &mut sessions {
        receive(session, options)?;
    }
    println!("ucmatose: disconnecting");
    for session in sessions {
        session.close()?;
    }
    options.tell();
    Ok(())
}

fn client(server: &str, options: &Options) -> Result<()> {
    println!("ucmatose: starting client");
    let connect = |_| Session::connect(route(server, options)?, options.buffers());
    let mut sessions = (0..options.connections).map(connect).collect::<Result<Vec<_>>>()?;
    for session in &mut sessions {
        receive(session, options)?;
    }
    for session in &mut sessions {
        send(session, options)?;
    }
    for mut session in sessions {
        if session.message()?.is_some() {
            return Err("the server sent more than was expected".into());
        }
        session.close()?;
    }
    options.tell();
    Ok(())
}

impl Options {
    /// Room for all messages at once, because a C peer sends them without waiting.
    fn buffers(&self) -> Buffers {
        let (count, size) = (self.count.max(1), self.size as usize);
        Buffers { receives: count, message: size, sends: count, size }
    }

    fn tell(&self) {
        let Options { connections, count, size, .. } = self;
        println!("ucmatose: {connections} connections, {count} messages of {size} bytes each way");
    }
}

/// An id with a route to the server.
fn route(server: &str, options: &Options) -> Result<CmId<Tcp, RouteResolved>> {
    let to = address(server, options.port)?;
    let mut id = CmId::<Tcp, _>::new()?;
    if let Some(tos) = options.tos {
        id.set_tos(tos)?;
    }
    let id = match &options.bind {
        Some(from) => id.bind_addr(address(from, 0)?)?.resolve_addr(to, *STEP)?,
        None => id.resolve_addr(to, *STEP)?,
    };
    Ok(id.resolve_route(*STEP)?)
}

/// Posts all messages. Each byte of a message is its number.
fn send(session: &mut Session, options: &Options) -> Result<()> {
    for i in 0..options.count {
        let mut buf = session.pool.take().ok_or("all buffers are in use")?;
        buf.copy_from(&vec![i as u8; options.size as usize])?;
        session.connection.qp.post_send(wr::Send::new(buf))?;
    }
    Ok(())
}

/// Receives all messages. Their content is not checked, because a C peer sends uninitialised
/// memory.
fn receive(session: &mut Session, options: &Options) -> Result<()> {
    for _ in 0..options.count {
        let message = session.message()?.ok_or("the peer disconnected during the exchange")?;
        if message.len() != options.size as usize {
            return Err(format!("{} bytes, here -S is {}", message.len(), options.size).into());
        }
    }
    Ok(())
}
