//! Many connections of rdma_cm: messages each way on each, then their end, as rdma-core's
//! `ucmatose`.
//!
//! ```text
//! ucmatose [-b ADDRESS] [-c CONNECTIONS] [-C COUNT] [-S SIZE]
//! ucmatose -s ADDRESS [-c CONNECTIONS] [-C COUNT] [-S SIZE]      # ours, or rdma-core's
//! ```
//!
//! Both ends need the same numbers. The server speaks first, and ends the connections.

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use bpaf::Bpaf;
use cm_common::{Buffers, Result, SOME, STEP, Session, address, listen, report, some};
use proverbs::cm::{CmId, RouteResolved, Tcp};
use proverbs::wr;

/// Messages over many connections of rdma_cm
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of the server; absent, this is the server
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
            return Err("the server said more than was asked for".into());
        }
        session.close()?;
    }
    options.tell();
    Ok(())
}

impl Options {
    /// For all messages at once, since a C peer sends them so and never again.
    fn buffers(&self) -> Buffers {
        let (count, size) = (self.count.max(1), self.size as usize);
        Buffers { receives: count, message: size, sends: count, size }
    }

    fn tell(&self) {
        let Options { connections, count, size, .. } = self;
        println!("ucmatose: {connections} connections, {count} messages of {size} bytes each way");
    }
}

/// An id that knows its way to the server.
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

/// Posts all messages; each byte tells which it is.
fn send(session: &mut Session, options: &Options) -> Result<()> {
    for i in 0..options.count {
        let mut buf = session.pool.take().ok_or("no buffer is at home")?;
        buf.copy_from(&vec![i as u8; options.size as usize])?;
        session.connection.qp.post_send(wr::Send::new(buf))?;
    }
    Ok(())
}

/// Takes all messages. What is in them is not looked at: a C peer sends whatever its memory has.
fn receive(session: &mut Session, options: &Options) -> Result<()> {
    for _ in 0..options.count {
        let message = session.message()?.ok_or("the peer disconnected in the middle")?;
        if message.len() != options.size as usize {
            return Err(format!("{} bytes, here -S is {}", message.len(), options.size).into());
        }
    }
    Ok(())
}
