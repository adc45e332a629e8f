//! The suites on another processor: aarch64, by qemu-user, with Debian's packages for it.
//!
//! Loader and libc are from the same packages as the libraries: the loader of the cross compiler
//! with the archive's libc spins in the first thread.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use anyhow::{Context, Result};

use crate::setup::{self, Group};
use crate::sh::{self, Next, Run, cmd};
use crate::{cargo, paths, test};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What the suites' executables are linked with.
const LIBRARIES: [&str; 6] =
    ["libc6", "libgcc-s1", "libibverbs1", "librdmacm1", "libnl-3-200", "libnl-route-3-200"];

/// The suites, but for what starts a process of its own, and for advices and nodes of memory, which
/// qemu-user does not pass on to the kernel.
const SUITES: [&str; 14] = [
    "--features",
    test::FEATURES,
    "--test",
    "conformance",
    "--test",
    "attack",
    "--",
    "--quiet",
    "--skip",
    "exit::",
    "--skip",
    "own_memory::a_mapping_that_is_populated_locked_and_not_inherited",
    "--skip",
    "own_memory::a_node_that_is_not_there",
];

/// Compiles the crate for aarch64, and runs the suites there.
pub fn suites() -> Result<()> {
    cmd!(sh::here(), "rustup target add {TARGET}").quiet().run()?;
    if env::consts::ARCH == "aarch64" {
        // The part `loopback` runs them, and there is nothing to emulate.
        return cargo::run(&["check", "-p", "proverbs", "--features", test::FEATURES]);
    }
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
    cargo::run_with(&[&["test", "--target", TARGET], &SUITES[..]].concat(), &env)
}

/// The directory with the libraries, fetched if it is not there.
fn libraries() -> Result<PathBuf> {
    let place = paths::below_target("aarch64")?;
    let root = place.join("root");
    if root.exists() {
        return Ok(root);
    }
    // Half a download must never look like the libraries: work aside, then rename.
    let work = paths::directory(place.join(format!("tmp.{}", process::id())))?;
    let result = fetch(&work).and_then(|()| Ok(fs::rename(work.join("root"), &root)?));
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    result.map(|()| root)
}

/// Downloads the packages by apt's lists of that architecture, which are kept aside from the
/// system's, and unpacks them.
fn fetch(work: &Path) -> Result<()> {
    for needed in ["state/lists/partial", "cache/archives/partial", "root"] {
        paths::directory(work.join(needed))?;
    }
    let sh = sh::at(work);
    let here = work.display();
    let options = [
        "APT::Architecture=arm64".to_owned(),
        "APT::Architectures::=arm64".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
        format!("Dir::State={here}/state"),
        format!("Dir::Cache={here}/cache"),
        "Dir::State::status=/dev/null".to_owned(),
    ];
    let options: &Vec<&str> = &options.iter().flat_map(|option| ["-o", option.as_str()]).collect();
    let hint = "this needs Debian's archive, which has arm64 beside amd64, among apt's sources";
    cmd!(sh, "apt-get {options...} update").step("Fetching arm64's package lists").next(hint)?;
    cmd!(sh, "apt-get {options...} download {LIBRARIES...}")
        .step("Fetching arm64's libraries (4 MB, once)")
        .next(hint)?;
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            cmd!(sh, "dpkg -x {path} root").step("Unpacking")?;
        }
    }
    Ok(())
}
