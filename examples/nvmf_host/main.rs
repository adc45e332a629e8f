//! An NVMe over Fabrics host on RDMA, which verifies random reads and writes of a namespace. It
//! overwrites the namespace. The target is Linux's, or the example `nvmf_target`.
//!
//! ```text
//! nvmf_host 10.77.0.1 -n nqn.2026-01.example:proverbs        # random I/Os on four queues
//! ```
//! The host has several I/O queues, each with a thread and many commands in flight. Data of small
//! writes is sent in the capsule, gathered from the command and from the data's own buffer. Other
//! data stays in the host's memory, and the target reads or writes it with RDMA. If the device has
//! memory windows, each command binds a window to its data, and the target's completion invalidates
//! the window's key. Thus the target cannot access the data of a completed command. If a connection
//! breaks, the host connects again and continues.
//!
//! | file | contents |
//! |---|---|
//! | `wire` | byte layouts of commands, completions, and the private data of connections |
//! | `queue` | an RDMA connection that carries one submission queue and its completion queue |
//! | `controller` | Connect, properties, Identify, keep-alive |
//! | `verify` | random reads and writes, and their verification |

#![forbid(unsafe_code)]

mod controller;
#[cfg(test)]
#[path = "../patience/mod.rs"]
mod patience;
mod queue;
#[cfg(test)]
#[path = "../nvmf_target/target/mod.rs"]
mod target;
#[cfg(test)]
mod tests;
mod verify;
#[path = "../nvmf_common/wire.rs"]
mod wire;

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::SystemTime;

use bpaf::Bpaf;
use proverbs::cm::{CmId, Tcp};

use controller::Wanted;
use queue::LONG;
use verify::Plan;
use wire::{IS_NQN, NQN, Result, is_nqn};

/// An NVMe over RDMA host that verifies random reads and writes. It overwrites the namespace
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Port of the target
    #[bpaf(short, long, argument("PORT"), fallback(4420), display_fallback)]
    port: u16,
    /// NVMe qualified name of the subsystem
    #[bpaf(short, long, argument("NQN"), fallback(NQN.into()), display_fallback, guard(is_nqn, IS_NQN))]
    nqn: String,
    /// I/O queues
    #[bpaf(short, long, argument("QUEUES"), fallback(4), display_fallback, guard(some, SOME))]
    queues: u16,
    /// Commands in flight of each queue
    #[bpaf(short, long, argument("COMMANDS"), fallback(16), display_fallback, guard(some, SOME))]
    depth: u16,
    /// Reads and writes of each queue
    #[bpaf(short, long, argument("COUNT"), fallback(2000), display_fallback)]
    ios: u64,
    /// Seed of the random reads and writes [default: from the clock]
    #[bpaf(short, long, argument("SEED"))]
    seed: Option<u64>,
    /// Keep-alive timeout in milliseconds; 0 for none
    #[bpaf(short, long, argument("MS"), fallback(10_000), display_fallback)]
    keep_alive: u32,
    /// How many times to connect again after a connection has failed
    #[bpaf(short, long, argument("COUNT"), fallback(0), display_fallback)]
    reconnects: u32,
    /// Address of the target
    #[bpaf(positional("ADDRESS"))]
    address: IpAddr,
}

/// Whether a number of queues or commands is supported, for an option.
fn some(count: &u16) -> bool {
    (1..=127).contains(count)
}
const SOME: &str = "must be from 1 to 127";

/// Bytes of data of a command.
const SIZE: usize = 64 * 1024;

fn main() -> ExitCode {
    match run(options().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nvmf_host: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let seed = options.seed.unwrap_or(clock);
    println!("seed {seed}");
    let Options { queues, depth, ios, keep_alive, reconnects, .. } = options;
    let wanted = Wanted { subsystem: options.nqn, depth, size: SIZE, keep_alive };
    let to = (options.address, options.port).into();
    let route = || {
        let id = CmId::<Tcp, _>::new()?.resolve_addr(to, LONG)?;
        Ok(id.resolve_route(LONG)?)
    };
    let plan = Plan { wanted, queues, ios, seed, reconnects };
    let (connections, counts) = verify::run(&route, &plan)?;
    for (n, counts) in counts.iter().enumerate() {
        println!("queue {}: {counts:?}", n + 1);
    }
    println!("{ios} reads and writes of each queue are verified, in {connections} connections");
    Ok(())
}
