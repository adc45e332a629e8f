//! `ibv_rc_pingpong` without a line of `unsafe`: SEND back and forth on a reliable connection.
//!
//! ```text
//! rc_pingpong -g 1 -c             on the server
//! rc_pingpong -g 1 -c SERVER      on the client
//! rc_pingpong                     where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;

use clap::Parser;
use common::{Options, Result, Station, rc};
use proverbs::bounded::Mtu;

/// SEND ping-pong over RC, on the wire as ibv_rc_pingpong.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Path MTU: 256, 512, 1024, 2048 or 4096
    #[arg(short, long, default_value = "1024", value_parser = common::options::mtu)]
    mtu: Mtu,
}

fn main() -> ExitCode {
    let Cli { options, mtu } = Cli::parse();
    common::main("rc_pingpong", options, move |station| end(station, mtu))
}

fn end(station: &mut Station, mtu: Mtu) -> Result<()> {
    let pd = station.context.alloc_pd()?;
    let mut polling = station.completion_queue(rc::completions(station))?;
    let (mut connection, spare) = rc::establish(station, &pd, &polling.cq, mtu)?;
    common::play(station, &mut polling, &mut connection, spare, rc::size(station), rc::FIRST)
}
