//! `cargo xtask rules --mutate`: does something notice when a rule is broken?
//!
//! Each mutant is a change of one file in a copy of the crate. It is noticed if the crate itself no
//! longer compiles, or the truth table, or if a ui-test has other errors than before, or has them
//! elsewhere; a change of the macros also by the conformance suite.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::mutants::{self, Kind, Mutant};
use super::proof::ui_tests;
use super::table::Tables;
use crate::sh::{self, Cmd, Run, cmd};
use crate::test::FEATURES;
use crate::{paths, setup};

/// How long a test of a mutant may run; unharmed it takes a second.
const MOST_SECONDS: &str = "60";

/// Who noticed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Crate,
    TruthTable,
    Test(&'static str),
    Ui(String),
    Nobody,
}

pub fn run(only: &[String]) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    let root = paths::workspace();
    let tables = Tables::read(&root)?;
    // From the copy on: the project may be edited meanwhile.
    let copy = Copy::new(&root)?;
    let mut mutants = mutants::all(&copy.dir, &tables)?;
    let is_asked = |what: &str| only.is_empty() || only.iter().any(|text| what.contains(text));
    mutants.retain(|mutant| is_asked(&mutant.what));
    let fails = copy.first_that_fails()?;
    ensure!(fails.is_none(), "the crate does not compile as it is; mutants would tell nothing");
    eprintln!("{} mutants; counting the errors of the ui-tests as they are", mutants.len());
    let mut before = BTreeMap::new();
    for name in ui_tests(&copy.dir)? {
        before.insert(name.clone(), copy.errors(&name)?);
    }
    let (start, mut seen) = (Instant::now(), Vec::new());
    for (i, mutant) in mutants.iter().enumerate() {
        let original = fs::read_to_string(copy.dir.join(&mutant.file))?;
        fs::write(copy.dir.join(&mutant.file), &mutant.text)?;
        let by = copy.noticed(mutant, &before);
        fs::write(copy.dir.join(&mutant.file), original)?;
        let by = by?;
        println!("{}/{} {by:?} | {}", i + 1, mutants.len(), mutant.what);
        seen.push((mutant, by));
    }
    report(&seen);
    let survivors = seen.iter().filter(|(_, by)| *by == By::Nobody).count();
    println!("{} mutants in {} s, {survivors} unnoticed", seen.len(), start.elapsed().as_secs());
    if survivors != 0 {
        bail!("{survivors} mutants were not noticed");
    }
    Ok(())
}

/// The crate without the rest of the workspace, below the target directory.
struct Copy {
    dir: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn new(root: &Path) -> Result<Copy> {
        let dir = paths::below_target("mutants")?.join("tree");
        let _ = fs::remove_dir_all(&dir);
        paths::directory(dir.clone())?;
        for name in ["src", "macros", "tests", "ui-tests", "benches", "examples", "README.md"] {
            if root.join(name).exists() {
                cmd!(sh::at(root), "cp -r {name} {dir}").bytes()?;
            }
        }
        fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let manifest = paths::alone(&manifest);
        fs::write(dir.join("Cargo.toml"), manifest)?;
        Ok(Copy { dir, target: paths::below_target("mutants")?.join("target") })
    }

    fn noticed(&self, mutant: &Mutant, before: &BTreeMap<String, Vec<String>>) -> Result<By> {
        match self.first_that_fails()? {
            None => {}
            Some(by) => return Ok(by),
        }
        if mutant.kind == Kind::Emitted && !self.test("conformance")? {
            return Ok(By::Test("tests/conformance"));
        }
        // Those first whose message names what was lost.
        let mut names: Vec<&String> = before.keys().collect();
        names.sort_by_key(|name| {
            let message = self.dir.join("ui-tests").join(name).with_extension("stderr");
            let message = fs::read_to_string(message).unwrap_or_default();
            let hits = mutant.names.iter().filter(|name| message.contains(*name)).count();
            std::cmp::Reverse(hits)
        });
        for name in names {
            if self.errors(name)? != before[name] {
                return Ok(By::Ui(name.clone()));
            }
        }
        Ok(By::Nobody)
    }

    /// The crate, or the truth table, if it no longer compiles. In one call, which is half the
    /// time.
    fn first_that_fails(&self) -> Result<Option<By>> {
        let check = format!("cargo check --quiet --features {FEATURES} --test truth_table");
        let script = format!("{check} 2>&1 || echo failed");
        let text = cmd!(sh::at(&self.dir), "sh -c {script}");
        let text = text.env("CARGO_TARGET_DIR", &self.target).text()?;
        let by = if text.contains("could not compile `proverbs` (lib)")
            || text.contains("`proverbs-macros`")
        {
            By::Crate
        } else {
            By::TruthTable
        };
        Ok(text.trim_end().ends_with("failed").then_some(by))
    }

    /// Whether a test of the copy compiles and passes. A mutant may also wait for ever.
    fn test(&self, name: &str) -> Result<bool> {
        let sh = sh::at(&self.dir);
        let test = |cmd: Cmd<'_>| cmd.env("CARGO_TARGET_DIR", &self.target).succeeds();
        let args = ["test", "--quiet", "--features", FEATURES, "--test", name];
        Ok(test(cmd!(sh, "cargo {args...} --no-run"))
            && test(cmd!(sh, "timeout {MOST_SECONDS} cargo {args...}")))
    }

    /// The errors of a ui-test, and where in it they are.
    fn errors(&self, name: &str) -> Result<Vec<String>> {
        let deps = self.target.join("debug/deps");
        let library = newest_library(&deps)?;
        let flags = ["--edition=2024", "--crate-type=bin", "--emit=metadata", "-Awarnings", "-o"];
        let out = self.target.join("ui.rmeta");
        let path = format!("dependency={}", deps.display());
        let library = format!("proverbs={}", library.display());
        let rustc = cmd!(sh::at(&self.dir), "rustc {flags...} {out} -L {path} --extern {library}");
        // Its failure is what is expected.
        let (_, text) = rustc.arg(format!("ui-tests/{name}.rs")).capture()?;
        let told =
            |line: &&str| line.starts_with("error") || line.trim().starts_with("--> ui-tests/");
        let lines = text.lines().filter(told).filter(|line| !line.starts_with("error: aborting"));
        Ok(lines.map(|line| line.trim().to_owned()).collect())
    }
}

/// The crate as it was checked last.
pub(super) fn newest_library(deps: &Path) -> Result<PathBuf> {
    let mut newest = None;
    for file in fs::read_dir(deps)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with("libproverbs-") && name.ends_with(".rmeta") {
            newest = newest.max(Some((file.metadata()?.modified()?, file.path())));
        }
    }
    newest.map(|(_, path)| path).context("the crate was checked")
}

/// How many were noticed by what, for each kind.
fn report(seen: &[(&Mutant, By)]) {
    for (kind, name) in [
        (Kind::IllegalImpl, "an illegal impl added"),
        (Kind::LostImpl, "an impl of src/rules/mod.rs removed"),
        (Kind::LostBound, "a bound removed"),
        (Kind::Emitted, "another expansion of the macros"),
    ] {
        let of = || seen.iter().filter(|(mutant, _)| mutant.kind == kind).map(|(_, by)| by);
        let by = |is: fn(&By) -> bool| of().filter(|by| is(by)).count();
        println!(
            "{name}: {}, noticed by the crate {}, the truth table {}, another test {}, a ui-test {}",
            of().count(),
            by(|by| *by == By::Crate),
            by(|by| *by == By::TruthTable),
            by(|by| matches!(by, By::Test(_))),
            by(|by| matches!(by, By::Ui(_))),
        );
    }
}
