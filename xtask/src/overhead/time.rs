//! `cargo xtask time`: the bench forms under criterion, for information.
//!
//! Instructions are what is gated, as they repeat; time shows whether they mean anything on a
//! machine.

use anyhow::Result;

use super::{build, count};
use crate::setup::Group;
use crate::sh::{self, Run, cmd};
use crate::{cargo, paths, setup};

/// Times the forms of Rust, and those of C at -O2; criterion's report is in
/// target/overhead/criterion.
pub fn run() -> Result<()> {
    setup::ensure(&[Group::Build, Group::Valgrind])?;
    let mut twins = build::twins()?;
    twins.objects.retain(|(name, _)| name.ends_with("-O2"));
    let target = paths::below_target("overhead")?;
    cargo::cargo(&["build", "--release", "--package", "proverbs-overhead", "--features", "time"])?
        .arg("--target-dir")
        .arg(&target)
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env_remove("RUSTFLAGS")
        .step("Compiling the forms, to be timed")?;
    let (forms, arguments) = (target.join("release/proverbs-overhead"), count::arguments(&twins));
    let home = target.join("criterion");
    let time = cmd!(sh::here(), "{forms} {arguments...}").env("CRITERION_HOME", home);
    Ok(time.envs(twins.stub.env()).run()?)
}
