//! Runs programs, and reports which of them failed and why.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::compile::PACKAGE;
use crate::miri::{Model, inlined};
use crate::{cargo, deadline};

/// A program and one of its turns. A program may have several.
#[derive(Clone)]
pub struct Job {
    pub number: u64,
    pub turns: Range<u64>,
}

pub struct Failure {
    pub number: u64,
    pub turn: u64,
    pub why: String,
}

/// The results of some jobs. A program that failed is not run again.
#[derive(Default)]
pub struct Ran {
    pub turns: usize,
    pub failures: Vec<Failure>,
}

/// The way to run programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Native,
    Miri {
        model: Model,
        /// Whether the programs have threads. Without threads there is no check for data races.
        threads: bool,
        /// With the weak memory of real processors, if there are threads.
        weak: bool,
    },
}

/// A program that does not print a line for this long hangs. (The native runner has its own
/// timeout.)
fn patience() -> Duration {
    deadline::left() / 4
}

/// The time limit of a turn natively.
fn turn() -> String {
    format!("{}s", (deadline::left() / 60).as_secs().max(40))
}

/// Runs these, one after the other.
pub fn run(way: Way, executable: &Path, source: &Path, jobs: &[Job]) -> Result<Ran> {
    let mut left: VecDeque<Job> = jobs.iter().cloned().collect();
    let mut ran = Ran::default();
    while !left.is_empty() {
        let mut child = command(way, executable, source, &left)?
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run the programs")?;
        let before = ran.turns + ran.failures.len();
        let (running, told) = follow(&mut child, &mut left, &mut ran)?;
        let status = child.wait()?;
        if let Some((number, turn)) = running {
            left.retain(|it| it.number != number);
            let why = format!("{} ({status})", why(&told));
            ran.failures.push(Failure { number, turn, why });
        } else if ran.turns + ran.failures.len() == before {
            bail!("the programs were not run ({status}):\n{told}");
        }
    }
    Ok(ran)
}

fn command(way: Way, executable: &Path, source: &Path, jobs: &VecDeque<Job>) -> Result<Command> {
    let jobs: Vec<String> = jobs
        .iter()
        .map(|it| format!("{}:{}-{}", it.number, it.turns.start, it.turns.end))
        .collect();
    let Way::Miri { model, threads, weak } = way else {
        let mut command = Command::new(executable);
        command.arg(turn()).args(jobs);
        return Ok(command);
    };
    let cmd = cargo::nightly(&["miri", "run", "--release", "--quiet", "-p", PACKAGE, "--"])?
        .args(jobs)
        .env("PROVERBS_PROGRAMS", source)
        .env("MIRIFLAGS", flags(model, threads, weak));
    Ok(inlined::with(cmd)?.into())
}

fn flags(model: Model, threads: bool, weak: bool) -> String {
    let flags = model.flags(false);
    match (threads, weak) {
        (true, true) => flags.replace(" -Zmiri-disable-weak-memory-emulation", ""),
        (true, false) => flags,
        (false, _) => flags + " -Zmiri-disable-data-race-detector",
    }
}

/// Reads its output. Returns the program and turn in which it ended, and its other output.
fn follow(
    child: &mut Child,
    left: &mut VecDeque<Job>,
    ran: &mut Ran,
) -> Result<(Option<(u64, u64)>, String)> {
    let (stdout, mut stderr) =
        (child.stdout.take().context("stdout")?, child.stderr.take().context("stderr")?);
    let (say, said) = channel();
    thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(say.send(line)));
    });
    let told = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut running = None;
    let mut slept = false;
    loop {
        let line = match said.recv_timeout(patience()) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if running.is_none() => continue, // It is being compiled.
            Err(RecvTimeoutError::Timeout) => {
                slept = true;
                child.kill()?;
                break;
            }
        };
        if let Some(at) = line.strip_prefix("begin ").and_then(place) {
            running = Some(at);
        } else if let Some((number, turn)) = line.strip_prefix("end ").and_then(place) {
            ran.turns += 1;
            running = None;
            let is_it = |it: &&mut Job| it.number == number && it.turns.contains(&turn);
            if let Some(job) = left.iter_mut().find(is_it) {
                job.turns.start = turn + 1;
            }
            left.retain(|it| !it.turns.is_empty());
        } else if let Some(rest) = line.strip_prefix("fail ") {
            let Some((number, turn)) = place(rest) else { continue };
            left.retain(|it| it.number != number);
            let why = rest.split_once(": ").map_or("", |(_, why)| why).to_owned();
            ran.failures.push(Failure { number, turn, why });
            running = None;
        }
    }
    let told = told.join().unwrap_or_default();
    Ok((running, if slept { "it hangs, or never finishes".to_owned() } else { told }))
}

/// `17:3`, possibly followed by more text.
fn place(text: &str) -> Option<(u64, u64)> {
    let (number, turn) = text.split_once(':')?;
    let turn = turn.split(':').next()?;
    Some((number.parse().ok()?, turn.parse().ok()?))
}

/// The most important line.
fn why(told: &str) -> &str {
    let error = |line: &&str| line.trim_start().starts_with("error");
    told.lines().find(error).or(told.lines().last()).unwrap_or("it died")
}
