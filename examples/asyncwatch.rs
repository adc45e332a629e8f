//! `ibv_asyncwatch`: prints the asynchronous events of a device as they arrive.
//!
//! ```text
//! asyncwatch -d mlx5_0            until it is interrupted
//! asyncwatch -d mlx5_0 -n 1       until one event has arrived
//! ```

#![forbid(unsafe_code)]

use std::os::fd::AsRawFd;
use std::process::ExitCode;

use bpaf::Bpaf;
use proverbs::{Context, DeviceEvents, devices};

/// Prints the asynchronous events of a device.
#[derive(Bpaf)]
#[bpaf(options)]
struct Cli {
    /// RDMA device [default: the first one]
    #[bpaf(short('d'), long("ib-dev"), env("PROVERBS_DEVICE"), argument("DEVICE"))]
    device: Option<String>,
    /// Stop after this number of events
    #[bpaf(short('n'), long, argument("COUNT"))]
    count: Option<u64>,
}

fn main() -> ExitCode {
    match run(cli().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("asyncwatch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<(), Box<dyn std::error::Error>> {
    let name = match cli.device {
        Some(name) => name,
        None => {
            devices()?.into_iter().next().ok_or("there is no RDMA device on this machine")?.name
        }
    };
    let mut events = Context::open(&name)?.events()?;
    println!("{name}: async event FD {}", events.as_raw_fd());
    Ok(watch(&mut events, cli.count)?)
}

fn watch(events: &mut DeviceEvents, count: Option<u64>) -> Result<(), proverbs::Error> {
    let mut seen = 0;
    while count.is_none_or(|count| seen < count) {
        println!("  {}", events.wait()?);
        seen += 1;
    }
    Ok(())
}
