//! tests/waits.toml lists each public call that waits, with the tests that check that it ends: with
//! a peer that is slow, beside a busy neighbour, while another thread ends its object, on a device
//! that is removed, and when repeated. This compares the list with the sources and the tests.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The situations in which a call that waits must end.
const SITUATIONS: [&str; 5] = ["peer", "busy", "thread", "removed", "again"];

/// A table of the list: its name, and its rows.
type Table = (String, BTreeMap<String, String>);

/// Tables whose rows are strings, the format of the list.
fn tables(text: &str) -> Vec<Table> {
    let mut all: Vec<Table> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            all.push((name.trim_matches('"').to_owned(), BTreeMap::new()));
            continue;
        }
        let (key, value) = line.split_once(" = ").expect("a name and what is said of it");
        let rows = &mut all.last_mut().expect("a table's name comes first").1;
        let is_new = rows.insert(key.trim_matches('"').into(), value.trim_matches('"').into());
        assert!(is_new.is_none(), "{key} is there twice");
    }
    all
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The problem with one test named `file::name`, below `tests` or `src`.
fn fault_of_test(named: &str) -> Option<String> {
    let Some((file, test)) = named.split_once("::") else { return Some(format!("{named}?")) };
    let folder = if file.starts_with("src/") { root().into() } else { root().join("tests") };
    let Ok(text) = fs::read_to_string(folder.join(file)) else {
        return Some(format!("there is no {file}"));
    };
    let head = format!("fn {test}(");
    let (mut is_test, mut is_there) = (false, false);
    for line in text.lines().map(str::trim_start) {
        let is_attribute = line.starts_with("#[");
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        is_there |= is_test && line.contains(&head);
        is_test &= is_attribute || line.starts_with("//");
    }
    (!is_there).then(|| format!("{file} has no test {test}"))
}

/// The problem with an entry for a situation: tests, a reference to another call, or why there are
/// none.
fn fault(said: &str, situation: &str, all: &[Table]) -> Option<String> {
    if let Some(why) = said.strip_prefix("none: ") {
        return why.trim().is_empty().then(|| "no reason".into());
    }
    if let Some(call) = said.strip_prefix("as ") {
        let there = all.iter().find(|(name, _)| name == call);
        let said = there.and_then(|(_, rows)| rows.get(situation));
        let has_tests = said.is_some_and(|said| !said.starts_with("as ") && said.contains("::"));
        return (!has_tests).then(|| format!("{call} has no test of its own"));
    }
    let tests = said.split(' ').filter_map(fault_of_test).collect::<Vec<_>>();
    (!tests.is_empty()).then(|| tests.join(", "))
}

/// The problems of the list itself.
fn faults(all: &[Table]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (i, (call, rows)) in all.iter().enumerate().filter(|(_, table)| table.0 != NOT) {
        if all[..i].iter().any(|(other, _)| other == call) {
            wrong.push(format!("{call} is there twice"));
        }
        for situation in SITUATIONS {
            match rows.get(situation) {
                None => wrong.push(format!("{call} has no entry for {situation}")),
                Some(said) => {
                    let fault = fault(said, situation, all);
                    wrong.extend(fault.map(|fault| format!("{call}, {situation}: {fault}")));
                }
            }
        }
        let unknown = rows.keys().filter(|key| !SITUATIONS.contains(&&***key));
        wrong.extend(unknown.map(|key| format!("{call}: {key} is not a situation")));
    }
    wrong
}

/// The table of calls that look as if they waited.
const NOT: &str = "not";

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // The loopback device never waits, and is not what a program waits on.
        let is_out = path == Path::new("src/loopback") || name.contains("tests");
        match () {
            () if is_out => {}
            () if path.is_dir() => sources(&path, all),
            () if name.ends_with(".rs") => all.push(path),
            () => {}
        }
    }
}

/// Whether the documentation of a call says that it waits.
fn says_that_it_waits(docs: &str) -> bool {
    let words = docs.split(|c: char| !c.is_alphanumeric()).collect::<Vec<_>>();
    let is_word = |word: &&str| {
        ["wait", "waits", "sleep", "sleeps", "seconds", "deadline", "forever"].contains(word)
            || ["Waits", "Sleeps", "Awaits"].contains(word)
    };
    words.iter().any(is_word)
}

/// The public functions of a file that wait, judged by arguments, kind or documentation: each with
/// its type.
fn waiting(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut of, mut in_trait, mut docs) = (String::new(), false, Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if let Some(words) = code.strip_prefix("///") {
            docs.push(words.trim());
            continue;
        }
        if code.starts_with("#[cfg(test)]") && lines.peek().is_some_and(|l| l.contains("mod ")) {
            break;
        }
        if code.starts_with("#[") || code.starts_with("//") {
            continue;
        }
        let docs = std::mem::take(&mut docs);
        let mut head = line.to_owned();
        let is_block = line.starts_with("impl") || line.starts_with("pub trait ");
        let is_function = code.contains("fn ") && (code.starts_with("pub ") || in_trait);
        if is_block || is_function {
            while !head.trim_end().ends_with(['{', ';', '}']) {
                let Some(next) = lines.next() else { break };
                head = format!("{head} {}", next.trim_start());
            }
        }
        if is_block {
            (in_trait, of) = (line.starts_with("pub trait "), type_of(&head));
        } else if line.starts_with('}') {
            (in_trait, of) = (false, String::new());
        }
        if is_function {
            let (before, behind) = head.split_once("fn ").unwrap();
            let name = behind.split(['<', '(']).next().unwrap();
            let takes = behind.split(" -> ").next().unwrap();
            let first = docs.split(|line| line.is_empty()).next().unwrap().join(" ");
            let is_timed = ["timeout: ", "Duration", "Instant"].iter().any(|t| takes.contains(t));
            let is_future = before.contains("async ") || behind.contains("Future");
            if is_timed || is_future || says_that_it_waits(&first) {
                let of = if of.is_empty() { String::new() } else { format!("{of}::") };
                found.push(format!("{of}{name}"));
            }
        }
    }
    found
}

/// The type of an `impl`, or the trait: `CmId<PS, S>` of `impl<PS, S: CmState> CmId<PS, S> {`.
fn type_of(head: &str) -> String {
    let mut rest = head.trim_start_matches("impl").trim_start_matches("pub trait ");
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += match c {
                '<' => 1,
                '>' => -1,
                _ => 0,
            };
            depth == 0
        });
        rest = &rest[end.expect("the brackets are closed") + 1..];
    }
    let rest = rest.split(" where").next().unwrap().trim_end_matches('{');
    rest.rsplit(" for ").next().unwrap().trim().to_owned()
}

/// All of the sources, sorted.
fn all_that_wait() -> Vec<String> {
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    assert!(files.len() > 100, "{}", files.len());
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    let mut all: Vec<String> = texts.flat_map(|text| waiting(&text)).collect();
    all.sort();
    all
}

fn list() -> Vec<Table> {
    let text = fs::read_to_string(root().join("tests/waits.toml"));
    tables(&text.expect("the list is beside this file"))
}

/// The calls of the list, and the calls of its last table.
fn listed(all: &[Table]) -> (Vec<&str>, Vec<&str>) {
    let calls = all.iter().map(|(name, _)| &**name).filter(|name| *name != NOT).collect();
    let not = all.iter().filter(|(name, _)| name == NOT);
    (calls, not.flat_map(|(_, rows)| rows.keys()).map(|key| &**key).collect())
}

/// The elements of `one` that `other` lacks.
fn beyond<'n>(one: &[&'n str], other: &[&str]) -> Vec<&'n str> {
    one.iter().filter(|name| !other.contains(name)).copied().collect()
}

#[test]
fn each_call_that_waits_is_in_the_list() {
    let all = list();
    let (calls, not) = listed(&all);
    assert!(calls.len() > 40, "{} calls", calls.len());
    let found = all_that_wait();
    let found: Vec<&str> = found.iter().map(|name| &**name).collect();
    let twice: Vec<_> = found.windows(2).filter(|two| two[0] == two[1]).collect();
    assert!(twice.is_empty(), "one name for two calls: {twice:?}");
    let known = [&calls[..], &not[..]].concat();
    let (left_out, unknown) = (beyond(&found, &known), beyond(&known, &found));
    let both = calls.iter().filter(|call| not.contains(call)).collect::<Vec<_>>();
    assert!(
        left_out.is_empty() && unknown.is_empty() && both.is_empty(),
        "not in tests/waits.toml: {left_out:#?}\nno call that waits: {unknown:#?}\nboth: {both:#?}"
    );
    let reasons = all.iter().filter(|(name, _)| name == NOT).flat_map(|(_, rows)| rows.values());
    assert!(reasons.into_iter().all(|why| !why.trim().is_empty()), "no reason");
}

#[test]
fn each_situation_has_a_test_or_a_reason() {
    let all = list();
    let wrong = faults(&all);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let said = all.iter().filter(|(name, _)| name != NOT).flat_map(|(_, rows)| rows.values());
    let (none, tested): (Vec<_>, Vec<_>) = said.partition(|said| said.starts_with("none: "));
    println!("{} situations are tested, {} cannot be", tested.len(), none.len());
}

/// docs/waiting.md has a row for each call.
#[test]
fn the_table_has_each_call() {
    let page = fs::read_to_string(root().join("docs/waiting.md")).unwrap();
    let section = page.split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with('|'));
    let cells: String = cells.filter_map(|line| line.split('|').nth(1)).collect();
    let names = cells.split('`').skip(1).step_by(2);
    let names: Vec<&str> = names.filter_map(|name| name.rsplit("::").next()).collect();
    let all = list();
    let calls = listed(&all).0.into_iter().map(|call| call.rsplit("::").next().unwrap());
    let left_out: Vec<_> = calls.filter(|call| !names.contains(call)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// The cases that the tests above must find: a new call, a removed call, an unknown name, a helper
/// that is not a test, an empty reason, a missing situation, and a call that refers to itself.
#[test]
fn problems_are_found() {
    let text = "\
pub trait Sleeper<A> {
    /// Sleeps until morning.
    fn rest(&self);
}

impl<T: Iterator<Item = ()>> Bed<T, { 1 }> {
    /// Makes a bed.
    pub fn new() -> Self {}

    /// Is made.
    ///
    /// # Errors
    /// If a thread waits.
    pub fn make(&self,) -> Duration {}

    /// Lies in it
    /// forever.
    #[inline]
    pub const fn lie(&self) {}

    pub fn rise(
        &self,
        timeout: Option<Duration>,
    ) {}

    pub(crate) async fn hidden(&self) {}
}

/// Turns.
pub async fn turn() {}

#[cfg(test)]
mod tests {
    pub async fn not_looked_at() {}
}
";
    let expected = ["Sleeper<A>::rest", "Bed<T, { 1 }>::lie", "Bed<T, { 1 }>::rise", "turn"];
    assert_eq!(waiting(text), expected);

    let all = list();
    let said = |said: &str| fault(said, "again", &all);
    for wrong in [
        "waits.rs::no_such_test",
        "waits.rs::listed",
        "no_such_file.rs::any",
        "waits.rs",
        "waits.rs::problems_are_found waits.rs::beyond",
        "none: ",
        "as NoSuch::call",
        "as QueuePair<T, Err, P>::drain",
        "as AddrInfo<PS>::look_up",
        "",
    ] {
        assert!(said(wrong).is_some(), "{wrong}");
    }
    for right in [
        "waits.rs::problems_are_found",
        "src/provider_tests/wrong_value.rs::only_a_wrong_value_is_named",
        "none: rustc refuses it",
        "as CompletionChannel::wait",
    ] {
        assert_eq!(said(right), None, "{right}");
    }

    let rows = |situations: &[&str]| -> BTreeMap<String, String> {
        situations.iter().map(|one| (one.to_string(), "none: made up".into())).collect()
    };
    let less = ["peer", "bsuy", "thread", "removed", "again"];
    let all = [("a".into(), rows(&SITUATIONS)), ("b".into(), rows(&less))];
    assert_eq!(faults(&all), ["b has no entry for busy", "b: bsuy is not a situation"]);
    let all = [("a".into(), rows(&SITUATIONS)), ("a".into(), rows(&SITUATIONS))];
    assert_eq!(faults(&all), ["a is there twice"]);
}
