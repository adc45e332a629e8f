//! `cargo xtask mutants`: checks that a test fails when run-time logic is changed.
//!
//! A mutant is one change of one place: a shifted comparison, a deleted statement, a condition that
//! is always true, SEND for RECEIVE. All mutants of a run are compiled into one build, each behind
//! a switch that an environment variable turns on (`PROVERBS_MUTANT=17`). A first run of every test
//! records which mutants it reaches. Then the tests that reach a mutant are run, fastest first,
//! until one fails or hangs. No place is exempt: a change that no test can detect counts as not
//! noticed.

mod diff;
mod find;
mod splice;
mod suite;
mod swaps;
mod tree;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::dice::Dice;
use crate::progress::Step;
use crate::setup::{self, Group};
use crate::sh::{self, Run, cmd, two_at_a_time};
use crate::{Outcome, paths};
use find::{Candidate, candidates};
use splice::Mutant;
use suite::Suites;
use tree::{Sources, Tree};

/// Without options: a sample of 100 with a seed from the clock.
#[derive(clap::Args)]
pub struct Args {
    /// Draw this many mutants at random.
    #[arg(long, value_name = "N", conflicts_with = "turn")]
    sample: Option<usize>,
    /// The seed of the sample. By default it is taken from the clock, and printed.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The N-th of K equal parts of all mutants, such as 3/28.
    #[arg(long, value_name = "N/K")]
    turn: Option<Turn>,
    /// Only mutants of lines that this unified diff adds or changes, as `git diff` writes it.
    #[arg(long, value_name = "FILE")]
    in_diff: Option<PathBuf>,
    /// Only mutants whose line in the report contains this text: a path, a function, a change. May
    /// be repeated.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

/// The default size of a sample.
const SAMPLE: usize = 100;

/// Excluded: the device for tests, the layouts of C structs, and examples.
const NOT_LOGIC: [&str; 4] = ["loopback/src/", "src/loopback/", "sys/src/bindings/", "src/guide/"];

/// One of several equal parts, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    nth: usize,
    of: usize,
}

impl Turn {
    /// Its part of a list, interleaved, so that each part covers every file.
    pub fn part<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.nth - 1).step_by(self.of).collect()
    }
}

impl FromStr for Turn {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Turn> {
        let (nth, of) = text.split_once('/').context("expected N/K, such as 3/28")?;
        let turn = Turn { nth: nth.parse()?, of: of.parse()? };
        ensure!((1..=turn.of).contains(&turn.nth), "N must be from 1 to {}", turn.of);
        Ok(turn)
    }
}

pub fn main(args: &Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let root = paths::workspace();
    let sources = sources(&root)?;
    let (chosen, wanted) = choose(args, &root, &sources)?;
    let tree = Tree::new()?;
    let mut mutants: Vec<Mutant> = (1..).zip(chosen).map(|(id, at)| Mutant { id, at }).collect();
    let build = tree.build(&sources, &mut mutants)?;
    for mutant in &build.dropped {
        eprintln!("does not compile: {}", mutant.at);
    }
    mutants.truncate(wanted);
    let suites = Suites::trace(&build.executables)?;
    let step = Step::start(format!("Judging {} mutants", mutants.len()));
    let verdicts = judge(&suites, &mutants)?;
    step.done("Judged the mutants");
    print(&mutants, &verdicts, &sources);
    Ok(ExitCode::SUCCESS)
}

/// The mutants to build, and the number of them to test. A sample has spare mutants, because some
/// do not compile.
fn choose(args: &Args, root: &Path, sources: &Sources) -> Result<(Vec<Candidate>, usize)> {
    let mut all = Vec::new();
    for (file, text) in sources.iter().filter(|(file, _)| has_logic(file)) {
        all.extend(candidates(file, text)?);
    }
    let total = all.len();
    if let Some(turn) = args.turn {
        all = turn.part(all);
    }
    if let Some(path) = &args.in_diff {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the diff {}", path.display()))?;
        let added = diff::added(&text)?;
        diff::check(&added, root)?;
        all.retain(|one| added.touch(&one.file, one.lines(&sources[&one.file])));
    }
    if !args.only.is_empty() {
        all.retain(|one| args.only.iter().any(|text| one.to_string().contains(text)));
    }
    let names_all = args.turn.is_some() || args.in_diff.is_some() || !args.only.is_empty();
    let mut wanted = all.len();
    if args.sample.is_some() || args.seed.is_some() || !names_all {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let (seed, sample) = (args.seed.unwrap_or(clock), args.sample.unwrap_or(SAMPLE));
        println!("--seed {seed} --sample {sample}");
        let mut dice = Dice::new(seed, 0);
        for at in 0..all.len() {
            let other = at + dice.below(all.len() - at);
            all.swap(at, other);
        }
        all.truncate(sample + 2 + sample / 25);
        wanted = sample.min(all.len());
    }
    eprintln!("{} of {total} possible mutants", all.len());
    Ok((all, wanted))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Detected by this test.
    Noticed(String),
    NotNoticed,
    /// No test runs the line.
    NotReached,
}

impl Verdict {
    fn is_noticed(&self) -> bool {
        matches!(self, Verdict::Noticed(_))
    }
}

fn judge(suites: &Suites, mutants: &[Mutant]) -> Result<Vec<Verdict>> {
    let (done, unnoticed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    two_at_a_time(mutants, |_, mutant| {
        let verdict = verdict(suites, mutant.id)?;
        if !verdict.is_noticed() {
            eprintln!("not noticed: {}", mutant.at);
            unnoticed.fetch_add(1, Ordering::Relaxed);
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done % 50 == 0 {
            let unnoticed = unnoticed.load(Ordering::Relaxed);
            eprintln!("{done} of {} judged, {unnoticed} not noticed", mutants.len());
        }
        Ok(verdict)
    })
}

fn verdict(suites: &Suites, id: u32) -> Result<Verdict> {
    let chunks = suites.reaching(id);
    if chunks.is_empty() {
        return Ok(Verdict::NotReached);
    }
    for chunk in chunks {
        if let Some(by) = watch::notices(chunk, id)? {
            return Ok(Verdict::Noticed(by));
        }
    }
    Ok(Verdict::NotNoticed)
}

fn print(mutants: &[Mutant], verdicts: &[Verdict], sources: &Sources) {
    let mut unnoticed: Vec<_> =
        mutants.iter().zip(verdicts).filter(|(_, verdict)| !verdict.is_noticed()).collect();
    unnoticed.sort_by_key(|(Mutant { at, .. }, _)| (&at.file, at.line));
    for (Mutant { at, .. }, verdict) in &unnoticed {
        let how = if **verdict == Verdict::NotReached { "runs in no test" } else { "not noticed" };
        println!("{at}, {how}\n    - {}\n    + {}", at.before, at.after(&sources[&at.file]));
    }
    let noticed = mutants.len() - unnoticed.len();
    let rate = 100.0 * noticed as f64 / mutants.len().max(1) as f64;
    let all = mutants.len();
    println!("{all} mutants: {noticed} noticed, {} not noticed ({rate:.1} %)", unnoticed.len());
}

/// The sources of the crates that depend on each other.
pub const FOLDERS: [&str; 3] = ["src", "sys/src", "loopback/src"];

/// All source files of these crates.
pub fn sources(root: &Path) -> Result<Sources> {
    let files = cmd!(sh::at(root), "find {FOLDERS...} -type f").text()?;
    let read = |file: &str| Ok((file.to_owned(), fs::read_to_string(root.join(file))?));
    let sources: Sources = files.lines().map(read).collect::<Result<_>>()?;
    ensure!(!sources.is_empty(), "no sources below {}", root.display());
    Ok(sources)
}

fn has_logic(file: &str) -> bool {
    let tests = file.ends_with("tests.rs")
        || file.ends_with("/stub.rs")
        || file.contains("tests/")
        || !file.ends_with(".rs");
    !tests && !NOT_LOGIC.iter().any(|path| file.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn turns_count_from_one() {
        assert_eq!("3/28".parse::<Turn>().ok(), Some(Turn { nth: 3, of: 28 }));
        for wrong in ["0/28", "29/28", "3", "3/0", "a/b"] {
            assert!(wrong.parse::<Turn>().is_err(), "{wrong}");
        }
    }
}
