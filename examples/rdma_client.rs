//! One message each way over rdma_cm, the client's side, as rdma-core's `rdma_client`.
//!
//! ```text
//! rdma_client -s ADDRESS [-p PORT]
//! ```

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;

use clap::Parser;
use cm_common::{Buffers, Result, Session, report, route};
use proverbs::cm::Tcp;
use proverbs::wr;

/// What is sent; the server answers with as much.
const MESSAGE: &[u8; 16] = b"a verbs program!";

#[derive(Parser)]
#[command(version, about = "Sends one message over a connection of rdma_cm, and takes the answer")]
struct Options {
    /// Address of the server
    #[arg(short)]
    server: String,
    #[arg(short, default_value_t = 7471)]
    port: u16,
}

fn main() -> ExitCode {
    report("rdma_client", run(&Options::parse()))
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
