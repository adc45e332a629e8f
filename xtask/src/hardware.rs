//! `cargo xtask hardware`: two machines with RDMA devices, and a report that can be sent to us.
//!
//! It is started on both, and neither logs in to the other. The one without `--peer` serves: it
//! waits for the other and does what that one says, which is one of the few things in `Command`.

mod case;
mod chart;
mod facts;
mod guests;
mod link;
mod programs;
mod report;

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::progress::Step;
use crate::sh::Next;
use case::{Case, Whose};
use facts::{Facts, Port};
use link::{Answer, Command, Link};
use programs::{Programs, Suite};
use report::{Measured, Report};

#[derive(clap::Args)]
pub struct Args {
    /// The RDMA device of this machine, as ibv_devices(1) lists it.
    #[arg(long, value_name = "NAME", required_unless_present = "guests")]
    device: Option<String>,
    /// The other machine, where this command runs without --peer; without, this one serves.
    #[arg(long, value_name = "HOST")]
    peer: Option<String>,
    /// The device's GID; without, the first of RoCE v2 with an IPv4 address, or 0 on InfiniBand.
    #[arg(long, value_name = "INDEX")]
    gid_index: Option<u8>,
    /// TCP port on which the server is told what to do; what is measured meets on the next one.
    #[arg(long, default_value_t = 18700, value_parser = clap::value_parser!(u16).range(1024..65535))]
    port: u16,
    /// Pairs of runs, perftest and ours in turn, of each measurement.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000),
          requires = "peer")]
    pairs: u32,
    /// Exchanges of each run.
    #[arg(short = 'n', long, default_value_t = 5000,
          value_parser = clap::value_parser!(u32).range(10..=1_000_000), requires = "peer")]
    iterations: u32,
    /// Run only those tests of the conformance suite that have this in their names.
    #[arg(long, value_name = "NAME", requires = "peer")]
    tests: Option<String>,
    /// A directory with `conformance`, `perf` and `devinfo` that were built elsewhere; without,
    /// they are built.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Where report.md and report.svg go; without, below target.
    #[arg(long, value_name = "DIR", requires = "peer")]
    out: Option<PathBuf>,
    /// Try this command between two guests with Soft-RoCE.
    #[arg(long, conflicts_with_all = ["device", "peer", "gid_index", "port"])]
    guests: bool,
}

/// How long the client waits for the server to wait for it.
const PATIENCE: Duration = Duration::from_secs(600);

/// One of the two machines.
struct Machine {
    device: String,
    gid_index: u8,
    programs: Programs,
    facts: Facts,
    /// Where what is measured meets.
    port: u16,
}

pub fn main(args: &Args) -> Result<()> {
    let Some(device) = args.device.clone() else {
        return guests::run(args.programs.as_deref());
    };
    let port = Port::of(&device)?;
    let gid_index = port.gid_index(args.gid_index)?;
    let programs = Programs::find(args.programs.as_deref())?;
    let facts = Facts::of(&device, &port, gid_index)?;
    let here = Machine { device, gid_index, programs, facts, port: args.port + 1 };
    match &args.peer {
        None => serve(&here, args.port),
        Some(peer) => lead(&here, peer, args),
    }
}

/// Waits for the other machine, and does what it says until it has no more to say.
fn serve(here: &Machine, port: u16) -> Result<()> {
    // IPv6's wildcard takes IPv4 too, where there is IPv6.
    let any: [SocketAddr; 2] =
        [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    let listener = TcpListener::bind(&any[..])
        .with_context(|| format!("cannot listen on TCP port {port}"))
        .next("another --port, on both machines")?;
    println!(
        "Waiting on TCP port {port}. Next, on the other machine: \
         cargo xtask hardware --device NAME --peer THIS-MACHINE{}",
        if port == 18700 { String::new() } else { format!(" --port {port}") }
    );
    let (stream, from) = listener.accept()?;
    drop(listener);
    println!("{from} leads");
    let mut link = Link::new(stream)?;
    let mut server = None;
    loop {
        let answer = match link.hear::<Command>()? {
            Command::Tell => Answer::Told(here.facts.clone(), here.programs.devinfo(here)?),
            Command::Conformance { only } => Answer::Conformed(conformance(here, only.as_deref())?),
            Command::Serve { case, whose, iterations } => {
                let began = here.programs.serve(here, &case, whose, iterations);
                Answer::Serves(began.map(|it| server = Some(it)).map_err(|e| format!("{e:#}")))
            }
            Command::End => Answer::Ended(match server.take() {
                Some(server) => server.finish().map_err(|error| format!("{error:#}")),
                None => Err("nothing serves".to_owned()),
            }),
            Command::Bye { report } => {
                println!("Done. The report is on {}: {report}", from.ip());
                return Ok(());
            }
        };
        link.say(&answer)?;
    }
}

/// Leads the other machine through everything, and writes the report.
fn lead(here: &Machine, peer: &str, args: &Args) -> Result<()> {
    let mut link = Link::new(connect(peer, args.port)?)?;
    let Answer::Told(there, devinfo_there) = link.ask(&Command::Tell)? else {
        return link::strange();
    };
    ensure!(
        there.version() == here.facts.version(),
        "{peer} has {}, and this machine {}: both must have the same",
        there.version(),
        here.facts.version()
    );

    let command = Command::Conformance { only: args.tests.clone() };
    link.say(&command)?;
    let conformed_here = conformance(here, args.tests.as_deref())?;
    let Answer::Conformed(conformed_there) = link.hear()? else {
        return link::strange();
    };

    let mut measured: Vec<Measured> = case::ALL.map(Measured::of).into();
    let step = Step::start("Measuring perftest and ours in turn");
    for pair in 0..args.pairs {
        for one in &mut measured {
            // Who comes first alternates: a device that warms up or slows down does so for both.
            let order = match pair % 2 {
                0 => [Whose::Perftest, Whose::Ours],
                _ => [Whose::Ours, Whose::Perftest],
            };
            for whose in order {
                if one.failure.is_some() {
                    break;
                }
                step.update(format!("{}, pair {} of {}, {whose}", one.case, pair + 1, args.pairs));
                match run(here, &mut link, peer, &one.case, whose, args.iterations)? {
                    Ok(figures) => one.add(whose, figures),
                    Err(why) => one.failure = Some(format!("{whose}: {why}")),
                }
            }
        }
    }
    step.done("Measured perftest and ours in turn");

    let report = Report {
        tests: args.tests.clone(),
        pairs: args.pairs,
        iterations: args.iterations,
        machines: [here.facts.clone(), there],
        conformance: [conformed_here, conformed_there],
        measured,
        devinfo: [here.programs.devinfo(here)?, devinfo_there],
    };
    let dir = match &args.out {
        Some(dir) => paths::directory(dir.clone())?,
        None => paths::below_target("hardware")?,
    };
    let (page, picture) = (dir.join("report.md"), dir.join("report.svg"));
    fs::write(&page, report.markdown())
        .with_context(|| format!("cannot write {}", page.display()))?;
    chart::draw(&picture, &report.measured)?;
    link.say(&Command::Bye { report: page.display().to_string() })?;
    println!("{}", report.summary());
    println!("The report is {} and {}", page.display(), picture.display());
    ensure!(!report.has_failed(), "something failed; the report says what");
    Ok(())
}

/// The other machine may still build.
fn connect(peer: &str, port: u16) -> Result<TcpStream> {
    let _step = Step::start(format!("Waiting for {peer}"));
    let start = Instant::now();
    loop {
        match TcpStream::connect((peer, port)) {
            Ok(stream) => return Ok(stream),
            Err(error) if start.elapsed() > PATIENCE => {
                return Err(error)
                    .with_context(|| format!("cannot connect to {peer}, TCP port {port}"))
                    .next(format!("on {peer}: cargo xtask hardware --device NAME"));
            }
            Err(_) => thread::sleep(Duration::from_secs(1)),
        }
    }
}

fn conformance(here: &Machine, only: Option<&str>) -> Result<Suite> {
    let what = format!("Running the conformance suite on {}", here.device);
    let step = Step::start(what.clone());
    let suite = here.programs.conformance(here, only)?;
    step.done(&format!("{what}: {} passed, {} failed", suite.passed, suite.failed.len()));
    Ok(suite)
}

/// One run: the server's end there, the client's here. The inner error is that of the programs.
fn run(
    here: &Machine,
    link: &mut Link,
    peer: &str,
    case: &Case,
    whose: Whose,
    iterations: u32,
) -> Result<Result<case::Figures, String>> {
    let serve = Command::Serve { case: *case, whose, iterations };
    let Answer::Serves(began) = link.ask(&serve)? else { return link::strange() };
    if let Err(why) = began {
        return Ok(Err(format!("the server: {why}")));
    }
    let client = here.programs.measure(here, peer, case, whose, iterations);
    let Answer::Ended(server) = link.ask(&Command::End)? else { return link::strange() };
    Ok(match (client, server) {
        (Ok(figures), Ok(())) => Ok(figures),
        (Err(client), Ok(())) => Err(format!("{client:#}")),
        (Ok(_), Err(server)) => Err(format!("the server: {server}")),
        (Err(client), Err(server)) => Err(format!("{client:#}; the server: {server}")),
    })
}
