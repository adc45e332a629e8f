//! A storage target like SPDK's: one poller thread for thousands of connections.
//!
//! A client sends a request that names its own memory (address, length and key). The target reads
//! the bytes with RDMA READ, checks and stores them, and answers with SEND. All connections share
//! one receive queue, one completion queue (with a shared budget), and the buffers of the READs.
//! The poller waits for completions, rdma_cm events and the waker in one call.
//!
//! ```text
//! target                                  both ends in this process, on the loopback device
//! target serve -a ADDRESS:PORT            the target; it ends when its standard input does
//! target put -a ADDRESS:PORT -b 3 < FILE  a client: stores a file from block 3 on
//! ```
//! | file | contents |
//! |---|---|
//! | `wire` | the messages |
//! | `poller` | the target |
//! | `slab` | its connections, by queue pair number and by id |
//! | `client` | the client |

#![forbid(unsafe_code)]

mod client;
mod poller;
mod slab;
#[cfg(test)]
mod tests;
mod wire;

use std::io::{Read, copy, sink, stdin};
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use bpaf::{Bpaf, Parser};
use proverbs::cm::EventChannel;
use proverbs::loopback::Fabric;

use client::Client;
use poller::Target;
use wire::{Answer, BLOCK, Status};

#[derive(Bpaf)]
enum Command {
    /// Serve until standard input ends
    #[bpaf(command)]
    Serve {
        /// Address of an RDMA network device, and a port
        #[bpaf(short('a'), long, argument("ADDRESS:PORT"))]
        address: SocketAddr,
        /// Connections at once
        #[bpaf(short('n'), long, argument("COUNT"), fallback(4096), display_fallback)]
        connections: usize,
    },
    /// Store standard input in the target
    #[bpaf(command)]
    Put {
        /// Address and port of the target
        #[bpaf(short('a'), long, argument("ADDRESS:PORT"))]
        address: SocketAddr,
        /// The first block, of 4096 bytes
        #[bpaf(short('b'), long, argument("BLOCK"), fallback(0), display_fallback)]
        block: u32,
    },
}

fn main() -> Result<()> {
    match command().optional().to_options().descr("A storage target and its client").run() {
        Some(Command::Serve { address, connections }) => {
            let target = Target::new(EventChannel::new()?, address, connections, 1024)?;
            println!("target: waiting");
            serve(target, || Ok(copy(&mut stdin(), &mut sink()).map(drop)?))
        }
        Some(Command::Put { address, block }) => {
            put(&EventChannel::new()?, address, block, &mut stdin())
        }
        None => {
            let fabric = Fabric::new();
            let _device = fabric.open_device();
            let at = "10.0.0.1:7177".parse()?;
            let target = Target::new(EventChannel::on(&fabric)?, at, 16, 16)?;
            let events = EventChannel::on(&fabric)?;
            serve(target, move || put(&events, at, 3, &mut &[7; 3 * BLOCK][..]))
        }
    }
}

/// Serves until `other`, which runs in another thread, has ended.
fn serve(mut target: Target, other: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let waker = target.waker.clone();
    let other = std::thread::spawn(move || {
        let ended = other();
        waker.wake();
        ended
    });
    while target.turn(None)? {}
    println!("target: {:?}", target.counts);
    other.join().expect("the other thread does not panic")
}

/// Stores the bytes of a file, as they come.
fn put(events: &EventChannel, to: SocketAddr, first: u32, from: &mut dyn Read) -> Result<()> {
    let mut client = Client::new(events, None, to)?.finish()?;
    let mut stored = 0;
    for block in first.. {
        let mut bytes = Vec::with_capacity(BLOCK);
        (&mut *from).take(BLOCK as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        let tag = client.start(block, &bytes)?;
        let answer = client.answer()?;
        ensure!(answer == Answer { tag, status: Status::Stored }, "block {block}: {answer:?}");
        stored += bytes.len();
    }
    println!("target: stored {stored} bytes from block {first} on");
    client.leave()
}
