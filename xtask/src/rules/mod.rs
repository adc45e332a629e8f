//! `cargo xtask rules --mutate`: removes each bound of a public function in turn. A ui-test that
//! names the bound's rule must then fail. The rules of a bound are the rules that its trait names
//! in its documentation or diagnostics. Removing a bound is detected if the crate no longer
//! compiles without it, or if the errors of a ui-test change whose `Proves` line has one of these
//! rules. If the trait does not name a rule, like `Send`, any ui-test may detect it.

mod bounds;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::mutants::Turn;
use crate::sh::{self, Run, cmd};
use crate::test::FEATURES;
use crate::{paths, setup};
use bounds::Mutant;

#[derive(clap::Args)]
pub struct Args {
    /// Remove the bounds one by one.
    #[arg(long, required = true)]
    mutate: bool,
    /// Only bounds whose description contains this; may be repeated.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Only every K-th bound, starting at the N-th: `1/4` to `4/4` are all of them.
    #[arg(long, value_name = "N/K")]
    turn: Option<Turn>,
}

pub fn main(args: &Args) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    let copy = Copy::new()?;
    let tests = ui_tests(&copy.dir)?;
    let mut mutants = bounds::all(&crate::mutants::sources(&copy.dir)?);
    mutants.retain(|it| args.only.is_empty() || args.only.iter().any(|t| it.what.contains(t)));
    if let Some(turn) = args.turn {
        mutants = turn.part(mutants);
    }
    let mut unnoticed = Vec::new();
    for (i, mutant) in mutants.iter().enumerate() {
        let by = copy.noticed(mutant, &tests)?;
        let (names, rules) = (Vec::from_iter(&mutant.rules), &mutant.what);
        println!("{}/{} {by:?} {names:?} | {rules}", i + 1, mutants.len());
        if by == By::Nothing {
            unnoticed.push(format!("{names:?} {}", mutant.what));
        }
    }
    println!("{} bounds removed, {} unnoticed", mutants.len(), unnoticed.len());
    if !unnoticed.is_empty() {
        bail!("no ui-test that names the rule failed:\n{}", unnoticed.join("\n"));
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum By {
    /// The crate needs the bound itself.
    Compiler,
    Ui(String),
    Nothing,
}

/// The ui-tests by file, each with the rules of its `Proves` line.
type UiTests = BTreeMap<PathBuf, BTreeSet<String>>;

/// Every ui-test, without the programs in `pass`, which must compile.
fn ui_tests(root: &Path) -> Result<UiTests> {
    let files = cmd!(sh::at(root), "find ui-tests -name *.rs -not -path */pass/*").text()?;
    let test = |file: &str| {
        let text = fs::read_to_string(root.join(file))?;
        let marks = text.lines().filter(|line| line.starts_with("// Proves "));
        Ok((PathBuf::from(file), marks.flat_map(bounds::rules_in).collect()))
    };
    files.lines().map(test).collect()
}

/// A copy of the crates, below the target directory.
struct Copy {
    dir: PathBuf,
    target: PathBuf,
    /// The crate with all its bounds.
    original: PathBuf,
    /// The errors of ui-tests with this crate, computed on demand.
    before: RefCell<BTreeMap<PathBuf, Vec<String>>>,
}

impl Copy {
    fn new() -> Result<Copy> {
        let below = paths::below_target("mutants")?;
        let (dir, target) = (below.join("tree"), below.join("target"));
        paths::copy_crates(&dir)?;
        let original = below.join("libproverbs.rmeta");
        let copy = Copy { dir, target, original, before: RefCell::default() };
        ensure!(copy.compiles()?, "the crate does not compile as it is");
        fs::copy(copy.library()?, &copy.original)?;
        Ok(copy)
    }

    fn noticed(&self, mutant: &Mutant, tests: &UiTests) -> Result<By> {
        let file = self.dir.join(&mutant.file);
        let text = fs::read_to_string(&file)?;
        fs::write(&file, &mutant.text)?;
        let compiles = self.compiles();
        fs::write(&file, text)?;
        if !compiles? {
            return Ok(By::Compiler);
        }
        let library = self.library()?;
        let names =
            |rules: &BTreeSet<String>| mutant.rules.is_empty() || !rules.is_disjoint(&mutant.rules);
        for (test, _) in tests.iter().filter(|(_, rules)| names(rules)) {
            let before = self.before.borrow().get(test).cloned();
            let before = before.map_or_else(|| self.errors(test, &self.original), Ok)?;
            self.before.borrow_mut().insert(test.clone(), before.clone());
            if self.errors(test, &library)? != before {
                return Ok(By::Ui(test.display().to_string()));
            }
        }
        Ok(By::Nothing)
    }

    fn compiles(&self) -> Result<bool> {
        let check = cmd!(sh::at(&self.dir), "cargo check --quiet --lib --features {FEATURES}");
        let (code, text) = check.env("CARGO_TARGET_DIR", &self.target).capture()?;
        ensure!(code == 0 || text.contains("could not compile"), "{text}");
        Ok(code == 0)
    }

    /// The result of the last check of the crate.
    fn library(&self) -> Result<PathBuf> {
        let mut newest = None;
        for file in fs::read_dir(self.target.join("debug/deps"))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if name.starts_with("libproverbs-") && name.ends_with(".rmeta") {
                newest = newest.max(Some((file.metadata()?.modified()?, file.path())));
            }
        }
        newest.map(|(_, path)| path).context("the crate was checked")
    }

    /// The errors of a ui-test, and their locations.
    fn errors(&self, test: &Path, library: &Path) -> Result<Vec<String>> {
        let flags = ["--edition=2024", "--crate-type=bin", "--emit=metadata", "-Awarnings", "-o"];
        let out = self.target.join("ui.rmeta");
        let path = format!("dependency={}", self.target.join("debug/deps").display());
        let library = format!("proverbs={}", library.display());
        let rustc = cmd!(sh::at(&self.dir), "rustc {flags...} {out} -L {path} --extern {library}");
        // It is expected to fail.
        let (_, text) = rustc.arg(test).capture()?;
        let says =
            |line: &&str| line.starts_with("error") || line.trim().starts_with("--> ui-tests/");
        let lines = text.lines().filter(says).filter(|line| !line.starts_with("error: aborting"));
        Ok(lines.map(|line| line.trim().to_owned()).collect())
    }
}
