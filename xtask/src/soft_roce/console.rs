//! The guest's console: kept in a file, and read along for how far the guest is and what went
//! wrong.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::sh::tail;

/// Our scripts' lines begin with this.
const OURS: &str = "soft-roce: ";
/// What a kernel says when it is done for.
const CRASHES: [&str; 5] =
    ["Kernel panic", "Oops:", "BUG: ", "general protection fault", "Unable to handle"];

/// What the console has told so far.
#[derive(Clone, Debug)]
pub struct State {
    pub last_output: Instant,
    /// The last stage the guest has reached, empty before the first.
    pub stage: String,
    /// Why the guest's scripts gave up.
    pub failure: Option<String>,
    /// The first line of a kernel crash.
    pub crash: Option<String>,
}

impl State {
    fn new() -> Self {
        let (stage, last_output) = (String::new(), Instant::now());
        Self { last_output, stage, failure: None, crash: None }
    }

    fn line(&mut self, line: &str) {
        if let Some(stage) = line.strip_prefix(OURS) {
            match stage.strip_prefix("failed: ") {
                Some(why) => self.failure = Some(why.to_owned()),
                None => self.stage = stage.to_owned(),
            }
        } else if self.crash.is_none() && CRASHES.iter().any(|crash| line.contains(crash)) {
            self.crash = Some(line.to_owned());
        }
    }
}

/// A console being read in the background until the guest's end.
pub struct Console {
    state: Arc<Mutex<State>>,
    reader: JoinHandle<()>,
    log: PathBuf,
}

impl Console {
    pub fn follow(stream: UnixStream, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let state = Arc::new(Mutex::new(State::new()));
        let shared = Arc::clone(&state);
        let reader = thread::spawn(move || read(stream, file, &shared));
        Ok(Self { state, reader, log: log.to_owned() })
    }

    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }

    /// Waits for the rest, once QEMU has exited.
    pub fn finish(self) -> (State, String) {
        // It only panics if we have a bug, and the state until then is still of use.
        let _ = self.reader.join();
        let state = lock(&self.state).clone();
        let lines = last_lines(&self.log, state.crash.as_deref());
        (state, lines)
    }
}

/// The end of a console's log, to be shown with an error; of a crash its beginning, since what
/// matters there comes first.
fn last_lines(log: &Path, crash: Option<&str>) -> String {
    const LINES: usize = 30;
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let start = crash.and_then(|crash| lines.iter().position(|line| line.trim_end() == crash));
    let lines = match start {
        Some(start) => &lines[start..lines.len().min(start + LINES)],
        None => &lines[lines.len().saturating_sub(LINES)..],
    };
    tail(&lines.join("\n"), LINES)
}

fn read(mut stream: UnixStream, mut file: File, state: &Mutex<State>) {
    let mut buffer = [0; 4096];
    let mut line = Vec::new();
    // An error is an end as well: QEMU was killed.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        // A full disk must not keep us from watching the guest.
        let _ = file.write_all(&buffer[..count]);
        let mut state = lock(state);
        state.last_output = Instant::now();
        for &byte in &buffer[..count] {
            match byte {
                b'\n' => {
                    state.line(String::from_utf8_lossy(&line).trim_end());
                    line.clear();
                }
                _ => line.push(byte),
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let mut state = State::new();
        for line in [
            "soft-roce: init",
            "[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "[ 1.1] Oops: 0000 [#1] PREEMPT SMP",
            "soft-roce: failed: cannot mount the share",
        ] {
            state.line(line);
        }
        assert_eq!(state.stage, "init");
        assert_eq!(state.failure.as_deref(), Some("cannot mount the share"));
        assert!(state.crash.is_some_and(|crash| crash.contains("NULL pointer")));
    }
}
