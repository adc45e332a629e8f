//! Illegal programs do not compile, and the errors explain them in verbs terms.
//!
//! `ui-tests/<family>/<rule>.rs` must fail with exactly the messages in its `.stderr` (trybuild, by
//! `cargo check`). Its legal twin, `ui-tests/pass/<family>/<rule>.rs`, is compiled as a module of
//! this test: it only has to compile, and needs no device and no separate linking or running.
#![cfg(not(miri))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../ui-tests/pass/mod.rs"]
mod pass;

const TWINS: &str = include_str!("../ui-tests/pass/mod.rs");

/// The compiler of the `.stderr` files.
const RUSTC: &str = "1.95.";

fn rustc(argument: &str) -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let out = Command::new(rustc).arg(argument).output().expect("rustc runs");
    String::from_utf8_lossy(&out.stdout).trim().into()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Every test except the legal twins.
fn illegal() -> Vec<PathBuf> {
    let root = Path::new("ui-tests");
    let families =
        entries(root).into_iter().filter(|path| path.is_dir() && !path.ends_with("pass"));
    let files = families.flat_map(|family| entries(&family));
    files.filter(|path| path.extension().is_some_and(|kind| kind == "rs")).collect()
}

#[test]
fn each_illegal_program_has_a_legal_twin() {
    for path in illegal() {
        let name = path.file_stem().unwrap().to_string_lossy();
        let twin = Path::new("ui-tests/pass").join(path.strip_prefix("ui-tests").unwrap());
        assert!(twin.exists(), "{} has no legal twin {}", path.display(), twin.display());
        let listed = TWINS.contains(&format!("mod {name};"));
        assert!(listed, "{} is not in ui-tests/pass/mod.rs, so it is not compiled", twin.display());
    }
}

#[test]
fn illegal_programs_are_refused_in_verbs_terms() {
    let version = rustc("--version");
    // Another compiler has other messages. That is not a mistake in the rules, but it does not pass
    // either.
    eprintln!(
        "the .stderr files are those of rustc {RUSTC}x, this is {version}; if only wording differs, \
         bless with `TRYBUILD=overwrite cargo test --test ui` and read the diff"
    );
    // With the component rust-src, rustc quotes the standard library instead of only naming the
    // file.
    let quotes = Path::new(&rustc("--print=sysroot")).join("lib/rustlib/src/rust/library").exists();
    let tests = trybuild::TestCases::new();
    for path in illegal() {
        let stderr = fs::read_to_string(path.with_extension("stderr")).unwrap_or_default();
        if quotes && stderr.contains("--> $RUST/") {
            eprintln!("{} skipped: rust-src is installed", path.display());
            continue;
        }
        tests.compile_fail(path);
    }
}
