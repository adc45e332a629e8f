//! callgrind: instructions of each form, without those of the stub.
//!
//! The stub switches counting on around each call and dumps after a form's last. What is summed is the
//! cost of every function outside the stub's shared object, so nothing depends on names, on inlining
//! or on functions that were merged.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::build::Twins;
use crate::paths;
use crate::sh::Cmd;

/// Instructions a call, of one form.
pub struct Count {
    /// `family/row/form`.
    pub label: String,
    pub instructions: f64,
}

/// Counts all forms. A form that posts something else than its twins is an error.
pub fn run(twins: &Twins, forms: &Path, what: &str) -> Result<Vec<Count>> {
    let out = paths::below_target("overhead")?.join("callgrind.out");
    // callgrind appends to an old file.
    if out.exists() {
        fs::remove_file(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let step = crate::progress::Step::start(format!("Counting instructions, {what}"));
    let mut cmd = Cmd::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--combine-dumps=yes"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(forms)
        .arg(&twins.stub);
    for (name, file) in &twins.objects {
        cmd = cmd.arg(format!("{name}={}", file.display()));
    }
    let calls = cmd.read_text()?;
    let text = fs::read_to_string(&out).with_context(|| format!("{}", out.display()))?;
    let costs = costs(&text, &twins.stub.display().to_string());
    step.done("Instructions are counted");
    join(&calls, &costs)
}

/// Divides the costs by the calls that the forms' own output tells.
fn join(calls: &str, costs: &HashMap<&str, u64>) -> Result<Vec<Count>> {
    let mut all = Vec::new();
    for line in calls.lines().filter_map(|line| line.strip_prefix("count ")) {
        let (label, calls) = line.rsplit_once(' ').context("a count has a label and a number")?;
        let calls: f64 = calls.parse().with_context(|| format!("`{line}`"))?;
        let cost = *costs.get(label).with_context(|| format!("callgrind has no `{label}`"))?;
        all.push(Count { label: label.to_owned(), instructions: cost as f64 / calls });
    }
    if all.is_empty() {
        bail!("nothing was counted");
    }
    Ok(all)
}

/// The self cost of each dump, without that of the object `stub`.
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
            in_stub = object == stub;
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            // The line after `calls=` is the cost of the callee, which has lines of its own.
            let is_self = !std::mem::take(&mut is_call);
            if let (true, false, Some(label)) = (is_self, in_stub, label) {
                let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse().ok());
                *costs.entry(label).or_insert(0) += cost.unwrap_or(0u64);
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
                    cob=/x/stub.so\ncfn=g\ncalls=8 0\n0 100\n0 16\n\nob=/x/stub.so\nfn=g\n7 100\n";
        assert_eq!(costs(text, "/x/stub.so")["a/b/c"], 56);
    }
}
