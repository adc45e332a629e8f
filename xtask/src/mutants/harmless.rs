//! Changes after which nothing that anybody was promised is different, named one by one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::find::Candidate;

/// Names a change by its content, so that code may move; and says why nobody can notice.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Where it was. Code that moved is found in the file where it is now.
    pub file: String,
    pub function: String,
    /// The line where the change begins.
    pub line: String,
    pub change: String,
    /// Which one, if the function has several such lines; without, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<usize>,
    /// Equivalent, or cost or words only.
    pub why: String,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(from = "File")]
pub struct Entries {
    pub mutant: Vec<Entry>,
}

/// As it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    mutant: Vec<Group>,
}

/// An entry, or several that differ in their change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    file: String,
    function: String,
    line: String,
    change: Changes,
    nth: Option<usize>,
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Changes {
    One(String),
    Each(Vec<String>),
}

impl From<File> for Entries {
    fn from(written: File) -> Entries {
        let entries = |group: Group| {
            let changes = match group.change {
                Changes::One(change) => vec![change],
                Changes::Each(changes) => changes,
            };
            changes.into_iter().map(move |change| Entry {
                file: group.file.clone(),
                function: group.function.clone(),
                line: group.line.clone(),
                change,
                nth: group.nth,
                why: group.why.clone(),
            })
        };
        Entries { mutant: written.mutant.into_iter().flat_map(entries).collect() }
    }
}

impl Entry {
    pub fn of(candidate: &Candidate) -> Entry {
        Entry {
            file: candidate.file.clone(),
            function: candidate.function.clone(),
            line: candidate.before.clone(),
            change: candidate.what.clone(),
            nth: Some(candidate.nth),
            why: String::new(),
        }
    }

    pub fn is(&self, candidate: &Candidate) -> bool {
        self.file == candidate.file && self.is_like(candidate)
    }

    /// Wherever it is.
    fn is_like(&self, candidate: &Candidate) -> bool {
        self.function == candidate.function
            && self.line == candidate.before
            && self.change == candidate.what
            && self.nth.is_none_or(|nth| nth == candidate.nth)
    }
}

impl Entries {
    pub fn read(path: &Path) -> Result<Entries> {
        let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Follows code that moved to another file, if it is in one only.
    pub fn follow(&mut self, all: &[Candidate]) {
        for entry in &mut self.mutant {
            if all.iter().any(|candidate| entry.is(candidate)) {
                continue;
            }
            let files = all.iter().filter(|candidate| entry.is_like(candidate));
            let files: BTreeSet<&String> = files.map(|candidate| &candidate.file).collect();
            if let (1, Some(file)) = (files.len(), files.first()) {
                entry.file = (*file).clone();
            }
        }
    }

    pub fn find(&self, candidate: &Candidate) -> Option<&Entry> {
        self.mutant.iter().find(|entry| entry.is(candidate))
    }

    /// Those that match nothing any more, or say no reason.
    pub fn stale(&self, all: &[Candidate]) -> Vec<&Entry> {
        let stale = |entry: &&Entry| {
            entry.why.is_empty() || !all.iter().any(|candidate| entry.is(candidate))
        };
        self.mutant.iter().filter(stale).collect()
    }
}
