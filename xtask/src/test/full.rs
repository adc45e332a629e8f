//! `cargo xtask test full`: everything, without a bound on its time.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fmt::Write as _};

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::sh::{self, cmd};

/// What is run, as one would type it behind `cargo xtask`.
const COMMANDS: [&str; 23] = [
    "test",
    "test kernels",
    "miri",
    "miri --weak",
    "miri --leaks",
    "miri --big-endian",
    "holes",
    "programs --count 1000 --turns 100",
    "programs --miri --count 2500 --turns 4",
    "mutants --seed 1 --sample 2000 --record",
    "mutants --seed 1 --sample 200 --guest --record",
    "rules --mutate",
    "overhead",
    "simulate --steps 10000000 --seed 2",
    "differential",
    "load",
    "load --soft-roce",
    "two-hosts",
    "sanitize address",
    "sanitize thread",
    "sanitize memcheck",
    "fuzz",
    "package --verify --policy",
];

/// Runs them one after the other. One that fails does not keep the others from running.
pub fn run(record: bool) -> Result<()> {
    let mut page = head()?;
    let mut failed = Vec::new();
    for line in COMMANDS {
        let log = paths::below_target("test")?.join(format!("{}.log", line.replace(' ', "_")));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        eprintln!("==> cargo xtask {line}: {}", log.display());
        let start = Instant::now();
        let mut xtask = Command::new(env::current_exe().context("where this program is")?);
        xtask.args(line.split(' ')).stdin(Stdio::null());
        let status = xtask.stderr(out.try_clone()?).stdout(out).status()?;
        let seconds = start.elapsed().as_secs();
        let said = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let how = if status.success() { "passed" } else { "**failed**" };
        eprintln!("    {how}, {seconds} s: {last}");
        writeln!(page, "| `{line}` | {how} | {seconds} | {} |", last.trim().replace('|', "\\|"))?;
        if !status.success() {
            failed.push(line);
        }
    }
    if record {
        let path = paths::workspace().join("tests/FULL.md");
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    ensure!(failed.is_empty(), "these failed: {}", failed.join("; "));
    Ok(())
}

fn head() -> Result<String> {
    let format = "--format=%h, %cs";
    let commit = cmd!(sh::at(paths::workspace()), "git log -1 {format}").read()?;
    Ok(format!(
        "# The last run of everything\n\n\
         Written by `cargo xtask test full --record`, on the commit {commit}.\n\n\
         | `cargo xtask` | | seconds | its last line |\n|---|---|--:|---|\n"
    ))
}
