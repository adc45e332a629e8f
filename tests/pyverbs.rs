//! tests/pyverbs.toml names tests that exist, each a test, or says why there is none.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

/// What is wrong with a row's value: a test as `file::name` below `tests`, a file, or why none.
fn fault(value: &str) -> Option<String> {
    if let Some(why) = value.strip_prefix("none: ") {
        return why.trim().is_empty().then(|| "no reason".into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (file, test) = match value.split_once("::") {
        Some((file, test)) => (file, Some(test)),
        None => (value, None),
    };
    let path = match file.starts_with("ui-tests/") {
        true => root.join(file),
        false => root.join("tests").join(file),
    };
    let Ok(text) = fs::read_to_string(path) else { return Some(format!("there is no {file}")) };
    let test = test?;
    let head = format!("fn {test}(");
    let is_there = text.split("#[test]").skip(1).any(|after| {
        let function = after.lines().find(|line| line.contains("fn "));
        function.is_some_and(|line| line.contains(&head))
    });
    (!is_there).then(|| format!("{file} has no test {test}"))
}

/// The rows: the case's name, and what is said of it.
fn rows(text: &str) -> Vec<(String, &str)> {
    let (mut section, mut rows) = ("", Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            continue;
        }
        let (case, value) = line.split_once(" = ").expect("a case and its test");
        rows.push((format!("{section}.{}", case.trim_matches('"')), value.trim_matches('"')));
    }
    rows
}

#[test]
fn every_test_that_is_named_exists() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyverbs.toml"));
    let text = text.expect("the table is beside this file");
    let rows = rows(&text);
    assert!(rows.len() > 100, "{} rows", rows.len());
    let named = |value: &str| !value.starts_with("none: ");
    println!(
        "{} of {} cases have a test here",
        rows.iter().filter(|r| named(r.1)).count(),
        rows.len()
    );
    let faults: Vec<_> = rows
        .iter()
        .filter_map(|(case, value)| Some(format!("{case}: {}", fault(value)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A name that is none, a helper that is no test, a missing file and an empty reason are seen.
#[test]
fn a_wrong_name_is_seen() {
    for wrong in [
        "pyverbs.rs::no_such_test",
        "pyverbs.rs::rows",
        "no_such_file.rs::any",
        "ui-tests/no_such_file.rs",
        "none: ",
    ] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
    assert_eq!(fault("pyverbs.rs::a_wrong_name_is_seen"), None);
    assert_eq!(fault("none: it is not there"), None);
}
