//! `cargo xtask differential`: the same random programs on the loopback device and on Soft-RoCE.

use std::process::ExitCode;
use std::time::Duration;

use crate::setup::{self, Group};
use crate::{Outcome, figures, load};

#[derive(clap::Args)]
pub struct Args {
    /// Programs for each transport.
    #[arg(long, default_value_t = 10)]
    programs: u64,
    /// What the programs are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the figures to FAULTS.md.
    #[arg(long)]
    record: bool,
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let (programs, seed) = (args.programs.to_string(), args.seed.to_string());
    let options = ["--programs", &programs, "--seed", &seed];
    let printed = load::in_guest("differential", &options, Duration::from_secs(900))?;
    if args.record {
        let command =
            format!("cargo xtask differential --programs {programs} --seed {seed} --record");
        figures::record("differential", &command, &printed)?;
    }
    Ok(ExitCode::SUCCESS)
}
