//! A failing program, made as short as it gets: lines are left out while it fails in the same way.

use std::collections::BTreeSet;

use anyhow::Result;

use super::compile;
use super::draw::Program;
use super::run::{self, Failure, Job, Way};

/// Compilations at most.
const ROUNDS: usize = 14;

/// A turn of a program, with all left out that can be.
pub fn shrink(way: Way, program: &Program, failure: &Failure) -> Result<Vec<String>> {
    let mut lines = program.in_turn(failure.turn);
    for _ in 0..ROUNDS {
        let tries: Vec<Vec<String>> = candidates(&lines);
        let programs = tries.iter().enumerate().map(|(i, lines)| program.of_lines(i as u64, lines));
        let compiled = compile::compile("shrink", programs.collect())?;
        let turns = failure.turn..failure.turn + 1;
        let jobs: Vec<Job> = compiled
            .programs
            .iter()
            .map(|it| Job { number: it.number, turns: turns.clone() })
            .collect();
        // The shortest come first, and the first that fails is taken: under Miri each failure ends
        // the process.
        let ran = run::run(way, &compiled.executable, &compiled.source, &jobs, true)?;
        let same = |it: &&Failure| kind(&it.why) == kind(&failure.why);
        match ran.failures.iter().find(same).map(|it| &tries[it.number as usize]) {
            Some(best) if best.len() < lines.len() => lines = best.clone(),
            _ => break,
        }
    }
    Ok(lines)
}

/// Failures with the same words, numbers aside, are one.
pub fn kind(why: &str) -> String {
    let words = why.split_whitespace().take(8);
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphabetic()));
    words.filter(|word| word.len() > 2).collect::<Vec<_>>().join(" ")
}

/// Runs of lines left out, long ones and single ones, with all that uses what they define.
fn candidates(lines: &[String]) -> Vec<Vec<String>> {
    let mut all = BTreeSet::new();
    let mut size = lines.len() / 2;
    while size > 0 {
        for from in (0..lines.len()).step_by(size) {
            let range = from..(from + size).min(lines.len());
            all.insert(without(lines, |i| range.contains(&i)));
        }
        size /= 2;
    }
    all.remove(lines);
    let mut all: Vec<Vec<String>> = all.into_iter().collect();
    all.sort_by_key(Vec::len);
    all
}

/// A line that is left out ends what it would have moved.
pub fn without(lines: &[String], is_out: impl Fn(usize) -> bool) -> Vec<String> {
    let mut gone: BTreeSet<String> = BTreeSet::new();
    let mut kept = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_gone = words(line).any(|word| gone.contains(word));
        // Heads and tails stay together; what is dropped stays dropped, as long as it is made.
        let stays =
            line.ends_with('{') || code == "}" || code == "});" || code.starts_with("drop(");
        if !is_gone && (stays || !is_out(i)) {
            kept.push(line.clone());
            continue;
        }
        let moved = moved(code).into_iter().filter(|name| !gone.contains(*name));
        let indent = &line[..line.len() - code.len()];
        kept.extend(moved.map(|name| format!("{indent}drop({name});")));
        if let Some((defined, _)) = code.strip_prefix("let ").and_then(|it| it.split_once(" = ")) {
            gone.extend(words(defined).filter(|word| is_value(word)).map(str::to_owned));
        }
    }
    empty_blocks(kept)
}

/// Blocks without lines go.
fn empty_blocks(lines: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        let is_tail = ["}", "});"].contains(&line.trim());
        if is_tail && kept.last().is_some_and(|before| before.ends_with('{')) {
            kept.pop();
        } else {
            kept.push(line);
        }
    }
    kept
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric())
}

/// `v17`
fn is_value(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// The values that a line moves: not those of which it takes a reference.
fn moved(line: &str) -> BTreeSet<&str> {
    let code = match line.strip_prefix("let ").and_then(|it| it.split_once(" = ")) {
        Some((_, code)) => code,
        None => line,
    };
    let all = words(code).filter(|word| is_value(word)).filter(|word| {
        let at = word.as_ptr().addr() - code.as_ptr().addr();
        let lent = code[..at].ends_with("&mut ") || code[at + word.len()..].starts_with(".as_");
        !lent
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_uses_a_line_goes_with_it_and_what_it_moves_is_dropped() {
        let text = [
            "let mut v1 = f();",
            "let mut v4 = f();",
            "{",
            "let (mut v2, mut v3) = match (v1.as_mut(), v4) {};",
            "}",
            "drop(v3);",
            "g();",
        ];
        let lines = text.map(str::to_owned);
        let drops = ["let mut v4 = f();", "{", "drop(v4);", "}", "g();"];
        assert_eq!(without(&lines, |i| i == 0), drops);
        assert_eq!(without(&lines, |i| i > 4), text[..6]);
    }
}
