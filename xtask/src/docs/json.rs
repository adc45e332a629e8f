//! What rustdoc tells of a crate, in its own JSON.

use std::fs;

use anyhow::{Context, Result, bail};
use rustdoc_types::{Crate, FORMAT_VERSION};
use serde_json::Value;

use crate::{cargo, paths};

/// The library of a package, documented by the nightly's rustdoc with all that users may turn on.
pub fn read(package: &str) -> Result<Crate> {
    let mut args = vec!["+nightly", "rustdoc", "--quiet", "--lib", "-p", package];
    if package == "proverbs" {
        args.extend(["--features", crate::test::FEATURES]);
    }
    args.extend(["--", "-Z", "unstable-options", "--output-format", "json"]);
    // With `cargo xtask`, cargo names its own toolchain to us.
    let cmd = cargo::cargo(&args)?.without("RUSTUP_TOOLCHAIN").without("CARGO");
    if cmd.stream()? != 0 {
        bail!("rustdoc failed on {package}");
    }
    let file = paths::target()?.join("doc").join(format!("{}.json", package.replace('-', "_")));
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text)
}

fn parse(text: &[u8]) -> Result<Crate> {
    let value: Value = serde_json::from_slice(text).context("rustdoc's JSON")?;
    // Looked at first: of another format, the rest may not parse.
    let found = value["format_version"].as_u64();
    if found != Some(FORMAT_VERSION.into()) {
        let found = found.map_or("?".to_owned(), |version| version.to_string());
        bail!(
            "the nightly's rustdoc writes JSON of format {found}, this command reads {FORMAT_VERSION}: set \
             `rustdoc-types = \"0.{found}\"` in xtask/Cargo.toml (or take a nightly of that format with rustup)"
        );
    }
    serde_json::from_value(value).context("rustdoc's JSON")
}

#[cfg(test)]
mod tests {
    #[test]
    fn another_format_is_named_with_what_to_do() {
        let error = super::parse(br#"{"format_version": 9, "index": 0}"#).expect_err("not 9");
        let text = error.to_string();
        assert!(text.contains("format 9,") && text.contains(r#"rustdoc-types = "0.9""#), "{text}");
    }
}
