//! `cargo xtask rate`: C and Rust in turn on Soft-RoCE in the guest: latency, and message rate with chains.
//!
//! | file | what |
//! |---|---|
//! | `pairs` | what the runs said, in pairs, and their ratios with their spread |
//! | `table` | the table in Markdown, and the results for other programs |

pub mod pairs;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::Group;
use crate::sh::Cmd;
use crate::soft_roce::{self, Accel, Guest};
use crate::{Outcome, cargo, chart, paths, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Pairs of runs, C and Rust in turn.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..))]
    pairs: u32,
    /// Measure on this machine, with this RDMA device, instead of in a guest.
    #[arg(long, value_name = "NAME", conflicts_with = "record")]
    device: Option<String>,
    /// Record the table in benches/rate/RESULTS.md, and the runs in results.json.
    #[arg(long)]
    record: bool,
}

/// Of two kinds.
const IN_GUEST: &str = "emulated (QEMU): one processor, whose clock counts instructions, a nanosecond each; \
    polled latency, for which both ends need a processor, with two of them in real time";

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build, Group::Guest])?;
    let dir = paths::workspace().join("benches/rate");
    let said = run(&dir, &args)?;
    let runs = pairs::parse(&said)?;
    let kernel = match args.device {
        Some(device) => format!("device {device} of this machine"),
        None => format!("Linux {}, rdma_rxe, {IN_GUEST}", soft_roce::kernel()?.release),
    };
    let results = pairs::results(&runs, kernel)?;
    let text = table::render(&results);
    println!("{text}");
    if args.record {
        write(&dir.join("RESULTS.md"), &text)?;
        write(&dir.join("results.json"), &table::json(&results)?)?;
        chart::write()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Builds both, runs them in turn, and gives what was printed.
fn run(dir: &Path, args: &Args) -> Result<String> {
    let out = paths::below_target("rate")?;
    let rate_c = out.join("rate");
    Cmd::new("gcc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-o"])
        .arg(&rate_c)
        .arg(dir.join("rate.c"))
        .arg("-libverbs")
        .run("Compiling the C program")?;
    let examples = ["build", "--release", "--example", "rc_pingpong"];
    let pingpong = executable("Building rc_pingpong", &examples)?;
    let rate = ["build", "--release", "--package", "proverbs-rate"];
    let rate = executable("Building the Rust program", &rate)?;
    let examples = pingpong.parent().context("an example is in a directory")?;

    let compare = |part: &str| {
        format!(
            "sh {compare} {examples} {rate} {rate_c} {pairs} {part} >\"$PROVERBS_GUEST_OUT/rate.txt\"",
            compare = dir.join("compare.sh").display(),
            examples = examples.display(),
            rate = rate.display(),
            rate_c = rate_c.display(),
            pairs = args.pairs,
        )
    };
    if let Some(device) = &args.device {
        let code = soft_roce::on_device(device, &["sh", "-c", &compare("all")])?;
        return said(code);
    }
    // Who polls for the other end occupies a processor, of which a guest whose clock counts instructions has one.
    let latency = in_guest(None, &compare("polled-latency"))?;
    Ok(latency + &in_guest(Some(Accel::Counted), &compare("others"))?)
}

fn in_guest(accel: Option<Accel>, script: &str) -> Result<String> {
    let guest = Guest { timeout: Duration::from_secs(1800), accel, ..Guest::default() };
    said(soft_roce::run(&guest, &["sh", "-c", script])?)
}

/// What the runs that ended with `code` printed.
fn said(code: i32) -> Result<String> {
    if code != 0 {
        bail!("the runs failed with code {code}");
    }
    let said = soft_roce::out_dir()?.join("rate.txt");
    fs::read_to_string(&said).with_context(|| format!("cannot read {}", said.display()))
}

fn executable(what: &'static str, args: &[&str]) -> Result<PathBuf> {
    let built = cargo::executables(what, args)?;
    Ok(built.into_iter().next().context("cargo built nothing")?.1)
}
