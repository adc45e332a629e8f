//! tests/programs/RESULTS.md: what ran, a line a run, and the sums.

use std::fmt::Write;
use std::fs;
use std::ops::Range;

use anyhow::{Context, Result};

use super::Figures;
use crate::paths;
use crate::test::full;

const PAGE: &str = "tests/programs/RESULTS.md";
/// The lines of tests/FULL.md that say how much of them has run.
pub const FULL: [&str; 2] = [
    "programs --count 1000 --turns 100 --record",
    "programs --miri --count 2500 --turns 4 --alternate --inlined --record",
];
const HOW: [&str; 2] = ["natively", "Miri"];

/// A run, as a line of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    how: String,
    seed: u64,
    texts: String,
    turns: String,
    commit: String,
    seconds: u64,
    /// Programs; failed; in Stacked Borrows; in Tree Borrows; with threads; of these without weak
    /// memory.
    counts: [usize; 6],
}

impl Row {
    fn parse(line: &str) -> Option<Row> {
        let words: Vec<&str> = line.strip_prefix("| ")?.split('|').map(str::trim).collect();
        let [how, seed, texts, turns, commit, seconds, counts @ ..] = &words[..] else {
            return None;
        };
        let mut all = [0; 6];
        for (count, word) in all.iter_mut().zip(counts) {
            *count = word.parse().ok()?;
        }
        let (how, texts) = (how.to_string(), texts.to_string());
        let (turns, commit) = (turns.to_string(), commit.to_string());
        let (seed, seconds) = (seed.parse().ok()?, seconds.parse().ok()?);
        Some(Row { how, seed, texts, turns, commit, seconds, counts: all })
    }

    fn line(&self) -> String {
        let Row { how, seed, texts, turns, commit, seconds, counts } = self;
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        let counts = counts.join(" | ");
        format!("| {how} | {seed} | {texts} | {turns} | {commit} | {seconds} | {counts} |")
    }

    /// Whether it is a later state of the same run.
    fn continues(&self, before: &Row) -> bool {
        let begins = |row: &Row| row.texts.split("..").next().map(str::to_owned);
        let of = |row: &Row| (row.how.clone(), row.seed, begins(row), row.commit.clone());
        of(self) == of(before)
    }
}

/// Puts the run, as far as it has come, into its line of the page, and the sums into FULL.md. What
/// has run so now.
pub(super) fn record(
    ran: &Figures,
    commit: &str,
    texts: Range<u64>,
    turns: &Range<u64>,
    seconds: u64,
) -> Result<String> {
    let Figures { seed, run, miri, models, threads, open, failed, .. } = *ran;
    let row = Row {
        how: HOW[miri as usize].to_owned(),
        seed,
        texts: format!("{}..{}", texts.start, texts.end),
        turns: format!("{}..{}", turns.start, turns.end),
        commit: commit.to_owned(),
        seconds,
        counts: [run, failed, if miri { models[0] } else { 0 }, models[1], threads, open],
    };
    let path = paths::workspace().join(PAGE);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut rows: Vec<Row> = before.lines().filter_map(Row::parse).collect();
    match rows.iter_mut().find(|before| row.continues(before)) {
        Some(before) => *before = row,
        None => rows.push(row),
    }
    fs::write(&path, page(&rows)).with_context(|| format!("cannot write {}", path.display()))?;
    for (how, line) in HOW.into_iter().zip(FULL) {
        let of: Vec<&Row> = rows.iter().filter(|row| row.how == how).collect();
        if let Some(last) = of.last() {
            let seconds: u64 = of.iter().map(|row| row.seconds).sum();
            let commit = &last.commit;
            full::enter(line, &format!("in parts | {commit} | {seconds} | {} |", sum(how, &rows)))?;
        }
    }
    Ok(sum(HOW[miri as usize], &rows))
}

fn page(rows: &[Row]) -> String {
    let mut page = HEAD.to_owned();
    rows.iter().for_each(|row| page.extend([row.line().as_str(), "\n"]));
    page.push('\n');
    for how in HOW {
        let _ = writeln!(page, "- {}", sum(how, rows));
    }
    page
}

/// `Miri: 17 programs, 0 failed`, and what else is counted there.
fn sum(how: &str, rows: &[Row]) -> String {
    let mut all = [0; 6];
    for row in rows.iter().filter(|row| row.how == how) {
        all.iter_mut().zip(row.counts).for_each(|(sum, count)| *sum += count);
    }
    let [run, failed, stacked, tree, threads, open] = all;
    let mut text = format!("{how}: {run} programs, {failed} failed");
    if how == HOW[1] {
        let weak = threads - open;
        let _ =
            write!(text, "; {stacked} in Stacked Borrows, {tree} in Tree Borrows; {threads} with");
        let _ = write!(text, " threads, {weak} of them with weak memory");
    }
    text
}

const HEAD: &str = "# Generated programs that ran

`cargo xtask programs --record` writes a line of this page, and the sums. A text is drawn from the
seed and its number, and compiled once; each of its turns is a program: it picks its numbers, leaves
calls out, and has its own device and faults. Under Miri with `--alternate`, a program runs in one
of the borrow models, and the next turn of its text in the other, so that each text is run in both;
without, each program runs in both, and is counted once. Programs with threads have weak memory,
but for those in which two threads touch memory that is open to the fabric: Miri's store buffers
cannot follow bytes and words at one place.

| | seed | texts | turns | commit | seconds | programs | failed | Stacked Borrows | Tree Borrows | with threads | of these without weak memory |
|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|
";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(how: &str, texts: &str, programs: usize) -> Row {
        let [how, texts, commit] = [how, texts, "0123456, 2026-11-24"].map(str::to_owned);
        let turns = "0..4".to_owned();
        Row { how, seed: 7, texts, turns, commit, seconds: 9, counts: [programs, 0, 1, 2, 3, 1] }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let rows = [row("natively", "0..150", 600), row("Miri", "0..20", 80)];
        let read: Vec<Row> = page(&rows).lines().filter_map(Row::parse).collect();
        assert_eq!(read, rows);
        assert!(row("Miri", "0..40", 160).continues(&rows[1]));
        assert!(!row("Miri", "20..40", 80).continues(&rows[1]));
        assert!(!row("natively", "0..20", 80).continues(&rows[1]));
    }

    #[test]
    fn the_sums_are_those_of_the_lines_and_the_same_in_both_pages() {
        let read = |path: &str| fs::read_to_string(paths::workspace().join(path));
        let text = read(PAGE).expect("the page");
        let rows: Vec<Row> = text.lines().filter_map(Row::parse).collect();
        assert!(text == page(&rows), "{PAGE} is not as `--record` writes it");
        let full = read("tests/FULL.md").expect("the other page");
        for (how, line) in HOW.into_iter().zip(FULL) {
            let row = full.lines().find(|row| row.contains(line)).expect(line);
            let is_run = rows.iter().any(|row| row.how == how);
            assert_eq!(row.contains(&sum(how, &rows)), is_run, "{row}");
        }
    }
}
