//! The gate: each count of a hot row is within [`TOLERANCE`] of its record.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::row::Row;
use crate::paths;

const RECORDED: &str = "benches/recorded.toml";

const HEAD: &str = "\
# Instructions of the hot rows, written by `cargo xtask overhead --record`. A count may be 2 higher.
# A commit that records more than before gives the reason in CHANGELOG.md.

";

/// The families that gate. The others (`life`, `own`) are only printed.
pub const HOT: [&str; 8] = [
    "caller/",
    "signal-all/",
    "selective/",
    "depth 16/",
    "prepared/",
    "extended/",
    "session/",
    "wake/",
];

/// Instructions by which a count may exceed its record: an optimiser moves rows by one or two.
pub const TOLERANCE: f64 = 2.0;

/// The file.
#[derive(Deserialize)]
struct Recorded {
    /// The compilers that made the counts: others choose other instructions.
    compilers: Vec<String>,
    counts: Counts,
}

/// Instructions of each form, by `family/row/form`.
type Counts = BTreeMap<String, f64>;

/// The difference, if these compilers are not those of the record.
pub fn other_compilers(versions: &[String]) -> Result<Option<String>> {
    let (recorded, here) = (read()?.compilers, compilers(versions));
    let (of, here_is) = (recorded.join(", "), here.join(", "));
    Ok((recorded != here).then(|| format!("the record is of {of}; here are {here_is}")))
}

/// The compilers among the tools, as `gcc 12.2.0`.
fn compilers(versions: &[String]) -> Vec<String> {
    let word = |line: &str, name: &str, at: &str| {
        let version = line.split_once(at)?.1.split_whitespace().next()?;
        Some(format!("{name} {version}"))
    };
    let of = |line: &String| match line.as_str() {
        line if line.starts_with("rustc ") => word(line, "rustc", "rustc "),
        line if line.starts_with("gcc ") => word(line, "gcc", ") "),
        line => word(line, "clang", "clang version "),
    };
    versions.iter().filter_map(of).collect()
}

/// How many counts were compared, and a line for each failure. `whole`: a recorded count that is
/// not among `rows` is a failure too.
pub fn compare(rows: &[Row], whole: bool) -> Result<(usize, Vec<String>)> {
    let (recorded, now) = (read()?.counts, counts(rows));
    let mut failures: Vec<String> = now
        .iter()
        .filter_map(|(key, now)| match recorded.get(key) {
            Some(before) if *now <= before + TOLERANCE => None,
            Some(before) => Some(format!("{key}: {now}, recorded are {before}")),
            None => Some(format!("{key}: {now}, and {RECORDED} has no record")),
        })
        .collect();
    let missing = recorded.keys().filter(|key| whole && !now.contains_key(*key));
    failures.extend(missing.map(|key| format!("{key}: recorded, and was not counted")));
    for row in rows.iter().filter(|row| is_hot(row) && row.allocations().0 != 0.0) {
        failures.push(format!("{}: {} allocations", row.id(), row.allocations().0));
    }
    Ok((now.len(), failures))
}

/// Records the counts, and prints which were raised.
pub fn record(rows: &[Row], versions: &[String]) -> Result<()> {
    let (before, now) = (read()?.counts, counts(rows));
    for (key, now) in &now {
        if let Some(before) = before.get(key).filter(|before| now > *before) {
            eprintln!("raised: {key} from {before} to {now}; say why in CHANGELOG.md");
        }
    }
    let lines: String = now.iter().map(|(key, count)| format!("\"{key}\" = {count}\n")).collect();
    let compilers = toml::Value::from(compilers(versions));
    let text = format!("{HEAD}compilers = {compilers}\n\n[counts]\n{lines}");
    fs::write(paths::workspace().join(RECORDED), text).context(RECORDED)
}

fn read() -> Result<Recorded> {
    let text = fs::read_to_string(paths::workspace().join(RECORDED)).context(RECORDED)?;
    toml::from_str(&text).context(RECORDED)
}

fn is_hot(row: &Row) -> bool {
    HOT.iter().any(|family| row.id().starts_with(family))
}

/// The counts of the hot rows.
fn counts(rows: &[Row]) -> Counts {
    let of = |row: &Row| {
        let id = row.id();
        row.rust().map(|(form, count)| (format!("{id}/{form}"), count)).collect::<Vec<_>>()
    };
    rows.iter().filter(|row| is_hot(row)).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_compilers_are_known_by_their_versions() {
        let lines = [
            "rustc 1.95.0 (59807616e 2026-04-14)",
            "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
            "valgrind-3.19.0",
            "rustc's LLVM version: 22.1.2",
            "Debian clang version 14.0.6",
        ];
        let parse = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            (compilers(&lines), other_compilers(&lines).expect("compilers are recorded"))
        };
        let (names, other) = parse(&lines);
        assert_eq!(names, ["rustc 1.95.0", "gcc 12.2.0", "clang 14.0.6"]);
        assert_eq!(other, None);
        let ubuntu = ["gcc (Ubuntu 13.2.0-23ubuntu4) 13.2.0", "Ubuntu clang version 18.1.3 (1)"];
        let (names, other) = parse(&ubuntu);
        assert_eq!(names, ["gcc 13.2.0", "clang 18.1.3"]);
        assert!(other.expect("others").ends_with("here are gcc 13.2.0, clang 18.1.3"));
    }

    #[test]
    fn every_recorded_count_is_of_a_hot_row() {
        let recorded = read().expect("counts are recorded").counts;
        let cold = recorded.keys().find(|key| !HOT.iter().any(|hot| key.starts_with(hot)));
        assert_eq!(cold, None);
    }

    #[test]
    fn a_hot_row_fails_beyond_the_tolerance_or_without_a_record() {
        let recorded = read().expect("counts are recorded").counts;
        let most = recorded["caller/write/typed"] + TOLERANCE;
        let row = |family: &str, name: &str, count| {
            let forms = vec![("typed".to_owned(), String::new(), count)];
            Row { family: family.into(), name: name.into(), forms, ..Row::default() }
        };
        let failures = |row| compare(&[row], false).expect("counts are recorded").1.len();
        assert_eq!(failures(row("caller", "write", most)), 0);
        assert_eq!(failures(row("caller", "write", most + 0.5)), 1);
        assert_eq!(failures(row("caller", "no such row", 1.0)), 1);
        assert_eq!(failures(row("life", "no such row", 1.0)), 0);
        let allocates = Row { allocations: vec![1.0], ..row("caller", "write", most) };
        assert_eq!(failures(allocates), 1);
        let (compared, missing) = compare(&[row("caller", "write", most)], true).unwrap();
        assert_eq!((compared, missing.len()), (1, recorded.len() - 1));
    }
}
