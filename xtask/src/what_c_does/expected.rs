//! What is expected of the programs: `expected.toml`, read, compared and written.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};

/// One program: what is expected of it, or what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    pub kind: String,
    pub end: String,
    pub last: String,
    /// The Rust form that does not compile, or the test of what there is instead.
    pub rust: String,
    /// Why `rust` is no ui-test.
    pub why: String,
}

/// By rule, in the order of the catalogue.
pub type Cases = BTreeMap<Rule, Case>;

/// "R2.6" as (2, 6).
pub type Rule = (u32, u32);

const HEADER: &str = "\
# What C does when a rule is broken: Soft-RoCE of Linux 6.1 with rdma-core 44 (Debian 12).
# `cargo xtask what-c-does --record` writes kind, end and last; rust and why are written by hand.
";

pub fn differences(expected: &Cases, seen: &Cases) -> Vec<String> {
    let mut all = Vec::new();
    for (rule, seen) in seen {
        match expected.get(rule) {
            None => all.push(format!("{}: nothing is recorded", name(*rule))),
            Some(expected) if expected != seen => all.push(format!(
                "{}: recorded: {} | {} | {}\n    now: {} | {} | {}",
                name(*rule),
                expected.kind,
                expected.end,
                expected.last,
                seen.kind,
                seen.end,
                seen.last
            )),
            Some(_) => {}
        }
    }
    let gone = expected.keys().filter(|rule| !seen.contains_key(rule));
    all.extend(gone.map(|rule| format!("{}: recorded, but there is no program", name(*rule))));
    all
}

pub fn rule(text: &str, letter: char, separator: char) -> Option<Rule> {
    let (chapter, number) = text.strip_prefix(letter)?.split_once(separator)?;
    Some((chapter.parse().ok()?, number.parse().ok()?))
}

pub fn name((chapter, number): Rule) -> String {
    format!("R{chapter}.{number}")
}

pub fn stem((chapter, number): Rule) -> String {
    format!("r{chapter}_{number}")
}

/// As much of TOML as `print` writes: tables named by rules, and one-line strings.
pub fn parse(text: &str) -> Result<Cases> {
    let mut cases = Cases::new();
    let mut current = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(table) = line.strip_prefix("[\"").and_then(|line| line.strip_suffix("\"]")) {
            let rule = rule(table, 'R', '.').with_context(|| format!("`{table}` is no rule"))?;
            current = Some(cases.entry(rule).or_default());
            continue;
        }
        let pair = line.split_once(" = ").zip(current.as_mut());
        let ((key, value), case) = pair.with_context(|| format!("cannot read `{line}`"))?;
        let field = match key {
            "kind" => &mut case.kind,
            "end" => &mut case.end,
            "last" => &mut case.last,
            "rust" => &mut case.rust,
            "why" => &mut case.why,
            _ => bail!("there is no key `{key}`"),
        };
        // A string of JSON is one of TOML.
        *field = serde_json::from_str(value).with_context(|| format!("cannot read `{line}`"))?;
    }
    Ok(cases)
}

pub fn print(cases: &Cases) -> Result<String> {
    let mut text = String::from(HEADER);
    for (rule, case) in cases {
        writeln!(text, "\n[\"{}\"]", name(*rule))?;
        let fields = [("kind", &case.kind), ("end", &case.end), ("last", &case.last)];
        let by_hand = [("rust", &case.rust), ("why", &case.why)];
        for (key, value) in fields.into_iter().chain(by_hand) {
            if !value.is_empty() {
                writeln!(text, "{key} = {}", serde_json::to_string(value)?)?;
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_again() {
        let lines = "r10_1\texit 0\tR10.1: wrong completion: \"it's\"\nr2_8\tSIGSEGV\tR2.8: before";
        let cases: Cases = lines.lines().filter_map(super::super::observed).collect();
        let kinds: Vec<_> = cases.values().map(|case| case.kind.as_str()).collect();
        assert_eq!(kinds, ["crash", "wrong completion"]);
        let again = parse(&print(&cases).expect("it prints")).expect("it parses");
        assert_eq!(again, cases);
        assert_eq!(differences(&again, &cases), [""; 0]);
    }

    #[test]
    fn a_difference_is_seen() {
        let expected = parse("[\"R1.1\"]\nkind = \"hang\"").expect("it parses");
        let seen = Cases::from([((1, 1), Case { kind: "crash".into(), ..Case::default() })]);
        assert_eq!(differences(&expected, &seen).len(), 1);
        assert_eq!(differences(&expected, &Cases::new()).len(), 1);
        assert!(parse("[\"R1\"]").is_err() && parse("kind = \"hang\"").is_err());
    }
}
