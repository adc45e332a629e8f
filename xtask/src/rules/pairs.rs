//! What C does where the Rust form does not compile: `tests/what_c_does/expected.toml`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::book::Id;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Case {
    /// Crash, hang, silent loss and so on; empty until it was recorded.
    pub kind: String,
    /// How the program ended.
    pub end: String,
    /// Its last line.
    pub last: String,
    /// The Rust form, a file of the project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rust: String,
    /// Why there is none that fails to compile.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// By rule, in the order of the catalogue.
pub type Cases = BTreeMap<Id, Case>;

const FILE: &str = "tests/what_c_does/expected.toml";
const HEAD: &str = "\
# What C does when a rule is broken: Soft-RoCE of Linux 6.1 with rdma-core 44 (Debian 12), and siw for
# what is in siw/.
# `cargo xtask what-c-does --record` writes kind, end and last; rust and why are written by hand.
";

/// Empty if nothing is recorded.
pub fn read(root: &Path) -> Result<Cases> {
    parse(&fs::read_to_string(root.join(FILE)).unwrap_or_default()).context(FILE)
}

pub fn write(root: &Path, cases: &Cases) -> Result<()> {
    fs::write(root.join(FILE), print(cases)?).with_context(|| format!("cannot write {FILE}"))
}

fn parse(text: &str) -> Result<Cases> {
    let cases: BTreeMap<String, Case> = toml::from_str(text)?;
    let parse = |id: String| Id::parse(&id).with_context(|| format!("`{id}` is no rule"));
    cases.into_iter().map(|(id, case)| Ok((parse(id)?, case))).collect()
}

fn print(cases: &Cases) -> Result<String> {
    let mut text = HEAD.to_owned();
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
        let text = print(&cases).expect("it prints");
        assert!(text.find("R2.1") < text.find("R10.1"), "{text}");
        assert_eq!(parse(&text).expect("it parses"), cases);
        assert!(parse("[\"R1\"]").is_err() && parse("[\"R1.1\"]\nhow = \"\"").is_err());
    }
}
