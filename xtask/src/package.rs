//! `cargo xtask package`: whether the crates could be published today.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{Outcome, cargo, paths, setup};

/// Publishes nothing: packs each crate, and looks at licences and manifests
#[derive(clap::Args)]
pub struct Args {
    /// Build what was packed, too: minutes.
    #[arg(long)]
    verify: bool,
    /// Hold the dependencies against all of deny.toml, advisories too. Installs cargo-deny.
    #[arg(long)]
    policy: bool,
    /// Say what of the interface changed since REV, and which version that takes: minutes. Installs
    /// cargo-semver-checks.
    #[arg(long, value_name = "REV")]
    since: Option<String>,
}

/// The crates that are published, in that order.
const CRATES: [&str; 3] = ["proverbs-probe", "proverbs-macros", "proverbs"];

pub fn main(args: Args) -> Outcome {
    check(args.verify)?;
    if args.policy {
        policy()?;
    }
    if let Some(rev) = &args.since {
        interface(rev)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Advisories, bans, licences and sources. The advisories come from their database, if that can be reached.
fn policy() -> Result<()> {
    setup::cargo_tool("deny")?;
    cargo::run(&["deny", "--workspace", "check"]).context(
        "deny.toml is not met.\nNext: read above; where the advisories cannot be fetched: cargo deny --offline --workspace check",
    )
}

/// The public interface, as rustdoc tells it, now and then.
fn interface(rev: &str) -> Result<()> {
    setup::cargo_tool("semver-checks")?;
    cargo::run(&["semver-checks", "-p", "proverbs", "--baseline-rev", rev]).with_context(|| {
        format!("the interface differs from {rev}'s in more than the version says.\nNext: raise the version, or mend what is listed")
    })
}

pub fn check(verify: bool) -> Result<()> {
    let metadata =
        cargo::cargo(&["metadata", "--format-version", "1", "--all-features"])?.read()?;
    let metadata: Value = serde_json::from_slice(&metadata).context("cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    licences(packages)?;
    manifests(packages)?;
    reasons()?;
    let mut args = vec!["package", "--allow-dirty"];
    CRATES.iter().for_each(|name| args.extend(["-p", name]));
    if !verify {
        args.push("--no-verify");
    }
    cargo::run(&args)
}

/// Each dependency may be used under a licence of deny.toml.
fn licences(packages: &[Value]) -> Result<()> {
    let text = fs::read_to_string(paths::workspace().join("deny.toml")).context("deny.toml")?;
    let policy: toml::Value = toml::from_str(&text).context("deny.toml")?;
    let words = |value: &toml::Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|v| Some(v.as_str()?.into())).collect()
    };
    let licences = policy.get("licenses").context("deny.toml: licenses")?;
    let allowed = words(licences.get("allow").context("deny.toml: licenses.allow")?);
    let clarified = |name: &str| -> Option<String> {
        let all = licences.get("clarify")?.as_array()?;
        let one = all.iter().find(|one| one.get("crate").and_then(|v| v.as_str()) == Some(name))?;
        Some(one.get("expression")?.as_str()?.to_owned())
    };
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().map(str::to_owned).or_else(|| clarified(name));
        let licence = licence.with_context(|| format!("{name} names no licence; see deny.toml"))?;
        ensure!(
            permits(&licence, &allowed),
            "{name} is under {licence}, which deny.toml does not allow.\nNext: do without it, or allow it there"
        );
    }
    println!("{} crates are under licences of deny.toml", packages.len());
    Ok(())
}

/// Whether an SPDX expression can be met: some alternative of each part that is required. (Older crates write / for OR.)
fn permits(licence: &str, allowed: &[String]) -> bool {
    let licence = licence.replace(['(', ')'], "").replace('/', " OR ");
    licence.split(" AND ").all(|part| {
        part.split(" OR ").any(|one| allowed.iter().any(|allowed| allowed == one.trim()))
    })
}

/// What a registry shows.
fn manifests(packages: &[Value]) -> Result<()> {
    for name in CRATES {
        let package = packages.iter().find(|package| package["name"] == *name);
        let package = package.with_context(|| format!("there is no {name}"))?;
        for key in ["description", "license", "documentation", "readme", "rust_version"] {
            ensure!(!package[key].is_null(), "Cargo.toml of {name} has no `{key}`");
        }
        for key in ["keywords", "categories"] {
            let count = package[key].as_array().map_or(0, Vec::len);
            ensure!((1..=5).contains(&count), "Cargo.toml of {name} has {count} {key}, not 1 to 5");
        }
    }
    Ok(())
}

/// Each dependency and each feature has its reason behind it or before it.
fn reasons() -> Result<()> {
    for manifest in ["Cargo.toml", "macros/Cargo.toml", "probe/Cargo.toml", "xtask/Cargo.toml"] {
        let text = fs::read_to_string(paths::workspace().join(manifest)).context(manifest)?;
        let (mut section, mut before) = ("", "");
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let listed = section.ends_with("dependencies]") || section == "[features]";
            let entry = listed && line.contains('=') && !line.starts_with(['#', '[']);
            let told =
                line.contains(" # ") || before.starts_with('#') || line.starts_with("default =");
            if entry && !told {
                bail!(
                    "{manifest}: `{line}` has no reason.\nNext: say why in a comment on its line"
                );
            }
            before = line;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::permits;

    #[test]
    fn licence_expressions_are_met_part_by_part() {
        let allowed = ["MIT", "Unicode-3.0"].map(str::to_owned);
        for (licence, ok) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("Apache-2.0/MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0", false),
        ] {
            assert_eq!(permits(licence, &allowed), ok, "{licence}");
        }
    }
}
