//! `cargo xtask miri`: the conformance and attack suites under Miri, in both borrow models.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::sanitize::FORGETTING;
use crate::sh::Cmd;
use crate::{Outcome, cargo, setup};

#[derive(clap::Args)]
pub struct Args {
    /// One borrow model only.
    #[arg(long)]
    model: Option<Model>,
    /// Look for leaks too, in those attacks that forget nothing.
    #[arg(long)]
    leaks: bool,
    /// Those tests that have threads, with the weak memory of real processors, once for each seed.
    #[arg(long)]
    weak: bool,
    /// How many seeds `--weak` tries.
    #[arg(long, value_name = "N", default_value_t = MANY, requires = "weak")]
    seeds: u32,
    /// Only tests whose names contain this.
    filter: Option<String>,
}

/// What Miri takes a reference to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    StackedBorrows,
    TreeBorrows,
}

impl Model {
    /// SGE addresses are integers, as the hardware takes them: hence the permissive provenance. Memory
    /// that is open to the fabric is touched by words and by bytes, always atomically, which Miri's store
    /// buffers cannot follow: hence no weak memory. Tests forget things on purpose, and what is stranded
    /// with a queue that was not drained stays in flight: hence leaks are let pass, but where nothing is forgotten.
    pub fn flags(self, leaks: bool) -> String {
        let mut flags =
            "-Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation".to_owned();
        if !leaks {
            flags.push_str(" -Zmiri-ignore-leaks");
        }
        if self == Model::TreeBorrows {
            flags.push_str(" -Zmiri-tree-borrows");
        }
        flags
    }
}

/// How many seeds are tried by hand, and in `cargo xtask test`.
pub const MANY: u32 = 64;
const FEW: u32 = 4;

/// Tests with threads, by what they are in and how their names begin. Two more with threads touch open memory from both, where words and bytes
/// meet, which Miri's store buffers cannot follow: `open_memory::bytes_cells_and_a_peer_at_the_same_places` and
/// `loopback::tests::connected::open_memory_may_be_watched_from_another_thread`.
type Threaded = (&'static [&'static str], &'static [&'static str]);
const THREADED: [Threaded; 3] = [
    (
        &["--test", "attack"],
        &["threads::", "exit::a_thread_that_ends", "order::a_completion_queue_that_goes_before"],
    ),
    (&["--test", "conformance"], &["teardown::a_queue_pair_moves"]),
    (&["--lib"], &["in_flight::"]),
];

/// Every load may see what another thread has overwritten already, as far as the orders allow it; each seed chooses anew.
pub fn weak_flags(seeds: u32) -> String {
    format!("-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-many-seeds=0..{seeds}")
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

pub fn main(args: Args) -> Outcome {
    if args.weak {
        weak(&THREADED, args.seeds, args.filter.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let models = match args.model {
        Some(model) => vec![model],
        None => vec![Model::StackedBorrows, Model::TreeBorrows],
    };
    for model in models {
        match args.leaks {
            true => leaks(model, args.filter.as_deref())?,
            false => run(model, args.filter.as_deref())?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Tests that take minutes under Miri: lists as long as a queue is deep.
const LONG: &str = "exact_limits::";

/// What `cargo xtask test` runs: all suites in the stricter model, but for what takes minutes; in the other one those
/// that try to break in; and with weak memory those that have threads.
pub fn quick() -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    let suites = ["--test", "conformance", "--test", "attack", "--", "--skip", LONG];
    let stacked = Model::StackedBorrows;
    miri(stacked, &[&["+nightly", "miri", "test"][..], &suites].concat(), false)?;
    miri(stacked, &UNITS, false)?;
    let attack = ["+nightly", "miri", "test", "--test", "attack"];
    miri(Model::TreeBorrows, &attack, false)?;
    // The unit tests of the books take minutes for each seed: by hand.
    weak(&THREADED[..2], FEW, None)
}

/// Unit tests of the books.
const UNITS: [&str; 5] = ["+nightly", "miri", "test", "--lib", "qp::"];

/// The suites in one model, and the unit tests of the books.
pub fn run(model: Model, filter: Option<&str>) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    let mut suite = vec!["+nightly", "miri", "test", "--test", "conformance", "--test", "attack"];
    suite.extend(filter);
    miri(model, &suite, false)?;
    if filter.is_none() {
        miri(model, &UNITS, false)?;
    }
    Ok(())
}

fn weak(targets: &[Threaded], seeds: u32, filter: Option<&str>) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    for &(target, names) in targets {
        let names: Vec<&str> = match filter {
            None => names.to_vec(),
            Some(filter) => vec![filter],
        };
        let line = [&["+nightly", "miri", "test"], target, &["--"], &names].concat();
        on_terminal(on(cargo::cargo(&line)?, &weak_flags(seeds)), "with weak memory")?;
    }
    Ok(())
}

/// The attacks that forget nothing: what they leave behind is a leak.
fn leaks(model: Model, filter: Option<&str>) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    setup::nightly()?;
    let mut suite = vec!["+nightly", "miri", "test", "--test", "attack"];
    suite.extend(filter);
    suite.push("--");
    suite.extend(FORGETTING.iter().flat_map(|name| ["--skip", *name]));
    miri(model, &suite, true)
}

/// `cargo +nightly miri ...` with these flags.
pub fn on(cmd: Cmd, flags: &str) -> Cmd {
    // With `cargo xtask`, cargo names its own toolchain to us; Miri needs the other.
    cmd.env("MIRIFLAGS", flags)
        .without("RUSTUP_TOOLCHAIN")
        .without("CARGO")
        .hint("rustup component add --toolchain nightly miri rust-src")
}

fn miri(model: Model, args: &[&str], leaks: bool) -> Result<()> {
    on_terminal(on(cargo::cargo(args)?, &model.flags(leaks)), &format!("{model:?}"))
}

fn on_terminal(cmd: Cmd, how: &str) -> Result<()> {
    match cmd.stream()? {
        0 => Ok(()),
        code => bail!("Miri found something, or did not run: code {code} ({how})"),
    }
}
