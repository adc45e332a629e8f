//! The files of one run: guests may run side by side, so each has a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Result;

use crate::paths;

const PREFIX: &str = "run.";

/// `target/soft-roce/run.PID`, with `.HOST` behind it if there are several, removed at the end of the run.
pub struct RunDir {
    path: PathBuf,
    parent: PathBuf,
    host: String,
}

impl RunDir {
    /// A fresh one; those of runs that were killed are removed.
    pub fn new(parent: &Path, host: Option<u8>) -> Result<Self> {
        sweep(parent)?;
        let host = host.map_or_else(String::new, |host| format!(".{host}"));
        let name = format!("{PREFIX}{}{host}", process::id());
        let path = paths::directory(parent.join(name))?;
        let dir = Self { path, parent: parent.to_owned(), host };
        paths::directory(dir.share())?;
        Ok(dir)
    }

    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// What the guest sees as /run/soft-roce.
    pub fn share(&self) -> PathBuf {
        self.path.join("share")
    }

    pub fn initramfs(&self) -> PathBuf {
        self.path.join("initramfs")
    }

    /// What QEMU itself had to say.
    pub fn qemu_log(&self) -> PathBuf {
        self.path.join("qemu.log")
    }

    /// The console while the guest runs.
    pub fn live_console(&self) -> PathBuf {
        self.path.join("console.log")
    }

    /// The console of the run that ended last.
    pub fn console(&self) -> PathBuf {
        self.parent.join(format!("console{}.log", self.host))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // What cannot be removed now, the next run sweeps.
        let _ = fs::rename(self.live_console(), self.console());
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sweep(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let pid = rest.split('.').next().unwrap_or(rest);
        if !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
