//! A storage target like SPDK's: one poller thread for thousands of connections.
//!
//! A client sends a request that names its own memory (address, length and key). The target reads
//! the bytes with RDMA READ, checks and stores them, and answers with SEND. All connections share
//! one receive queue, one completion queue (with a shared budget), and the buffers of the READs.
//! The poller waits for completions, rdma_cm events and the waker in one call.
//!
//! ```text
//! target                                  both ends in this process, on the loopback device
//! target serve -a ADDRESS                 the target; it ends when its standard input does
//! target put -a ADDRESS -b 3 < FILE       a client: stores a file from block 3 on
//! ```
//! | file | contents |
//! |---|---|
//! | `wire` | the messages |
//! | `poller` | the target |
//! | `slab` | its connections, by queue pair number and by id |
//! | `client` | the client |

#![forbid(unsafe_code)]

mod client;
#[path = "../patience/mod.rs"]
mod patience;
mod poller;
mod slab;
#[cfg(test)]
mod tests;
mod wire;

use std::error::Error;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use bpaf::Bpaf;
use proverbs::cm::EventChannel;
use proverbs::loopback::Fabric;

use client::Connecting;
use poller::Target;
use wire::{BLOCK, Status};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A storage target with one poller thread: clients name their memory, the target reads it
#[derive(Bpaf)]
#[bpaf(options)]
struct Args {
    #[bpaf(external, optional)]
    command: Option<Command>,
}

#[derive(Bpaf)]
enum Command {
    /// Serve until standard input ends
    #[bpaf(command)]
    Serve {
        #[bpaf(external)]
        at: At,
        /// Connections at once
        #[bpaf(short('n'), long, argument("COUNT"), fallback(4096), display_fallback)]
        connections: usize,
        /// Blocks of the store, of 4096 bytes
        #[bpaf(long, argument("COUNT"), fallback(1024), display_fallback)]
        blocks: usize,
    },
    /// Store standard input in the target
    #[bpaf(command)]
    Put {
        #[bpaf(external)]
        at: At,
        /// The first block
        #[bpaf(short('b'), long, argument("BLOCK"), fallback(0), display_fallback)]
        block: u32,
    },
}

#[derive(Bpaf)]
struct At {
    /// Address of the target: of an RDMA network device
    #[bpaf(short('a'), long, argument("ADDRESS"))]
    address: IpAddr,
    /// Port of the target
    #[bpaf(short('p'), long, argument("PORT"), fallback(7177), display_fallback)]
    port: u16,
}

fn main() -> ExitCode {
    match run(args().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("target: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(Args { command }: Args) -> Result<()> {
    match command {
        Some(Command::Serve { at: At { address, port }, connections, blocks }) => {
            let at = SocketAddr::new(address, port);
            serve(Target::new(EventChannel::new()?, at, connections, blocks)?)
        }
        Some(Command::Put { at: At { address, port }, block }) => {
            let to = SocketAddr::new(address, port);
            put(&EventChannel::new()?, to, block, &mut std::io::stdin())
        }
        None => here(),
    }
}

fn serve(mut target: Target) -> Result<()> {
    let waker = target.waker();
    std::thread::spawn(move || {
        // An error is an end, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        waker.wake();
    });
    println!("target: waiting");
    target.serve()?;
    println!("target: {:?}", target.counts());
    Ok(())
}

/// Stores the bytes of a file, as they come.
fn put(events: &EventChannel, to: SocketAddr, first: u32, from: &mut dyn Read) -> Result<()> {
    let mut client = Connecting::new(events, None, to)?.finish()?;
    let mut bytes = Vec::with_capacity(BLOCK);
    let mut stored = 0;
    for block in first.. {
        bytes.clear();
        (&mut *from).take(BLOCK as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        match client.put(block, &bytes)? {
            Status::Stored => stored += bytes.len(),
            status => return Err(format!("block {block}: {status:?}").into()),
        }
    }
    println!("target: stored {stored} bytes from block {first} on");
    client.leave()
}

fn here() -> Result<()> {
    let fabric = Fabric::new();
    let _device = fabric.open_device();
    let at = "10.0.0.1:7177".parse()?;
    let mut target = Target::new(EventChannel::on(&fabric)?, at, 16, 16)?;
    let waker = target.waker();
    std::thread::scope(|scope| {
        let put = scope.spawn(|| {
            let stored = EventChannel::on(&fabric)
                .map_err(Into::into)
                .and_then(|events| put(&events, at, 3, &mut &[7; 3 * BLOCK][..]))
                .map_err(|error| error.to_string());
            waker.wake();
            stored
        });
        target.serve()?;
        put.join().map_err(|_| "the client panicked")??;
        println!("target: {:?}", target.counts());
        Ok(())
    })
}
