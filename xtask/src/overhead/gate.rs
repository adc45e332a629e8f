//! What must hold: each count of ours is at most its record.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::row::Row;
use crate::paths;

/// The counts of before.
const RECORDED: &str = "benches/recorded.toml";

const HEAD: &str = "\
# Instructions, as `cargo xtask overhead --record` saw them. A row may have 2 more, or 3 of 100. Who records more
# than before says so in CHANGELOG.md.

";

/// Whose record has the allocations of a row: none more is allowed.
const ALLOCATIONS: &str = "allocations";

/// The file.
#[derive(Deserialize)]
struct Recorded {
    /// The compilers that made the counts: others choose other instructions.
    compilers: Vec<String>,
    counts: Counts,
}

/// Instructions of each form, by `family/row/form`, and allocations.
type Counts = BTreeMap<String, f64>;

/// How much more than recorded a count may be: the optimiser's whims move rows by an instruction or
/// two.
fn most(recorded: f64) -> f64 {
    recorded + f64::max(2.0, recorded * 0.03)
}

/// What the running compilers are, where they are not those of the record: then nothing can be told
/// from the counts.
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

/// What does not hold, a line each.
pub fn failures(rows: &[Row]) -> Result<Vec<String>> {
    let recorded = recorded()?;
    let line = |(key, now): (&String, &f64)| match recorded.get(key) {
        Some(before) if *now <= *before => None,
        Some(before) if *now <= most(*before) && !key.ends_with(ALLOCATIONS) => None,
        Some(before) => Some(format!("{key}: {now}, recorded are {before}")),
        None => Some(format!("{key}: {now}, and nothing is recorded ({RECORDED})")),
    };
    Ok(counts(rows).iter().filter_map(line).collect())
}

/// Records the counts, and says which were raised.
pub fn record(rows: &[Row], versions: &[String]) -> Result<()> {
    let (before, now) = (recorded()?, counts(rows));
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

fn recorded() -> Result<Counts> {
    Ok(read()?.counts)
}

fn read() -> Result<Recorded> {
    let text = fs::read_to_string(paths::workspace().join(RECORDED)).context(RECORDED)?;
    toml::from_str(&text).context(RECORDED)
}

fn counts(rows: &[Row]) -> Counts {
    let of = |row: &Row| {
        let id = row.id();
        let mut all: Vec<_> =
            row.rust().map(|(form, count)| (format!("{id}/{form}"), count)).collect();
        // Where nothing is recorded, nothing is allocated.
        let allocations = row.allocations().0;
        all.extend((allocations != 0.0).then(|| (format!("{id}/{ALLOCATIONS}"), allocations)));
        all
    };
    rows.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_compilers_are_told_by_their_versions() {
        let lines = [
            "rustc 1.95.0 (59807616e 2026-04-14)",
            "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
            "valgrind-3.19.0",
            "rustc's LLVM version: 22.1.2",
            "Debian clang version 14.0.6",
        ];
        let told = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            (compilers(&lines), other_compilers(&lines).expect("compilers are recorded"))
        };
        let (names, other) = told(&lines);
        assert_eq!(names, ["rustc 1.95.0", "gcc 12.2.0", "clang 14.0.6"]);
        assert_eq!(other, None);
        let ubuntu = ["gcc (Ubuntu 13.2.0-23ubuntu4) 13.2.0", "Ubuntu clang version 18.1.3 (1)"];
        let (names, other) = told(&ubuntu);
        assert_eq!(names, ["gcc 13.2.0", "clang 18.1.3"]);
        assert!(other.expect("others").ends_with("here are gcc 13.2.0, clang 18.1.3"));
    }

    #[test]
    fn a_row_may_have_two_more_or_three_of_a_hundred() {
        assert_eq!([most(20.0), most(100.0), most(1000.0)], [22.0, 103.0, 1030.0]);
    }

    #[test]
    fn what_is_over_its_record_or_has_none_fails() {
        let recorded = recorded().expect("counts are recorded");
        let most = most(recorded["caller/write/typed"]);
        let row = |name: &str, count| {
            let forms = vec![("typed".to_owned(), String::new(), count)];
            Row { family: "caller".into(), name: name.into(), forms, ..Row::default() }
        };
        let failures = |row| failures(&[row]).expect("counts are recorded").len();
        assert_eq!(failures(row("write", most)), 0);
        assert_eq!(failures(row("write", most + 0.5)), 1);
        assert_eq!(failures(row("no such row", 1.0)), 1);
        let allocates = Row { allocations: vec![1.0], ..row("write", most) };
        assert_eq!(failures(allocates), 1);
    }
}
