//! `cargo xtask test loom`: runs the models of the protocols between threads, in every order. A
//! model includes the file of its protocol. A file with an atomic or a lock that has no model gives
//! the reason in a line that begins with `// No model: `.

use anyhow::{Result, ensure};

use crate::sh::{self, Run, cmd};
use crate::{cargo, mutants, paths};

/// The names that show that a file has an atomic or a lock.
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

/// The beginning of the line that says why a file has no model.
const NO_MODEL: &str = "\n// No model: ";

/// The error in a file, if there is one.
fn fault(source: &str, is_in_model: bool) -> Option<&'static str> {
    match (has_atomics(source), source.contains(NO_MODEL)) {
        (true, false) if !is_in_model => Some(
            "has an atomic or a lock, but no model: add one, or give the reason in a line \
             `// No model: ..`",
        ),
        (false, true) => Some("has no atomic or lock, so it needs no model and no reason"),
        _ => None,
    }
}

/// Checks that every file with atomics has a model, or a reason.
fn check_protocols() -> Result<()> {
    let root = paths::workspace();
    let taken_in = cmd!(sh::at(&root), "grep -rhF path models/tests").text()?;
    let mut sources = mutants::sources(&root)?;
    sources.retain(|file, _| file.ends_with(".rs") && !file.contains("tests"));
    let faults = sources.iter().filter_map(|(file, text)| {
        let fault = fault(text, taken_in.contains(&format!("../{file}\"]")))?;
        Some(format!("{file} {fault}"))
    });
    let faults: Vec<String> = faults.collect();
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// Checks that every protocol has a model, and runs all models. (Without optimization, loom takes
/// ten times as long.)
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
        let [atomic, reason] = ["\nstatic A: AtomicU32;\n", "\n// No model: one thread.\n"];
        let both = format!("{reason}{atomic}");
        assert!(fault(atomic, true).is_none() && fault(&both, false).is_none());
        assert!(fault("", false).is_none());
        assert!(fault(atomic, false).is_some() && fault(reason, false).is_some());
    }
}
