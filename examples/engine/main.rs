//! A transfer engine, as systems that move tensors or caches between machines have one.
//!
//! The application owns the memory, and registers it once on each device. It submits batches of
//! READs and WRITEs to any peer from any thread, and waits for a ticket. The engine has a thread
//! for each device and several queue pairs for each peer, spread over the devices. It splits long
//! operations, posts lists of which only the last is signaled, and limits what is in flight. If a
//! peer fails, only the batches for that peer fail. The engine connects it again, with backoff.
//!
//! ```text
//! engine                                  both ends in this process, on the loopback device
//! engine target ADDRESS:PORT...           memory for peers; it ends when its standard input does
//! engine initiator FROM ADDRESS:PORT...   from a local address: writes to each peer and reads it
//!                                         back, once, and again for each line of standard input
//! ```
//! | file | contents |
//! |---|---|
//! | `main` | the application: its memory, and the one `unsafe` call |
//! | `engine` | the engine, as the application's threads see it |
//! | `worker` | the thread of a device: connections, posts, completions, timers |
//! | `batch` | operations, and the tickets that return their results |
//! | `target` | the passive side |
//! | `service` | a thread that ends in order |
//!
//! The signaling needs completions in order, so the engine does not run on iWARP.

mod batch;
mod engine;
#[cfg(test)]
#[path = "../patience/mod.rs"]
mod patience;
mod service;
mod target;
#[cfg(test)]
mod tests;
mod worker;

use std::io::{BufRead, copy, sink, stdin};
use std::net::{IpAddr, SocketAddr};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Result, ensure};
use bpaf::{Bpaf, Parser};
use proverbs::{cm::EventChannel, loopback::Fabric, memory::Opaque, prelude::*};

use batch::{Op, Operation, Peer, Ticket};
use engine::{Engine, Settings};
use target::target;

/// The rights that peers have.
pub type Shared = RemoteReadWrite;
/// The application's memory, registered on a device.
pub type Region = MemoryRegion<Shared, Opaque<Memory>>;
/// The memory of the application. It uses the words at any time, and so do peers.
pub type Memory = Arc<[AtomicU64]>;

pub fn memory(bytes: usize) -> Memory {
    (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
}

/// Registers the memory on one more device.
pub fn register(memory: &Memory, pd: &ProtectionDomain) -> Result<Region> {
    let (base, len) = (NonNull::from(&memory[..]).cast(), size_of_val(&memory[..]));
    // SAFETY: the keeper keeps the words mapped. All code accesses them as atomics of 8 bytes, so
    // devices may write and read them at the same time.
    Ok(unsafe { pd.region().opaque(base, len, memory.clone())? })
}

/// Bytes that an initiator writes to each target.
const SIZE: usize = 1 << 20;

#[derive(Bpaf)]
enum Command {
    /// Offer memory until standard input ends
    #[bpaf(command)]
    Target {
        /// Addresses of RDMA network devices, each with a port
        #[bpaf(positional("ADDRESS:PORT"), some("an address is needed"))]
        addresses: Vec<SocketAddr>,
    },
    /// Write to targets and read back, once and for each line of standard input
    #[bpaf(command)]
    Initiator {
        /// Address of an RDMA network device of this machine
        #[bpaf(positional("FROM"))]
        from: IpAddr,
        /// Targets
        #[bpaf(positional("ADDRESS:PORT"), some("a target is needed"))]
        targets: Vec<SocketAddr>,
    },
}

fn main() -> Result<()> {
    let here = memory(SIZE);
    match command().optional().to_options().descr("A transfer engine and its target").run() {
        Some(Command::Target { addresses }) => {
            let _target = target(EventChannel::new()?, &addresses, &|pd| register(&here, pd))?;
            println!("engine: the target waits");
            Ok(copy(&mut stdin(), &mut sink()).map(drop)?)
        }
        Some(Command::Initiator { from, targets }) => {
            initiator(&[from], &targets, &EventChannel::new, &mut stdin().lock())
        }
        None => {
            println!("engine: without arguments, both ends are on the loopback device");
            let fabric = Fabric::new();
            let devices = [fabric.open_device(), fabric.open_device()];
            let from = devices.each_ref().map(|device| fabric.ip_of(device).expect("an address"));
            let at = from.map(|from| SocketAddr::new(from, 7178));
            let _target = target(EventChannel::on(&fabric)?, &at, &|pd| register(&here, pd))?;
            initiator(&from, &at[..1], &|| EventChannel::on(&fabric), &mut &b""[..])
        }
    }
}

/// Writes to all targets and reads back, once, and again for each line of `more`. Fails if the last
/// time fails.
fn initiator(
    from: &[IpAddr],
    targets: &[SocketAddr],
    open: &dyn Fn() -> Result<EventChannel, proverbs::Error>,
    more: &mut dyn BufRead,
) -> Result<()> {
    // For each target, bytes to write, and then bytes to read.
    let memory = memory(2 * SIZE * targets.len());
    let (engine, notices) =
        Engine::new(Settings::default(), from, open, &|pd| register(&memory, pd))?;
    targets.iter().for_each(|&at| _ = engine.add_peer(&[at]));
    let mut bases = vec![0; targets.len()];
    // The first result of each peer on each device. Later ones are taken before each round.
    let mut news: Vec<_> = notices.iter().take(from.len() * targets.len()).collect();
    for round in 1.. {
        for (peer, _, state) in news {
            bases[peer.0] = state.map_or(bases[peer.0], |(base, _)| base);
        }
        memory.iter().zip(0..).for_each(|(word, n)| word.store((round << 32) + n, Relaxed));
        let copy = |operation, at: usize| -> Vec<Ticket> {
            let op = |n| Op { operation, local: 2 * n * SIZE + at, remote: bases[n], len: SIZE };
            (0..targets.len()).map(|n| engine.submit(Peer(n), &[op(n)])).collect()
        };
        let written: Vec<_> = copy(Operation::Write, 0).into_iter().map(Ticket::wait).collect();
        let read = copy(Operation::Read, SIZE).into_iter().map(Ticket::wait);
        let mut failed = 0;
        for (n, result) in written.into_iter().zip(read).map(|(w, r)| w.and(r)).enumerate() {
            let words = &memory[2 * n * SIZE / 8..][..2 * SIZE / 8];
            let mut pairs = words.iter().zip(&words[SIZE / 8..]);
            let is_same = pairs.all(|(one, two)| one.load(Relaxed) == two.load(Relaxed));
            failed += u32::from(result.is_err() || !is_same);
            let copied = result.map_err(|failure| failure.to_string());
            println!("engine: round {round}: {}: {copied:?}, the same: {is_same}", targets[n]);
        }
        if more.read_line(&mut String::new())? == 0 {
            ensure!(failed == 0, "{failed} targets have failed");
            break;
        }
        news = notices.try_iter().collect();
    }
    Ok(())
}
