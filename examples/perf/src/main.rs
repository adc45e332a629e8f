//! Bandwidth, latency and message rate, measured like perftest, without `unsafe`.
//!
//! ```text
//! perf                                    no RDMA device: both ends here, on the loopback device
//! perf -d mlx5_0 -x 3                     server
//! perf -d mlx5_0 -x 3 -V write -s 4096 -t 128 -l 16 -Q 64 SERVER      client
//! perf -V send --lat -s 64 -I 64 --svg latency.svg SERVER             latency, and its histogram
//! perf -d mlx5_0 -x 3 -V send --lat --perftest [SERVER]               with ib_send_lat (-R too)
//! ```
//! The flags are the same as perftest's, with three differences. Each work request in flight has
//! its own buffer, while perftest sends the same bytes repeatedly, so large sizes exceed the
//! processor's caches here. Latency is the time of one exchange, and not the time between two
//! posts. UC and UD report lost messages.

#![forbid(unsafe_code)]

mod bandwidth;
mod chart;
mod connect;
mod device;
mod end;
mod exchange;
mod interop;
mod latency;
mod link;
mod meet;
mod options;
mod patience;
mod perftest;
mod report;
mod run;
mod stats;
mod words;
mod work;

use std::error::Error;
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use clap::Parser;
use proverbs::Context;
use proverbs::loopback::Fabric;

use device::Device;
use exchange::Exchange;
use link::Link;
use meet::Meeting;
use options::Options;
use report::Report;
use run::Peer;

/// Any error, as one line.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The role of this end. The client measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

fn main() -> ExitCode {
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("perf: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    options.check()?;
    let report = match device::choose(options)? {
        Device::Loopback => {
            if let Some(server) = &options.server {
                let why = format!("the loopback device reaches only this process, not {server}");
                return Err(why.into());
            }
            if options.perftest {
                return Err("the loopback device reaches only this process, not perftest".into());
            }
            options.say(
                "both ends run in this process, on the loopback device: what is measured is \
                         software, not a network",
            );
            let fabric = Fabric::new();
            both_ends(options, || fabric.open_device())?
        }
        Device::Real(context) if options.local => {
            options.say(&format!("both ends run in this process, on {}", context.name()));
            both_ends(options, || context.clone())?
        }
        Device::Real(context) => match &options.server {
            Some(server) => {
                let peer = match options.rdma_cm {
                    true => {
                        let (server, port) = (server.clone(), options.port());
                        let meeting = Meeting::Client { server, port };
                        Peer::Perftest(Exchange::cm(&meeting, Role::Client)?, Some(meeting))
                    }
                    false => by_tcp(options, link::connect(server, options.port())?, Role::Client)?,
                };
                run::run(options, &context, peer, Role::Client)?
            }
            None => {
                let port = options.port();
                let listening =
                    |on| options.say(&format!("waiting for a client on {on} port {port}"));
                let peer = match options.rdma_cm {
                    true => {
                        let meeting = Meeting::listen(port)?;
                        listening("rdma_cm");
                        Peer::Perftest(Exchange::cm(&meeting, Role::Server)?, Some(meeting))
                    }
                    false => {
                        let stream = link::accept(port, || listening("TCP"))?;
                        by_tcp(options, stream, Role::Server)?
                    }
                };
                run::run(options, &context, peer, Role::Server)?
            }
        },
    };
    match report {
        Some(report) => show(options, &report),
        None => Ok(()),
    }
}

/// Finds out which program is at the other end of the stream.
fn by_tcp(options: &Options, stream: TcpStream, role: Role) -> Result<Peer> {
    Ok(match options.perftest {
        true => Peer::Perftest(Exchange::tcp(stream, role), None),
        false => Peer::Perf(Link::tcp(stream)?),
    })
}

fn show(options: &Options, report: &Report) -> Result<()> {
    if options.json {
        println!("{:#}", report.json());
    } else {
        print!("{report}");
    }
    if let Some(path) = &options.svg {
        chart::draw(path, report)?;
        options.say(&format!("histogram in {}", path.display()));
    }
    Ok(())
}

/// Runs client and server in one thread each. Returns the first failure, or the client's report.
fn both_ends(options: &Options, open: impl Fn() -> Context) -> Result<Option<Report>> {
    let (one, other) = Link::pair()?;
    let (done, results) = mpsc::channel();
    for (role, link) in [(Role::Server, one), (Role::Client, other)] {
        let (context, done) = (open(), done.clone());
        let options = Options { local: true, ..options.clone() };
        thread::spawn(move || {
            let result = run::run(&options, &context, Peer::Perf(link), role);
            // The receiver is gone if the other end has failed.
            let _ = done.send(result.map_err(|error| format!("{role:?}: {error}")));
        });
    }
    drop(done);
    let mut report = None;
    for _ in 0..2 {
        report = results.recv().map_err(|_| "one end stopped without a result")??.or(report);
    }
    Ok(report)
}
