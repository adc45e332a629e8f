//! `ibv_rc_pingpong -e` on tokio, without a line of `unsafe`: completions and asynchronous events
//! are awaited.
//!
//! ```text
//! tokio_pingpong -g 1 -c             on the server
//! tokio_pingpong -g 1 -c SERVER      on the client
//! tokio_pingpong                     where there is no RDMA device: both ends, on the loopback device
//! ```
//!
//! Either end may be the C program (`ibv_rc_pingpong -e`). Build with `--features tokio`.

#![forbid(unsafe_code)]

mod common;

use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::Parser;
use common::patience::patience;
use common::{Game, Options, Result, Station, rc};
use proverbs::prelude::*;
use tokio::time::timeout;

/// SEND ping-pong over RC on tokio, on the wire as ibv_rc_pingpong.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Path MTU: 256, 512, 1024, 2048 or 4096
    #[arg(short, long, default_value = "1024", value_parser = common::options::mtu)]
    mtu: Mtu,
}

/// A peer that does nothing for so long does nothing more.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(10)));

fn main() -> ExitCode {
    let Cli { options, mtu } = Cli::parse();
    common::main("tokio_pingpong", options, move |station| {
        // One thread an end: there is one queue pair to serve.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(end(station, mtu))
    })
}

async fn end(station: &mut Station, mtu: Mtu) -> Result<()> {
    let pd = station.context.alloc_pd()?;
    let mut events = station.context.events()?.into_async()?;
    let mut channel = station.context.create_comp_channel()?.into_async()?;
    let mut cq =
        station.context.cq(rc::completions(station)).channel(channel.get_ref()).create()?;
    let (mut connection, spare) = rc::establish(station, &pd, &cq, mtu)?;

    let mut game = Game::begin(station, &mut connection, spare, rc::size(station), rc::FIRST)?;
    while !game.is_over() {
        // Whichever futures are dropped here own no buffer, and leave what is there to the next
        // wait.
        let completions = tokio::select! {
            event = events.next() => {
                station.say(&format!("asynchronous event: {}", event?));
                continue;
            }
            completions = timeout(*PATIENCE, channel.wait(&mut cq)) => completions,
        };
        let completions = completions.map_err(|_| {
            let time = PATIENCE.as_secs();
            format!("no completion for {time} s: the peer is gone")
        })?;
        for completion in completions? {
            game.completed(completion.outcome())?;
            // What comes after the last exchange is no matter: the peer may be gone.
            if game.is_over() {
                break;
            }
        }
    }
    game.report();
    Ok(())
}
