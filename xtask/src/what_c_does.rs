//! `cargo xtask what-c-does`: what happens in C when a dangerous rule is broken.
//!
//! Each program of `tests/what_c_does` breaks one rule, is accepted by gcc without a warning, and is run
//! on Soft-RoCE under a time limit. How it ends and its last line must be those of `expected.toml`, which
//! names the Rust form beside it.

mod expected;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use expected::{Case, Cases, Rule, name, rule, stem};

use crate::sh::Cmd;
use crate::soft_roce::{self, Guest};
use crate::{Outcome, paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Take what happens now as what is expected, for a person to read and commit.
    #[arg(long)]
    record: bool,
}

pub fn main(args: Args) -> Outcome {
    if args.record {
        run(true)?;
    } else {
        check()?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn check() -> Result<()> {
    run(false)
}

fn run(record: bool) -> Result<()> {
    setup::ensure(&[setup::Group::Build, setup::Group::Guest])?;
    let dir = paths::workspace().join("tests/what_c_does");
    let file = dir.join("expected.toml");
    let expected = expected::parse(&fs::read_to_string(&file).unwrap_or_default())
        .with_context(|| format!("{}", file.display()))?;
    let rules = programs(&dir)?;
    let bin = build(&dir, &rules)?;
    let mut seen = run_in_guest(&dir, &bin, &rules)?;
    for (rule, case) in &mut seen {
        if let Some(expected) = expected.get(rule) {
            case.rust.clone_from(&expected.rust);
            case.why.clone_from(&expected.why);
        }
        let what = case.last.splitn(3, ": ").last().unwrap_or("");
        let crash = if case.end == "exit 0" { String::new() } else { format!("{}: ", case.end) };
        println!("{} | {crash}{what} | {}", name(*rule), case.kind);
    }
    if record {
        fs::write(&file, expected::print(&seen)?).with_context(|| format!("{}", file.display()))?;
        eprintln!("Recorded in {}", file.display());
        return Ok(());
    }
    let mut failures = expected::differences(&expected, &seen);
    for (rule, case) in &expected {
        if case.rust.is_empty() && case.why.is_empty() {
            failures.push(format!("{}: there is neither a Rust form nor a reason", name(*rule)));
        } else if !case.rust.is_empty() && !paths::workspace().join(&case.rust).is_file() {
            failures.push(format!("{}: there is no {}", name(*rule), case.rust));
        }
    }
    if failures.is_empty() {
        println!("{} programs did what is recorded", seen.len());
        return Ok(());
    }
    bail!(
        "C does not do what is recorded of Linux 6.1 with rdma-core 44; here it is Linux {} with {}:\n{}",
        soft_roce::kernel()?.release,
        library(),
        failures.join("\n")
    )
}

/// The rules that have a program: `r2_6.c` breaks R2.6.
fn programs(dir: &Path) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("{}", dir.display()))? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        rules.extend(file.strip_suffix(".c").and_then(|stem| rule(stem, 'r', '_')));
    }
    rules.sort_unstable();
    Ok(rules)
}

fn build(dir: &Path, rules: &[Rule]) -> Result<PathBuf> {
    const FLAGS: [&str; 5] = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"];
    let bin = paths::below_target("what-c-does")?;
    let gcc = || Cmd::new("gcc").args(FLAGS).current_dir(dir).arg("-o");
    let common = bin.join("common.o");
    gcc().arg(&common).args(["-c", "common.c"]).run("Compiling what the programs share")?;
    let step = crate::progress::Step::start("Compiling the programs");
    for rule in rules {
        let program = stem(*rule);
        gcc()
            .arg(bin.join(&program))
            .arg(format!("{program}.c"))
            .arg(&common)
            .args(["-libverbs", "-lrdmacm"])
            .read()?;
    }
    step.done("gcc accepts every program without a warning");
    Ok(bin)
}

/// All of them in one boot.
fn run_in_guest(dir: &Path, bin: &Path, rules: &[Rule]) -> Result<Cases> {
    // The directory that the guest shares for writing.
    let out = match env::var_os("PROVERBS_GUEST_OUT") {
        Some(out) => env::current_dir()?.join(out),
        None => paths::below_target("soft-roce/out")?,
    };
    let results = out.join("what-c-does.txt");
    let _ = fs::remove_file(&results); // a failed run must not find an old one's
    let mut command = vec!["sh".into(), dir.join("run.sh"), bin.into(), results.clone()];
    command.extend(rules.iter().map(|rule| PathBuf::from(stem(*rule))));
    let start = Instant::now();
    let code = soft_roce::run(&Guest::default(), &command)?;
    ensure!(code == 0, "run.sh failed with code {code}");
    eprintln!("==> Booted, ran and powered off in {:.1} s", start.elapsed().as_secs_f64());
    let text = fs::read_to_string(&results).with_context(|| format!("{}", results.display()))?;
    let cases = text.lines().filter_map(observed).collect::<Cases>();
    ensure!(cases.len() == rules.len(), "{} programs ran, of {}", cases.len(), rules.len());
    Ok(cases)
}

/// A line of the results.
fn observed(line: &str) -> Option<(Rule, Case)> {
    let mut fields = line.splitn(3, '\t');
    let rule = rule(fields.next()?, 'r', '_')?;
    let (end, last) = (fields.next()?, fields.next()?);
    let kind = match end {
        "exit 0" => last.split(": ").nth(1).unwrap_or("broken test"),
        "time-out" => "hang",
        end if end.starts_with("SIG") => "crash",
        _ => "broken test",
    };
    let (kind, end, last) = (kind.into(), end.into(), last.into());
    Some((rule, Case { kind, end, last, ..Case::default() }))
}

fn library() -> String {
    let query = Cmd::new("dpkg-query").args(["-W", "-f=${Package} ${Version}", "libibverbs1"]);
    query.read_text().unwrap_or_else(|_| "an unknown libibverbs".into())
}
