//! `cargo xtask loom`: the models of the protocols between threads, in every order that there is.

use std::process::ExitCode;

use anyhow::Result;

use crate::{Outcome, cargo};

/// What cargo calls a model by, but for its name. (Unoptimised, loom takes ten times as long.)
pub const TEST: [&str; 5] = ["test", "--quiet", "--package", "models", "--release"];

#[derive(clap::Args)]
pub struct Args {
    /// Only models whose names contain this.
    filter: Option<String>,
}

pub fn main(args: Args) -> Outcome {
    check(args.filter.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// All models, or those whose names contain `filter`.
pub fn check(filter: Option<&str>) -> Result<()> {
    let mut line = TEST.to_vec();
    line.push("--tests");
    line.extend(filter);
    cargo::run(&line)
}
