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
#[path = "../patience/mod.rs"]
mod patience;
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
use wire::{BLOCK, Status};

/// Blocks of the store.
const BLOCKS: usize = 1024;

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
    let about = "A storage target with one poller thread: clients name their memory, it reads it";
    match command().optional().to_options().descr(about).run() {
        Some(Command::Serve { address, connections }) => serve(address, connections),
        Some(Command::Put { address, block }) => {
            put(&EventChannel::new()?, address, block, &mut stdin())
        }
        None => here(),
    }
}

fn serve(at: SocketAddr, connections: usize) -> Result<()> {
    let mut target = Target::new(EventChannel::new()?, at, connections, BLOCKS)?;
    let waker = target.waker.clone();
    std::thread::spawn(move || {
        // An error is an end, too.
        let _ = copy(&mut stdin(), &mut sink());
        waker.wake();
    });
    println!("target: waiting");
    target.serve()?;
    println!("target: {:?}", target.counts);
    Ok(())
}

/// Stores the bytes of a file, as they come.
fn put(events: &EventChannel, to: SocketAddr, first: u32, from: &mut dyn Read) -> Result<()> {
    let (client, pending) = Client::request(events, None, to)?;
    let mut client = client.finish(pending)?;
    let mut bytes = Vec::with_capacity(BLOCK);
    let mut stored = 0;
    for block in first.. {
        bytes.clear();
        (&mut *from).take(BLOCK as u64).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            break;
        }
        let status = client.put(block, &bytes)?;
        ensure!(status == Status::Stored, "block {block}: {status:?}");
        stored += bytes.len();
    }
    println!("target: stored {stored} bytes from block {first} on");
    client.leave()
}

fn here() -> Result<()> {
    let fabric = Fabric::new();
    let _device = fabric.open_device();
    let at = "10.0.0.1:7177".parse()?;
    let mut target = Target::new(EventChannel::on(&fabric)?, at, 16, 16)?;
    let (events, waker) = (EventChannel::on(&fabric)?, target.waker.clone());
    let client = std::thread::spawn(move || {
        let stored = put(&events, at, 3, &mut &[7; 3 * BLOCK][..]);
        waker.wake();
        stored
    });
    target.serve()?;
    println!("target: {:?}", target.counts);
    client.join().expect("the client does not panic")
}
