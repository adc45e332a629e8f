//! A std for Miri in which std's functions are inlined into each other.
//!
//! Most of what Miri interprets of a program is std: maps, iterators and locks, each of whose calls
//! is a dozen small functions. Inlined, they cost about half. What Miri looks at stays: the crate's
//! functions and the tests' are not inlined, nor are std's into them; every access is checked,
//! std's own included, and references are retagged where one of our functions or a public one of
//! std begins. What is lost is inside std: the arguments of a function that another one of std
//! calls are not protected while it runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::sh::{self, Cmd, Run, cmd, quote};
use crate::{cargo, paths, toolchain};

/// This command with that std. What it builds has a folder of its own, since another std is
/// another library for all that is built on it.
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

/// Builds it, if it is not there. cargo-miri has no word for the flags of std, but takes another
/// program for Miri's.
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
