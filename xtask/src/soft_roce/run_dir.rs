//! The files of one run. Guests may run at the same time, so each has its own directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{apt, paths};

/// A directory below `target/soft-roce`, removed at the end of the run.
pub struct RunDir {
    path: PathBuf,
    /// The directory that is /run/soft-roce in the guest.
    pub share: PathBuf,
    pub initramfs: PathBuf,
    /// QEMU's own output.
    pub qemu_log: PathBuf,
    /// The console while the guest runs.
    pub live_console: PathBuf,
    /// The console of the last finished run.
    pub console: PathBuf,
}

impl RunDir {
    /// Creates a new directory, and removes the directories of killed runs.
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
        // The next run removes files that cannot be removed now.
        let _ = fs::rename(&self.live_console, &self.console);
        let _ = fs::remove_dir_all(&self.path);
    }
}
