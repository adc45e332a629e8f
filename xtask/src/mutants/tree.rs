//! A copy of the crate with all selected mutants, which is built once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::find::Shape;
use super::splice::{Mutant, Spliced, splice};
use super::suite::SUITES;
use crate::cargo::{self, Messages, rendered};
use crate::paths;
use crate::progress::Step;
use crate::sh::{self, cmd};
use crate::test::FEATURES;

/// The crate's files, by their path from the root.
pub type Sources = BTreeMap<String, String>;

/// By target name.
pub type Executables = Vec<(String, PathBuf)>;

pub struct Tree {
    dir: PathBuf,
}

impl Tree {
    /// A copy of the crates, below the target directory.
    pub fn new() -> Result<Tree> {
        let dir = paths::below_target("mutants")?.join("logic");
        paths::copy_crates(&dir)?;
        let mut manifest = fs::read_to_string(dir.join("Cargo.toml"))?;
        // The macros are built in place. Cargo would mistake a copy in the same target directory
        // for them, and not rebuild them when they change.
        let (member, path) = (", \"macros\"]", "path = \"macros\"");
        ensure!(manifest.contains(member) && manifest.contains(path), "Cargo.toml has no macros");
        let macros = paths::workspace().join("macros").display().to_string();
        manifest = manifest.replace(member, "]").replace(path, &format!("path = {macros:?}"));
        // Debug information would take a quarter of the build.
        manifest.push_str("\n[profile.dev.package.proverbs]\ndebug = 0\n");
        fs::write(dir.join("Cargo.toml"), manifest)?;
        Ok(Tree { dir })
    }

    /// Builds the suites with these mutants. Mutants that do not compile are left out and returned.
    pub fn build(&self, sources: &Sources, mutants: &mut Vec<Mutant>) -> Result<Build> {
        let step = Step::start(format!("Building the suites with {} mutants", mutants.len()));
        let mut dropped = Vec::new();
        loop {
            let places = self.splice(sources, mutants)?;
            match self.cargo(&places)? {
                Ok(executables) => {
                    step.done("Built the suites");
                    return Ok(Build { executables, dropped });
                }
                Err(bad) => {
                    let (out, rest) = mutants.drain(..).partition(|m| bad.contains(&m.id));
                    *mutants = rest;
                    dropped.extend::<Vec<Mutant>>(out);
                }
            }
        }
    }

    fn splice(&self, sources: &Sources, mutants: &[Mutant]) -> Result<BTreeMap<String, Spliced>> {
        let most = mutants.iter().map(|mutant| mutant.id).max().unwrap_or(0);
        let mut places = BTreeMap::new();
        for (file, text) in sources {
            let here: Vec<&Mutant> = mutants.iter().filter(|m| m.at.file == *file).collect();
            let mut spliced = splice(text, &here);
            if let Some((_, switch)) = ROOTS.iter().find(|(root, _)| root == file) {
                ensure!(here.is_empty(), "{file} contains logic, whose offsets would change");
                spliced.text.insert_str(0, LIB);
                spliced.text.push_str(switch);
            }
            let path = self.dir.join(file);
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            fs::write(&path, &spliced.text)
                .with_context(|| format!("cannot write {}", path.display()))?;
            places.insert(file.clone(), spliced);
        }
        let switch = include_str!("switch.in").replace("COUNT]", &format!("{}]", most + 1));
        fs::write(self.dir.join(SWITCH), switch)?;
        Ok(places)
    }

    /// The executables, or the mutants that do not compile.
    fn cargo(
        &self,
        places: &BTreeMap<String, Spliced>,
    ) -> Result<std::result::Result<Executables, BTreeSet<u32>>> {
        let mut args = vec!["test", "--no-run", "--quiet", "--features", FEATURES];
        let targets: BTreeSet<&str> = SUITES.iter().map(|suite| suite.target).collect();
        for target in targets {
            match target {
                "lib" => args.push("--lib"),
                "sys" => args.extend(["-p", "proverbs", "-p", "proverbs-sys"]),
                name => args.extend(["--test", name]),
            }
        }
        let build = cmd!(sh::at(&self.dir), "cargo {args...}");
        // The dependencies are the same as for the other tests.
        let build = build.env("CARGO_TARGET_DIR", paths::target()?);
        let (is_built, Messages { executables, errors }) = cargo::try_build(build)?;
        if is_built {
            return Ok(Ok(executables));
        }
        let bad: BTreeSet<u32> = errors.iter().flat_map(|error| blamed(error, places)).collect();
        if bad.is_empty() {
            let told: String = errors.iter().map(rendered).collect();
            bail!("the copy in {} does not compile:\n{told}", self.dir.display());
        }
        Ok(Err(bad))
    }
}

/// The result of a build.
pub struct Build {
    pub executables: Executables,
    /// The mutants that do not compile.
    pub dropped: Vec<Mutant>,
}

/// The switch that selects the active mutant, in both crates.
const SWITCH: &str = "sys/src/mutant_switch.rs";
/// The roots of the crates, and how each names the switch.
const ROOTS: [(&str, &str); 2] = [
    ("src/lib.rs", "\npub(crate) use proverbs_sys::mutant;\n"),
    ("sys/src/lib.rs", "\nmod mutant_switch;\npub use mutant_switch::mutant;\n"),
];

const LIB: &str =
    "#![allow(warnings, overflowing_literals, arithmetic_overflow, unconditional_panic)]\n";

/// The mutants that cause an error: the innermost mutant around a location that it names, otherwise
/// the mutants within, otherwise the statements between these locations, because a distant
/// statement may move or drop a value.
fn blamed(message: &Value, places: &BTreeMap<String, Spliced>) -> BTreeSet<u32> {
    let (mut around, mut within, mut between) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
    let at = |span: &Value, key: &str| span[key].as_u64().unwrap_or(0) as usize;
    let first = spans.iter().map(|span| at(span, "byte_start")).min().unwrap_or(0);
    let last = spans.iter().map(|span| at(span, "byte_end")).max().unwrap_or(0);
    for span in &spans {
        let (begin, end) = (at(span, "byte_start"), at(span, "byte_end"));
        let file = span["file_name"].as_str().unwrap_or_default();
        let Some(Spliced { places, .. }) = places.get(file) else { continue };
        let innermost = places.iter().filter(|p| p.bytes.start <= begin && end <= p.bytes.end);
        around.extend(innermost.min_by_key(|p| p.bytes.len()).map(|p| p.id));
        let inside = |begin: usize, end: usize| {
            places.iter().filter(move |p| begin <= p.bytes.start && p.bytes.end <= end)
        };
        within.extend(inside(begin, end).map(|p| p.id));
        let statements = inside(first, last).filter(|p| p.shape == Shape::Statement);
        between.extend(statements.map(|p| p.id));
    }
    let found = [around, within, between].into_iter().find(|found| !found.is_empty());
    // Otherwise a note names the mutant: "these reinitializations might get skipped".
    let notes = message["children"].as_array().into_iter().flatten();
    found.unwrap_or_else(|| notes.flat_map(|note| blamed(note, places)).collect())
}
