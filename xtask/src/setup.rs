//! `cargo xtask setup`, and the parts of it that other commands do for themselves.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::sh::{self, Next, Run, cmd};
use crate::{paths, soft_roce, toolchain};

/// The needs of commands. A command names its groups, and `ensure` installs the missing packages.
#[derive(Clone, Copy, Debug)]
pub enum Group {
    /// To build the crate and its C twins.
    Build,
    /// To query the commit, and to check out another tree.
    Git,
    /// To get a libclang that works with rdma-sys, if the system does not have one.
    Libclang,
    /// To boot the Soft-RoCE guest, and to run C programs there. The `rdma` tool is in iproute2.
    /// The package rdma-core contains only udev rules, which the guest does not need.
    Guest,
    /// To build a module of the guest's kernel.
    Module,
    /// To count instructions, also of the output of both C compilers, and to read machine code.
    Valgrind,
    /// To run the search of the rustdoc pages.
    Node,
    /// To build libFuzzer.
    Fuzz,
    /// To link for aarch64, and run the programs.
    Aarch64,
    /// To link with musl dynamically, and run the programs.
    Musl,
}

impl Group {
    fn packages(self) -> &'static str {
        match self {
            Self::Build => "gcc libc6-dev pkg-config libibverbs-dev librdmacm-dev",
            Self::Git => "git",
            Self::Libclang if own_libclang().is_some() || makes_environments() => "",
            Self::Libclang => "python3-venv",
            Self::Guest => {
                "debian-archive-keyring qemu-system-x86 busybox-static kmod xz-utils zstd iproute2 ibverbs-providers \
                 ibverbs-utils rdmacm-utils perftest strace"
            }
            // patchelf selects a C library for the scripts of newer kernels.
            Self::Module => "gcc make patchelf",
            Self::Valgrind => "valgrind clang binutils",
            Self::Node => "nodejs",
            Self::Fuzz => "g++",
            Self::Musl => "musl",
            Self::Aarch64 => {
                "debian-archive-keyring qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
            }
        }
    }
}

/// Installs the missing packages of the groups. If none is missing, this costs one dpkg-query.
pub fn ensure(groups: &[Group]) -> Result<()> {
    install(&packages(groups), None)
}

/// Like `ensure`, for commands that also need toolchains. Lists everything that it cannot install
/// in one message.
pub fn ensure_with_rustup(command: &str, groups: &[Group]) -> Result<()> {
    install(&packages(groups), (!toolchain::has_rustup()).then_some(command))
}

fn packages(groups: &[Group]) -> Vec<&'static str> {
    groups.iter().flat_map(|group| group.packages().split_whitespace()).collect()
}

/// Installs the missing Debian packages, as root or through sudo. If rustup is missing, `no_rustup`
/// is the command that needs it.
fn install(packages: &[&str], no_rustup: Option<&str>) -> Result<()> {
    let missing = missing(packages)?;
    if let Some(lacks) = lacks(&missing, no_rustup, may_install) {
        bail!(lacks);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let args = [&["install", "--no-install-recommends"], &missing[..]].concat();
    let install = || apt_get(&args, "Installing packages");
    // There may be no package lists yet, or outdated ones with versions that are no longer in the
    // archive.
    let refresh = || apt_get(&["update"], "Fetching the package lists");
    install().or_else(|_| refresh().and_then(|()| install())).next(by_hand(&missing))
}

/// The packages that are not installed.
fn missing<'a>(packages: &[&'a str]) -> Result<Vec<&'a str>> {
    let format = "${Package} ${db:Status-Status}\n";
    let list = cmd!(sh::here(), "dpkg-query -W -f {format} {packages...}");
    // If one of them is unknown, it fails, but still lists the others.
    let list = list.quiet().ignore_status().ignore_stderr().read().next(format!(
        "setup supports only Debian and Ubuntu: use one of them (a container is enough), or \
         install the equivalents of these packages: {}",
        packages.join(" ")
    ))?;
    let installed: HashSet<&str> =
        list.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    Ok(packages.iter().copied().filter(|package| !installed.contains(package)).collect())
}

/// The line that names everything that cannot be installed here, if anything.
fn lacks(
    missing: &[&str],
    no_rustup: Option<&str>,
    may_install: impl FnOnce() -> bool,
) -> Option<String> {
    let packages = (!missing.is_empty() && !may_install()).then(|| by_hand(missing));
    let rustup = no_rustup.map(|command| {
        let nightly = toolchain::nightly_name();
        format!(
            "`{command}` needs rustup to install Rust {} and {nightly}: https://rustup.rs",
            toolchain::STABLE
        )
    });
    let packages = packages.map(|packages| {
        format!("packages are missing, and this user may not install them: {packages}")
    });
    let lacks: Vec<String> = packages.into_iter().chain(rustup).collect();
    (!lacks.is_empty()).then(|| lacks.join("; and "))
}

/// The command for an administrator.
fn by_hand(missing: &[&str]) -> String {
    let words = missing.join(" ");
    format!("sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends {words}'")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// As root, or with a sudo that does not need a password.
fn may_install() -> bool {
    is_root() || cmd!(sh::here(), "sudo -n true").succeeds()
}

fn apt_get(args: &[&str], what: &'static str) -> Result<()> {
    let root: &[&str] = if is_root() { &["env"] } else { &["sudo", "-n", "env"] };
    // Another apt may be running, such as unattended upgrades on a machine that has just booted.
    let options = ["-y", "-o", "DPkg::Lock::Timeout=120"];
    let [first, rest @ ..] = root else { return Ok(()) };
    let line = cmd!(sh::here(), "{first} {rest...} DEBIAN_FRONTEND=noninteractive apt-get");
    line.args(options).args(args).step(what)
}

/// Installs `cargo NAME` from the package cargo-NAME, if it is missing. It is built from source,
/// which takes minutes.
pub fn cargo_tool(name: &str) -> Result<()> {
    let sh = sh::here();
    if cmd!(sh, "cargo {name} --version").succeeds() {
        return Ok(());
    }
    cmd!(sh, "cargo install --locked cargo-{name}").step(format!("Installing cargo-{name}"))
}

/// Installs everything.
pub fn main() -> Result<()> {
    use Group::*;
    ensure(&[Build, Git, Libclang, Guest, Valgrind, Fuzz, Aarch64, Musl])?;
    toolchain::nightly()?;
    println!("Packages are installed, {} has miri and rust-src", toolchain::nightly_name());
    println!("Guest kernel {}", soft_roce::kernel()?.release);
    println!("Everything is installed. Next: cargo xtask soft-roce -- ibv_devinfo");
    Ok(())
}

/// Only the library, from the Python package index, for distributions that have only newer
/// versions.
const WHEEL: &str = "libclang==15.0.6.1";

/// The environment for a `cargo` that builds rdma-sys, or another crate that runs bindgen; our
/// bindings do not need it. This bindgen misreads verbs.h with libclang 16 and later, so an older
/// version is used even if a newer one is installed: from `LIBCLANG_PATH`, from the system, or from
/// a wheel, which is downloaded.
pub fn libclang() -> Result<Vec<(&'static str, String)>> {
    if let Some(env) = own_libclang() {
        return Ok(env);
    }
    // The wheel does not contain compiler headers, so gcc's are used.
    let include = cmd!(sh::here(), "gcc -print-file-name=include").read()?;
    let extra = ("BINDGEN_EXTRA_CLANG_ARGS", format!("-isystem{include}"));
    Ok(vec![("LIBCLANG_PATH", wheel()?.display().to_string()), extra])
}

/// Whether Python can create environments. On Debian the module is in a separate package.
fn makes_environments() -> bool {
    let modules = "import ensurepip, venv";
    cmd!(sh::here(), "python3 -c {modules}").succeeds()
}

/// The environment for the user's libclang, or for the system's.
fn own_libclang() -> Option<Vec<(&'static str, String)>> {
    if env::var_os("LIBCLANG_PATH").is_some() {
        return Some(Vec::new());
    }
    // Newest first. Distributions since 2020 do not have older versions than these.
    let dirs = [15, 14, 13, 12, 11].map(|v| PathBuf::from(format!("/usr/lib/llvm-{v}/lib")));
    let dir = dirs.iter().find(|dir| has_library(dir) && has_headers(dir))?;
    Some(vec![("LIBCLANG_PATH", dir.display().to_string())])
}

/// libclang.so* or libclang-14.so*, but not libclang-cpp.so, which is the C++ interface.
fn has_library(dir: &Path) -> bool {
    let is_it = |name: &str| name.starts_with("libclang") && name.contains(".so");
    paths::names(dir).any(|name| is_it(&name) && !name.contains("cpp"))
}

/// stddef.h and similar headers come with libclang-N-dev, in a directory named after the version.
fn has_headers(dir: &Path) -> bool {
    let clang = dir.join("clang");
    paths::names(&clang).any(|version| clang.join(version).join("include/stddef.h").exists())
}

/// The directory of the wheel's library, in a separate Python environment.
fn wheel() -> Result<PathBuf> {
    let venv = paths::below_target("libclang")?;
    let (python, lib) = (venv.join("bin/python"), venv.join("lib"));
    let find = || {
        let sites = paths::names(&lib).map(|version| lib.join(version));
        sites.map(|site| site.join("site-packages/clang/native")).find(|dir| has_library(dir))
    };
    if find().is_none() {
        let sh = sh::here();
        ensure(&[Group::Libclang])?;
        cmd!(sh, "python3 -m venv {venv}").step("Making a Python environment")?;
        cmd!(sh, "{python} -m pip install --quiet --no-deps {WHEEL}")
            .step("Fetching libclang")
            .next("install any libclang up to 15 and name its directory in LIBCLANG_PATH")?;
    }
    find().with_context(|| format!("{WHEEL} left no libclang.so in {}", venv.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_all_that_is_missing() {
        let told = |missing: &[&str], rustup, may| lacks(missing, rustup, || may);
        let test = Some("cargo xtask test");
        assert_eq!(told(&[], None, false), None);
        assert_eq!(told(&["gcc"], None, true), None);
        let both = told(&["gcc", "valgrind"], test, false).expect("both are missing");
        assert_eq!(both.lines().count(), 1);
        assert!(
            both.contains("apt-get install -y --no-install-recommends gcc valgrind'"),
            "{both}"
        );
        assert!(both.contains("'; and `cargo xtask test` needs rustup to install Rust 1."));
        assert!(both.ends_with(": https://rustup.rs"), "{both}");
        let rustup = told(&["gcc"], test, true).expect("rustup is missing");
        assert!(rustup.starts_with("`cargo xtask test` needs rustup"), "{rustup}");
        let packages = told(&["gcc"], None, false).expect("a package is missing");
        assert!(packages.ends_with("gcc'") && !packages.contains("rustup"), "{packages}");
    }
}
