//! What C does where the Rust form does not compile: `tests/what_c_does/expected.toml`.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A rule: section and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub u32, pub u32);

impl Id {
    pub fn parse(text: &str) -> Option<Id> {
        let (section, number) = text.strip_prefix('R')?.split_once('.')?;
        Some(Id(section.parse().ok()?, number.parse().ok()?))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "R{}.{}", self.0, self.1)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// Crash, hang, silent loss and so on; empty until it was recorded.
    pub kind: String,
    /// How the program ended.
    pub end: String,
    /// Its last line.
    pub last: String,
    /// Its kind on other named kernels, for those that may end the kernel.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, String>,
    /// What earlier kernels or libraries did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// The Rust form, a file of the project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rust: String,
    /// Why there is none that fails to compile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// By rule, in the order of RULES.md.
pub type Cases = BTreeMap<Id, Case>;

/// What the programs ran with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Versions {
    /// Of the guest, as `uname -r` tells it.
    pub kernel: String,
    /// Of the package libibverbs1.
    pub libibverbs: String,
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, libibverbs } = self;
        write!(f, "Linux {kernel} with libibverbs {libibverbs}")
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub versions: Versions,
    pub cases: Cases,
}

const FILE: &str = "tests/what_c_does/expected.toml";
/// The table of what they ran with.
const VERSIONS: &str = "versions";
const HEAD: &str = "\
# What C does when a rule is broken: Soft-RoCE of Debian 12, and siw for what is in siw/.
# `cargo xtask what-c-does --record` writes the versions, kind, end and last; on, before, rust and why
# are written by hand. `on` is the kind on other kernels: `cargo xtask what-c-does --kernels` compares.
";

/// Empty if nothing is recorded.
pub fn read(root: &Path) -> Result<Record> {
    parse(&fs::read_to_string(root.join(FILE)).unwrap_or_default()).context(FILE)
}

pub fn write(root: &Path, record: &Record) -> Result<()> {
    fs::write(root.join(FILE), print(record)?).with_context(|| format!("cannot write {FILE}"))
}

fn parse(text: &str) -> Result<Record> {
    let mut all: toml::Table = toml::from_str(text)?;
    let versions =
        all.remove(VERSIONS).map_or_else(|| Ok(Versions::default()), toml::Value::try_into)?;
    let parse = |(id, case): (String, toml::Value)| {
        let id = Id::parse(&id).with_context(|| format!("`{id}` is no rule"))?;
        Ok((id, case.try_into().with_context(|| id.to_string())?))
    };
    Ok(Record { versions, cases: all.into_iter().map(parse).collect::<Result<_>>()? })
}

fn print(Record { versions, cases }: &Record) -> Result<String> {
    let mut text = format!("{HEAD}\n[{VERSIONS}]\n{}", toml::to_string(versions)?);
    for (id, case) in cases {
        write!(text, "\n[\"{id}\"]\n{}", toml::to_string(case)?)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_again() {
        let case =
            Case { last: "R2.1: it's \"so\"".into(), kind: "crash".into(), ..Case::default() };
        let cases = Cases::from([(Id(10, 1), Case::default()), (Id(2, 1), case)]);
        let versions = Versions { kernel: "6.1.0-9-amd64".into(), libibverbs: "44.0".into() };
        let record = Record { versions, cases };
        let text = print(&record).expect("it prints");
        assert!(text.find("R2.1") < text.find("R10.1"), "{text}");
        assert_eq!(parse(&text).expect("it parses"), record);
        assert!(parse("[\"R1\"]").is_err() && parse("[\"R1.1\"]\nhow = \"\"").is_err());
    }
}
