//! `cargo xtask two-hosts`: two Soft-RoCE hosts, and what a fabric and a dying peer do to the crate.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::soft_roce::{self, Guest};
use crate::{Outcome, cargo, figures, paths};

/// Each runs on both hosts at the same time.
const SCENARIOS: [&str; 6] =
    ["rc-loss", "uc-loss", "ud-loss", "peer-killed", "link-down", "device-removed"];

#[derive(clap::Args)]
pub struct Args {
    /// Which, and in which order; without, all of them.
    #[arg(value_parser = SCENARIOS)]
    scenarios: Vec<String>,
    /// Write what was seen to tests/two_hosts/RESULTS.md, and what host 1 says to FAULTS.md.
    #[arg(long, conflicts_with = "scenarios")]
    record: bool,
}

pub fn main(args: Args) -> Outcome {
    let scenarios: Vec<&str> = match args.scenarios.as_slice() {
        [] => SCENARIOS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let lines = run(&scenarios)?;
    if args.record {
        let kernel = soft_roce::kernel()?.release;
        let page = paths::workspace().join("tests/two_hosts/RESULTS.md");
        fs::write(&page, results(&kernel, &lines))
            .with_context(|| format!("cannot write {}", page.display()))?;
        println!("written to {}", page.display());
        figures::record("two-hosts", "cargo xtask two-hosts --record", &judged(&lines))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn results(kernel: &str, lines: &[String]) -> String {
    let mut page = format!(
        "# Two hosts\n\nWhat `cargo xtask two-hosts --record` saw last: two guests with Linux {kernel} and Soft-RoCE, joined by a \
         cable.\nThe fabric loses 2 % of the packets for RC and 5 % for UC and UD, delays by 1 ms +- 0.5 ms and \
         reorders 5 %, in both directions\n(`tests/two_hosts/host.sh`). Times are of emulated guests. Host 1 sends and \
         judges; on host 2 the peer dies.\n\n"
    );
    for line in lines.iter().filter(|line| line.starts_with("ok ")) {
        page.push_str(&format!("- {}\n", &line[3..]));
    }
    page
}

/// What host 1 says: it sends, and judges.
fn judged(lines: &[String]) -> String {
    let lines = lines.iter().filter_map(|line| line.strip_prefix("ok "));
    let judged: Vec<String> = lines
        .filter(|line| line.contains(" on host 1: "))
        .map(|line| format!("{line}\n"))
        .collect();
    judged.concat()
}

/// Runs the scenarios, prints what each end has to say, and gives it; an error if one failed.
pub fn run(scenarios: &[&str]) -> Result<Vec<String>> {
    // As for `cargo xtask test`, whose build this is; what takes time here is the fabric.
    const BUILD: [&str; 6] =
        ["test", "--no-run", "--features", crate::test::FEATURES, "--test", "two_hosts"];
    let built = cargo::executables("Building the hosts' program", &BUILD)?;
    let program = &built.first().context("cargo built no program")?.1;
    let script = paths::workspace().join("tests/two_hosts/host.sh");
    let out = soft_roce::out_dir()?;
    let results = [1, 2].map(|host| out.join(format!("two-hosts.{host}")));
    for file in &results {
        fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let command = |host: usize| {
        let words =
            ["sh", &path(&script), &path(program), &host.to_string(), &path(&results[host - 1])];
        let words = words.into_iter().chain(scenarios.iter().copied());
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    let guest = Guest { timeout: Duration::from_secs(900), memory_mb: 1024, ..Guest::default() };
    let (one, two) = (command(1), command(2));
    let codes = soft_roce::run_pair(&guest, [&one, &two]);
    let mut lines = Vec::new();
    for file in &results {
        let text = fs::read_to_string(file).unwrap_or_default();
        lines.extend(text.lines().map(str::to_owned));
    }
    for line in &lines {
        println!("{line}");
    }
    match codes? {
        [0, 0] => Ok(lines),
        codes => bail!("a scenario failed (exit codes {codes:?})"),
    }
}

fn path(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}
