//! Runs a program under callgrind, and counts the instructions of each call of its forms, without
//! the stub. The stub turns counting on around each call, and dumps after the last call of a form.
//! The result is the cost of all functions outside the stub's shared object, so it does not depend
//! on names, inlining or merged functions.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::progress::Step;
use crate::sh::{self, Run, cmd};

/// The costs of a program's forms.
#[derive(Default)]
pub struct Counted {
    /// Instructions per call, for each label for which it printed `count LABEL CALLS`.
    pub each: Vec<(String, f64)>,
    /// Allocator calls per call, in the same order.
    pub allocations: Vec<f64>,
}

/// The columns of callgrind's counts.
const EVENTS: &str = "events: Ir";

/// Runs a program with counting off until the stub switches it on. Objects whose path begins with
/// `stub` are left out.
pub fn run(
    program: &Path,
    args: &[OsString],
    env: &[(&str, PathBuf)],
    stub: &Path,
) -> Result<Counted> {
    let out = paths::below_target("callgrind")?.join("out");
    let _ = fs::remove_file(&out); // callgrind appends to an existing file
    let step = Step::start("Counting instructions");
    let options = [
        "--tool=callgrind",
        "--collect-atstart=no",
        "--combine-dumps=yes",
        "--compress-strings=no",
        "--compress-pos=no",
    ];
    let to = format!("--callgrind-out-file={}", out.display());
    let said = cmd!(sh::here(), "valgrind {options...} {to} {program} {args...}");
    let said = said.envs(env.iter().map(|(name, value)| (name, value))).text()?;
    let text = fs::read_to_string(&out).with_context(|| format!("{}", out.display()))?;
    let costs = costs(&text, &stub.display().to_string());
    ensure!(text.lines().any(|line| line == EVENTS), "callgrind counts something else");
    let (mut each, mut allocations) = (Vec::new(), Vec::new());
    // For all counted calls. The stub prints this at the dump, before the program does.
    let allocated: HashMap<&str, f64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("allocations ")?.rsplit_once(' '))
        .filter_map(|(label, count)| Some((label, count.parse().ok()?)))
        .collect();
    for line in said.lines().filter_map(|line| line.strip_prefix("count ")) {
        let (label, calls) = line.rsplit_once(' ').context("a count has a label and a number")?;
        let calls: f64 = calls.parse().with_context(|| format!("`{line}`"))?;
        let cost = costs.get(label).with_context(|| format!("callgrind has no `{label}`"))?;
        allocations.push(allocated.get(label).context("no count of allocations")? / calls);
        each.push((label.to_owned(), *cost as f64 / calls));
    }
    ensure!(!each.is_empty(), "nothing was counted");
    step.done("Counted");
    Ok(Counted { each, allocations })
}

/// The instructions of each dump by its label, without those of objects whose path begins with
/// `stub`.
fn costs<'a>(text: &'a str, stub: &str) -> HashMap<&'a str, u64> {
    const LABEL: &str = "desc: Trigger: Client Request: ";
    let mut costs = HashMap::new();
    let mut label = None;
    let (mut in_stub, mut is_call) = (false, false);
    for line in text.lines() {
        if line.starts_with("part:") {
            label = None;
        } else if let Some(name) = line.strip_prefix(LABEL) {
            label = Some(name);
            costs.insert(name, 0);
        } else if let Some(object) = line.strip_prefix("ob=") {
            in_stub = object.starts_with(stub);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            // The line after `calls=` is the cost of the callee, which also has its own lines.
            let is_self = !std::mem::take(&mut is_call);
            if let (true, false, Some(label)) = (is_self, in_stub, label) {
                // Zeroes at the end of a line are omitted.
                let count = line.split_whitespace().nth(1).and_then(|count| count.parse().ok());
                *costs.entry(label).or_default() += count.unwrap_or(0);
            }
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stub_and_the_callees_of_a_call_are_left_out() {
        let text = "part: 1\ndesc: Trigger: Client Request: a/b/c\nob=/x/twins.so\nfn=f\n0 40\n\
                    cob=/x/stub.so\ncfn=g\ncalls=8 0\n0 100 7\n0 16 1\n\nob=/x/stub.so\nfn=g\n7 100\n";
        assert_eq!(costs(text, "/x/stub.so")["a/b/c"], 56);
        assert_eq!(costs(text, "/x")["a/b/c"], 0);
    }
}
