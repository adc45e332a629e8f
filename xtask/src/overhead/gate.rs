//! What must hold.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use super::row::Row;
use crate::paths;

/// The counts of before.
const RECORDED: &str = "benches/recorded.toml";

/// What does not hold, a line each.
pub fn failures(rows: &[Row]) -> Result<Vec<String>> {
    let recorded = counts(RECORDED)?;
    let notes = notes()?;
    let mut failures = Vec::new();
    for row in rows {
        let id = row.id();
        let Some((form, ours)) = row.ours() else { continue };
        if let Some(limit) = row.limit().filter(|limit| ours > *limit) {
            let of = if row.keeps_books() { "C2" } else { "the fastest C" };
            failures.push(format!("{id}: {form} Rust {ours}, {of} {limit}"));
        }
        if row.target().is_some_and(|target| ours > target) && !notes.contains(&format!("`{id}`")) {
            failures
                .push(format!("{id}: misses its target, and benches/notes.md does not say why"));
        }
        for (form, count) in row.rust() {
            let key = format!("{id}/{form}");
            if let Some(before) = recorded.get(&key).filter(|before| count > **before) {
                failures.push(format!("{key}: {count}, and it was {before} once ({RECORDED})"));
            }
        }
    }
    Ok(failures)
}

/// Why rows miss their targets, by hand.
pub fn notes() -> Result<String> {
    let file = paths::workspace().join("benches/notes.md");
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

/// The file with these counts, where they are lower than those of before.
pub fn lowered(rows: &[Row]) -> Result<String> {
    let mut all = counts(RECORDED)?;
    // Rows that are no more.
    all.retain(|key, _| rows.iter().any(|row| key.starts_with(&format!("{}/", row.id()))));
    for row in rows {
        for (form, count) in row.rust() {
            let entry = all.entry(format!("{}/{form}", row.id())).or_insert(count);
            *entry = entry.min(count);
        }
    }
    let mut text =
        "# Instructions, as `cargo xtask overhead --record` saw them. They only ever go down.\n\n"
            .to_owned();
    for (key, count) in all {
        text.push_str(&format!("\"{key}\" = {count}\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_line_is_read_back() {
        assert_eq!(parse("\"caller/write/typed\" = 25"), Some(("caller/write/typed".into(), 25.0)));
        assert_eq!(parse("\"a/b/c\" = 38.5"), Some(("a/b/c".into(), 38.5)));
    }
}
