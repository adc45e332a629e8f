//! The suites on another processor: aarch64, emulated by qemu-user, with Debian's packages for it.
//! The loader and libc come from the same packages as the libraries. The loader of the cross
//! compiler spins in the first thread when it is used with the archive's libc.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::Result;

use crate::apt::{self, Lists};
use crate::setup::{self, Group};
use crate::sh::{self, cmd};
use crate::{cargo, paths, test};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The packages that the suites' executables are linked with.
const LIBRARIES: [&str; 6] =
    ["libc6", "libgcc-s1", "libibverbs1", "libnl-3-200", "libnl-route-3-200", "librdmacm1t64"];

/// The suites, without tests that start a process, or that use memory advice and NUMA nodes, which
/// qemu-user does not pass on to the kernel.
const SUITES: &str = "--test conformance --test attack -- --quiet --skip exit:: \
                      --skip own_memory::a_mapping_that_is_populated_locked_and_not_inherited \
                      --skip own_memory::a_missing_node_is_reported";

/// Compiles the crate for aarch64, and runs the suites there.
pub fn suites() -> Result<()> {
    cmd!(sh::here(), "rustup target add {TARGET}").quiet().run()?;
    setup::ensure(&[Group::Build, Group::Aarch64])?;
    let root = libraries()?;
    let name = |what: &str| format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_{what}");
    let flags = format!(
        "-Lnative={}/usr/lib/aarch64-linux-gnu -Clink-arg=-Wl,--allow-shlib-undefined",
        root.display()
    );
    let names = [name("LINKER"), name("RUSTFLAGS"), name("RUNNER")];
    let values =
        ["aarch64-linux-gnu-gcc".to_owned(), flags, format!("qemu-aarch64 -L {}", root.display())];
    let env: Vec<(&str, &str)> =
        names.iter().zip(&values).map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let test = ["test", "--target", TARGET, "--features", test::FEATURES];
    cargo::run_with(&test.into_iter().chain(SUITES.split(' ')).collect::<Vec<_>>(), &env)
}

/// The directory with the libraries, fetched if it is not there.
fn libraries() -> Result<PathBuf> {
    let place = paths::below_target("aarch64")?.join("root");
    apt::once(&place, |work, root| {
        let lists = Lists::foreign(work, "arm64")?;
        lists.update()?;
        lists.unpack(&LIBRARIES, work, root)?;
        // These packages do not make /lib a link to /usr/lib.
        Ok(symlink("usr/lib", root.join("lib"))?)
    })?;
    Ok(place)
}
