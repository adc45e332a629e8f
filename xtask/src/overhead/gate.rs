//! What must hold.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::row::Row;
use crate::paths;

/// The counts of before.
const RECORDED: &str = "benches/recorded.toml";

/// Why rows miss their targets, and under which heading those that exceed C with the same checks.
const NOTES: &str = "benches/notes.md";
const ABOVE: &str = "### Above C that makes the same checks";

/// How much more than recorded a count may be: the optimiser's whims move rows by an instruction or two.
fn most(recorded: f64) -> f64 {
    recorded + f64::max(2.0, recorded * 0.03)
}

/// What does not hold, a line each.
pub fn failures(rows: &[Row]) -> Result<Vec<String>> {
    let recorded = counts(RECORDED)?;
    let notes = notes()?;
    let mut failures = Vec::new();
    for row in rows {
        let id = row.id();
        let Some((_, ours)) = row.ours() else { continue };
        let name = format!("`{id}`");
        let above = notes.split_once(ABOVE).map_or("", |(_, rest)| rest);
        let told = [
            ("C that makes the same checks", row.limit(), above.contains(&name)),
            ("its target", row.target(), notes.contains(&name)),
        ];
        for (what, count, is_told) in told {
            if let Some(count) = count.filter(|count| ours > *count && !is_told) {
                failures.push(format!("{id}: {ours}, {what} {count}; {NOTES} does not say why"));
            }
        }
        for (form, count) in row.rust() {
            let key = format!("{id}/{form}");
            match recorded.get(&key) {
                Some(before) if count <= most(*before) => {}
                Some(before) => failures.push(format!("{key}: {count}, recorded are {before}")),
                None => {
                    failures.push(format!("{key}: {count}, and nothing is recorded ({RECORDED})"))
                }
            }
        }
    }
    Ok(failures)
}

/// Why rows miss their targets, by hand.
pub fn notes() -> Result<String> {
    let file = paths::workspace().join(NOTES);
    fs::read_to_string(&file).with_context(|| format!("{}", file.display()))
}

/// Lines of `"key" = count`.
fn counts(name: &str) -> Result<BTreeMap<String, f64>> {
    let file = paths::workspace().join(name);
    if !file.exists() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let lines = text.lines().filter(|line| line.starts_with('"'));
    lines.map(|line| parse(line).with_context(|| format!("{name}: `{line}`"))).collect()
}

fn parse(line: &str) -> Option<(String, f64)> {
    let (key, count) = line.split_once('=')?;
    Some((key.trim().trim_matches('"').to_owned(), count.trim().parse().ok()?))
}

/// The file with these counts.
pub fn recorded(rows: &[Row]) -> String {
    let mut all = BTreeMap::new();
    for row in rows {
        all.extend(row.rust().map(|(form, count)| (format!("{}/{form}", row.id()), count)));
    }
    let mut text = "# Instructions, as `cargo xtask overhead --record` saw them. A row may have 2 more, or 3 of 100. Who records more\n\
                    # than before says so in CHANGELOG.md.\n\n"
        .to_owned();
    for (key, count) in all {
        text.push_str(&format!("\"{key}\" = {count}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_have_two_more_or_three_of_a_hundred() {
        assert_eq!([most(20.0), most(100.0), most(1000.0)], [22.0, 103.0, 1030.0]);
    }

    #[test]
    fn a_recorded_line_is_read_back() {
        assert_eq!(parse("\"caller/write/typed\" = 25"), Some(("caller/write/typed".into(), 25.0)));
        assert_eq!(parse("\"a/b/c\" = 38.5"), Some(("a/b/c".into(), 38.5)));
    }
}
