//! `cargo xtask test full`: everything, without a bound on its time.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fmt::Write as _};

use anyhow::{Context, Result, ensure};

use crate::paths;
use crate::programs::results;
use crate::sh::{self, cmd};

/// What is run, as one would type it behind `cargo xtask`.
const COMMANDS: [&str; 30] = [
    "test",
    "test kernels --kernel 6.12 --library host",
    "test kernels --kernel 6.12 --library newest",
    "test kernels --kernel 7.3 --library host",
    "test kernels --kernel 7.3 --library newest",
    "test perftest --library host",
    "test perftest --library newest",
    "test siw",
    "miri --inlined",
    "miri --weak --inlined",
    "miri --leaks",
    "miri --big-endian",
    "holes",
    results::FULL[0],
    results::FULL[1],
    "mutants --seed 20261201 --sample 2000 --record",
    "mutants --seed 20261127 --sample 200 --guest --record",
    "rules --mutate",
    "overhead",
    "simulate --steps 10000000 --seed 2",
    "differential",
    "load",
    "load --soft-roce",
    "two-hosts",
    "hardware --guests",
    "sanitize address",
    "sanitize thread",
    "sanitize memcheck",
    "fuzz",
    "package --verify --policy",
];

/// Runs them one after the other, or those of `only`. One that fails does not keep the others from
/// running. A record keeps what it had of the lines that were not run now, each with its commit.
pub fn run(only: &[String], record: bool) -> Result<()> {
    for line in only {
        ensure!(COMMANDS.contains(&line.as_str()), "`{line}` is none of: {}", COMMANDS.join("; "));
    }
    let of = commit()?;
    let mut failed = Vec::new();
    let is_asked = |line: &&str| only.is_empty() || only.iter().any(|one| one == line);
    for line in COMMANDS.into_iter().filter(is_asked) {
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
        let last = tells_most(&said);
        let how = if status.success() { "passed" } else { "**failed**" };
        eprintln!("    {how}, {seconds} s: {last}");
        if record {
            let last = last.trim().replace('|', "\\|");
            enter(line, &format!("{how} | {of} | {seconds} | {last} |"))?;
        }
        if !status.success() {
            failed.push(line);
        }
    }
    ensure!(failed.is_empty(), "these failed: {}", failed.join("; "));
    Ok(())
}

/// Writes what was seen of a line into the page.
pub fn enter(line: &str, seen: &str) -> Result<()> {
    let path = paths::workspace().join("tests/FULL.md");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let mut page = HEAD.to_owned();
    for command in COMMANDS {
        let begins = format!("| `{command}` | ");
        let had = before.lines().find_map(|row| row.strip_prefix(&begins));
        let row = if command == line { seen } else { had.unwrap_or("not run | | | |") };
        writeln!(page, "{begins}{row}")?;
    }
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The last line that begins with `seen: `, without that; or the last one.
fn tells_most(said: &str) -> &str {
    let mut lines = said.lines().rev();
    let seen = lines.clone().find_map(|line| line.strip_prefix(SEEN));
    seen.or_else(|| lines.find(|line| !line.trim().is_empty())).unwrap_or_default()
}

/// How a line begins that says what was seen.
const SEEN: &str = "seen: ";

/// The commit that is run, and its day.
pub fn commit() -> Result<String> {
    let format = "--format=%h, %cs";
    Ok(cmd!(sh::at(paths::workspace()), "git log -1 {format}").read()?)
}

const HEAD: &str = "# The last run of everything

Written by `cargo xtask test full --record`, or of one line by
`cargo xtask test full --record --line LINE`. Each line names the commit that it was run on.

| `cargo xtask` | | commit | seconds | what it said |
|---|---|---|--:|---|
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soft_roce::NAMED;

    /// The first kernel is that of `test`.
    #[test]
    fn each_kernel_has_a_line_with_each_library() {
        for kernel in &NAMED[1..] {
            for library in ["host", "newest"] {
                let line = format!("test kernels --kernel {kernel} --library {library}");
                assert!(COMMANDS.contains(&&line[..]), "{line}");
            }
        }
        let lines = COMMANDS.iter().filter(|line| line.starts_with("test kernels"));
        assert_eq!(lines.count(), 2 * (NAMED.len() - 1));
    }

    #[test]
    fn the_line_that_says_what_was_seen_is_taken() {
        assert_eq!(tells_most("seen: 3\nseen: 4\n1 passed\n\n"), "4");
        assert_eq!(tells_most("a\n1 passed\n \n"), "1 passed");
        assert_eq!(tells_most(""), "");
    }
}
