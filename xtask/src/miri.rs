//! `cargo xtask miri`: the conformance and attack suites under Miri, in both borrow models, on the
//! worst device.

pub mod inlined;

use std::env;

use anyhow::{Context, Result, ensure};

use crate::sanitize::FORGETTING;
use crate::sh::{Cmd, Next, Run, two_at_a_time};
use crate::test::FEATURES;
use crate::toolchain::{self, CALLERS, WITH_NIGHTLY};
use crate::{cargo, setup};

#[derive(clap::Args)]
pub struct Args {
    /// One borrow model only.
    #[arg(long)]
    model: Option<Model>,
    /// On a machine whose numbers have their largest byte first: s390x.
    #[arg(long)]
    big_endian: bool,
    /// Look for leaks too, in those attacks that forget nothing.
    #[arg(long)]
    leaks: bool,
    /// Those tests that have threads, with the weak memory of real processors, once for each seed.
    #[arg(long)]
    weak: bool,
    /// What Miri draws addresses and switches of threads from; with `--weak`, the first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
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
    /// SGE addresses are integers, as the hardware takes them: hence the permissive provenance.
    /// Memory that is open to the fabric is touched by words and by bytes, always atomically, which
    /// Miri's store buffers cannot follow: hence no weak memory. Tests forget things on purpose,
    /// and what is orphaned with a queue that was not drained stays in flight: hence leaks are let
    /// pass, but where nothing is forgotten. Tags of what is gone are thrown away five times as
    /// often as Miri does by itself: trees of borrows stay small, which is a fifth of the time.
    pub fn flags(self, leaks: bool) -> String {
        let leaks = if leaks { "" } else { " -Zmiri-ignore-leaks" };
        let model = if self == Model::TreeBorrows { " -Zmiri-tree-borrows" } else { "" };
        format!(
            "-Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation \
             -Zmiri-provenance-gc=2000{leaks}{model}"
        )
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// How many seeds are tried by hand, and in `cargo xtask test`: 0 to 3.
const MANY: u32 = 64;
const FEW: u32 = 4;

/// Tests with threads, by what they are in and how their names begin. Two more with threads touch
/// open memory from both, where words and bytes meet, which Miri's store buffers cannot follow:
/// `open_memory::bytes_cells_and_a_peer_at_the_same_places` and
/// `loopback::tests::connected::open_memory_may_be_watched_from_another_thread`.
type Threaded = (&'static [&'static str], &'static [&'static str]);
const THREADED: [Threaded; 3] = [
    (
        &["--test", "attack"],
        &["threads::", "exit::a_thread_that_ends", "order::a_completion_queue_that_goes_before"],
    ),
    (&["--test", "conformance"], &["teardown::a_queue_pair_moves"]),
    (&["--lib"], &["completion::tests::reasons_of_several_threads"]),
];

/// What `--big-endian` is.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

const ATTACK: [&str; 2] = ["--test", "attack"];
const CONFORMANCE: [&str; 2] = ["--test", "conformance"];
/// Into how many runs of Miri, which has one thread, conformance is split.
const PIECES: usize = 3;
const SUITES: [&str; 4] = ["--test", "conformance", "--test", "attack"];
/// Unit tests of the books, of what completion queues know, of memory with keepers, and of memory
/// that is named by its address alone.
const UNITS: [&str; 8] = [
    "--lib",
    "--",
    "qp::",
    "in_flight::",
    "completion::",
    "memory::opaque::tests::",
    "memory::own::tests::",
    "memory::implicit::tests::",
];
/// rdma_cm, without threads that wait.
const CM: [&str; 3] = ["--test", "cm", "fabric::"];
/// Tests that post lists as long as a queue is deep take minutes under Miri. They have a run of
/// their own at night.
const LONG: &str = "exact_limits::";
/// What makes a suite say which tests it has.
const LIST: [&str; 4] = ["--", "--list", "--format", "terse"];

pub fn main(args: &Args) -> Result<()> {
    let filter: Vec<&str> = args.filter.as_deref().into_iter().collect();
    if args.weak {
        return weak(&THREADED, args, &filter);
    }
    if args.big_endian {
        return big_endian(&filter, args.seed);
    }
    whole(args, &filter)
}

/// What a run is called, Miri's flags, and which tests.
type Suite<'a> = (String, String, Vec<&'a str>);

/// Everything, or what the filter says, in both borrow models or in one.
fn whole(args: &Args, filter: &[&str]) -> Result<()> {
    let models = [Model::StackedBorrows, Model::TreeBorrows].into_iter();
    let names = if args.leaks || !filter.is_empty() { Vec::new() } else { conformance()? };
    // What these leave behind is a leak.
    let skip = FORGETTING.map(|name| ["--skip", name]).concat();
    let mut runs: Vec<Suite<'_>> = Vec::new();
    for model in models.filter(|model| args.model.is_none_or(|one| one == *model)) {
        let mut add = |what, tests| {
            let flags = format!("{} -Zmiri-seed={}", model.flags(args.leaks), args.seed);
            runs.push((format!("{what}, {model}"), flags, tests));
        };
        if args.leaks {
            add("attacks", [&ATTACK, filter, &["--"], &skip].concat());
        } else if !filter.is_empty() {
            add("the suites", [&SUITES, filter].concat());
        } else {
            add("long lists", [&CONFORMANCE[..], &[LONG]].concat());
            for at in 0..PIECES {
                add("conformance", piece(&names, at, PIECES));
            }
            add("attacks", ATTACK.to_vec());
            add("units", UNITS.to_vec());
            add("rdma_cm", CM.to_vec());
        }
    }
    let passed = two_at_a_time(&runs, |_, suite| passed(suite, inlined::with))?;
    println!("{} passed, 0 failed: no undefined behaviour", passed.iter().sum::<u32>());
    Ok(())
}

/// Every `of`th test of conformance, starting with number `at`.
fn piece(names: &[String], at: usize, of: usize) -> Vec<&str> {
    let names = names.iter().map(String::as_str).skip(at).step_by(of);
    CONFORMANCE.into_iter().chain(["--", "--exact"]).chain(names).collect()
}

/// The suites where numbers have their largest byte first. The borrow models know nothing of the
/// order of bytes, and take half of the time: the other runs have them.
fn big_endian(filter: &[&str], seed: u64) -> Result<()> {
    let flags = Model::StackedBorrows.flags(false);
    let flags = format!("{flags} -Zmiri-disable-stacked-borrows -Zmiri-seed={seed}");
    let target = ["--target", BIG_ENDIAN];
    let list = [&target[..], &CONFORMANCE, filter, &LIST].concat();
    let names = all_of(&command(&flags, &list)?.text()?);
    ensure!(!names.is_empty() || !filter.is_empty(), "conformance lists no tests");
    let mut runs: Vec<_> =
        (0..PIECES.min(names.len())).map(|at| piece(&names, at, PIECES)).collect();
    runs.push([&ATTACK, filter].concat());
    let passed = two_at_a_time(&runs, |_, tests| {
        let tests = [&target[..], tests].concat();
        passed(&(BIG_ENDIAN.to_owned(), flags.clone(), tests), Ok)
    })?;
    println!("{BIG_ENDIAN}: {} passed, 0 failed", passed.iter().sum::<u32>());
    Ok(())
}

/// Chooses the std of a run.
type With = fn(Cmd<'static>) -> Result<Cmd<'static>>;

/// Runs a suite; how many of its tests passed.
fn passed((what, flags, tests): &Suite<'_>, with: With) -> Result<u32> {
    eprintln!("{what} ...");
    let said = with(command(flags, tests)?)?.text().next(hint(flags))?;
    let results = said.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let mut passed = None;
    for result in results {
        println!("{what}: {result}");
        let (some, _) = result.split_once(' ').context("libtest counts")?;
        passed = Some(passed.unwrap_or(0) + some.parse::<u32>()?);
    }
    passed.context("no test has run")
}

/// What `cargo xtask test` runs, always the same: the attacks and the units in the stricter model,
/// and with weak memory the tests with threads. These take about 12 minutes of processor time. The
/// other model (10 minutes), rdma_cm (2) and conformance (35) run at night.
/// Miri has one thread, so two of these run at a time, the longest first.
pub fn quick() -> Result<()> {
    let stacked = Model::StackedBorrows.flags(false);
    let mut runs =
        vec![("attacks", stacked.clone(), ATTACK.to_vec()), ("units", stacked, UNITS.to_vec())];
    for (target, names) in &THREADED {
        runs.push(("weak memory", weak_flags(0, FEW), [target, &["--"][..], names].concat()));
    }
    two_at_a_time(&runs, |_, (what, flags, args)| {
        let run = inlined::with(command(flags, args)?)?;
        run.step(format!("Miri, {what}")).next(hint(flags))
    })
    .map(drop)
}

/// The tests of conformance that Miri runs.
fn conformance() -> Result<Vec<String>> {
    let quiet = ["--quiet", "--features", FEATURES];
    let said = cargo::cargo(&[&["test"], &CONFORMANCE[..], &quiet, &LIST].concat())?.text()?;
    let names = all_of(&said);
    ensure!(!names.is_empty(), "conformance lists no tests");
    Ok(names)
}

/// The names of the tests that a suite listed, but of those that take minutes.
fn all_of(said: &str) -> Vec<String> {
    let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| !name.starts_with(LONG)).map(str::to_owned).collect()
}

fn weak(targets: &[Threaded], args: &Args, filter: &[&str]) -> Result<()> {
    let flags = &weak_flags(args.seed, MANY);
    targets.iter().try_for_each(|(target, names)| {
        let names = if filter.is_empty() { names } else { filter };
        let cmd = command(flags, &[target, &["--"][..], names].concat())?;
        inlined::with(cmd)?.run().next(hint(flags))
    })
}

/// Every load may see what another thread has overwritten already, as far as the orders allow it;
/// each seed chooses anew.
fn weak_flags(first: u64, seeds: u32) -> String {
    // Miri counts seeds in 32 bits.
    let first = first % (1 << 31);
    let seeds = format!("{first}..{}", first + u64::from(seeds));
    format!("-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-many-seeds={seeds}")
}

/// What the suites run on, if the variable does not say otherwise: the device that writes least,
/// and all that it need not write as badly as it may.
const WORST: &str = "worst:1";
const PERSONALITY: &str = "PROVERBS_PERSONALITY";

fn command(flags: &str, args: &[&str]) -> Result<Cmd<'static>> {
    setup::ensure(&[setup::Group::Build])?;
    toolchain::nightly()?;
    // Without debug assertions, which the native runs of the same tests have, it takes a fifth
    // less.
    let test = [WITH_NIGHTLY, "miri", "test", "--release", "--features", "zerocopy"];
    // (Miri shows a program no variable without being told.)
    let flags =
        &format!("{flags} -Zmiri-env-forward={PERSONALITY} -Zmiri-env-forward=PROVERBS_WORLD");
    Ok(on(cargo::cargo(&[&test, args].concat())?, flags).env(PERSONALITY, device()))
}

fn device() -> String {
    env::var(PERSONALITY).unwrap_or_else(|_| WORST.to_owned())
}

fn hint(flags: &str) -> String {
    format!("{PERSONALITY} was {}, MIRIFLAGS began with {flags}", device())
}

/// `cargo miri ...` of the nightly with these flags.
pub fn on<'a>(cmd: Cmd<'a>, flags: &str) -> Cmd<'a> {
    // With `cargo xtask`, cargo names its own toolchain to us; Miri needs the other.
    CALLERS.iter().fold(cmd.env("MIRIFLAGS", flags), |cmd, name| cmd.env_remove(name))
}
