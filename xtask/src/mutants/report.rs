//! What became of the mutants.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::find::Candidate;
use super::harmless::{Entries, Entry};
use super::tree::Sources;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Verdict {
    /// By which test.
    Noticed(String),
    NotNoticed,
    /// No test runs the line.
    NotReached,
    /// Why.
    Harmless(String),
}

impl Verdict {
    pub fn is_unnoticed(&self) -> bool {
        matches!(self, Verdict::NotNoticed | Verdict::NotReached)
    }
}

#[derive(Default, Deserialize, Serialize)]
pub struct Report(Vec<(Candidate, String, Verdict)>);

impl Report {
    pub fn add(&mut self, candidate: &Candidate, sources: &Sources, verdict: Verdict) {
        let text = sources.get(&candidate.file).map_or("", String::as_str);
        self.0.push((candidate.clone(), candidate.after(text), verdict));
    }

    /// Leaves everything for `kept`.
    pub fn keep(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_string(self)?)?)
    }

    /// What the last run left, with the list of harmless ones as it is now.
    pub fn kept(path: &Path, harmless: &Entries) -> Result<Report> {
        let text = fs::read_to_string(path).context("no run has left its verdicts")?;
        let mut report: Report = serde_json::from_str(&text)?;
        for (at, _, verdict) in report.0.iter_mut().filter(|(_, _, v)| v.is_unnoticed()) {
            if let Some(entry) = harmless.find(at) {
                *verdict = Verdict::Harmless(entry.why.clone());
            }
        }
        Ok(report)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.0.iter().filter(|(_, _, verdict)| is(verdict)).count()
    }

    fn summary(&self) -> String {
        let noticed = self.count(|v| matches!(v, Verdict::Noticed(_)));
        let unnoticed = self.count(Verdict::is_unnoticed);
        let harmless = self.count(|v| matches!(v, Verdict::Harmless(_)));
        let all = self.len();
        format!("{all} mutants: {noticed} noticed, {unnoticed} not noticed, {harmless} harmless")
    }

    /// Whether as many of 100 were noticed, of those that are not harmless.
    pub fn reaches(&self, percent: usize) -> bool {
        let noticed = self.count(|v| matches!(v, Verdict::Noticed(_)));
        noticed * 100 >= percent * (noticed + self.count(Verdict::is_unnoticed))
    }

    fn unnoticed(&self) -> impl Iterator<Item = &(Candidate, String, Verdict)> {
        let mut found: Vec<_> = self.0.iter().filter(|(_, _, v)| v.is_unnoticed()).collect();
        found.sort_by_key(|(at, _, _)| (at.file.clone(), at.line));
        found.into_iter()
    }

    pub fn print(&self) {
        for (at, after, verdict) in self.unnoticed() {
            let reached =
                if *verdict == Verdict::NotReached { "runs in no test" } else { "not noticed" };
            println!("{}:{} {}: {}, {reached}", at.file, at.line, at.function, at.what);
            println!("    - {}\n    + {after}", at.before);
        }
        println!("{}", self.summary());
    }

    /// Leaves what was not noticed in the form of the list of harmless ones, for a look at those
    /// alone.
    pub fn leave(&self, path: &Path) -> Result<()> {
        let mutant = self.unnoticed().map(|(at, _, _)| Entry::of(at)).collect();
        Ok(fs::write(path, toml::to_string(&Entries { mutant })?)?)
    }

    /// The record.
    pub fn page(&self, command: &str) -> Result<String> {
        let mut out = format!(
            "# Mutants of run-time logic\n\nMade by `{command}`. What a mutant is, and what is done with it, is told by \
             `cargo xtask mutants --help`\nand the beginning of `xtask/src/mutants/mod.rs`; the harmless ones are named in \
             `tests/mutants/harmless.toml`.\n\n**{}.**\n\n",
            self.summary()
        );
        let mut folders: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for (at, _, verdict) in &self.0 {
            let rest = at.file.strip_prefix("src/").unwrap_or(&at.file);
            let folder = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
            let column = match verdict {
                Verdict::Noticed(_) => 0,
                Verdict::NotNoticed | Verdict::NotReached => 1,
                Verdict::Harmless(_) => 2,
            };
            folders.entry(folder).or_default()[column] += 1;
        }
        writeln!(out, "| | noticed | not noticed | harmless |\n|---|---:|---:|---:|")?;
        for (folder, [noticed, unnoticed, harmless]) in folders {
            writeln!(out, "| {folder} | {noticed} | {unnoticed} | {harmless} |")?;
        }
        if self.unnoticed().next().is_some() {
            writeln!(out, "\n## Not noticed\n")?;
            for (at, after, _) in self.unnoticed() {
                writeln!(out, "- `{}` {}: {}  ", at.file, at.function, at.what)?;
                writeln!(out, "  `{}`  \n  `{after}`", at.before)?;
            }
        }
        Ok(out)
    }
}
