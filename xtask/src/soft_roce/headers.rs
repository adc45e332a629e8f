//! The C headers of Debian's newest rdma-core, which may declare more than the installed ones.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel::debian;
use crate::{apt, paths};

/// The newest version of libibverbs whose names have been looked at.
const KNOWN: &str = "1.18.65.0";

/// The directory of the newest headers, fetched if they are not there. `None` with a note if they
/// cannot be fetched, or if they are not of the known version: Debian may have a newer one, or a
/// mirror only an older suite.
pub fn newest() -> Result<Option<PathBuf>> {
    let root = paths::below_target("soft-roce/rdma-core")?.join("headers");
    let fetched = apt::once(&root, |work, root| {
        debian()?.unpack(&["libibverbs-dev", "librdmacm-dev"], work, root)
    });
    if let Err(error) = fetched {
        eprintln!("note: only the installed headers are compared: {error:#}");
        return Ok(None);
    }
    let version = version(&root).context("the newest headers")?;
    if version != KNOWN {
        eprintln!("note: libibverbs {version} is not compared, the newest known is {KNOWN}");
        return Ok(None);
    }
    Ok(Some(root.join("usr/include")))
}

/// The version in the file for pkg-config.
fn version(root: &Path) -> Result<String> {
    let path = root.join(format!("usr/lib/{ARCH}-linux-gnu/pkgconfig/libibverbs.pc"));
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Version: "));
    Ok(line.with_context(|| format!("{} has no version", path.display()))?.to_owned())
}
