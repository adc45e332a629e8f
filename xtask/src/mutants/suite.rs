//! The tests, their durations, and the mutants that they reach.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::watch;
use crate::progress::Step;
use crate::sh::two_at_a_time;
use crate::{paths, test};

/// A program of tests, and the loopback device that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The target's name.
    pub target: &'static str,
    personality: &'static str,
    world: &'static str,
}

const fn plain(target: &'static str) -> Suite {
    on(target, "", "")
}

const fn on(target: &'static str, personality: &'static str, world: &'static str) -> Suite {
    Suite { target, personality, world }
}

/// The suites that test mutants: all suites of `cargo xtask test` that run the crate.
pub const SUITES: [Suite; 25] = [
    plain("lib"),
    plain("sys"),
    plain("conformance"),
    plain("attack"),
    plain("faults"),
    plain("raw"),
    plain("endpoint"),
    plain("worlds"),
    plain("allocation"),
    plain("descriptors"),
    plain("errors"),
    plain("fork"),
    plain("out_of_memory"),
    plain("simulation"),
    plain("cm"),
    on("conformance", "rxe", "ipv4"),
    on("conformance", "mlx5", "ipv4"),
    on("conformance", "worst:3", "ipv6"),
    on("conformance", "worst:4", "infiniband"),
    on("attack", "worst:1", "ipv4"),
    on("cm", "worst:3", "ipv6"),
    on("cm", "worst:4", "infiniband"),
    on("cm", "", "iwarp"),
    on("conformance", "", "iwarp"),
    on("conformance", "", "unknown"),
];

/// The options for random programs: about ten worlds.
const SIMULATION: [&str; 2] = ["--steps", "10000"];

impl Suite {
    /// A single test, because only the whole program can detect a mutant.
    fn is_one_test(self) -> bool {
        self.target == "simulation"
    }

    /// The program's options, besides test names.
    fn args(self) -> Vec<String> {
        let mut args = match self.target {
            "simulation" => SIMULATION.to_vec(),
            _ => vec!["--test-threads=1"],
        };
        args.extend(test::skipped(self.world).iter().flat_map(|name| ["--skip", *name]));
        args.into_iter().map(str::to_owned).collect()
    }

    fn env(self) -> Vec<(&'static str, &'static str)> {
        test::device(self.personality, self.world)
    }
}

/// Tests that take longer than this are run last, and separately.
const SLOW: Duration = Duration::from_millis(50);

/// The time limit of a test that takes no time without a mutant.
const PATIENCE: Duration = Duration::from_secs(3);

/// Tests of one program that run together.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub target: &'static str,
    pub program: PathBuf,
    pub env: Vec<(&'static str, &'static str)>,
    /// A test without output for this long has hung.
    pub patience: Duration,
    /// The duration without a mutant.
    pub takes: Duration,
    pub args: Vec<String>,
    /// Empty for a program that is a single test.
    pub tests: Vec<String>,
}

impl Chunk {
    pub fn all_args(&self) -> impl Iterator<Item = &str> {
        let exact = (!self.tests.is_empty()).then_some("--exact");
        self.args
            .iter()
            .map(String::as_str)
            .chain(exact)
            .chain(self.tests.iter().map(String::as_str))
    }

    /// For a run without a mutant, optionally of one test. The time limit is halved.
    pub fn only(&self, test: Option<&str>) -> Chunk {
        let mut only = self.clone();
        only.patience /= 2;
        if let Some(test) = test.filter(|_| !self.tests.is_empty()) {
            only.tests = vec![test.to_owned()];
        }
        only
    }

    /// Removes this test. Returns false if no test is left, or if it is unknown which one to
    /// remove.
    pub fn leave_out(&mut self, test: Option<&str>) -> bool {
        let before = self.tests.len();
        self.tests.retain(|one| Some(one.as_str()) != test);
        (1..before).contains(&self.tests.len())
    }
}

struct Traced {
    suite: Suite,
    program: PathBuf,
    tests: Vec<Test>,
}

struct Test {
    /// None: the whole program.
    name: Option<String>,
    takes: Duration,
    reaches: BTreeSet<u32>,
}

pub struct Suites(Vec<Traced>);

impl Suites {
    /// Runs every test once without a mutant, and records the mutants that it reaches.
    pub fn trace(executables: &[(String, PathBuf)]) -> Result<Suites> {
        let step = Step::start("Recording which test reaches which mutant");
        let dir = paths::below_target("mutants")?;
        let mut suites = Vec::new();
        for suite in SUITES {
            let target = match suite.target {
                "lib" => "proverbs",
                "sys" => "proverbs_sys",
                other => other,
            };
            let found = executables.iter().find(|(built, _)| built == target);
            let program = found.with_context(|| format!("cargo built no `{target}`"))?.1.clone();
            let names = names(suite, &program)?;
            let tests = two_at_a_time(&names, |side, name| {
                trace(suite, &program, name.as_deref(), &dir.join(format!("trace.{side}")))
            })?;
            suites.push(Traced { suite, program, tests });
        }
        let count: usize = suites.iter().map(|traced| traced.tests.len()).sum();
        step.done(&format!("Traced {count} tests"));
        Ok(Suites(suites))
    }

    /// The tests that reach a mutant, in chunks, fastest first. The slow tests of a suite are
    /// separate.
    pub fn reaching(&self, id: u32) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for traced in &self.0 {
            let reaching = traced.tests.iter().filter(|test| test.reaches.contains(&id));
            let (fast, slow): (Vec<_>, Vec<_>) = reaching.partition(|test| test.takes < SLOW);
            for tests in [fast, slow] {
                if !tests.is_empty() {
                    chunks.push(traced.chunk(&tests));
                }
            }
        }
        chunks.sort_by_key(|chunk| chunk.takes);
        chunks
    }
}

impl Traced {
    fn chunk(&self, tests: &[&Test]) -> Chunk {
        let slowest = tests.iter().map(|test| test.takes).max().unwrap_or_default();
        Chunk {
            target: self.suite.target,
            program: self.program.clone(),
            env: self.suite.env(),
            patience: PATIENCE + 8 * slowest,
            takes: tests.iter().map(|test| test.takes).sum(),
            args: self.suite.args(),
            tests: tests.iter().filter_map(|test| test.name.clone()).collect(),
        }
    }
}

/// The names of a suite's tests; empty for a program that is a single test.
fn names(suite: Suite, program: &Path) -> Result<Vec<Option<String>>> {
    if suite.is_one_test() {
        return Ok(vec![None]);
    }
    let mut command =
        watch::limited(program, suite.args().into_iter().chain(["--list".to_owned()]));
    command.envs(suite.env());
    let (_, ran) = watch::timed(command)?;
    let names = ran.text.lines().filter_map(|line| line.strip_suffix(": test"));
    let names = names.map(|name| name.split(" - should panic").next().unwrap_or(name));
    Ok(names.map(|name| Some(name.to_owned())).collect())
}

/// Runs one test in a separate process, so that a mutant reached by any of its threads is reached
/// by this test.
fn trace(suite: Suite, program: &Path, name: Option<&str>, notes: &Path) -> Result<Test> {
    let mut args = suite.args();
    if let Some(name) = name {
        args.extend(["--exact".to_owned(), name.to_owned()]);
    }
    let run = || {
        let _ = fs::remove_file(notes);
        let mut command = watch::limited(program, &args);
        command.env("PROVERBS_MUTANT", "trace").env("PROVERBS_MUTANT_TRACE", notes);
        command.envs(suite.env());
        watch::timed(command)
    };
    let (mut takes, mut ran) = run()?;
    if !ran.status {
        // Some tests have a timeout, and other programs use the machine too.
        (takes, ran) = run()?;
    }
    let name = name.map(str::to_owned);
    if !ran.status {
        // It would detect every mutant. Other commands check that it passes.
        let what = name.as_deref().unwrap_or(suite.target);
        eprintln!("`{what}` fails without a mutant, and is left out:\n{}", ran.text);
        return Ok(Test { name, takes, reaches: BTreeSet::new() });
    }
    // An ignored test does not reach any mutant.
    let notes = fs::read_to_string(notes).unwrap_or_default();
    let reaches = notes.lines().filter_map(|line| line.parse().ok()).collect();
    Ok(Test { name, takes, reaches })
}
