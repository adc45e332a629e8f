//! Whether the proofs that the book names are there, and whether the ui-tests are in the book.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::book::{Book, Id};
use super::table::Tables;

/// A ui-test is read by people.
const MOST_LINES: usize = 45;

pub enum Proof<'a> {
    /// Family and file stem.
    Ui(&'a str),
    /// File and function.
    Test(&'a str, &'a str),
    Table(&'a str),
    C(&'a str),
}

impl<'a> Proof<'a> {
    pub fn parse(text: &'a str) -> Option<Proof<'a>> {
        let (kind, what) = text.split_once(':')?;
        Some(match kind {
            "ui" => Proof::Ui(what),
            "test" => {
                let (file, function) = what.split_once("::")?;
                Proof::Test(file, function)
            }
            "table" => Proof::Table(what),
            "c" => Proof::C(what),
            _ => return None,
        })
    }
}

pub fn problems(root: &Path, book: &Book, tables: &Tables) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut claims: BTreeMap<String, Vec<Id>> = BTreeMap::new();
    for (&id, entry) in &book.entries {
        for text in &entry.proofs {
            let wrong = match Proof::parse(text) {
                None => Some("is no proof: `ui:`, `test:`, `table:` or `c:`".to_owned()),
                Some(Proof::Ui(name)) => {
                    claims.entry(name.to_owned()).or_default().push(id);
                    ui(root, name)
                }
                Some(Proof::Test(file, function)) => test(root, file, function),
                Some(Proof::Table(name)) => table(tables, name, id),
                Some(Proof::C(file)) => {
                    let path = root.join("tests/what_c_does").join(file);
                    (!path.is_file()).then(|| "there is no such program".to_owned())
                }
            };
            all.extend(wrong.map(|wrong| format!("{id}: {text}: {wrong}")));
        }
    }
    for table in tables.all() {
        all.extend(unclaimed(book, &table.name, &table.rules));
    }
    all.extend(unclaimed(book, "transition", &tables.transition.rules));
    all.extend(untabled(root, tables)?);
    all.extend(present(root, book)?);
    for name in ui_tests(root)? {
        all.extend(headed(root, &name, claims.get(&name).map_or(&[], Vec::as_slice))?);
    }
    Ok(all)
}

fn ui(root: &Path, name: &str) -> Option<String> {
    let path = root.join("ui-tests").join(name);
    for extension in ["rs", "stderr"] {
        let path = path.with_extension(extension);
        if !path.is_file() {
            return Some(format!("there is no ui-tests/{name}.{extension}"));
        }
    }
    None
}

/// The function must be there, right behind a `#[test]`.
fn test(root: &Path, file: &str, function: &str) -> Option<String> {
    let Ok(text) = fs::read_to_string(root.join(file)) else {
        return Some(format!("there is no {file}"));
    };
    let wanted = format!("fn {function}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(&wanted)) else {
        return Some("there is no such function".to_owned());
    };
    let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    let is_test = attributes.into_iter().any(|line| *line == "#[test]");
    (!is_test).then(|| "the function is no test".to_owned())
}

fn table(tables: &Tables, name: &str, id: Id) -> Option<String> {
    match tables.rules_of(name) {
        None => Some("rules/table.toml has no such table".to_owned()),
        Some(rules) if !rules.contains(&id.to_string()) => {
            Some("the table does not name this rule".to_owned())
        }
        Some(_) => None,
    }
}

/// Rules that a table says it proves, and that do not name the table.
fn unclaimed(book: &Book, name: &str, rules: &[String]) -> Vec<String> {
    let proof = format!("table:{name}");
    let claims = |rule: &&String| {
        let entry = Id::parse(rule).and_then(|id| book.entries.get(&id));
        entry.is_some_and(|entry| entry.proofs.contains(&proof))
    };
    let rules = rules.iter().filter(|rule| !claims(rule));
    rules.map(|rule| format!("table `{name}` names {rule}, whose entry does not name it")).collect()
}

/// Words in the code of the crate that belong to what is said not to be offered.
fn present(root: &Path, book: &Book) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let words =
        book.entries.iter().flat_map(|(id, entry)| entry.absent.iter().map(move |w| (id, w)));
    let words: Vec<_> = words.collect();
    let mut rooms = vec![root.join("src"), root.join("macros/src")];
    while let Some(room) = rooms.pop() {
        for file in fs::read_dir(&room)? {
            let path = file?.path();
            // The software device knows what it refuses, and the bindings name all of C.
            let names_all = path.ends_with("loopback") || path.ends_with("bindings");
            if path.is_dir() && !names_all {
                rooms.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path)?;
                let code = |line: &&str| !line.trim_start().starts_with("//");
                for (id, word) in &words {
                    if text.lines().filter(code).any(|line| line.contains(word.as_str())) {
                        let file = path.strip_prefix(root).unwrap_or(&path).display();
                        all.push(format!("{id} is not offered, but {file} has `{word}`"));
                    }
                }
            }
        }
    }
    Ok(all)
}

/// Traits of `src/rules/mod.rs` that no table is about.
fn untabled(root: &Path, tables: &Tables) -> Result<Vec<String>> {
    let files = ["src/rules/mod.rs", "src/work/opcode/bounds.rs", "src/diagnostics.rs"];
    let texts: std::io::Result<Vec<_>> =
        files.iter().map(|file| fs::read_to_string(root.join(file))).collect();
    let text = texts?.concat();
    let traits = text.lines().filter_map(|line| line.strip_prefix("pub trait "));
    let names = traits.filter_map(|rest| rest.split([':', '<', ' ', '{']).next());
    let tabled = |name: &&str| {
        let word = |bound: String| bound.split(['<', ' ']).next() == Some(*name);
        tables.all().any(|table| table.columns.iter().any(|column| word(table.bound(column))))
    };
    let missing = names.filter(|name| !tabled(name));
    Ok(missing.map(|name| format!("src/rules/mod.rs: no truth table is about `{name}`")).collect())
}

/// The rules in the first line of a ui-test are those that name it.
fn headed(root: &Path, name: &str, claims: &[Id]) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("ui-tests").join(format!("{name}.rs")))?;
    let head = header(&text);
    let mut all = Vec::new();
    if head.is_empty() {
        all.push(format!("ui-tests/{name}.rs: the first line names no rule"));
    }
    for id in head.iter().filter(|id| !claims.contains(id)) {
        all.push(format!("ui-tests/{name}.rs is headed {id}, whose entry does not name it"));
    }
    if !text.lines().next().is_some_and(|line| line.contains("(3)")) {
        all.push(format!("ui-tests/{name}.rs: the first line names no manual page"));
    }
    if !text.lines().nth(1).is_some_and(|line| line.starts_with("// Enforced by ")) {
        all.push(format!("ui-tests/{name}.rs: the second line does not say `Enforced by`"));
    }
    if text.lines().count() > MOST_LINES {
        all.push(format!("ui-tests/{name}.rs has more than {MOST_LINES} lines"));
    }
    if !root.join("ui-tests/pass").join(format!("{name}.rs")).is_file() {
        all.push(format!("ui-tests/{name}.rs has no legal twin below ui-tests/pass"));
    }
    if !head.iter().any(|id| claims.contains(id)) {
        all.push(format!("ui-tests/{name}.rs: no rule that it is headed with names it"));
    }
    Ok(all)
}

/// `// R1.1, R2.2, ibv_post_send(3): ...`.
fn header(text: &str) -> Vec<Id> {
    let line = text.lines().next().unwrap_or("").trim_start_matches('/').trim();
    let ids = line.split([',', ':']).map(|word| Id::parse(word.trim()));
    ids.take_while(Option::is_some).flatten().collect()
}

/// Every ui-test but the legal twins, as `family/name`.
pub fn ui_tests(root: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for family in fs::read_dir(root.join("ui-tests"))? {
        let family = family?.path();
        if !family.is_dir() || family.ends_with("pass") {
            continue;
        }
        for file in fs::read_dir(&family)? {
            let path: PathBuf = file?.path();
            if path.extension().is_some_and(|kind| kind == "rs") {
                let stem = path.with_extension("");
                let parts = stem.iter().rev().take(2).map(|part| part.to_string_lossy());
                let parts: Vec<_> = parts.collect();
                all.push(format!("{}/{}", parts[1], parts[0]));
            }
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_rules_first() {
        let ids = header("// R11.1, R2.9, ibv_post_send(3): as R1.1.\nfn main() {}");
        assert_eq!(ids, [Id(11, 1), Id(2, 9)]);
        assert_eq!(header("use proverbs::*;"), []);
    }

    #[test]
    fn a_test_is_a_function_that_is_one() {
        let root = crate::paths::workspace();
        let here = "xtask/src/rules/proof.rs";
        assert_eq!(test(&root, here, "a_test_is_a_function_that_is_one"), None);
        assert!(test(&root, here, "header").is_some(), "not a test");
        assert!(test(&root, here, "no_such_function").is_some());
        assert!(test(&root, "no/such/file.rs", "header").is_some());
    }

    #[test]
    fn proofs_have_four_kinds() {
        let test = Proof::parse("test:tests/a.rs::b");
        assert!(matches!(test, Some(Proof::Test("tests/a.rs", "b"))));
        assert!(Proof::parse("hope:b").is_none() && Proof::parse("test:b").is_none());
    }
}
