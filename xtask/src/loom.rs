//! `cargo xtask test loom`: runs the models of the protocols between threads, in many orders, and
//! at night in all. They are the modules `loom_tests`. With `--cfg loom`, `sys/src/sync.rs` has
//! loom's atomics and locks. A file with an atomic or a lock names its model in a line `// Model:
//! FILE`, or gives the reason in a line `// No model: REASON`.

use std::ffi::OsStr;

use anyhow::{Result, ensure};

use crate::{cargo, mutants, paths};

/// The names that show that a file has an atomic or a lock.
const NAMES: &str = "AtomicU AtomicI AtomicBool AtomicPtr Mutex RwLock Condvar OnceLock LazyLock";

fn has_atomics(source: &str) -> bool {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut code = code.take_while(|line| *line != "mod tests {");
    code.any(|line| NAMES.split(' ').any(|name| line.contains(name)))
}

/// The error in a file, if there is one.
fn fault(source: &str, is_model: impl Fn(&str) -> bool) -> Option<&'static str> {
    let has_reason = source.contains("\n// No model: ");
    let model = source.lines().find_map(|line| line.strip_prefix("// Model: "));
    match (has_atomics(source), model) {
        (true, None) if !has_reason => Some(
            "has an atomic or a lock: name its model in a line `// Model: ..`, or give the reason \
             in a line `// No model: ..`",
        ),
        (true, Some(_)) if has_reason => Some("has a model, and a reason for having none"),
        (true, Some(file)) if !is_model(file) => Some("names a file without models"),
        (true, Some(_)) if !source.contains("use crate::sync::") => {
            Some("has a model, so it must import its atomics and locks from `crate::sync`")
        }
        (false, model) if has_reason || model.is_some() => {
            Some("has no atomic or lock, so it needs no model and no reason")
        }
        _ => None,
    }
}

/// Checks that every file with atomics has a model, or a reason.
fn check_protocols() -> Result<()> {
    let sources = mutants::sources(&paths::workspace())?;
    let is_model = |file: &str| {
        file.contains("loom_tests") && sources.get(file).is_some_and(|it| it.contains("#[test]"))
    };
    let files = sources.iter().filter(|(file, _)| file.ends_with(".rs") && !file.contains("tests"));
    let faults =
        files.filter_map(|(file, text)| Some(format!("{file} {}", fault(text, is_model)?)));
    let faults: Vec<String> = faults.collect();
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// Checks that every protocol has a model, and runs all models, with at most `most` preemptions.
/// With three preemptions, all models take 40 seconds of processor time, and without a limit
/// several minutes, because two models have very many orders. Only loom itself is optimized
/// (Cargo.toml), because optimizing the crates takes longer than it saves.
pub fn check(most: Option<&str>) -> Result<()> {
    check_protocols()?;
    let dir = paths::below_target("loom")?;
    let mut env = vec![("RUSTFLAGS", "--cfg loom".as_ref()), ("CARGO_TARGET_DIR", dir.as_os_str())];
    env.extend(most.map(|most| ("LOOM_MAX_PREEMPTIONS", OsStr::new(most))));
    let packages = ["--package", "proverbs-sys", "--package", "proverbs", "--lib"];
    let args = ["--quiet", "--no-default-features", "--features", "cm"];
    cargo::run_with(&[&["test"], &packages[..], &args, &["loom_tests::"]].concat(), &env)
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
        let atomic = "\nuse crate::sync::AtomicU32;\n";
        let (reason, model) = ("\n// No model: one thread.\n", "\n// Model: loom_tests.rs\n");
        let is_fault = |parts: &[&str], is_there| fault(&parts.concat(), |_| is_there).is_some();
        assert!(!is_fault(&[model, atomic], true) && !is_fault(&[reason, atomic], true));
        assert!(!is_fault(&[""], true));
        assert!(is_fault(&[atomic], true) && is_fault(&[reason], true) && is_fault(&[model], true));
        assert!(is_fault(&[model, atomic], false) && is_fault(&[reason, model, atomic], true));
        assert!(is_fault(&[model, "use std::sync::Mutex;\n"], true));
    }
}
