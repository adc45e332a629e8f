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
    /// Only one borrow model.
    #[arg(long)]
    model: Option<Model>,
    /// On a big-endian machine: s390x.
    #[arg(long)]
    big_endian: bool,
    /// Also check for leaks, in the attacks that do not leak values on purpose.
    #[arg(long)]
    leaks: bool,
    /// Run the tests with threads, with the weak memory of real processors, once for each seed.
    #[arg(long)]
    weak: bool,
    /// The seed for Miri's addresses and thread switches; with `--weak`, the first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only tests whose names contain this.
    filter: Option<String>,
}

/// Miri's rules for references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    StackedBorrows,
    TreeBorrows,
}

impl Model {
    /// SGE addresses are integers, as for the hardware, so provenance is permissive. Memory that
    /// peers can access is accessed in words and bytes, always atomically. Miri's store buffers do
    /// not support this, so weak memory is off. Tests leak values on purpose, and buffers of an
    /// undrained queue stay in flight, so leaks are ignored unless a test does not leak. Tags are
    /// garbage-collected five times as often as by default: small borrow trees save a fifth of the
    /// time.
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

/// Tests with threads: targets, and beginnings of names. Two more access open memory from both
/// threads, in words and bytes, which Miri's store buffers do not support:
/// `open_memory::bytes_cells_and_a_peer_at_the_same_places` and
/// `loopback::tests::connected::open_memory_may_be_watched_from_another_thread`.
const THREADED: [&str; 3] = [
    "--test attack -- threads:: exit::a_thread_that_ends \
     order::a_completion_queue_that_is_dropped_before",
    "--test conformance -- teardown::a_queue_pair_moves counters::another_thread_reads",
    "--lib -- completion::tests::reasons_of_several_threads",
];

/// The target of `--big-endian`.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";

const ATTACK: [&str; 2] = ["--test", "attack"];
const CONFORMANCE: [&str; 2] = ["--test", "conformance"];
/// The number of Miri runs for conformance. Miri itself has one thread.
const PIECES: usize = 3;
const SUITES: [&str; 4] = ["--test", "conformance", "--test", "attack"];
/// Unit tests of the accounting, of the state of completion queues, of memory with keepers, and of
/// memory that is only an address.
const UNITS: &str = "--lib -- qp:: in_flight:: completion:: memory::opaque:: memory::own:: \
                     ext::on_demand::implicit:: ext::path_migration:: ext::tuning:: ext::xrc::";
/// rdma_cm, without threads that wait.
const CM: [&str; 5] = ["--test", "cm", "--", "fabric::", "order::"];
/// Tests that post lists of the full queue depth take minutes under Miri. They have a separate run
/// at night.
const LONG: &str = "exact_limits::";
/// The options with which a suite lists its tests.
const LIST: [&str; 4] = ["--", "--list", "--format", "terse"];

pub fn main(args: &Args) -> Result<()> {
    let filter: Vec<&str> = args.filter.as_deref().into_iter().collect();
    if args.weak {
        return weak(args, &filter);
    }
    if args.big_endian {
        return big_endian(&filter, args.seed);
    }
    whole(args, &filter)
}

/// The name of a run, Miri's flags, and the tests.
type Suite<'a> = (String, String, Vec<&'a str>);

/// Everything, or the filtered tests, in both borrow models or in one.
fn whole(args: &Args, filter: &[&str]) -> Result<()> {
    let models = [Model::StackedBorrows, Model::TreeBorrows].into_iter();
    let names = if args.leaks || !filter.is_empty() { Vec::new() } else { conformance()? };
    // These must not leak.
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
            add("units", UNITS.split(' ').collect());
            add("rdma_cm", CM.to_vec());
        }
    }
    let passed = two_at_a_time(&runs, |_, suite| passed(suite, inlined::with))?;
    println!("{} passed, 0 failed: no undefined behaviour", passed.iter().sum::<u32>());
    Ok(())
}

/// Every `of`th conformance test, starting with number `at`.
fn piece(names: &[String], at: usize, of: usize) -> Vec<&str> {
    let names = names.iter().map(String::as_str).skip(at).step_by(of);
    CONFORMANCE.into_iter().chain(["--", "--exact"]).chain(names).collect()
}

/// The suites on a big-endian machine. The borrow models do not depend on byte order and take half
/// of the time, so only the other runs use them.
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

/// Runs a suite. Returns the number of tests that passed.
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

/// The part of `cargo xtask test`, which is always the same: the attacks and the unit tests in the
/// stricter model, and the attacks with threads with weak memory and one seed. These take about 8
/// minutes of processor time. The other model (10 minutes), rdma_cm (2), conformance (35), and the
/// other tests and seeds with weak memory run at night.
/// Miri has one thread, so two of these run at a time, the longest first.
pub fn quick() -> Result<()> {
    let stacked = Model::StackedBorrows.flags(false);
    let threads: Vec<&str> = THREADED[0].split(' ').collect();
    // The run with weak memory checks the attacks with threads in this model too.
    let names = threads.iter().skip_while(|word| **word != "--").skip(1);
    let skip = names.flat_map(|name| ["--skip", name]);
    let attacks = ATTACK.into_iter().chain(["--"]).chain(skip).collect();
    let runs = [
        ("attacks", stacked.clone(), attacks),
        ("weak memory", weak_flags(0, 1), threads),
        ("units", stacked, UNITS.split(' ').collect()),
    ];
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

/// The names of the tests that a suite listed, without those that take minutes.
fn all_of(said: &str) -> Vec<String> {
    let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| !name.starts_with(LONG)).map(str::to_owned).collect()
}

fn weak(args: &Args, filter: &[&str]) -> Result<()> {
    let flags = &weak_flags(args.seed, 64);
    THREADED.iter().filter_map(|line| line.split_once(" -- ")).try_for_each(|(target, names)| {
        let names = if filter.is_empty() { names.split(' ').collect() } else { filter.to_vec() };
        let tests: Vec<&str> = target.split(' ').chain(["--"]).chain(names).collect();
        inlined::with(command(flags, &tests)?)?.run().next(hint(flags))
    })
}

/// A load may return a value that another thread has already overwritten, if the memory orderings
/// allow it. Each seed chooses differently.
fn weak_flags(first: u64, seeds: u32) -> String {
    // Miri counts seeds in 32 bits.
    let first = first % (1 << 31);
    let seeds = format!("{first}..{}", first + u64::from(seeds));
    format!("-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-many-seeds={seeds}")
}

/// The default device of the suites, unless the variable selects another. It writes only the fields
/// that it must, and fills all others with the worst values.
const WORST: &str = "worst:1";
const PERSONALITY: &str = "PROVERBS_PERSONALITY";

fn command(flags: &str, args: &[&str]) -> Result<Cmd<'static>> {
    setup::ensure(&[setup::Group::Build])?;
    toolchain::nightly()?;
    // Debug assertions are off, which saves a fifth of the time. The native runs of the same tests
    // have them.
    let test =
        [WITH_NIGHTLY, "miri", "test", "--release", "-p", "proverbs", "--features", "zerocopy"];
    // (Miri hides environment variables by default.)
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

/// `cargo miri ...` with the nightly and these flags.
pub fn on<'a>(cmd: Cmd<'a>, flags: &str) -> Cmd<'a> {
    // `cargo xtask` sets the variable for its own toolchain, but Miri needs the nightly.
    CALLERS.iter().fold(cmd.env("MIRIFLAGS", flags), |cmd, name| cmd.env_remove(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;
    use crate::sh::{self, cmd};

    /// The source of a module, which is a file, a folder, or both.
    fn source(module: &str) -> String {
        let root = paths::workspace();
        let list = cmd!(sh::at(&root), "git ls-files {module}.rs {module}").text().unwrap();
        list.lines().map(|file| std::fs::read_to_string(root.join(file)).unwrap()).collect()
    }

    /// A filter that matches no test would not fail a run, because the other filters match some.
    #[test]
    fn each_filter_names_tests() {
        let cm = CM.join(" ");
        let lists = THREADED.iter().copied().chain([UNITS, &cm]);
        let named = lists.flat_map(|list| {
            let (target, names) = list.split_once(" -- ").unwrap();
            let folder = target.strip_prefix("--test ").map(|test| format!("tests/{test}"));
            let folder = folder.unwrap_or("src".into());
            names.split(' ').map(|name| (folder.clone(), name)).collect::<Vec<_>>()
        });
        let forgetting = FORGETTING.map(|name| ("tests/attack".to_owned(), name));
        let long = ("tests/conformance".to_owned(), LONG);
        for (folder, name) in named.chain(forgetting).chain([long]) {
            let (module, test) = name.rsplit_once("::").unwrap();
            let source = source(&format!("{folder}/{}", module.replace("::", "/")));
            let is_there = source.contains("#[test]") && source.contains(&format!("fn {test}"));
            assert!(is_there, "{folder}: no test matches {name}");
        }
    }
}
