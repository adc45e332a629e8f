//! A small key-value store over one-sided reads.
//!
//! The server keeps its table in memory that peers may read. A client gets a value with one RDMA
//! READ of one bucket, without the server's processor. Clients send changes to the server with
//! SEND, so the table has one writer and needs no locks. A checksum in each slot lets a reader
//! detect that it read during a write.
//!
//! ```text
//! kv               both ends in this process, on the first RDMA device or the loopback device
//! kv --file PATH   the table is in a file, and is loaded by the next run
//! kv --huge        the table is in huge pages of 2 MiB
//! ```
//! | file | contents |
//! |---|---|
//! | `table` | the layout of the table |
//! | `server` | the writer |
//! | `client` | the readers |
//! | `connect` | two queue pairs in one process |

#![forbid(unsafe_code)]

mod client;
mod connect;
mod server;
mod table;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use bpaf::Bpaf;
use proverbs::memory::{HugePage, MapOptions, Memory, Writable};
use proverbs::{Context, devices, loopback::Fabric};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The bytes of a table.
const LEN: usize = 64 * table::BUCKET;

/// A small key-value store whose readers use RDMA READ
#[derive(Bpaf)]
#[bpaf(options)]
struct Args {
    /// Keep the table in this file, and load its contents.
    #[bpaf(long, argument("PATH"))]
    file: Option<PathBuf>,
    /// Keep the table in huge pages of 2 MiB (`sysctl vm.nr_hugepages`).
    #[bpaf(long)]
    huge: bool,
}

fn main() -> ExitCode {
    match start(args().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kv: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> Result<()> {
    let options = MapOptions::new();
    match args.file {
        Some(_) if args.huge => Err("the table is either in a file or in huge pages".into()),
        Some(path) => {
            let file =
                File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            file.set_len(LEN as u64)?;
            run(options.file(&file, 0..LEN as u64)?)
        }
        None if args.huge => run(options.huge(HugePage::MiB2).anonymous(LEN)?),
        None => run(options.anonymous(LEN)?),
    }
}

fn run(memory: impl Memory<Protection = Writable>) -> Result<()> {
    let context = match devices().as_deref() {
        Ok([first, ..]) => Context::open(&first.name)?,
        none => {
            // Perhaps libibverbs is not installed, or this process may not open the device's file.
            if let Err(why) = none {
                println!("{why}");
            }
            println!("no RDMA device here: on the loopback device");
            Fabric::new().open_device()
        }
    };
    let (mut server, mut client) = connect::both_ends(&context, memory)?;
    let serving = std::thread::spawn(move || server.serve().map_err(|error| error.to_string()));

    if let Some(value) = client.get("rule")? {
        println!("an earlier run left rule = {}", value.escape_ascii());
    }
    for (key, value) in [("rule", "types"), ("overhead", "none"), ("bytes", "accounted for")] {
        client.put(key, value.as_bytes())?;
    }
    client.remove("overhead")?;
    for key in ["rule", "overhead", "bytes"] {
        match client.get(key)? {
            Some(value) => println!("{key} = {}", value.escape_ascii()),
            None => println!("{key} is not there"),
        }
    }
    println!("{} READs, {} requests", client.reads, client.requests);
    client.stop()?;
    let served = serving.join().map_err(|_| "the server panicked")??;
    println!("the server saw {served} requests, and none of the READs");
    Ok(())
}
