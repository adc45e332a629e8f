//! What callgrind wrote: the cost of each dump, the stub's left out.
//!
//! The stub switches counting on around each call and dumps after a form's last. What is summed is the
//! cost of every function outside the stub's shared object, so nothing depends on names, on inlining
//! or on functions that were merged.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::sh::Cmd;

/// `valgrind --tool=callgrind` with counting off until the stub switches it on, writing to `out`.
pub fn command(out: &Path) -> Result<Cmd> {
    // callgrind appends to an old file.
    if out.exists() {
        fs::remove_file(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let cmd = Cmd::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--combine-dumps=yes"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", out.display()));
    Ok(cmd)
}

/// The self cost of each dump by its label, without that of objects whose path begins with `stub`.
pub fn costs<'a>(text: &'a str, stub: &str) -> HashMap<&'a str, u64> {
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
        assert_eq!(costs(text, "/x")["a/b/c"], 0);
    }
}
