//! The tests, how long each takes, and which mutants it reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::watch;
use crate::{paths, progress::Step};

/// Where tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the loopback device.
    Here,
    /// On Soft-RoCE.
    Guest,
}

impl Place {
    /// The suites that look at mutants. A program of its own counts as one test.
    pub fn suites(self) -> &'static [&'static str] {
        match self {
            Place::Here => &[
                "lib",
                "conformance",
                "attack",
                "faults",
                "raw",
                "endpoint",
                "allocation",
                "simulation",
            ],
            Place::Guest => &["conformance", "attack", "cm"],
        }
    }
}

/// What a program needs to be told besides its tests' names: those of `cm` are only run where there is a device.
fn extra(suite: &str) -> &'static [&'static str] {
    match suite {
        "simulation" => &SIMULATION,
        "cm" => &["--test-threads=1", "--ignored"],
        _ => &["--test-threads=1"],
    }
}

/// What the random programs are run with: some ten worlds.
const SIMULATION: [&str; 2] = ["--steps", "10000"];

/// From here on tests are run last, and apart.
pub const SLOW: Duration = Duration::from_millis(50);

/// Tests of one program that run together.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// As it takes without a mutant.
    pub takes: Duration,
    /// The most that one of its tests takes.
    pub slowest: Duration,
}

struct Suite {
    name: String,
    program: PathBuf,
    tests: Vec<Test>,
}

struct Test {
    /// None: the whole program.
    name: Option<String>,
    takes: Duration,
    reaches: BTreeSet<u32>,
}

pub struct Suites(Vec<Suite>);

impl Suites {
    /// Runs every test once, without a mutant, and notes what it reaches.
    pub fn trace(place: Place, executables: &[(String, PathBuf)]) -> Result<Suites> {
        let step = Step::start("Noting which test reaches which mutant");
        let mut suites = Vec::new();
        for &name in place.suites() {
            let target = if name == "lib" { "proverbs" } else { name };
            let found = executables.iter().find(|(built, _)| built == target);
            let program = found.with_context(|| format!("cargo built no `{name}`"))?.1.clone();
            let tests = trace(name, &program)?;
            suites.push(Suite { name: name.to_owned(), program, tests });
        }
        let count: usize = suites.iter().map(|suite| suite.tests.len()).sum();
        step.done(&format!("Traced {count} tests"));
        Ok(Suites(suites))
    }

    /// The tests that reach a mutant, in chunks, fastest first: the slow ones of a suite are apart.
    pub fn reaching(&self, id: u32) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for suite in &self.0 {
            let reaching = suite.tests.iter().filter(|test| test.reaches.contains(&id));
            let (fast, slow): (Vec<_>, Vec<_>) = reaching.partition(|test| test.takes < SLOW);
            for tests in [fast, slow] {
                if !tests.is_empty() {
                    chunks.push(suite.chunk(&tests));
                }
            }
        }
        chunks.sort_by_key(|chunk| chunk.takes);
        chunks
    }
}

impl Suite {
    fn chunk(&self, tests: &[&Test]) -> Chunk {
        let mut args: Vec<String> = extra(&self.name).iter().map(|&arg| arg.to_owned()).collect();
        if self.name != "simulation" {
            args.push("--exact".to_owned());
            args.extend(tests.iter().filter_map(|test| test.name.clone()));
        }
        let takes = tests.iter().map(|test| test.takes).sum();
        let slowest = tests.iter().map(|test| test.takes).max().unwrap_or_default();
        Chunk { program: self.program.clone(), args, takes, slowest }
    }
}

fn trace(name: &str, program: &Path) -> Result<Vec<Test>> {
    let path = paths::below_target("mutants")?.join(format!("{name}.trace"));
    let _ = fs::remove_file(&path);
    let mut args = extra(name).to_vec();
    if name != "simulation" {
        args.extend(["-Zunstable-options", "--report-time"]);
    }
    let mut command = watch::limited(program, args);
    command.env("PROVERBS_MUTANT", "trace").env("PROVERBS_MUTANT_TRACE", &path);
    // How long each test takes is told by the nightly only, or by this.
    command.env("RUSTC_BOOTSTRAP", "1");
    let (all, ran) = watch::timed(command)?;
    // A test that only runs where there is a device says so itself.
    ensure!(ran.status, "`{name}` fails without a mutant:\n{}", ran.text);
    let mut tests = Vec::new();
    if name == "simulation" {
        tests.push(Test { name: None, takes: all, reaches: BTreeSet::new() });
    }
    for line in ran.text.lines().filter_map(|line| line.strip_prefix("test ")) {
        let Some((test, result)) = line.split_once(" ... ") else { continue };
        if result.starts_with("ok") {
            let name = test.split(" - should panic").next().unwrap_or(test).to_owned();
            let seconds = result.split_once('<').and_then(|(_, time)| time.split_once("s>"));
            let seconds = seconds.and_then(|(time, _)| time.parse().ok()).unwrap_or(1.0);
            let takes = Duration::from_secs_f64(seconds);
            tests.push(Test { name: Some(name), takes, reaches: BTreeSet::new() });
        }
    }
    note(&mut tests, &fs::read_to_string(&path).unwrap_or_default());
    Ok(tests)
}

/// Adds what a trace says to the tests. What ran before the first of them is each one's.
fn note(tests: &mut [Test], trace: &str) {
    let names = tests.iter().enumerate().map(|(i, test)| (test.name.clone(), i));
    let names: BTreeMap<Option<String>, usize> = names.collect();
    let mut current = names.get(&None).copied();
    for line in trace.lines() {
        if let Some(name) = line.strip_prefix("test ") {
            // A thread that a test named is the test's.
            current = names.get(&Some(name.to_owned())).copied().or(current);
        } else if let Ok(id) = line.parse() {
            let reached = match current {
                Some(i) => &mut tests[i..=i],
                None => &mut tests[..],
            };
            for test in reached {
                test.reaches.insert(id);
            }
        }
    }
}
