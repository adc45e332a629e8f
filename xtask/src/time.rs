//! `cargo xtask time`: the bench forms under criterion, for information.
//!
//! Instructions are what is gated, as they repeat; time shows whether they mean anything on a machine.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::overhead::build;
use crate::setup::Group;
use crate::{Outcome, cargo, paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Record the table in benches/TIME.md.
    #[arg(long)]
    record: bool,
}

/// What criterion writes of a benchmark.
#[derive(Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: String,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
    median_abs_dev: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

/// One form of one row, in nanoseconds.
struct Timed {
    row: String,
    form: String,
    median: f64,
    spread: f64,
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    let twins = build::twins()?;
    let home = paths::below_target("overhead/criterion")?;
    fs::remove_dir_all(&home).with_context(|| format!("cannot clear {}", home.display()))?;
    run(&twins, &home)?;
    let mut all = Vec::new();
    collect(&home, &mut all)?;
    if all.is_empty() {
        bail!("criterion left no estimates in {}", home.display());
    }
    all.sort_by(|a, b| (&a.row, a.median).partial_cmp(&(&b.row, b.median)).expect("numbers"));
    let text = table(&all, &twins.versions()?);
    println!("{text}");
    if args.record {
        let file = paths::workspace().join("benches/TIME.md");
        fs::write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the forms, those of C at -O2 only.
fn run(twins: &build::Twins, home: &Path) -> Result<()> {
    let target = paths::below_target("overhead")?;
    cargo::cargo(&["build", "--release", "--package", "proverbs-overhead", "--features", "time"])?
        .arg("--target-dir")
        .arg(&target)
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .without("RUSTFLAGS")
        .run("Compiling the forms, to be timed")?;
    let mut cmd = crate::sh::Cmd::new(target.join("release/proverbs-overhead"));
    cmd = cmd.env("CRITERION_HOME", home).arg(&twins.stub);
    for (name, file) in twins.objects.iter().filter(|(name, _)| name.ends_with("-O2")) {
        cmd = cmd.arg(format!("{name}={}", file.display()));
    }
    match cmd.stream()? {
        0 => Ok(()),
        code => bail!("the forms failed with code {code}"),
    }
}

/// Reads what is below `dir`, at any depth.
fn collect(dir: &Path, all: &mut Vec<Timed>) -> Result<()> {
    let (what, estimates) = (dir.join("benchmark.json"), dir.join("estimates.json"));
    if dir.ends_with("new") && what.exists() {
        let what: Benchmark = serde_json::from_str(&fs::read_to_string(&what)?)?;
        let estimates: Estimates = serde_json::from_str(&fs::read_to_string(&estimates)?)?;
        all.push(Timed {
            row: what.group_id,
            form: what.function_id,
            median: estimates.median.point_estimate,
            spread: estimates.median_abs_dev.point_estimate,
        });
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), all)?;
        }
    }
    Ok(())
}

fn table(all: &[Timed], versions: &[String]) -> String {
    let mut text = "\
# Time

For information: nanoseconds a call, the stub provider's part included, by criterion; the spread is the median absolute
deviation of its samples. Nothing is gated by this: machines differ, and other programs run. Each row from the fastest
form to the slowest. Made by `cargo xtask time --record`; do not edit.

"
    .to_owned();
    versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
    text.push_str("\n| row | form | median, ns | spread, ns |\n|---|---|--:|--:|\n");
    let mut row = "";
    for timed in all {
        let name = if timed.row == row { "" } else { timed.row.as_str() };
        row = &timed.row;
        let _ = writeln!(
            text,
            "| {name} | {} | {:.1} | {:.1} |",
            timed.form, timed.median, timed.spread
        );
    }
    text
}
