//! Builds a std for Miri in which std's functions are inlined into each other. Miri spends most of
//! its time in std: maps, iterators and locks, where each call is a dozen small functions. Inlining
//! them halves the cost. The checks of our code do not change: functions of the crate and the tests
//! are not inlined, and std's functions are not inlined into them. Every access is checked,
//! including those in std, and references are retagged at the start of our functions and of std's
//! public functions. Only checks inside std are lost: when one std function calls another, the
//! arguments are not protected during the call.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::sh::{self, Cmd, Run, cmd, quote};
use crate::{cargo, paths, toolchain};

/// This command with that std. Its build output is in a separate folder, because everything depends
/// on std.
pub fn with(cmd: Cmd<'static>) -> Result<Cmd<'static>> {
    let dir = paths::below_target("miri/inlined")?;
    static IS_MADE: Mutex<bool> = Mutex::new(false);
    let mut is_made = IS_MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_made {
        make(&dir)?;
        *is_made = true;
    }
    Ok(cmd.env("MIRI_SYSROOT", dir.join("std")).env("CARGO_TARGET_DIR", dir.join("target")))
}

/// Builds it, if it does not exist. cargo-miri does not have an option for std's flags, but can run
/// another program instead of Miri.
fn make(dir: &Path) -> Result<()> {
    let with_nightly = toolchain::WITH_NIGHTLY;
    let sysroot = cmd!(sh::here(), "rustc {with_nightly} --print sysroot").text()?;
    let miri = quote(Path::new(sysroot.trim()).join("bin/miri").as_os_str());
    let script = dir.join("miri");
    let text = format!("#!/bin/sh\nexec {} \"$@\" -Zinline-mir=yes\n", miri.to_string_lossy());
    fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    let setup = cargo::nightly(&["miri", "setup"])?;
    let setup = setup.env("MIRI", script).env("MIRI_SYSROOT", dir.join("std"));
    setup.step("Building a std for Miri")
}
