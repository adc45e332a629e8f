//! One message in each direction over rdma_cm: the server, like rdma-core's `rdma_server`.
//!
//! ```text
//! rdma_server [-s ADDRESS] [-p PORT]
//! rdma_client -s ADDRESS [-p PORT]      # ours, or rdma-core's
//! ```

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use bpaf::Bpaf;
use cm_common::{Buffers, Result, Session, listen, report};
use proverbs::cm::Tcp;
use proverbs::wr;

/// Bytes of each message.
const MESSAGE: usize = 16;

/// Replies to one message over an rdma_cm connection
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address to listen on [default: any]
    #[bpaf(short('s'), argument("ADDRESS"))]
    server: Option<String>,
    /// Port to listen on or to connect to
    #[bpaf(short('p'), argument("PORT"), fallback(7471), display_fallback)]
    port: u16,
}

fn main() -> ExitCode {
    report("rdma_server", run(&options().run()))
}

fn run(options: &Options) -> Result<()> {
    println!("rdma_server: start");
    let listening = listen::<Tcp>(options.server.as_deref(), options.port)?;
    let mut session =
        Session::accept(listening.get_request()?, Buffers::in_turn(MESSAGE, MESSAGE))?;
    let message = session.message()?.ok_or("the client disconnected before it sent anything")?;
    println!("rdma_server: {} bytes received", message.len());
    // Sends its content back; a C client does not check it.
    let mut answer = [0; MESSAGE];
    answer[..message.len()].copy_from_slice(&message);
    session.connection.qp.post_send(wr::Send::inline(&answer))?;
    // The client exits when it has the reply, perhaps before its device has acknowledged it.
    if session.message()?.is_some() {
        return Err("the client sent more than was expected".into());
    }
    session.close()?;
    println!("rdma_server: end");
    Ok(())
}
