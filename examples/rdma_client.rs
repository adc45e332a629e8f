//! One message in each direction over rdma_cm: the client, like rdma-core's `rdma_client`.
//!
//! ```text
//! rdma_client -s ADDRESS [-p PORT]
//! ```

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use bpaf::Bpaf;
use cm_common::{Buffers, Result, Session, report, route};
use proverbs::cm::Tcp;
use proverbs::wr;

/// The message. The server replies with the same number of bytes.
const MESSAGE: &[u8; 16] = b"a verbs program!";

/// Sends one message over an rdma_cm connection, and receives the reply
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of the server
    #[bpaf(short('s'), argument("ADDRESS"))]
    server: String,
    /// Port to listen on or to connect to
    #[bpaf(short('p'), argument("PORT"), fallback(7471), display_fallback)]
    port: u16,
}

fn main() -> ExitCode {
    report("rdma_client", run(&options().run()))
}

fn run(options: &Options) -> Result<()> {
    println!("rdma_client: start");
    let id = route::<Tcp>(&options.server, options.port)?;
    let mut session = Session::connect(id, Buffers::in_turn(MESSAGE.len(), MESSAGE.len()))?;
    session.connection.qp.post_send(wr::Send::inline(MESSAGE))?;
    let answer = session.message()?.ok_or("the server disconnected without an answer")?;
    let is_ours = if answer == MESSAGE { ", those that were sent" } else { "" };
    println!("rdma_client: {} bytes came back{is_ours}", answer.len());
    session.close()?;
    println!("rdma_client: end");
    Ok(())
}
