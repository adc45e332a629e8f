//! The gate: each count of a hot row must be within [`TOLERANCE`] of its record.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::row::Row;
use crate::paths;

const RECORDED: &str = "benches/recorded.toml";

const HEAD: &str = "\
# Instructions of the hot rows, written by `cargo xtask overhead --record`. A count may be 2 higher.
# A commit that records more than before gives the reason in its message.

";

/// The families that are checked. The others (`life`, `own`) are only printed.
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

/// The number of instructions by which a count may exceed its record, because the optimiser changes
/// rows by one or two.
pub const TOLERANCE: f64 = 2.0;

/// The file.
#[derive(Deserialize)]
struct Recorded {
    /// The compilers that produced the counts. Others choose other instructions.
    compilers: Vec<String>,
    counts: Counts,
}

/// Instructions of each form, by `family/row/form`.
type Counts = BTreeMap<String, f64>;

/// The difference, if these compilers are not the recorded ones.
pub fn other_compilers(versions: &[String]) -> Result<Option<String>> {
    let recorded = read()?.compilers;
    let (of, here_is) = (recorded.join(", "), versions.join(", "));
    Ok((recorded != versions).then(|| format!("the record was made with {of}; here are {here_is}")))
}

/// Returns the number of compared counts, and a line for each failure. With `whole`, a recorded
/// count that is not among `rows` is a failure too.
pub fn compare(rows: &[Row], whole: bool) -> Result<(usize, Vec<String>)> {
    let (recorded, now) = (read()?.counts, counts(rows));
    let mut failures: Vec<String> = now
        .iter()
        .filter_map(|(key, now)| match recorded.get(key) {
            Some(before) if *now <= before + TOLERANCE => None,
            Some(before) => Some(format!("{key}: {now}, but {before} is recorded")),
            None => Some(format!("{key}: {now}, but {RECORDED} has no record")),
        })
        .collect();
    let missing = recorded.keys().filter(|key| whole && !now.contains_key(*key));
    failures.extend(missing.map(|key| format!("{key}: recorded, but was not counted")));
    for row in rows.iter().filter(|row| is_hot(row) && row.our_allocations() != 0.0) {
        failures.push(format!("{}: {} allocations", row.id(), row.our_allocations()));
    }
    Ok((now.len(), failures))
}

/// Records the counts.
pub fn record(rows: &[Row], versions: &[String]) -> Result<()> {
    let lines: String =
        counts(rows).iter().map(|(key, count)| format!("\"{key}\" = {count}\n")).collect();
    let compilers = toml::Value::from(versions.to_vec());
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
    fn other_compilers_are_named() {
        let here = ["rustc 1.0.0", "gcc 13.2.0", "clang 18.1.3"].map(str::to_owned);
        let other = other_compilers(&here).expect("compilers are recorded");
        assert!(other.expect("others").ends_with("here are rustc 1.0.0, gcc 13.2.0, clang 18.1.3"));
        let recorded = read().expect("counts are recorded").compilers;
        assert_eq!(other_compilers(&recorded).expect("compilers are recorded"), None);
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
