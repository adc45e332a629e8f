//! `cargo xtask test loom`: the models of the protocols between threads, in every order.
//!
//! A model takes in the file of its protocol. That none is forgotten, `models/protocols.toml` says:
//! it names every file that has an atomic or a lock, with its models or the reason why it has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::sh::{self, Run, cmd};
use crate::{cargo, paths};

/// `models/protocols.toml`.
#[derive(serde::Deserialize)]
struct Protocols {
    /// The models of a file.
    models: BTreeMap<String, Vec<String>>,
    /// Why a file has none.
    #[serde(rename = "no-model")]
    no_model: BTreeMap<String, String>,
}

impl Protocols {
    /// What is wrong with it, if these files have an atomic or a lock, and `takes_in` says whether
    /// a model takes in a file.
    fn faults(
        &self,
        files: &BTreeSet<String>,
        takes_in: impl Fn(&str, &str) -> bool,
    ) -> Vec<String> {
        let listed = self.models.keys().chain(self.no_model.keys()).cloned().collect();
        let missing = files.difference(&listed).map(|file| {
            format!(
                "{file} has an atomic or a lock, and models/protocols.toml neither names a model of \
                 it nor the reason why it needs none"
            )
        });
        let gone = listed.difference(files);
        let gone =
            gone.map(|file| format!("{file}, in models/protocols.toml, has no atomic and no lock"));
        let mut faults: Vec<String> = missing.chain(gone).collect();
        for (file, models) in &self.models {
            if models.is_empty() {
                faults.push(format!("{file} has no model"));
            }
            for model in models.iter().filter(|model| !takes_in(model, file)) {
                faults.push(format!("the model `{model}` does not take in {file}"));
            }
        }
        faults
    }
}

/// What a file names that has an atomic or a lock.
const NAMES: [&str; 9] = [
    "AtomicU",
    "AtomicI",
    "AtomicBool",
    "AtomicPtr",
    "Mutex",
    "RwLock",
    "Condvar",
    "OnceLock",
    "LazyLock",
];

fn has_atomics(source: &str) -> bool {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut code = code.take_while(|line| *line != "mod tests {");
    code.any(|line| NAMES.iter().any(|name| line.contains(name)))
}

/// Whether every file with atomics has a model, or a reason to have none.
fn check_protocols() -> Result<()> {
    let root = paths::workspace();
    let text = fs::read_to_string(root.join("models/protocols.toml"));
    let protocols: Protocols = toml::from_str(&text.context("models/protocols.toml")?)?;
    let is_code = |file: &str| {
        file.ends_with(".rs") && !file.ends_with("tests.rs") && !file.contains("tests/")
    };
    let sources = crate::mutants::sources(&root)?.into_iter();
    let files = sources.filter(|(file, text)| is_code(file) && has_atomics(text));
    let takes_in = |model: &str, file: &str| {
        let (line, model) = (format!("../{file}\"]"), format!("models/tests/{model}"));
        cmd!(sh::at(&root), "grep -rqsF {line} {model} {model}.rs").succeeds()
    };
    let faults = protocols.faults(&files.map(|(file, _)| file).collect(), takes_in);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// That every protocol has a model, and all models. (Unoptimised, loom takes ten times as long.)
pub fn check() -> Result<()> {
    check_protocols()?;
    cargo::run(&["test", "--quiet", "--package", "models", "--release", "--tests"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_atomics_is_found() {
        assert!(has_atomics("use std::sync::atomic::AtomicU32;\n"));
        assert!(has_atomics("    lock: std::sync::Mutex<()>,\n"));
        assert!(!has_atomics("//! A Mutex.\nuse std::sync::Arc;\nmod tests {\n    Mutex\n"));
    }

    #[test]
    fn a_file_that_is_forgotten_is_a_fault() {
        let text = "[models]\n\"src/a.rs\" = [\"a\"]\n[no-model]\n\"src/b.rs\" = \"no order\"\n";
        let protocols: Protocols = toml::from_str(text).unwrap();
        let files = |names: &[&str]| names.iter().map(|name| format!("src/{name}.rs")).collect();
        let faults = |names, taken| protocols.faults(&files(names), |_, _| taken);
        assert!(faults(&["a", "b"], true).is_empty());
        assert!(faults(&["a", "b", "c"], true)[0].contains("src/c.rs"));
        assert!(faults(&["a"], true)[0].contains("src/b.rs"));
        assert!(faults(&["a", "b"], false)[0].contains("does not take in"));
    }
}
