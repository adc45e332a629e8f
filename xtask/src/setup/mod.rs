//! `cargo xtask setup`, and the parts of it that other commands do for themselves.

mod apt;
mod libclang;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::progress::Step;
use crate::sh::Cmd;
use crate::{Outcome, soft_roce};

pub use apt::has_candidate as has_package;
pub use apt::refresh as refresh_package_lists;
pub use libclang::Libclang;

#[derive(clap::Args)]
pub struct Args {}

/// What a command needs; it names the groups, `ensure` installs what is missing of them.
#[derive(Clone, Copy, Debug)]
pub enum Group {
    /// To build the crate and its C twins.
    Build,
    /// To boot the Soft-RoCE guest, and the C programs that are run there. The `rdma` tool is in
    /// iproute2; rdma-core only holds udev rules, which the guest has no use for.
    Guest,
    /// To count instructions, of what both C compilers make, and to read machine code.
    Valgrind,
    /// To build the other crates of the field: some build rdma-core, or a shim of it, with cmake.
    Field,
    /// To build libFuzzer.
    Fuzz,
}

impl Group {
    const ALL: [Self; 5] = [Self::Build, Self::Guest, Self::Valgrind, Self::Field, Self::Fuzz];

    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Build => &["gcc", "libc6-dev", "pkg-config", "libibverbs-dev", "librdmacm-dev"],
            Self::Guest => &[
                "qemu-system-x86",
                "busybox-static",
                "kmod",
                "xz-utils",
                "zstd",
                "iproute2",
                "ibverbs-providers",
                "ibverbs-utils",
                "rdmacm-utils",
                "perftest",
            ],
            Self::Valgrind => &["valgrind", "clang", "binutils"],
            Self::Field => &["cmake", "make", "g++", "libnl-3-dev", "libnl-route-3-dev"],
            Self::Fuzz => &["g++"],
        }
    }
}

/// Installs what is missing of the groups. Costs one dpkg-query when nothing is.
pub fn ensure(groups: &[Group]) -> Result<()> {
    let packages: Vec<&str> = groups.iter().flat_map(|group| group.packages()).copied().collect();
    apt::install_missing(&packages)
}

/// The libclang that the bindings are generated with. Its `env()` goes to every `cargo` we start.
pub fn libclang() -> Result<Libclang> {
    libclang::ensure()
}

/// Components of the nightly toolchain, for Miri.
const NIGHTLY_COMPONENTS: [&str; 2] = ["miri", "rust-src"];

/// What gets a nightly toolchain, which is the user's to choose.
const INSTALL: &str = "rustup toolchain install nightly";

/// Sees that there is a nightly toolchain.
pub fn nightly_toolchain() -> Result<()> {
    let toolchains = Cmd::new("rustup")
        .args(["toolchain", "list"])
        .hint("install Rust with rustup, then: rustup toolchain install nightly")
        .read_text()?;
    if !toolchains.lines().any(|line| line.starts_with("nightly-")) {
        anyhow::bail!("This needs a nightly toolchain and there is none.\nNext: {INSTALL}");
    }
    Ok(())
}

/// Adds Miri to the nightly toolchain.
pub fn nightly() -> Result<()> {
    nightly_toolchain()?;
    let installed = Cmd::new("rustup")
        .args(["component", "list", "--toolchain", "nightly", "--installed"])
        .hint(INSTALL)
        .read_text()?;
    let is_missing = |name: &&str| !installed.lines().any(|line| line.starts_with(*name));
    let missing: Vec<&str> =
        NIGHTLY_COMPONENTS.into_iter().filter(|name| is_missing(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Cmd::new("rustup")
        .args(["component", "add", "--toolchain", "nightly"])
        .args(missing)
        .hint("take a nightly that has Miri: rustup update nightly")
        .run("Adding nightly components")
}

/// Sees that there is a toolchain of this version.
pub fn toolchain(version: &str) -> Result<()> {
    if Cmd::new("rustup").args(["run", version, "rustc", "--version"]).succeeds() {
        return Ok(());
    }
    Cmd::new("rustup")
        .args(["toolchain", "install", version, "--profile", "minimal"])
        .hint(format!("install it by hand: rustup toolchain install {version}"))
        .run("Installing a toolchain")
}

/// Installs `cargo NAME`, which the package cargo-NAME has, if it is not there. From source: minutes.
pub fn cargo_tool(name: &str) -> Result<()> {
    if Cmd::new("cargo").args([name, "--version"]).succeeds() {
        return Ok(());
    }
    let package = format!("cargo-{name}");
    Cmd::new("cargo")
        .args(["install", "--locked", &package])
        .hint(format!("install it by hand: cargo install {package}"))
        .run(format!("Installing {package}"))
}

pub fn main(_: Args) -> Outcome {
    let step = Step::start("Looking at what is installed");
    ensure(&Group::ALL)?;
    step.done("Packages are installed");
    let libclang = libclang().context("libclang, which rdma-sys needs to read verbs.h")?;
    println!("To build without xtask:\n  {}", libclang.exports());
    nightly()?;
    println!("Nightly has {}", NIGHTLY_COMPONENTS.join(" and "));
    let kernel = soft_roce::kernel()?;
    println!("Guest kernel {}", kernel.release);
    println!("Everything is there. Next: cargo xtask soft-roce -- ibv_devinfo");
    Ok(ExitCode::SUCCESS)
}
