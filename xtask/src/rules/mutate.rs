//! `cargo xtask rules --mutate`: does something notice when a rule is broken?
//!
//! Each mutant is a change of one file in a copy of the crate. It is noticed if the crate itself no longer
//! compiles, or the truth table, or if a ui-test has other errors than before, or has them elsewhere; a change of the macros also by the conformance suite.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::mutants::{self, Kind, Mutant};
use super::proof::ui_tests;
use super::table::Tables;
use crate::sh::Cmd;
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
    /// Nothing changed.
    Equivalent(&'static str),
}

pub fn run(only: Option<&str>) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    let root = paths::workspace();
    let tables = Tables::read(&root)?;
    // From the copy on: the project may be edited meanwhile.
    let copy = Copy::new(&root)?;
    let mut mutants = mutants::all(&copy.dir, &tables)?;
    mutants.retain(|mutant| only.is_none_or(|text| mutant.what.contains(text)));
    let fails = copy.first_that_fails()?;
    ensure!(fails.is_none(), "the crate does not compile as it is; mutants would tell nothing");
    eprintln!("{} mutants; counting the errors of the ui-tests as they are", mutants.len());
    let mut before = BTreeMap::new();
    for name in ui_tests(&copy.dir)? {
        before.insert(name.clone(), copy.errors(&name)?);
    }
    let (start, mut seen) = (Instant::now(), Vec::new());
    for (i, mutant) in mutants.iter().enumerate() {
        if let Some(why) = mutant.equivalent() {
            seen.push((mutant, By::Equivalent(why)));
            continue;
        }
        let original = fs::read_to_string(copy.dir.join(mutant.file))?;
        fs::write(copy.dir.join(mutant.file), &mutant.text)?;
        let by = copy.noticed(mutant, &before);
        fs::write(copy.dir.join(mutant.file), original)?;
        let by = by?;
        println!("{}/{} {by:?} | {}", i + 1, mutants.len(), mutant.what);
        seen.push((mutant, by));
        if only.is_none() {
            fs::write(root.join("rules/mutants.md"), report(&seen, mutants.len())?)?;
        }
    }
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
        for name in
            ["src", "macros", "probe", "tests", "ui-tests", "benches", "examples", "README.md"]
        {
            if root.join(name).exists() {
                Cmd::new("cp").arg("-r").arg(root.join(name)).arg(&dir).read()?;
            }
        }
        Cmd::new("cp").arg(root.join("Cargo.lock")).arg(&dir).read()?;
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

    /// The crate, or the truth table, if it no longer compiles. In one call, which is half the time.
    fn first_that_fails(&self) -> Result<Option<By>> {
        let mut sh = Cmd::new("sh");
        for (name, value) in setup::libclang()?.env() {
            sh = sh.env(name, value);
        }
        let text = sh
            .args([
                "-c",
                "cargo check --quiet --no-default-features --test truth_table 2>&1 || echo failed",
            ])
            .current_dir(&self.dir)
            .env("CARGO_TARGET_DIR", &self.target)
            .read_text()?;
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
        let cargo = |head: &[&str], last: &[&str]| -> Result<bool> {
            let mut cmd = Cmd::new(head[0]).args(&head[1..]).args(["test", "--quiet"]);
            for (name, value) in setup::libclang()?.env() {
                cmd = cmd.env(name, value);
            }
            let cmd = cmd.args(["--test", name]).args(last).current_dir(&self.dir);
            Ok(cmd.env("CARGO_TARGET_DIR", &self.target).succeeds())
        };
        Ok(cargo(&["cargo"], &["--no-run"])? && cargo(&["timeout", MOST_SECONDS, "cargo"], &[])?)
    }

    /// The errors of a ui-test, and where in it they are.
    fn errors(&self, name: &str) -> Result<Vec<String>> {
        let deps = self.target.join("debug/deps");
        let library = newest_library(&deps)?;
        // rustc tells on stderr, and its failure is what is expected.
        let text = Cmd::new("sh")
            .args(["-c", "rustc \"$@\" 2>&1 || true", "sh"])
            .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "-Awarnings", "-o"])
            .arg(self.target.join("ui.rmeta"))
            .arg("-L")
            .arg(format!("dependency={}", deps.display()))
            .arg("--extern")
            .arg(format!("proverbs={}", library.display()))
            .arg(format!("ui-tests/{name}.rs"))
            .current_dir(&self.dir)
            .read_text()?;
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

fn report(seen: &[(&Mutant, By)], total: usize) -> Result<String> {
    let mut out = String::from(include_str!("mutants.in"));
    let unnoticed: Vec<_> = seen.iter().filter(|(_, by)| *by == By::Nobody).collect();
    writeln!(out, "\n**{} of {total} mutants run, {} unnoticed.**\n", seen.len(), unnoticed.len())?;
    writeln!(
        out,
        "| mutants | run | the crate | the truth table | another test | a ui-test | nothing changes | nobody |"
    )?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|---:|")?;
    for (kind, name) in [
        (Kind::IllegalImpl, "an illegal impl added"),
        (Kind::LostImpl, "an impl of `src/rules.rs` removed"),
        (Kind::LostBound, "a bound removed"),
        (Kind::Emitted, "another expansion of the macros"),
    ] {
        let of = || seen.iter().filter(|(mutant, _)| mutant.kind == kind);
        let by = |is: fn(&By) -> bool| of().filter(|(_, by)| is(by)).count();
        let (own, table) = (by(|by| *by == By::Crate), by(|by| *by == By::TruthTable));
        let (ui, nobody) = (by(|by| matches!(by, By::Ui(_))), by(|by| *by == By::Nobody));
        let same = by(|by| matches!(by, By::Equivalent(_)));
        let count = of().count();
        let test = by(|by| matches!(by, By::Test(_)));
        writeln!(
            out,
            "| {name} | {count} | {own} | {table} | {test} | {ui} | {same} | {nobody} |"
        )?;
    }
    if !unnoticed.is_empty() {
        writeln!(out, "\n## Unnoticed\n")?;
        for (mutant, _) in &unnoticed {
            writeln!(out, "- {}", mutant.what)?;
        }
    }
    writeln!(out, "\n## All\n\n| mutant | noticed by |\n|---|---|")?;
    for (mutant, by) in seen {
        let by = match by {
            By::Crate => "the crate does not compile".to_owned(),
            By::TruthTable => "the truth table".to_owned(),
            By::Test(name) => format!("`{name}`"),
            By::Ui(name) => format!("[{name}](../ui-tests/{name}.rs)"),
            By::Nobody => "**nobody**".to_owned(),
            By::Equivalent(why) => format!("nothing changes: {why}"),
        };
        let what = mutant.what.replace('|', "\\|");
        writeln!(
            out,
            "| {} | {by} |",
            if what.contains('`') { what } else { format!("`{what}`") }
        )?;
    }
    Ok(out)
}
