//! A program under callgrind: what each call of its forms costs, the stub's part left out.
//!
//! The stub switches counting on around each call and dumps after a form's last. What is summed is
//! the cost of every function outside the stub's shared object, so nothing depends on names, on
//! inlining or on functions that were merged.

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
    /// Instructions a call, of each label for which it printed `count LABEL CALLS`.
    pub each: Vec<(String, f64)>,
    /// Accesses of each, in the same order.
    pub accesses: Vec<Accesses>,
    /// Calls of the allocator, a call of each.
    pub allocations: Vec<f64>,
}

/// Accesses to memory a call.
#[derive(Clone, Copy, Default)]
pub struct Accesses {
    pub loads: f64,
    pub stores: f64,
    /// Loads and stores that missed the data cache: [`CACHE`].
    pub misses: f64,
}

/// The first data cache that callgrind simulates: 32 KiB, 8 ways, lines of 64 bytes.
const CACHE: &str = "--D1=32768,8,64";
/// What callgrind counts then, in the order of its columns.
const EVENTS: &str = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw";
type Cost = [u64; 9];

/// Runs a program with counting off until the stub switches it on. Objects whose path begins with
/// `stub` are left out.
pub fn run(
    what: &str,
    program: &Path,
    args: &[OsString],
    env: &[(&str, PathBuf)],
    stub: &Path,
) -> Result<Counted> {
    let out = paths::below_target("callgrind")?.join("out");
    let _ = fs::remove_file(&out); // callgrind appends to an old file
    let step = Step::start(format!("Counting instructions: {what}"));
    let options = [
        "--tool=callgrind",
        "--collect-atstart=no",
        "--combine-dumps=yes",
        "--compress-strings=no",
        "--compress-pos=no",
        "--cache-sim=yes",
        CACHE,
    ];
    let to = format!("--callgrind-out-file={}", out.display());
    let said = cmd!(sh::here(), "valgrind {options...} {to} {program} {args...}");
    let said = said.envs(env.iter().map(|(name, value)| (name, value))).text()?;
    let text = fs::read_to_string(&out).with_context(|| format!("{}", out.display()))?;
    let costs = costs(&text, &stub.display().to_string());
    ensure!(text.lines().any(|line| line == EVENTS), "callgrind counts something else");
    let (mut each, mut accesses, mut allocations) = (Vec::new(), Vec::new(), Vec::new());
    // Of all counted calls; the stub says so at the dump, before the program does.
    let allocated: HashMap<&str, f64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("allocations ")?.rsplit_once(' '))
        .filter_map(|(label, count)| Some((label, count.parse().ok()?)))
        .collect();
    for line in said.lines().filter_map(|line| line.strip_prefix("count ")) {
        let (label, calls) = line.rsplit_once(' ').context("a count has a label and a number")?;
        let calls: f64 = calls.parse().with_context(|| format!("`{line}`"))?;
        let cost = costs.get(label).with_context(|| format!("callgrind has no `{label}`"))?;
        let a_call = |count: u64| count as f64 / calls;
        allocations.push(allocated.get(label).context("no count of allocations")? / calls);
        let &[instructions, loads, stores, _, read_misses, write_misses, ..] = cost;
        each.push((label.to_owned(), a_call(instructions)));
        accesses.push(Accesses {
            loads: a_call(loads),
            stores: a_call(stores),
            misses: a_call(read_misses + write_misses),
        });
    }
    ensure!(!each.is_empty(), "{what}: nothing was counted");
    step.done(&format!("Counted: {what}"));
    Ok(Counted { each, accesses, allocations })
}

/// The self cost of each dump by its label, without that of objects whose path begins with `stub`.
fn costs<'a>(text: &'a str, stub: &str) -> HashMap<&'a str, Cost> {
    const LABEL: &str = "desc: Trigger: Client Request: ";
    let mut costs = HashMap::new();
    let mut label = None;
    let (mut in_stub, mut is_call) = (false, false);
    for line in text.lines() {
        if line.starts_with("part:") {
            label = None;
        } else if let Some(name) = line.strip_prefix(LABEL) {
            label = Some(name);
            costs.insert(name, Cost::default());
        } else if let Some(object) = line.strip_prefix("ob=") {
            in_stub = object.starts_with(stub);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            // The line after `calls=` is the cost of the callee, which has lines of its own.
            let is_self = !std::mem::take(&mut is_call);
            if let (true, false, Some(label)) = (is_self, in_stub, label) {
                // Zeroes at the end of a line are left out.
                let counts =
                    line.split_whitespace().skip(1).map(|count| count.parse().unwrap_or(0));
                let sums: &mut Cost = costs.entry(label).or_default();
                sums.iter_mut().zip(counts).for_each(|(sum, count): (_, u64)| *sum += count);
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
        let text = "part: 1\ndesc: Trigger: Client Request: a/b/c\nob=/x/twins.so\nfn=f\n0 40 9 8 0 3\n\
                    cob=/x/stub.so\ncfn=g\ncalls=8 0\n0 100 7\n0 16 1\n\nob=/x/stub.so\nfn=g\n7 100\n";
        assert_eq!(costs(text, "/x/stub.so")["a/b/c"], [56, 10, 8, 0, 3, 0, 0, 0, 0]);
        assert_eq!(costs(text, "/x")["a/b/c"], [0; 9]);
    }
}
