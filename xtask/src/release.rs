//! Checks that the crates can be published, and that they compile on the supported systems.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::setup::{self, Group};
use crate::sh::{self, Next, Run, Shell, cmd};
use crate::test::{FEATURES, TEST};
use crate::{cargo, paths, toolchain};

/// Packs each crate without publishing it, runs a new crate that depends on them, and checks the
/// dependencies
#[derive(clap::Args)]
pub struct Package {
    /// Also build the packed crates, and the examples with the oldest supported Rust. Takes
    /// minutes.
    #[arg(long)]
    verify: bool,
    /// Check the dependencies against deny.toml: licences, bans, sources, advisories. Installs
    /// cargo-deny.
    #[arg(long)]
    policy: bool,
}

impl Package {
    pub fn run(&self) -> Result<()> {
        package(self.verify)?;
        self.verify.then(|| with_oldest(&["--examples"])).transpose()?;
        if self.policy {
            setup::cargo_tool("deny")?;
            cargo::run(&["deny", "--workspace", "check"]).next(
                "see the output above; if the advisories cannot be fetched: cargo deny --offline --workspace check",
            )?;
        }
        Ok(())
    }
}

/// Packs the published crates, in their order.
pub fn package(verify: bool) -> Result<()> {
    let mut pack = vec!["package", "--allow-dirty"];
    pack.extend(CRATES.iter().flat_map(|name| ["-p", name]));
    pack.extend((!verify).then_some("--no-verify"));
    cargo::run(&pack)?;
    new_crate()
}

/// Creates a crate outside the workspace that depends on the packed ones, like a user's crate: once
/// with the feature `loopback` and the program that README recommends, and once with plain `cargo
/// add proverbs`. The second must not depend on the software device, and its error must name the
/// feature.
fn new_crate() -> Result<()> {
    setup::ensure(&[Group::Build])?;
    let version = env!("CARGO_PKG_VERSION"); // the workspace's
    let packed = paths::target()?.join("package");
    let sh = Shell::new()?;
    let dir = sh.create_temp_dir()?;
    sh.change_dir(dir.path());
    let mut lines =
        "[package]\nname = \"first\"\nedition = \"2024\"\n\n[patch.crates-io]\n".to_owned();
    for name in CRATES {
        let archive = packed.join(format!("{name}-{version}.crate"));
        // Sets new times on the files, because all files of an archive have the same time.
        cmd!(sh, "tar -xzmf {archive}").bytes()?;
        lines += &format!("{name}.path = \"{name}-{version}\"\n");
    }
    sh.create_dir("src")?;
    let built = paths::below_target("new-crate")?;
    let readme = fs::read_to_string(paths::workspace().join("README.md"))?;
    let first = sh.read_file(format!("proverbs-{version}/examples/first_steps.rs"))?;
    for (features, program) in [("", WITHOUT_DEVICE), (" --features loopback", &first)] {
        let add = format!("cargo add proverbs{features}");
        ensure!(readme.contains(&format!("{add} ")), "README does not say `{add}`");
        sh.write_file("Cargo.toml", &lines)?;
        sh.write_file("src/main.rs", program)?;
        // The versions that were tested here. A user gets the newest.
        sh.copy_file(paths::workspace().join("Cargo.lock"), "Cargo.lock")?;
        eprintln!("A new crate, and `{add}`:");
        let words = add.split(' ').skip(1);
        // The command as a user types it, except for the path, because the crate is not on
        // crates.io.
        cmd!(sh, "cargo {words...} --quiet --offline --path proverbs-{version}").run()?;
        let tree = cmd!(sh, "cargo tree --offline -e normal").text()?;
        let has_device = ["rand_core", "proverbs-loopback"].iter().any(|name| tree.contains(name));
        ensure!(has_device != features.is_empty(), "the dependencies:\n{tree}");
        ensure!(!tree.contains("tracing"), "only the feature may add it:\n{tree}");
        cmd!(sh, "cargo run --quiet --offline").env("CARGO_TARGET_DIR", &built).run()?;
    }
    Ok(())
}

/// Opens a device that no machine has. Without any device, the error names the feature.
const WITHOUT_DEVICE: &str = r#"
use proverbs::prelude::*;

fn main() {
    let error = Context::open("nonesuch").unwrap_err();
    println!("{error}");
    if matches!(error.kind(), ErrorKind::Absent(_)) {
        assert!(error.to_string().contains("the feature `loopback`"));
    }
}
"#;

/// The published crates.
const CRATES: [&str; 4] = ["proverbs-sys", "proverbs-loopback", "proverbs-macros", "proverbs"];

/// Compiles the workspace with the oldest supported Rust, which is the version of Debian's cargo.
/// `more` adds targets.
fn with_oldest(more: &[&str]) -> Result<()> {
    // For rustup, 1.85 is a channel that follows 1.85.1 and so on.
    let with = concat!("+", env!("CARGO_PKG_RUST_VERSION"), ".0");
    toolchain::ensure(&with[1..], &[])?;
    cargo::run(&[&[with, "check", "--workspace", "--features", FEATURES][..], more].concat())
}

/// Compiles the crates with the oldest supported Rust, and for other systems. The examples are
/// compiled at night, because their dependencies take longer than the crates.
pub fn anywhere() -> Result<()> {
    setup::ensure(&[Group::Build, Group::Musl])?;
    with_oldest(&[])?;
    targets()?;
    without_libraries()
}

/// The suites of the loopback device.
const SUITES: [&str; 6] = ["--test", "conformance", "--test", "attack", "--test", "cm"];

/// Hides the libraries, their headers and the providers from a command.
const HIDE: &str = "\
for file in /usr/lib*/*/lib{ibverbs,rdmacm,efa}*.so* /usr/lib*/lib{ibverbs,rdmacm,efa}*.so*; do
    if [ -e $file ]; then mount --bind /dev/null $file; fi
done
for folder in /usr/include/{infiniband,rdma} /usr/lib*/*/libibverbs /etc/libibverbs.d; do
    if [ -d $folder ]; then mount -t tmpfs none $folder; fi
done
exec \"$@\"";

/// The suites of the loopback device, and the demo, pass in a mount namespace without libibverbs,
/// librdmacm and their headers. A call that needs a device says which library is missing.
fn without_libraries() -> Result<()> {
    // A normal user becomes root in a user namespace.
    let hidden = |args: &[&str]| {
        let command =
            ["--user", "--map-root-user", "--mount", "bash", "-euc", HIDE, "hide", "cargo"];
        cmd!(sh::here(), "unshare {command...} {args...}")
    };
    hidden(&[&TEST[..], &SUITES].concat()).step("Running the suites without libibverbs")?;
    let said = hidden(&["xtask", "demo"]).text()?;
    let reason = said.lines().find(|line| line.contains("libibverbs.so.1 cannot be loaded"));
    let reason = reason.with_context(|| format!("without libibverbs: {said}"))?;
    println!("without libibverbs: {reason}");
    Ok(())
}

const MUSL: &str = "x86_64-unknown-linux-musl";

/// The environment for programs that are linked with Debian's musl, dynamically. The unwinder is
/// rustc's own, because gcc's library is for glibc.
fn dynamic_musl() -> Result<[(&'static str, String); 1]> {
    let dir = paths::below_target("musl")?.display().to_string();
    fs::write(format!("{dir}/libgcc_s.so"), "INPUT(-l:libunwind.a)")?;
    let link = "-Clink-self-contained=yes -Clink-arg=-Wl,-I/lib/ld-musl-x86_64.so.1";
    let dirs = format!("-Lnative={dir} -Lnative=/lib/x86_64-linux-musl");
    let flags = format!("-Ctarget-feature=-crt-static {link} {dirs}");
    Ok([("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", flags)])
}

/// Runs the suites of the loopback device on musl, with its dynamic linker.
pub fn musl() -> Result<()> {
    setup::ensure(&[Group::Build, Group::Musl])?;
    cmd!(sh::here(), "rustup target add {MUSL}").quiet().run()?;
    let test = ["test", "--target", MUSL, "--features", FEATURES];
    cargo::run_with(&[&test[..], &SUITES].concat(), &dynamic_musl()?)
}

/// A static and a dynamic program for musl run on the loopback device, and a target that is not
/// 64-bit Linux fails with one error.
fn targets() -> Result<()> {
    const OTHERS: [&str; 2] = ["x86_64-pc-windows-gnu", "i686-unknown-linux-gnu"];
    cmd!(sh::here(), "rustup target add {MUSL} {OTHERS...}")
        .step("Installing the standard library of targets")?;
    let demo = ["run", "--quiet", "--target", MUSL, "--package", "demo", "--bin", "first_steps"];
    let reasons = ["this program is linked statically", "Error loading shared library"];
    for (reason, env) in reasons.into_iter().zip([vec![], dynamic_musl()?.to_vec()]) {
        let said = cargo::cargo(&demo)?.envs(env).text()?;
        let first = said.lines().next().unwrap_or_default();
        ensure!(first.contains(reason), "{MUSL}: {said}");
        println!("{MUSL}: {first}");
    }
    for target in OTHERS {
        let check = ["check", "--target", target, "--features", FEATURES];
        let (_, said) = cargo::cargo(&check)?.capture()?;
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error")).collect();
        let [error, "error: build script logged errors"] = errors[..] else {
            bail!("{target}: expected one error:\n{said}");
        };
        ensure!(error.contains("proverbs requires 64-bit Linux"), "{target}: {error}");
        println!("{target}: {error}");
    }
    Ok(())
}
