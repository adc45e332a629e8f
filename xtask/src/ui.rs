//! `cargo xtask ui`: what must not compile, and what it says.

use std::process::ExitCode;

use anyhow::Result;

use crate::{Outcome, cargo, setup};

#[derive(clap::Args)]
pub struct Args {
    /// Take what the compiler says now as what is expected, for a person to read and commit.
    #[arg(long)]
    bless: bool,
}

pub fn main(args: Args) -> Outcome {
    run(args.bless)?;
    Ok(ExitCode::SUCCESS)
}

pub fn run(bless: bool) -> Result<()> {
    setup::ensure(&[setup::Group::Build])?;
    let env: &[_] = if bless { &[("TRYBUILD", "overwrite")] } else { &[] };
    cargo::run_with(&["test", "--test", "ui"], env)
}
