//! `cargo xtask load` and `cargo xtask soak`: many queue pairs on one completion queue and one shared receive
//! queue, for many messages or for long.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Group};
use crate::soft_roce::{self, Guest};
use crate::test::FEATURES;
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
    /// Write the figures to FAULTS.md.
    #[arg(long)]
    record: bool,
}

#[derive(clap::Args)]
pub struct SoakArgs {
    /// How long, half of it with one thread and half with two.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    seconds: u64,
    /// Write the figures to FAULTS.md.
    #[arg(long)]
    record: bool,
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let (pairs, messages) = if args.soft_roce { (64, 5000) } else { (1000, 1_000_000) };
    let pairs = args.queue_pairs.unwrap_or(pairs).to_string();
    let messages = args.messages.unwrap_or(messages).to_string();
    let options = ["--queue-pairs", &pairs, "--messages", &messages];
    if args.soft_roce {
        let printed = in_guest("load", &options, Duration::from_secs(900))?;
        if args.record {
            let size = format!("--queue-pairs {pairs} --messages {messages}");
            let command = format!("cargo xtask load --soft-roce {size} --record");
            figures::record("load-soft-roce", &command, &printed)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = BUILD.to_vec();
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
    // And the time that a guest takes to boot.
    let timeout = Duration::from_secs(args.seconds + 600);
    let printed = in_guest("load", &["--queue-pairs", "64", "--seconds", &seconds], timeout)?;
    if args.record {
        let command = format!("cargo xtask soak --seconds {seconds} --record");
        figures::record("soak", &command, &printed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a test of this name in a guest, and gives what it printed.
pub fn in_guest(test: &str, options: &[&str], timeout: Duration) -> Result<String> {
    setup::ensure(&[Group::Guest])?;
    // The features of `cargo xtask test`, so that they share a build.
    let build = ["test", "--no-run", "--features", FEATURES, "--test", test];
    let built = cargo::executables("Building the test", &build)?;
    let found = built.iter().find(|(name, _)| name == test);
    let path = found.with_context(|| format!("cargo built no `{test}`"))?.1.display().to_string();
    let printed = soft_roce::out_dir()?.join(test);
    // Printed as it comes, and kept.
    let script = format!(
        "mkfifo /tmp/copy && {{ tee '{}' </tmp/copy & }}; '{path}' {} >/tmp/copy; code=$?; wait; exit $code",
        printed.display(),
        options.join(" ")
    );
    match soft_roce::run(&Guest { timeout, ..Guest::default() }, &["sh", "-c", &script])? {
        0 => fs::read_to_string(&printed)
            .with_context(|| format!("cannot read {}", printed.display())),
        code => bail!("`{test}` failed in the guest with code {code}"),
    }
}

const BUILD: [&str; 7] = ["test", "--quiet", "--features", FEATURES, "--test", "load", "--"];

/// What `cargo xtask test` runs.
pub fn quick() -> Result<()> {
    let options = ["--queue-pairs", "1000", "--messages", "50000"];
    cargo::run(&[&BUILD[..], &options].concat())
}
