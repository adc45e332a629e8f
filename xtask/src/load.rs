//! `cargo xtask load` and `cargo xtask soak`: many queue pairs on one completion queue and one shared receive
//! queue, for many messages or for long.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Group};
use crate::soft_roce::{self, Guest};
use crate::{Outcome, cargo, figures};

#[derive(clap::Args)]
pub struct Args {
    /// On Soft-RoCE in a guest, instead of on the loopback device.
    #[arg(long)]
    soft_roce: bool,
    /// Queue pairs; 1000, or 64 on Soft-RoCE.
    #[arg(long)]
    queue_pairs: Option<u32>,
    /// Messages; a million, or 5000 on Soft-RoCE.
    #[arg(long)]
    messages: Option<u64>,
    /// Write the figures to FAULTS.md (loopback device only).
    #[arg(long)]
    record: bool,
}

#[derive(clap::Args)]
pub struct SoakArgs {
    /// How long.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    seconds: u64,
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let (pairs, messages) = if args.soft_roce { (64, 5000) } else { (1000, 1_000_000) };
    let pairs = args.queue_pairs.unwrap_or(pairs).to_string();
    let messages = args.messages.unwrap_or(messages).to_string();
    let options = ["--queue-pairs", &pairs, "--messages", &messages];
    if args.soft_roce {
        in_guest("load", &options, Duration::from_secs(900))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = vec!["test", "--quiet", "--release", "--test", "load", "--"];
    all.extend(options);
    if args.record {
        let command =
            format!("cargo xtask load --queue-pairs {pairs} --messages {messages} --record");
        figures::record("load", &command, &cargo::cargo(&all)?.read_text()?)?;
    } else {
        cargo::run(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The same on Soft-RoCE, for a time.
pub fn soak(args: SoakArgs) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let seconds = args.seconds.to_string();
    // One thread and then two, and the time that a guest takes to boot.
    let timeout = Duration::from_secs(args.seconds + 600);
    in_guest("load", &["--queue-pairs", "64", "--seconds", &seconds], timeout)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a test of this name in a guest.
pub fn in_guest(test: &str, options: &[&str], timeout: Duration) -> Result<()> {
    setup::ensure(&[Group::Guest])?;
    let built = cargo::executables("Building the test", &["test", "--no-run", "--test", test])?;
    let found = built.iter().find(|(name, _)| name == test);
    let path = found.with_context(|| format!("cargo built no `{test}`"))?.1.display().to_string();
    let mut command = vec![path.as_str()];
    command.extend(options);
    match soft_roce::run(&Guest { timeout, ..Guest::default() }, &command)? {
        0 => Ok(()),
        code => bail!("`{test}` failed in the guest with code {code}"),
    }
}

/// What `cargo xtask test` runs.
pub fn quick() -> Result<()> {
    let options = ["--queue-pairs", "1000", "--messages", "50000"];
    cargo::run(&[&["test", "--quiet", "--test", "load", "--"][..], &options].concat())
}
