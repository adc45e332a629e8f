//! Running tests that may do anything: sleep for ever, use all memory, crash.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::suite::Chunk;

/// How a mutant showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A test failed, or what was tested ended otherwise than by passing.
    Failed(String),
    /// Nothing happened for a long time.
    Hung(String),
    /// Every test passed.
    Passed,
}

/// A program with no more memory than tests need, in a process group of its own.
pub fn limited<A: AsRef<std::ffi::OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0 -v 4000000; exec \"$0\" \"$@\""]).arg(program).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    command
}

pub struct Ran {
    pub status: bool,
    pub text: String,
}

/// Runs to the end, and how long that took.
pub fn timed(mut command: Command) -> Result<(Duration, Ran)> {
    let start = Instant::now();
    let output = command.output().context("cannot run a suite")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((start.elapsed(), Ran { status: output.status.success(), text }))
}

/// Runs tests with a mutant switched on, up to the first that notices.
pub fn run(chunk: &Chunk, id: u32) -> Result<Seen> {
    let mut command = limited(&chunk.program, &chunk.args);
    command.envs(chunk.env.iter().copied());
    let mut child = command.env("PROVERBS_MUTANT", id.to_string()).spawn()?;
    let result = follow(&mut child, chunk);
    // It, and what it started. By the shell's own `kill`: not every system has the program.
    let kill = format!("kill -KILL -{}", child.id());
    let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status()?;
    let _ = child.wait();
    result
}

fn follow(child: &mut Child, chunk: &Chunk) -> Result<Seen> {
    let mut out = BufReader::new(child.stdout.take().context("its output is ours")?);
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while out.read_until(b'\n', &mut line).is_ok_and(|n| n != 0) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
            line.clear();
        }
        // Whoever writes more is not stopped by a full pipe.
        let _ = out.read_to_end(&mut line);
    });
    let patience = chunk.patience;
    let mut last = String::new();
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) => {
                if let Some(test) = line.strip_suffix(" ... FAILED") {
                    let test = test.strip_prefix("test ").unwrap_or(test);
                    return Ok(Seen::Failed(test.to_owned()));
                }
                last = line;
            }
            Err(RecvTimeoutError::Timeout) => return Ok(Seen::Hung(after(&last, chunk))),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Its output is closed, so it ends, or sleeps on the way out.
    let end = Instant::now() + patience;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Seen::Passed),
            Some(status) => return Ok(Seen::Failed(format!("{status}, {}", after(&last, chunk)))),
            None if Instant::now() > end => return Ok(Seen::Hung(after(&last, chunk))),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Where it was: the tests say only what is behind them.
fn after(last: &str, chunk: &Chunk) -> String {
    let name = chunk.program.file_stem().unwrap_or_default().to_string_lossy();
    let suite = name.split('-').next().unwrap_or_default();
    match last.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
        Some((test, _)) => format!("{suite} after {test}"),
        None => suite.to_owned(),
    }
}
