//! Watches a guest from start to end: forwards its output, enforces its limits, and returns its
//! result.

use std::fs;
use std::io::{Read, Write, stderr, stdout};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::accel::Accel;
use super::console::State;
use super::qemu::{Machine, Running};
use super::run_dir::RunDir;
use crate::deadline;
use crate::progress::Step;
use crate::sh::tail;

const RUNNING: &str = "running";

/// Starts the machine and waits for its end. Returns the command's exit code.
pub fn to_the_end(
    machine: Machine,
    accel: Accel,
    dir: &RunDir,
    [out, err]: [UnixStream; 2],
    boot: Step,
) -> Result<i32> {
    let mut boot = Some(boot);
    let line = machine.line();
    let mut running = machine.start(&dir.qemu_log)?;
    let copies = [copy(out, stdout()), copy(err, stderr())];

    let verdict = wait(&mut running, accel, &dir.live_console, &mut boot);
    drop(running);
    // QEMU has exited, so these end when the sockets are empty.
    for thread in copies {
        let _ = thread.join();
    }
    let state = State::read(&dir.live_console);
    let result = verdict.and_then(|()| outcome(dir, &state));
    if result.is_err() {
        // Before the error, so that the error is the last output.
        explain(dir, &line, &state.last_lines(&dir.live_console));
    }
    result.map_err(|error| match state.stage == RUNNING {
        true => error,
        false => error.context(NotBooted),
    })
}

/// The guest failed before it ran the command.
#[derive(Debug)]
pub struct NotBooted;

impl std::fmt::Display for NotBooted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the guest did not boot")
    }
}

/// The guest's kernel crashed: the first line of the crash, without its time.
#[derive(Debug)]
pub struct KernelCrash(pub String);

impl std::fmt::Display for KernelCrash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the guest's kernel crashed: {}", self.0)
    }
}

impl std::error::Error for KernelCrash {}

fn explain(dir: &RunDir, command_line: &str, end_of_console: &str) {
    let qemu = fs::read_to_string(&dir.qemu_log).unwrap_or_default();
    if !qemu.trim().is_empty() {
        eprintln!("QEMU said:\n{}\nto: {command_line}", tail(qemu.trim_end(), 10));
    }
    if !end_of_console.is_empty() {
        eprintln!("The guest's console ({}):\n{end_of_console}", dir.console.display());
    }
}

/// Returns when QEMU has exited, or an error when it exceeds a limit.
fn wait(
    running: &mut Running,
    accel: Accel,
    console: &Path,
    boot: &mut Option<Step>,
) -> Result<()> {
    let (start, timeout) = (Instant::now(), deadline::left());
    let (mut length, mut last_output) = (0, start);
    // The longest silence of a booting guest. Emulated on a busy machine, it can take minutes.
    let silence = (timeout / 16).max(Duration::from_secs(120));
    while running.exited()?.is_none() {
        let state = State::read(console);
        if state.length != length {
            (length, last_output) = (state.length, Instant::now());
        }
        let is_running = state.stage == RUNNING;
        if let Some(boot) = boot.take_if(|_| is_running) {
            boot.done("The guest is up, with Soft-RoCE");
        }
        if start.elapsed() > timeout {
            let seconds = timeout.as_secs();
            bail!(
                "{} took more than {seconds} s, so the guest was stopped.\nNext: {} is the second \
                 (since 1970) at which a run must have ended",
                if is_running { "the command" } else { "booting" },
                deadline::VARIABLE
            );
        }
        // A processor that works prints the first line in a second. One that does not, never.
        let is_dead = accel == Accel::Kvm && length == 0;
        let silence = if is_dead { Duration::from_secs(20) } else { silence };
        if !is_running && last_output.elapsed() > silence {
            let (seconds, stage) = (silence.as_secs(), &state.stage);
            bail!(
                "booting stood still for {seconds} s after stage '{stage}'.\n\
                 Next: see the console above"
            );
        }
        sleep(Duration::from_millis(30));
    }
    Ok(())
}

/// The result of a guest that ended by itself. A crash takes precedence over the command's exit
/// code.
fn outcome(dir: &RunDir, state: &State) -> Result<i32> {
    if let Some(crash) = &state.crash {
        let crash = crash.split_once("] ").map_or(&**crash, |(_, what)| what);
        bail!(KernelCrash(crash.to_owned()));
    }
    let error = fs::read_to_string(dir.share.join("error")).ok();
    if let Some(error) = error.as_deref().or(state.failure.as_deref()) {
        bail!("the guest could not be set up: {}", error.trim_end());
    }
    let Ok(code) = fs::read_to_string(dir.share.join("code")) else {
        bail!(
            "the guest ended without a result.\n\
             Next: see its console above; perhaps it needs more memory: --memory MB"
        );
    };
    code.trim().parse().with_context(|| format!("the guest's exit code is '{}'", code.trim()))
}

/// Forwards a stream of the guest to one of ours.
fn copy(mut from: UnixStream, mut to: impl Write + Send + 'static) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            // If our output is not read, the guest's command must still finish normally.
            let _ = to.write_all(&buffer[..count]).and_then(|()| to.flush());
        }
    })
}
