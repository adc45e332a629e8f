//! `cargo xtask simulate`: random programs on the loopback device and its faults, against a model.

use std::process::ExitCode;

use anyhow::Result;

use crate::setup::{self, Group};
use crate::test::FEATURES;
use crate::{Outcome, cargo, figures};

#[derive(clap::Args)]
pub struct Args {
    /// How many steps in all.
    #[arg(long, default_value_t = 1_000_000)]
    steps: u64,
    /// What the programs are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this world alone, as a failure names it.
    #[arg(long)]
    world: Option<u64>,
    /// Write the figures to FAULTS.md.
    #[arg(long)]
    record: bool,
}

pub fn main(args: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    let (steps, seed) = (args.steps.to_string(), args.seed.to_string());
    let world = args.world.map(|world| world.to_string());
    let mut all = BUILD.to_vec();
    all.extend(["--steps", &steps, "--seed", &seed]);
    if let Some(world) = &world {
        all.extend(["--world", world]);
    }
    if args.record {
        let command = format!("cargo xtask simulate --steps {steps} --seed {seed} --record");
        figures::record("simulate", &command, &cargo::cargo(&all)?.read_text()?)?;
    } else {
        cargo::run(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// With debug assertions, which cost less than another build than that of `cargo xtask test`.
const BUILD: [&str; 7] = ["test", "--quiet", "--features", FEATURES, "--test", "simulation", "--"];

/// What `cargo xtask test` runs.
pub fn quick() -> Result<()> {
    cargo::run(&[&BUILD[..], &["--steps", "1000000"]].concat())
}
