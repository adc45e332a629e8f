//! Runs tests that may do anything: sleep forever, use all memory, or crash.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::suite::Chunk;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    /// A test did not write anything for longer than its time limit.
    Hung,
}

/// A program with a memory limit, in its own process group.
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

/// Runs to the end, and returns the duration.
pub fn timed(mut command: Command) -> Result<(Duration, Ran)> {
    let start = Instant::now();
    let output = command.output().context("cannot run a suite")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((start.elapsed(), Ran { status: output.status.success(), text }))
}

/// Runs tests with an active mutant until one detects it, and returns that test. The test must then
/// pass without the mutant within half of the time limit, so that a busy machine or a flaky test
/// does not count.
pub fn notices(mut chunk: Chunk, id: u32) -> Result<Option<String>> {
    loop {
        let (ended, test) = run(&chunk, id)?;
        let how = match ended {
            Ended::Passed => return Ok(None),
            Ended::Failed => "failed",
            Ended::Hung => "hung",
        };
        let control = chunk.only(test.as_deref());
        if run(&control, NO_MUTANT)?.0 == Ended::Passed {
            let what = test.unwrap_or_else(|| chunk.target.to_owned());
            return Ok(Some(format!("{what} ({how})")));
        }
        eprintln!("{test:?} of {} {how}, and without a mutant too", chunk.target);
        if !chunk.leave_out(test.as_deref()) {
            return Ok(None);
        }
    }
}

const NO_MUTANT: u32 = 0;

/// Runs the tests until the first failure. Returns the result and the test that failed.
fn run(chunk: &Chunk, id: u32) -> Result<(Ended, Option<String>)> {
    let mut command = limited(&chunk.program, chunk.all_args());
    command.envs(chunk.env.iter().copied());
    let mut child = command.env("PROVERBS_MUTANT", id.to_string()).spawn()?;
    let result = follow(&mut child, chunk.patience);
    // Kills it and its children. Uses the shell's built-in `kill`, because not every system has the
    // program.
    let kill = format!("kill -KILL -{}", child.id());
    let _ = Command::new("sh").args(["-c", &kill]).stderr(Stdio::null()).status()?;
    let _ = child.wait();
    result
}

/// If one test runs at a time, libtest writes `test NAME ... ` before a test and the result after
/// it.
fn follow(child: &mut Child, patience: Duration) -> Result<(Ended, Option<String>)> {
    let mut out = child.stdout.take().context("its output is ours")?;
    let (sender, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = out.read(&mut piece) {
            // (Keeps reading even if the output is not used, because a full pipe would block the
            // program.)
            let _ = sender.send(String::from_utf8_lossy(&piece[..n]).into_owned());
        }
    });
    let (mut line, mut test) = (String::new(), None);
    let mut heard = (Instant::now(), starved(child.id()));
    loop {
        match pieces.recv_timeout(patience.saturating_sub(heard.0.elapsed())) {
            Ok(piece) => {
                heard = (Instant::now(), starved(child.id()));
                for part in piece.split_inclusive('\n') {
                    line.push_str(part);
                    let named = line.strip_prefix("test ").and_then(|l| l.split_once(" ... "));
                    if let Some((name, result)) = named {
                        let name = name.split(" - should panic").next().unwrap_or(name);
                        test = Some(name.to_owned());
                        if result.trim_end() == "FAILED" {
                            return Ok((Ended::Failed, test));
                        }
                    }
                    if line.ends_with('\n') {
                        line.clear();
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let starved = starved(child.id());
                if starved <= heard.1 {
                    return Ok((Ended::Hung, test));
                }
                // Does not count the time in which other programs used the processors.
                heard = (heard.0 + (starved - heard.1), starved);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Its output is closed, so it exits, or hangs while exiting.
    let end = Instant::now() + patience;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok((Ended::Passed, test)),
            Some(_) => return Ok((Ended::Failed, test)),
            None if Instant::now() > end => return Ok((Ended::Hung, test)),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The longest time for which a thread of a process was ready to run, but did not run.
fn starved(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waits = threads.filter_map(|thread| {
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    });
    waits.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script instead of a suite, with mutant 7, and returns the detection.
    fn noticed(script: &str) -> Option<String> {
        let chunk = Chunk {
            target: "script",
            program: "sh".into(),
            env: Vec::new(),
            patience: Duration::from_secs(1),
            takes: Duration::ZERO,
            args: vec!["-c".to_owned(), script.to_owned()],
            tests: Vec::new(),
        };
        notices(chunk, 7).expect("there is a shell")
    }

    #[test]
    fn a_mutant_is_noticed_only_if_the_test_passes_without_it() {
        let with = |does: &str| {
            format!("printf 'test a ... '; test $PROVERBS_MUTANT = 7 && {does}; echo ok")
        };
        assert_eq!(noticed(&with("echo FAILED")).as_deref(), Some("a (failed)"));
        assert_eq!(noticed(&with("kill -ABRT $$")).as_deref(), Some("a (failed)"));
        assert_eq!(noticed(&with("sleep 60")).as_deref(), Some("a (hung)"));
        assert_eq!(noticed(&with("true")), None);
        for fails_anyway in ["echo 'test a ... FAILED'; exit 1", "exit 1", "sleep 60"] {
            assert_eq!(noticed(fails_anyway), None, "{fails_anyway}");
        }
    }
}
