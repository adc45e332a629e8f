//! Whether the crates could be published today, and whether they compile where they say they do.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::setup::{self, Group};
use crate::sh::Next;
use crate::test::FEATURES;
use crate::{aarch64, cargo, paths, toolchain};

/// Publishes nothing: packs each crate, and looks at the dependencies
#[derive(clap::Args)]
pub struct Package {
    /// Build what was packed, too: minutes.
    #[arg(long)]
    verify: bool,
    /// Hold the dependencies against deny.toml: licences, bans, sources, advisories. Installs
    /// cargo-deny.
    #[arg(long)]
    policy: bool,
    /// Say what of the interface changed since REV, and which version that takes: minutes. Installs
    /// cargo-semver-checks.
    #[arg(long, value_name = "REV")]
    since: Option<String>,
}

impl Package {
    pub fn run(&self) -> Result<()> {
        package(self.verify)?;
        if self.policy {
            setup::cargo_tool("deny")?;
            cargo::run(&["deny", "--workspace", "check"]).next(
                "read above; where the advisories cannot be fetched: cargo deny --offline --workspace check",
            )?;
        }
        if let Some(rev) = &self.since {
            setup::cargo_tool("semver-checks")?;
            cargo::run(&["semver-checks", "-p", "proverbs", "--baseline-rev", rev])
                .next("raise the version, or mend what is listed")?;
        }
        Ok(())
    }
}

/// Packs the crates that are published, in their order.
pub fn package(verify: bool) -> Result<()> {
    for manifest in ["Cargo.toml", "macros/Cargo.toml", "xtask/Cargo.toml"] {
        let text = fs::read_to_string(paths::workspace().join(manifest)).context(manifest)?;
        reasons(&text).context(manifest)?;
    }
    let pack = ["package", "--allow-dirty", "-p", "proverbs-macros", "-p", "proverbs"];
    let more: &[&str] = if verify { &[] } else { &["--no-verify"] };
    cargo::run(&[&pack, more].concat())
}

/// Each dependency and each feature has its reason behind it or before it.
fn reasons(manifest: &str) -> Result<()> {
    let (mut section, mut before) = ("", "");
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let listed = section.ends_with("dependencies]") || section == "[features]";
        let entry = listed && line.contains('=') && !line.starts_with(['#', '[']);
        let told = line.contains(" # ") || before.starts_with('#') || line.starts_with("default =");
        ensure!(!entry || told, "`{line}` has no reason.\nNext: say why in a comment on its line");
        before = line;
    }
    Ok(())
}

/// Compiles the crate with the oldest Rust that it names, and runs the suites on the other machine
/// that deny.toml and the README name.
pub fn anywhere() -> Result<()> {
    setup::ensure(&[Group::Build])?;
    let manifest = fs::read_to_string(paths::workspace().join("Cargo.toml"))?;
    let mut versions = manifest.lines().filter_map(|line| line.strip_prefix("rust-version = "));
    let version = versions.next().context("Cargo.toml has no rust-version")?.trim_matches('"');
    // 1.85 is a channel of its own for rustup, which follows 1.85.1 and so on.
    let oldest = format!("{version}.0");
    toolchain::stable(&oldest)?;
    let with = format!("+{oldest}");
    // What it builds is also what runs the demo: Debian's own cargo is of this version.
    let check = ["check", "-p", "proverbs", "-p", "xtask", "-p", "demo", "--features", FEATURES];
    cargo::run(&[&[with.as_str()], &check[..]].concat())?;
    aarch64::suites()?;
    println!("the crate and xtask compile with Rust {oldest}; the suites pass on aarch64");
    Ok(())
}
