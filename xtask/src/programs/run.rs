//! Runs programs, and tells which of them failed and why.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::compile::PACKAGE;
use crate::cargo;
use crate::miri::Model;

pub struct Failure {
    pub number: u64,
    pub why: String,
}

/// How programs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Native,
    Miri { model: Model, weak: bool },
}

/// Without a line for so long, a program sleeps. (The native runner has a clock of its own.)
const PATIENCE: Duration = Duration::from_secs(240);

/// Runs these, one after the other.
pub fn run(way: Way, executable: &Path, source: &Path, numbers: &[u64]) -> Result<Vec<Failure>> {
    let mut left: VecDeque<u64> = numbers.iter().copied().collect();
    let mut failures = Vec::new();
    while !left.is_empty() {
        let mut child = command(way, executable, source, &left)?
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run the programs")?;
        let before = left.len();
        let (running, told) = follow(&mut child, &mut left, &mut failures)?;
        let status = child.wait()?;
        if let Some(number) = running {
            left.retain(|it| *it != number);
            failures.push(Failure { number, why: format!("{} ({status})", why(&told)) });
        } else if left.len() == before {
            bail!("the programs were not run ({status}):\n{told}");
        }
    }
    Ok(failures)
}

fn command(way: Way, executable: &Path, source: &Path, numbers: &VecDeque<u64>) -> Result<Command> {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let Way::Miri { model, weak } = way else {
        let mut command = Command::new(executable);
        command.args(numbers);
        return Ok(command);
    };
    let args = ["+nightly", "miri", "run", "--quiet", "-p", PACKAGE, "--"];
    let cmd = cargo::cargo(&args)?
        .args(numbers)
        .env("PROVERBS_PROGRAMS", source)
        .env("MIRIFLAGS", flags(model, weak))
        .without("RUSTUP_TOOLCHAIN")
        .without("CARGO");
    Ok(cmd.into_command())
}

fn flags(model: Model, weak: bool) -> String {
    let flags = model.flags(false);
    match weak {
        true => flags.replace(" -Zmiri-disable-weak-memory-emulation", ""),
        false => flags,
    }
}

/// Reads what it says; which program it was in when it ended, and what it wrote besides.
fn follow(
    child: &mut Child,
    left: &mut VecDeque<u64>,
    failures: &mut Vec<Failure>,
) -> Result<(Option<u64>, String)> {
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
        let line = match said.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if running.is_none() => continue, // It is compiled.
            Err(RecvTimeoutError::Timeout) => {
                slept = true;
                child.kill()?;
                break;
            }
        };
        let number = |text: &str| text.split(':').next().and_then(|text| text.parse().ok());
        if let Some(number) = line.strip_prefix("begin ").and_then(number) {
            running = Some(number);
        } else if let Some(number) = line.strip_prefix("end ").and_then(number) {
            left.retain(|it| *it != number);
            running = None;
        } else if let Some(rest) = line.strip_prefix("fail ") {
            let Some(number) = number(rest) else { continue };
            left.retain(|it| *it != number);
            let why = rest.split_once(": ").map_or("", |(_, why)| why).to_owned();
            failures.push(Failure { number, why });
            running = None;
        }
    }
    let told = told.join().unwrap_or_default();
    Ok((running, if slept { "it sleeps, or works without end".to_owned() } else { told }))
}

/// The line that matters.
fn why(told: &str) -> &str {
    let error = |line: &&str| line.trim_start().starts_with("error");
    told.lines().find(error).or(told.lines().last()).unwrap_or("it died")
}
