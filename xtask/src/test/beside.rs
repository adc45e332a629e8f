//! Parts that run beside the others, in a process of their own.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};

use crate::paths;

/// Parts at work. Dropped before they ended, they are killed.
pub struct Beside {
    parts: String,
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Starts `cargo xtask test PARTS`; what it says goes to a file.
    pub fn start(parts: &[String]) -> Result<Self> {
        let log = paths::below_target("test")?.join("beside.log");
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut xtask = Command::new(env::current_exe().context("where this program is")?);
        xtask.arg("test").args(parts).stdin(Stdio::null());
        xtask.stderr(out.try_clone()?).stdout(out);
        let child = xtask.spawn().context("cannot start parts beside the others")?;
        let parts = parts.join(" ");
        eprintln!("\n=== Beside the others run {parts}; what they say: {}", log.display());
        Ok(Self { parts, child, log })
    }

    /// An error if they have failed already: then nothing else needs to run.
    pub fn look(&mut self) -> Result<()> {
        match self.child.try_wait().context("looking after the parts beside the others")? {
            Some(status) => self.judge(status),
            None => Ok(()),
        }
    }

    /// Waits for their end, and gives what they said.
    pub fn finish(mut self) -> Result<String> {
        eprintln!("\n=== Waiting for {}", self.parts);
        let status = self.child.wait().context("waiting for the parts beside the others")?;
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
        // What has ended cannot be killed, and that is no failure.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
