//! Each enforced rule of RULES.md has a test that names it in its documentation, as
//! `Proves R1.1, R2.9.`, and tests name only existing rules.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How a rule is enforced, by its number.
type Rules = BTreeMap<String, String>;

/// The headings of the page: `### <a id="r1-2"></a>R1.2 (compile time; verbs.h)`.
fn headings(page: &str) -> Result<Rules, String> {
    let mut rules = Rules::new();
    for line in page.lines().filter(|line| line.starts_with("### ")) {
        let parse = || {
            let (id, rest) = line.strip_prefix("### <a id=\"")?.split_once("\"></a>")?;
            let (rule, rest) = rest.split_once(" (")?;
            let (held, source) = rest.strip_suffix(')')?.split_once("; ")?;
            let is_whole = id == rule.to_lowercase().replace('.', "-") && !source.is_empty();
            (is_whole && is_rule(rule)).then(|| (rule.to_owned(), held.to_owned()))
        };
        let (rule, held) = parse().ok_or_else(|| format!("not a heading of a rule: {line}"))?;
        if rules.insert(rule.clone(), held).is_some() {
            return Err(format!("{rule} has two headings"));
        }
    }
    Ok(rules)
}

fn is_rule(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let parts = word.strip_prefix('R').and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(section, number)| is_number(section) && is_number(number))
}

/// Whether a test must prove rules of this kind. The other kinds are documented or not offered.
fn needs_test(held: &str) -> bool {
    match held {
        "compile time" | "by construction" | "run time" => true,
        "documented" | "not offered" => false,
        _ => panic!("{held} is not a way to enforce a rule"),
    }
}

/// The rules of a comment that starts with `Proves`.
fn mark(line: &str) -> Option<Vec<&str>> {
    let comment = line.trim_start().trim_start_matches(['/', '*', '!']).trim_start();
    // Tables of traits have a title in front.
    let rest = match comment.strip_prefix("Proves ") {
        Some(rest) => rest,
        None if line.starts_with("// ") => comment.split_once(". Proves ")?.1,
        None => return None,
    };
    let words = rest.split([' ', ',', ':']).filter(|word| !word.is_empty());
    let rules = words.map(|word| word.trim_end_matches('.')).take_while(|word| is_rule(word));
    Some(rules.collect())
}

/// In Rust, a mark in the documentation of a function must belong to a test.
fn is_of_test(lines: &[&str], at: usize) -> bool {
    let code = lines[at..].iter().map(|line| line.trim());
    let mut attributes = code.skip_while(|line| line.starts_with("///"));
    attributes.by_ref().take_while(|line| line.starts_with("#[")).any(|line| line == "#[test]")
}

/// The rules that a file names, or a problem with its marks.
fn named(path: &Path, text: &str) -> Result<BTreeSet<String>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let place = format!("{}:{}", path.display(), at + 1);
        let Some(rules) = mark(line) else {
            if line.trim_start().starts_with("///") && line.contains(" Proves R") {
                return Err(format!("{place}: `Proves` does not begin its line"));
            }
            continue;
        };
        if rules.is_empty() {
            return Err(format!("{place}: names no rule"));
        }
        if line.trim_start().starts_with("///") && !is_of_test(&lines, at) {
            return Err(format!("{place}: the mark does not belong to a #[test]"));
        }
        all.extend(rules.into_iter().map(str::to_owned));
    }
    Ok(all)
}

/// The problems of a page and the test files.
fn problems(page: &str, tests: &[(PathBuf, String)]) -> Vec<String> {
    let rules = match headings(page) {
        Ok(rules) => rules,
        Err(problem) => return vec![problem],
    };
    let (mut problems, mut proved) = (Vec::new(), BTreeSet::new());
    for (path, text) in tests {
        match named(path, text) {
            Ok(named) => {
                let strange = named.iter().filter(|rule| !rules.contains_key(*rule));
                let problem = |rule| format!("{}: {rule} is not in RULES.md", path.display());
                problems.extend(strange.map(problem));
                proved.extend(named);
            }
            Err(problem) => problems.push(problem),
        }
    }
    let held = rules.iter().filter(|(rule, held)| needs_test(held) && !proved.contains(*rule));
    problems.extend(held.map(|(rule, held)| format!("no test names {rule} ({held})")));
    problems
}

/// All Rust and C files below a folder.
fn files(folder: &Path, all: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "c") {
            let text = fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
}

#[test]
fn every_enforced_rule_is_named_by_a_test() {
    let mut tests = Vec::new();
    for folder in ["src", "sys/src", "loopback/src", "tests", "ui-tests"] {
        files(Path::new(folder), &mut tests);
    }
    tests.retain(|(path, _)| path != Path::new(file!()));
    let problems = problems(&fs::read_to_string("RULES.md").unwrap(), &tests);
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The lines of a page that have a rule's number without a link: in prose, not in code.
fn unlinked(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut all = Vec::new();
    for line in page.lines() {
        in_code ^= line.starts_with("```");
        let prose = line.split('`').step_by(2).collect::<String>();
        let mut words = prose.split(|c: char| !c.is_alphanumeric() && !"[].".contains(c));
        if !in_code && words.any(|word| is_rule(word.trim_end_matches('.'))) {
            all.push(line.to_owned());
        }
    }
    all
}

#[test]
fn each_rule_number_in_the_docs_is_a_link() {
    let pages = ["DESIGN.md", "SECURITY.md", "README.md", "CONTRIBUTING.md"].map(PathBuf::from);
    let docs = fs::read_dir("docs").unwrap().chain(fs::read_dir("src/guide").unwrap());
    let docs = docs.map(|entry| entry.unwrap().path());
    for path in docs.chain(pages).filter(|path| path.extension().is_some_and(|kind| kind == "md")) {
        let bare = unlinked(&fs::read_to_string(&path).unwrap());
        assert!(bare.is_empty(), "{}: {bare:#?}", path.display());
    }
    assert_eq!(unlinked("By R1.1.\nBy [R1.1], `R1.2`.\n```text\nR1.1\n```"), ["By R1.1."]);
}

/// README and RULES.md count the rules.
#[test]
fn the_pages_count_the_rules() {
    let page = fs::read_to_string("RULES.md").unwrap();
    let rules = headings(&page).unwrap();
    let of = |kind: &str| rules.values().filter(|held| *held == kind).count();
    let [compile, construction, run] = ["compile time", "by construction", "run time"].map(of);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (readme, page) = (words(&fs::read_to_string("README.md").unwrap()), words(&page));
    let all = rules.len();
    for says in [
        format!(
            "lists {all} rules of correct verbs use and how the crate enforces each: \
                 {compile} at compile time, {construction} by construction, and {run} at run time."
        ),
        format!("The other {} are", all - compile - construction - run),
    ] {
        assert!(readme.contains(&says), "README: {says}");
    }
    for says in [
        format!("lists {all} rules"),
        format!(
            "{compile} rules are enforced at compile time, {construction} by construction and \
                 {run} at run time; {} are documented, and {} concern calls",
            of("documented"),
            of("not offered")
        ),
    ] {
        assert!(page.contains(&says), "RULES.md: {says}");
    }
}

#[test]
fn problems_are_found() {
    let page = "### <a id=\"r1-1\"></a>R1.1 (run time; a(3))\n\
                ### <a id=\"r1-2\"></a>R1.2 (documented; b(3))\n";
    let test = |text: &str| vec![(PathBuf::from("a.rs"), text.to_owned())];
    let good = test("/// Proves R1.1.\n#[test]\nfn f() {}\n// Proves R1.2, a(3): some text.\n");
    assert_eq!(problems(page, &good), [""; 0]);
    let unproved = ["no test names R1.1 (run time)"];
    assert_eq!(problems(page, &test("// R1.1\n")), unproved);
    let unknown = ["a.rs: R1.3 is not in RULES.md"];
    assert_eq!(problems(page, &test("/* Proves R1.1, R1.3: C. */")), unknown);
    assert!(problems(page, &test("/// Proves R1.1.\nfn f() {}"))[0].ends_with("to a #[test]"));
    assert!(problems(page, &test("// Proves it.\n"))[0].ends_with("names no rule"));
    assert_eq!(problems(&page.replace("r1-2", "r1-1"), &good).len(), 1);
    assert_eq!(problems(&page.replace("R1.2 (", "R1.1 ("), &good).len(), 1);
}
