//! Parts that run at the same time as the others, in a separate process.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

use crate::paths;

/// Running parts. They are killed if this is dropped before they finish.
pub struct Beside {
    parts: String,
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Starts `cargo xtask test PARTS`, with its output in a file.
    pub fn start(parts: &[String]) -> Result<Self> {
        let log = paths::below_target("test")?.join("beside.log");
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut xtask = Command::new(env::current_exe().context("where this program is")?);
        xtask.arg("test").args(parts).stdin(Stdio::null());
        xtask.stderr(out.try_clone()?).stdout(out);
        let child = xtask.spawn().context("cannot start parts in parallel")?;
        let parts = parts.join(" ");
        eprintln!("\n=== In parallel: {parts}; their output: {}", log.display());
        Ok(Self { parts, child, log })
    }

    /// Returns an error if they have already failed, so that nothing else needs to run.
    pub fn look(&mut self) -> Result<()> {
        match self.child.try_wait().context("checking the parallel parts")? {
            Some(status) => self.judge(status),
            None => Ok(()),
        }
    }

    /// Waits for their end, and returns their output.
    pub fn finish(mut self) -> Result<String> {
        eprintln!("\n=== Waiting for {}", self.parts);
        let status = self.child.wait().context("waiting for the parallel parts")?;
        self.judge(status)?;
        self.said()
    }

    fn said(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| format!("cannot read {}", self.log.display()))
    }

    fn judge(&self, status: ExitStatus) -> Result<()> {
        if !status.success() {
            eprintln!("{}", self.said()?);
        }
        ensure!(status.success(), "`cargo xtask test {}` failed: {status}", self.parts);
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // A process that has exited cannot be killed, which is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
