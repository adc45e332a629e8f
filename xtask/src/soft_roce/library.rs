//! The newest rdma-core and perftest that Debian has, unpacked beside the system's; in a guest they
//! lie over it, with the libc that they were linked with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel;
use crate::{apt, paths};

/// The version that the suites' expectations are of.
const NAMED: &str = "65.0";

const PACKAGES: [&str; 11] = [
    "libc6",
    "libibumad3",
    "libnl-3-200",
    "libnl-route-3-200",
    "libpci3",
    "libibverbs1",
    "librdmacm1t64",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "perftest",
];

/// What programs in a guest are linked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Library {
    /// The host's rdma-core.
    #[default]
    Host,
    /// The newest that Debian has.
    Newest,
}

/// The root directory of the newest rdma-core, fetched if it is not there.
pub fn newest() -> Result<PathBuf> {
    let place = paths::below_target("soft-roce/rdma-core")?.join("newest-with-perftest");
    apt::once(&place, |work, root| {
        let lists = kernel::debian()?;
        lists.unpack(&PACKAGES, work, root)
    })?;
    let version = version(&place)?;
    if version != NAMED {
        eprintln!("note: rdma-core is {version} here; what is expected is known of {NAMED}");
    }
    Ok(place)
}

/// As the file of libibverbs has it: `libibverbs.so.1.18.65.0` is of 65.0.
fn version(root: &Path) -> Result<String> {
    let dir = root.join("usr/lib/x86_64-linux-gnu");
    let files = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
    let version = names.find_map(|name| {
        let (_abi, version) = name.strip_prefix("libibverbs.so.1.")?.split_once('.')?;
        Some(version.to_owned())
    });
    version.with_context(|| format!("there is no libibverbs in {}", dir.display()))
}
