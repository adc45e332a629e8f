//! A copy of the crate with all drawn mutants in it, built once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::find::Shape;
use super::splice::{Mutant, Spliced, splice};
use super::suite::{Place, Suite};
use crate::paths;
use crate::progress::Step;
use crate::sh::{self, cmd};
use crate::test::FEATURES;

/// The crate's files, by their path from the root.
pub type Sources = BTreeMap<String, String>;

/// By target name.
pub type Executables = Vec<(String, PathBuf)>;

/// Everything that a build of the tests reads, besides the sources and the manifest.
const ALONGSIDE: [&str; 4] = ["tests", "benches/machine_code.rs", "examples", "README.md"];

pub struct Tree {
    dir: PathBuf,
}

impl Tree {
    /// The project may be edited from here on. What did not change keeps its time, and is not built
    /// again.
    pub fn new(root: &Path) -> Result<Tree> {
        let dir = paths::below_target("mutants")?.join("logic");
        for name in ALONGSIDE {
            refresh(&root.join(name), &dir.join(name))?;
        }
        refresh(&root.join("Cargo.lock"), &dir.join("Cargo.lock"))?;
        let mut manifest = paths::alone(&fs::read_to_string(root.join("Cargo.toml"))?);
        // The macros are the project's own: a copy of them, built like them into the same target
        // directory, would be taken for them, and the project's not built when they change.
        let (member, path) = (", \"macros\"]", "path = \"macros\"");
        ensure!(manifest.contains(member) && manifest.contains(path), "Cargo.toml has no macros");
        let macros = root.join("macros").display().to_string();
        manifest = manifest.replace(member, "]").replace(path, &format!("path = {macros:?}"));
        // Nobody debugs it, and it is a quarter of the time.
        manifest.push_str("\n[profile.dev.package.proverbs]\ndebug = 0\n");
        write(&dir.join("Cargo.toml"), manifest.as_bytes())?;
        Ok(Tree { dir })
    }

    /// Builds the suites with these mutants. Those that do not compile are left out and come back.
    pub fn build(&self, sources: &Sources, mutants: &mut Vec<Mutant>) -> Result<Build> {
        let step = Step::start(format!("Building the suites with {} mutants", mutants.len()));
        let mut dropped = Vec::new();
        loop {
            let places = self.splice(sources, mutants)?;
            match self.cargo(&places, Place::Here.suites())? {
                Ok(executables) => {
                    let executables = self.keep(executables)?;
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
            if file == "src/lib.rs" {
                ensure!(here.is_empty(), "there is logic in src/lib.rs, whose offsets are moved");
                spliced.text.insert_str(0, LIB);
                spliced
                    .text
                    .push_str("\nmod mutant_switch;\npub(crate) use mutant_switch::mutant;\n");
            }
            write(&self.dir.join(file), spliced.text.as_bytes())?;
            places.insert(file.clone(), spliced);
        }
        self.forget_files(sources)?;
        let switch = include_str!("switch.in").replace("COUNT]", &format!("{}]", most + 1));
        write(&self.dir.join(SWITCH), switch.as_bytes())?;
        Ok(places)
    }

    /// Copies of the executables, since the next build makes others in their place, perhaps while
    /// these run.
    fn keep(&self, executables: Executables) -> Result<Executables> {
        let dir = paths::directory(self.dir.join("suites"))?;
        let kept = executables.into_iter().map(|(name, path)| {
            let copy = dir.join(&name);
            fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
            Ok((name, copy))
        });
        kept.collect()
    }

    /// Files that the crate has no longer, as others may have their place.
    fn forget_files(&self, sources: &Sources) -> Result<()> {
        let mut folders = vec![self.dir.join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path.strip_prefix(&self.dir)?.to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if !sources.contains_key(&name) && name != SWITCH {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The executables, or the mutants that do not compile.
    fn cargo(
        &self,
        places: &BTreeMap<String, Spliced>,
        suites: &[Suite],
    ) -> Result<std::result::Result<Executables, BTreeSet<u32>>> {
        let mut args = vec!["test", "--no-run", "--quiet", "--features", FEATURES];
        let targets: BTreeSet<&str> = suites.iter().map(|suite| suite.target).collect();
        for target in targets {
            match target {
                "lib" => args.push("--lib"),
                name => args.extend(["--test", name]),
            }
        }
        args.push("--message-format=json");
        let output = cmd!(sh::at(&self.dir), "cargo {args...}")
            // Dependencies are the same as those of the other tests.
            .env("CARGO_TARGET_DIR", paths::target()?)
            .ignore_status()
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (mut executables, mut bad, mut told) = (Vec::new(), BTreeSet::new(), String::new());
        for line in text.lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let name = message["target"]["name"].as_str();
            if let (Some(path), Some(name)) = (message["executable"].as_str(), name) {
                executables.push((name.to_owned(), PathBuf::from(path)));
            }
            if message["message"]["level"] == "error" {
                bad.extend(blamed(&message["message"], places));
                told.push_str(message["message"]["rendered"].as_str().unwrap_or_default());
            }
        }
        if output.status.success() {
            return Ok(Ok(executables));
        }
        if bad.is_empty() {
            bail!("the copy in {} does not compile:\n{told}", self.dir.display());
        }
        Ok(Err(bad))
    }
}

/// What a build gave.
pub struct Build {
    pub executables: Executables,
    /// Those that do not compile.
    pub dropped: Vec<Mutant>,
}

/// Which mutant is switched on.
const SWITCH: &str = "src/mutant_switch.rs";

const LIB: &str =
    "#![allow(warnings, overflowing_literals, arithmetic_overflow, unconditional_panic)]\n";

/// The mutants that an error is about: the innermost around a place that it names, or else those
/// within, or else the statements between such places, since what moves or drops a value far away
/// is one.
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
    [around, within, between].into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// Makes `to` what `from` is, and touches nothing that is so already.
fn refresh(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        return write(to, &fs::read(from)?);
    }
    fs::create_dir_all(to)?;
    let names = |dir: &Path| -> Result<BTreeSet<_>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let path = to.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    for name in wanted.iter().filter(|name| *name != "target") {
        refresh(&from.join(name), &to.join(name))?;
    }
    Ok(())
}

/// Writes a file unless it has these contents.
fn write(path: &Path, contents: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == contents) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))
}
