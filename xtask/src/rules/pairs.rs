//! What C does where the Rust form does not compile: `tests/what_c_does/expected.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::book::Id;

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Case {
    /// Crash, hang, silent loss and so on; empty until it was recorded.
    pub kind: String,
    /// How the program ended.
    pub end: String,
    /// Its last line.
    pub last: String,
    /// The Rust form, a file of the project.
    pub rust: String,
    /// Why there is none that fails to compile.
    pub why: String,
}

/// By rule; empty if nothing is recorded.
pub fn read(root: &Path) -> Result<BTreeMap<Id, Case>> {
    let path = root.join("tests/what_c_does/expected.toml");
    let text = fs::read_to_string(path).unwrap_or_default();
    let cases: BTreeMap<String, Case> =
        toml::from_str(&text).context("tests/what_c_does/expected.toml")?;
    let cases = cases.into_iter().map(|(id, case)| {
        let id = Id::parse(&id).with_context(|| format!("expected.toml: `{id}` is no rule"))?;
        Ok((id, case))
    });
    cases.collect()
}
