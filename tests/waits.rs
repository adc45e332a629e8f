//! Each public call that waits ends, whatever happens: with a slow peer, beside a busy neighbour,
//! while another thread ends its object, on a removed device, and when it is repeated. A test that
//! shows this names the calls in its documentation, as in `Ends: CompletionChannel::wait.` This
//! file compares the names with the sources, and with docs/waiting.md.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The Rust files below a folder.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match () {
            () if path.is_dir() => files(&path, all),
            () if path.extension().is_some_and(|kind| kind == "rs") => all.push(path),
            () => {}
        }
    }
}

fn texts(folders: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    folders.iter().for_each(|folder| files(Path::new(folder), &mut all));
    // The loopback device never waits, and a program does not wait for it.
    all.retain(|path| !path.starts_with("src/loopback"));
    assert!(all.len() > 100, "{}", all.len());
    all.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The beginning of a comment that says why a function is not such a call, although it looks like
/// one.
const NOT_A_CALL: &str = "// Not a call that waits: ";

/// The public functions of a file that wait, with their types: those that take a time, futures, and
/// those whose documentation begins with "Waits" or names a time in its first paragraph.
fn waiting(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut of, mut in_trait, mut docs) = (String::new(), false, Vec::new());
    let mut is_excluded = false;
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
            is_excluded |= code.starts_with(NOT_A_CALL);
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
            let says_so = ["forever", " seconds"].iter().any(|words| first.contains(words))
                || ["Waits", "Sleeps", "Awaits"].iter().any(|word| first.starts_with(word));
            let is_timed = ["timeout: ", "Duration", "Instant"].iter().any(|t| takes.contains(t));
            let is_future = before.contains("async ") || behind.contains("Future");
            let waits = is_timed || is_future || says_so;
            assert!(waits || !is_excluded, "{name} does not look as if it waited");
            if waits && !is_excluded {
                let of = if of.is_empty() { String::new() } else { format!("{of}::") };
                found.push(format!("{of}{name}"));
            }
            is_excluded = false;
        }
    }
    found
}

/// The type of an `impl`, or the trait: `CmId` of `impl<PS, S: CmState> CmId<PS, S> {`.
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
    rest.rsplit(" for ").next().unwrap().split('<').next().unwrap().trim().to_owned()
}

/// The calls that the tests of a file name, each after `Ends:` in the documentation of a test.
fn named(text: &str) -> Vec<String> {
    let (mut found, mut docs, mut is_test) = (Vec::new(), String::new(), false);
    for line in text.lines().map(str::trim_start) {
        if let Some(words) = line.strip_prefix("///") {
            docs.push_str(words);
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            if let (true, Some((_, calls))) = (is_test, docs.split_once("Ends: ")) {
                let calls = calls.split('.').next().unwrap_or_default();
                found.extend(calls.split(", ").map(|call| call.trim().to_owned()));
            }
            (docs, is_test) = (String::new(), false);
        }
    }
    found
}

/// The calls that wait.
fn calls() -> BTreeSet<String> {
    texts(&["src"]).iter().flat_map(|text| waiting(text)).collect()
}

#[test]
fn each_call_that_waits_is_named_by_a_test() {
    let calls = calls();
    assert!(calls.len() > 40, "{calls:?}");
    let named: BTreeSet<_> = texts(&["src", "tests"]).iter().flat_map(|text| named(text)).collect();
    let left_out: Vec<_> = calls.difference(&named).collect();
    let unknown: Vec<_> = named.difference(&calls).collect();
    assert!(
        left_out.is_empty() && unknown.is_empty(),
        "no test names {left_out:?}; no call that waits: {unknown:?}"
    );
}

/// docs/waiting.md has a row for each call.
#[test]
fn the_page_has_each_call() {
    let page = fs::read_to_string("docs/waiting.md").unwrap();
    let section = page.split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with('|'));
    let cells: String = cells.filter_map(|line| line.split('|').nth(1)).collect();
    let names = cells.split('`').skip(1).step_by(2);
    let names: Vec<&str> = names.filter_map(|name| name.rsplit("::").next()).collect();
    let calls = calls();
    let calls = calls.iter().map(|call| call.rsplit("::").next().unwrap());
    let left_out: Vec<_> = calls.filter(|call| !names.contains(call)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// The calls that the tests above must find, and the names.
#[test]
fn calls_and_names_are_found() {
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
    /// If a thread sleeps forever.
    pub fn make(&self,) -> Duration {}

    /// Lies in it
    /// forever.
    #[inline]
    pub const fn lie(&self) {}

    pub fn rise(
        &self,
        timeout: Option<Duration>,
    ) {}

    // Not a call that waits: it stores a time.
    pub fn set(&self, timeout: Duration) {}

    pub(crate) async fn hidden(&self) {}
}

/// Turns.
pub async fn turn() {}

#[cfg(test)]
mod tests {
    pub async fn not_looked_at() {}
}
";
    assert_eq!(waiting(text), ["Sleeper::rest", "Bed::lie", "Bed::rise", "turn"]);
    // Written so that this file does not name them.
    let text = "\
/// Rises.
/// ENDS: Bed::lie, Bed::rise,
/// turn.
#[test]
fn rises() {}

/// ENDS: Bed::make.
fn helper() {}
";
    assert_eq!(named(&text.replace("ENDS", "Ends")), ["Bed::lie", "Bed::rise", "turn"]);
}
