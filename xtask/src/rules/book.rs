//! The book: `rules/*.toml`, one entry a rule, and the catalogue that it must cover.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// `R1.2`: section and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub u32, pub u32);

impl Id {
    pub fn parse(text: &str) -> Option<Id> {
        let (section, number) = text.strip_prefix('R')?.split_once('.')?;
        Some(Id(section.parse().ok()?, number.parse().ok()?))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "R{}.{}", self.0, self.1)
    }
}

/// How a rule is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// A program that breaks it does not compile.
    Compile,
    /// No call of the crate breaks it.
    Construction,
    /// It comes back as a typed error.
    RunTime,
    /// The documentation says it.
    Documented,
    /// The crate has no such call.
    NotOffered,
    /// It is not held.
    Open,
}

impl Held {
    pub const ALL: [(Held, &str); 6] = [
        (Held::Compile, "compile-time"),
        (Held::Construction, "by construction"),
        (Held::RunTime, "run-time"),
        (Held::Documented, "documented"),
        (Held::NotOffered, "not offered"),
        (Held::Open, "open"),
    ];

    pub fn name(self) -> &'static str {
        let found = Held::ALL.iter().find(|(held, _)| *held == self);
        found.map_or("", |(_, name)| name)
    }
}

/// One rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The rule in a sentence.
    pub rule: String,
    /// Who says so.
    pub source: String,
    pub held: Held,
    /// By which type, trait or check.
    #[serde(default)]
    pub how: String,
    /// Why not better.
    #[serde(default)]
    pub why: String,
    /// `ui:family/name`, `test:file::function`, `table:name`, `c:file`.
    #[serde(default)]
    pub proofs: Vec<String>,
    /// Of what is not offered: words that the crate's code must not have.
    #[serde(default)]
    pub absent: Vec<String>,
}

pub struct Section {
    pub number: u32,
    pub title: String,
}

pub struct Book {
    pub sections: Vec<Section>,
    /// What could hold each rule, as the catalogue sees it: `T S R N L A F E`, `RT`, `doc`, `-`.
    pub marks: BTreeMap<Id, String>,
    pub entries: BTreeMap<Id, Entry>,
}

impl Book {
    pub fn read(root: &Path) -> Result<Book> {
        let dir = root.join("rules");
        let catalogue = fs::read_to_string(dir.join("catalogue.txt"))
            .context("rules/catalogue.txt, which lists the rules")?;
        let mut book =
            Book { sections: Vec::new(), marks: BTreeMap::new(), entries: BTreeMap::new() };
        for line in catalogue.lines() {
            book.catalogue(line).with_context(|| format!("rules/catalogue.txt: `{line}`"))?;
        }
        let mut files: Vec<_> = fs::read_dir(&dir)?.collect::<Result<_, _>>()?;
        files.sort_by_key(|file| file.file_name());
        for file in files {
            let name = file.file_name().to_string_lossy().into_owned();
            let numbered = name.starts_with(|c: char| c.is_ascii_digit());
            if numbered && name.ends_with(".toml") {
                let text = fs::read_to_string(file.path())?;
                book.section(&name, &text).with_context(|| format!("rules/{name}"))?;
            }
        }
        Ok(book)
    }

    fn catalogue(&mut self, line: &str) -> Result<()> {
        if let Some(head) = line.strip_prefix("## ") {
            let (number, title) = head.split_once(' ').context("`## number title`")?;
            self.sections.push(Section { number: number.parse()?, title: title.to_owned() });
        } else if line.starts_with('R') {
            let (id, marks) = line.split_once(' ').context("`id marks`")?;
            let id = Id::parse(id).context("an id is like R1.2")?;
            ensure!(self.marks.insert(id, marks.to_owned()).is_none(), "{id} is there twice");
        }
        Ok(())
    }

    fn section(&mut self, name: &str, text: &str) -> Result<()> {
        let section: u32 = name[..2].parse().context("the name begins with two digits")?;
        let entries: BTreeMap<String, Entry> = toml::from_str(text)?;
        for (id, entry) in entries {
            let Some(id) = Id::parse(&id) else { bail!("`{id}` is not an id like R1.2") };
            ensure!(id.0 == section, "{id} belongs to another file");
            self.entries.insert(id, entry);
        }
        Ok(())
    }

    /// What is wrong with the book itself, whatever the proofs.
    pub fn problems(&self) -> Vec<String> {
        let mut all = Vec::new();
        for id in self.marks.keys().filter(|id| !self.entries.contains_key(id)) {
            all.push(format!("{id} is in the catalogue and has no entry"));
        }
        for (id, entry) in &self.entries {
            let Some(marks) = self.marks.get(id) else {
                all.push(format!("{id} is not in the catalogue"));
                continue;
            };
            let typed = marks.split(' ').any(|mark| mark.len() == 1 && mark != "-");
            let mut wrong = |what: &str| all.push(format!("{id}: {what}"));
            if entry.rule.is_empty() || entry.source.is_empty() {
                wrong("it needs a rule and a source");
            }
            let held = matches!(entry.held, Held::Compile | Held::Construction | Held::RunTime);
            if held && entry.how.is_empty() {
                wrong("it says that it is held and not how");
            }
            if held && !entry.proofs.iter().any(|proof| !proof.starts_with("c:")) {
                wrong("it says that it is held and has no proof");
            }
            let compile = |proof: &String| proof.starts_with("ui:") || proof.starts_with("table:");
            if entry.held == Held::Compile && !entry.proofs.iter().any(compile) {
                wrong("compile-time needs a ui-test or a truth table");
            }
            if !held && entry.why.is_empty() {
                wrong("it is not held, and does not say why");
            }
            let at_run_time = entry.held == Held::RunTime;
            if typed && at_run_time && entry.why.is_empty() {
                wrong(&format!("the catalogue ({marks}) sees a type; say why it is run-time here"));
            }
            let nothing_else = matches!(marks.as_str(), "doc" | "-");
            if entry.held == Held::Documented && !nothing_else {
                wrong(&format!("the catalogue ({marks}) sees more: documentation is not enough"));
            }
            if entry.held == Held::Open {
                wrong("it is not held");
            }
            if entry.held != Held::NotOffered && !entry.absent.is_empty() {
                wrong("it is offered, so `absent` has no meaning");
            }
        }
        all
    }

    /// `N rules: C compile-time, ...`.
    pub fn summary(&self) -> String {
        let count = |held| self.entries.values().filter(|entry| entry.held == held).count();
        let counts = Held::ALL.map(|(held, name)| format!("{} {name}", count(held)));
        format!("{} rules: {}", self.entries.len(), counts.join(", "))
    }
}
