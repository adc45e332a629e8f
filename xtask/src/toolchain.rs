//! The compilers that this repository names: what the ui-tests quote and the instructions were
//! counted of, and one that has Miri.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Error, Result};

use crate::sh::{self, Next, Run, cmd};

/// The stable that the records are of.
pub const STABLE: &str = "1.95.0";

/// What cargo takes for the nightly that has Miri, whose rustdoc `interface` reads.
pub const WITH_NIGHTLY: &str = "+nightly-2026-05-20";

/// What cargo and rustup tell their children of themselves.
pub const CALLERS: [&str; 4] = ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"];

/// Its name.
pub fn nightly_name() -> &'static str {
    WITH_NIGHTLY.trim_start_matches('+')
}

pub fn has_rustup() -> bool {
    cmd!(sh::here(), "rustup --version").succeeds()
}

/// Whether the cargo that runs us can format and lint.
pub fn has_tools() -> bool {
    ["fmt", "clippy"].iter().all(|tool| cmd!(sh::here(), "cargo {tool} --version").succeeds())
}

/// Goes on in the named stable, installed by rustup if it is not there; returns where this process
/// is in it already.
pub fn in_stable() -> Result<()> {
    let sh = sh::here();
    let running = cmd!(sh, "rustc --version").text()?;
    if is_stable(&running) && has_tools() {
        return Ok(());
    }
    if env::var_os("RUSTUP_TOOLCHAIN").is_some_and(|name| name == STABLE) {
        return cmd!(sh, "rustup component add --toolchain {STABLE} rustfmt clippy")
            .step("Adding components");
    }
    ensure(STABLE, &["rustfmt", "clippy"])?;
    eprintln!("the records are of Rust {STABLE}, this is {}: on with that one", running.trim());
    let mut again = Command::new(env::current_exe()?);
    for name in CALLERS {
        again.env_remove(name);
    }
    Err(Error::from(again.args(env::args_os().skip(1)).env("RUSTUP_TOOLCHAIN", STABLE).exec()))
}

fn is_stable(version: &str) -> bool {
    version.split_whitespace().nth(1) == Some(STABLE)
}

/// Sees that the named nightly is there, and has Miri.
pub fn nightly() -> Result<()> {
    ensure(nightly_name(), &["miri", "rust-src"])
}

/// Sees that this stable is there.
pub fn stable(version: &str) -> Result<()> {
    ensure(version, &[])
}

/// Installs what is missing of a toolchain and of these components of it.
fn ensure(name: &str, components: &[&str]) -> Result<()> {
    let sh = sh::here();
    let toolchains = cmd!(sh, "rustup toolchain list").text().next(RUSTUP)?;
    let is_there = toolchains.lines().any(|line| is_of(line, name));
    if is_there {
        let listed = cmd!(sh, "rustup component list --installed --toolchain {name}").text()?;
        let has = |component: &&str| listed.lines().any(|line| line.starts_with(component));
        if components.iter().all(has) {
            return Ok(());
        }
    }
    let wanted = components.iter().flat_map(|component| ["-c", component]);
    cmd!(sh, "rustup toolchain install {name} --profile minimal --no-self-update {wanted...}")
        .step(format!("Installing Rust {name}"))
        .next(format!("see whether `rustup toolchain install {name}` reaches its server"))
}

/// Whether a line of `rustup toolchain list` is of this one: `1.95.0-x86_64-unknown-linux-gnu`.
fn is_of(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix(name);
    let host = rest.and_then(|rest| rest.strip_prefix('-'));
    host.is_some_and(|host| !host.starts_with(|c: char| c.is_ascii_digit()))
}

/// What has the toolchains besides the one that runs us.
const RUSTUP: &str = "install Rust by rustup: https://rustup.rs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_known_by_its_whole_name() {
        assert!(is_of("1.95.0-x86_64-unknown-linux-gnu (default)", "1.95.0"));
        assert!(is_of("nightly-2026-05-20-x86_64-unknown-linux-gnu", "nightly-2026-05-20"));
        assert!(!is_of("nightly-2026-05-20-x86_64-unknown-linux-gnu", "nightly"));
        assert!(!is_of("1.95.0-x86_64-unknown-linux-gnu", "1.95"));
    }

    #[test]
    fn the_version_is_the_second_word() {
        assert!(is_stable("rustc 1.95.0 (59807616e 2026-04-14)"));
        assert!(is_stable("rustc 1.95.0 (59807616e 2026-04-14) (built from a source tarball)"));
        assert!(!is_stable("rustc 1.95.1 (00000000e 2026-04-14)"));
    }
}
