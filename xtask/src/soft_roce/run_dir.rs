//! The files of one run: guests may run side by side, so each has a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{apt, paths};

/// A directory below `target/soft-roce`, removed at the end of the run.
pub struct RunDir {
    path: PathBuf,
    /// What the guest sees as /run/soft-roce.
    pub share: PathBuf,
    pub initramfs: PathBuf,
    /// What QEMU itself had to say.
    pub qemu_log: PathBuf,
    /// The console while the guest runs.
    pub live_console: PathBuf,
    /// The console of the run that ended last.
    pub console: PathBuf,
}

impl RunDir {
    /// A fresh one; those of runs that were killed are removed.
    pub fn new(parent: &Path, host: Option<u8>) -> Result<Self> {
        let host = host.map_or_else(String::new, |host| format!(".{host}"));
        let path = apt::aside(parent.to_owned())?.join(format!("guest{host}"));
        Ok(Self {
            share: paths::directory(path.join("share"))?,
            initramfs: path.join("initramfs"),
            qemu_log: path.join("qemu.log"),
            live_console: path.join("console.log"),
            console: parent.join(format!("console{host}.log")),
            path,
        })
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // What cannot be removed now, the next run sweeps.
        let _ = fs::rename(&self.live_console, &self.console);
        let _ = fs::remove_dir_all(&self.path);
    }
}
