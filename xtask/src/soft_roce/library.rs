//! The newest rdma-core and perftest in Debian, unpacked outside the system. In a guest they are
//! mounted over the system's, with the libc that they were linked with. The newest headers may
//! declare more than the installed ones.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::kernel;
use crate::{apt, paths};

/// The version that the suites' expectations apply to.
const NAMED: &str = "65.0";

const PACKAGES: [&str; 13] = [
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
    "libibverbs-dev",
    "librdmacm-dev",
];

/// The rdma-core that programs in a guest are linked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Library {
    /// The host's rdma-core.
    #[default]
    Host,
    /// The newest in Debian.
    Newest,
}

/// The directory of the newest C headers, fetched if they are missing. `None` with a note if they
/// cannot be fetched, or if they have another version than the named one: Debian may have a newer
/// one, or a mirror may have only an older suite.
pub fn newest_headers() -> Option<PathBuf> {
    match newest().and_then(|root| Ok((version(&root)?, root))) {
        Ok((version, root)) => (version == NAMED).then(|| root.join("usr/include")),
        Err(error) => {
            eprintln!("note: only the installed headers are compared: {error:#}");
            None
        }
    }
}

/// The root directory of the newest rdma-core, fetched if it is missing.
pub fn newest() -> Result<PathBuf> {
    let place = paths::below_target("soft-roce/rdma-core")?.join("newest-with-headers");
    apt::once(&place, |work, root| {
        let lists = kernel::debian()?;
        lists.unpack(&PACKAGES, work, root)
    })?;
    let version = version(&place)?;
    if version != NAMED {
        eprintln!("note: rdma-core is {version} here; the expected results are for {NAMED}");
    }
    Ok(place)
}

/// The version from the file name of libibverbs: `libibverbs.so.1.18.65.0` means 65.0.
fn version(root: &Path) -> Result<String> {
    let dir = root.join("usr/lib/x86_64-linux-gnu");
    let version = paths::names(&dir).find_map(|name| {
        let (_abi, version) = name.strip_prefix("libibverbs.so.1.")?.split_once('.')?;
        Some(version.to_owned())
    });
    version.with_context(|| format!("there is no libibverbs in {}", dir.display()))
}
