//! `cargo xtask loom`: the models of the protocols between threads, in every order that there is.
//!
//! A model takes in the file of its protocol. That none is forgotten, `models/protocols.toml` says:
//! it names every file that has an atomic or a lock, with its models or the reason why it has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::{Outcome, cargo, paths};

/// What cargo calls a model by, but for its name. (Unoptimised, loom takes ten times as long.)
pub const TEST: [&str; 5] = ["test", "--quiet", "--package", "models", "--release"];

#[derive(clap::Args)]
pub struct Args {
    /// Only models whose names contain this.
    filter: Option<String>,
}

pub fn main(args: Args) -> Outcome {
    check(args.filter.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

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
    fn read() -> Result<Protocols> {
        let path = paths::workspace().join("models/protocols.toml");
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
    }

    /// What is wrong with it, if these files have an atomic or a lock, and `takes_in` says whether
    /// a model takes in a file.
    fn faults(
        &self,
        files: &BTreeSet<String>,
        takes_in: impl Fn(&str, &str) -> bool,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        for file in files {
            match (self.models.contains_key(file), self.no_model.contains_key(file)) {
                (false, false) => faults.push(format!(
                    "{file} has an atomic or a lock, and models/protocols.toml neither names a model \
                     of it nor the reason why it needs none"
                )),
                (true, true) => faults.push(format!("{file} stands in models/protocols.toml twice")),
                _ => {}
            }
        }
        for file in self.models.keys().chain(self.no_model.keys()) {
            if !files.contains(file) {
                faults.push(format!("{file}, in models/protocols.toml, has no atomic and no lock"));
            }
        }
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

/// Files of Rust below `folder`, but for tests.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default();
        if stem.to_string_lossy().ends_with("tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether every file with atomics has a model, or a reason to have none.
fn check_protocols() -> Result<()> {
    let root = paths::workspace();
    let mut found = Vec::new();
    sources(&root.join("src"), &mut found)?;
    let mut files = BTreeSet::new();
    for path in found {
        if has_atomics(&fs::read_to_string(&path)?) {
            files.insert(path.strip_prefix(&root)?.to_string_lossy().into_owned());
        }
    }
    let takes_in = |model: &str, file: &str| {
        let folder = root.join("models/tests");
        let mut texts = Vec::new();
        let _ = sources(&folder.join(model), &mut texts);
        texts.push(folder.join(format!("{model}.rs")));
        let line = format!("../{file}\"]");
        texts.iter().any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(&line)))
    };
    let faults = Protocols::read()?.faults(&files, takes_in);
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// That every protocol has a model, and all models, or those whose names contain `filter`.
pub fn check(filter: Option<&str>) -> Result<()> {
    check_protocols()?;
    let mut line = TEST.to_vec();
    line.push("--tests");
    line.extend(filter);
    cargo::run(&line)
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
