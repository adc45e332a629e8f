//! What the ping-pongs share: everything but their verbs.
//!
//! They speak the wire format of rdma-core's `ibv_{rc,uc,ud,srq}_pingpong` and can be run against
//! them, in both roles. Without an RDMA device both ends run in this process, on the loopback
//! device.

mod completions;
mod content;
mod device;
mod exchange;
pub mod options;
#[path = "../patience/mod.rs"]
pub mod patience;
mod pingpong;
#[allow(dead_code)] // not everybody plays on RC
pub mod rc;
mod record;
mod stall;
mod station;

use std::error::Error;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use device::Device;
use exchange::{Link, Role};
use proverbs::loopback::Fabric;

pub use options::Options;
#[allow(unused_imports)] // some play it themselves
pub use pingpong::{Game, Queues, play};
pub use record::Record;
pub use station::Station;

/// Whatever goes wrong, as one line.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs `end` on the device, or twice in this process, and reports failure as C programs do.
pub fn main<E>(program: &'static str, options: Options, end: E) -> ExitCode
where
    E: Fn(&mut Station) -> Result<()> + Copy + Send + 'static,
{
    match run(program, options, end) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run<E>(program: &'static str, options: Options, end: E) -> Result<()>
where
    E: Fn(&mut Station) -> Result<()> + Copy + Send + 'static,
{
    let server = options.server.clone();
    match device::choose(&options)? {
        Device::Real(context) => {
            let role = if server.is_some() { Role::Client } else { Role::Server };
            let link = Link::Tcp { server, port: options.port };
            end(&mut Station::new(program, "", context, options, role, link)?)
        }
        Device::Loopback => {
            if let Some(server) = server {
                let why = format!("the loopback device reaches only this process, not {server}");
                return Err(why.into());
            }
            both_ends(program, options, end)
        }
    }
}

/// Both ends on one fabric, each on its own device and in its own thread. The first failure counts.
fn both_ends<E>(program: &'static str, options: Options, end: E) -> Result<()>
where
    E: Fn(&mut Station) -> Result<()> + Copy + Send + 'static,
{
    println!("both ends run in this process, on the loopback device");
    let fabric = Fabric::new();
    let (one, other) = UnixStream::pair()?;
    let (done, results) = mpsc::channel();
    for (role, name, link) in [(Role::Server, "server:", one), (Role::Client, "client:", other)] {
        let (context, options, done) = (fabric.open_device(), options.clone(), done.clone());
        thread::spawn(move || {
            let link = Link::Here(link);
            let result = Station::new(program, name, context, options, role, link)
                .and_then(|mut station| end(&mut station));
            // Nobody listens once the other end has failed.
            let _ = done.send(result.map_err(|error| format!("{name} {error}")));
        });
    }
    drop(done);
    for _ in 0..2 {
        results.recv().map_err(|_| "one end is gone without a word")??;
    }
    Ok(())
}
