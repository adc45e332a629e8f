//! The compilers that this repository uses: the stable for ui-test messages and instruction counts,
//! and a nightly with Miri.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Error, Result};

use crate::sh::{self, Next, Run, cmd};

/// The stable that the records are for.
pub const STABLE: &str = "1.95.0";

/// The cargo argument for the nightly with Miri.
pub const WITH_NIGHTLY: &str = "+nightly-2026-05-20";

/// The variables that cargo and rustup set for their children.
pub const CALLERS: [&str; 4] = ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"];

/// Its name.
pub fn nightly_name() -> &'static str {
    WITH_NIGHTLY.trim_start_matches('+')
}

pub fn has_rustup() -> bool {
    cmd!(sh::here(), "rustup --version").succeeds()
}

/// Whether the running cargo can format and lint.
pub fn has_tools() -> bool {
    ["fmt", "clippy"].iter().all(|tool| cmd!(sh::here(), "cargo {tool} --version").succeeds())
}

/// Restarts in the named stable, which rustup installs if it is missing. Returns if this process
/// already uses it.
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
    eprintln!(
        "the records are for Rust {STABLE}, this is {}: switching to {STABLE}",
        running.trim()
    );
    let mut again = Command::new(env::current_exe()?);
    for name in CALLERS {
        again.env_remove(name);
    }
    Err(Error::from(again.args(env::args_os().skip(1)).env("RUSTUP_TOOLCHAIN", STABLE).exec()))
}

fn is_stable(version: &str) -> bool {
    version.split_whitespace().nth(1) == Some(STABLE)
}

/// Ensures that the named nightly is installed and has Miri.
pub fn nightly() -> Result<()> {
    ensure(nightly_name(), &["miri", "rust-src"])
}

/// Installs a toolchain and these components, if they are missing.
pub fn ensure(name: &str, components: &[&str]) -> Result<()> {
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
        .next(format!("check whether `rustup toolchain install {name}` reaches its server"))
}

/// Whether a line of `rustup toolchain list` names this toolchain:
/// `1.95.0-x86_64-unknown-linux-gnu`.
fn is_of(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix(name);
    let host = rest.and_then(|rest| rest.strip_prefix('-'));
    host.is_some_and(|host| !host.starts_with(|c: char| c.is_ascii_digit()))
}

/// How to get toolchains other than the running one.
const RUSTUP: &str = "install Rust with rustup: https://rustup.rs";

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
