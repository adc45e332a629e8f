//! Suites that can be run by hand for longer, from another seed, or in the guest.

use anyhow::{Context, Result, bail};

use crate::setup::{self, Group};
use crate::soft_roce::{self, Guest};
use crate::test::{built, suites};
use crate::{cargo, toolchain};

#[derive(clap::Args)]
pub struct Fuzz {
    /// Only this target [default: all]
    target: Option<String>,
    /// Time to fuzz each target, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// The seed for libFuzzer [default: it chooses one and prints it]
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl Fuzz {
    pub fn run(&self) -> Result<()> {
        setup::ensure(&[Group::Build, Group::Fuzz])?;
        toolchain::nightly()?;
        setup::cargo_tool("fuzz")?;
        let time = format!("-max_total_time={}", self.seconds);
        let seed = format!("-seed={}", self.seed % (1 << 32));
        // The files in `fuzz/fuzz_targets`.
        let all = ["endpoint", "remote_slice"];
        for target in self.target.as_deref().map_or(all.to_vec(), |one| vec![one]) {
            let fuzz = ["fuzz", "run", target, "--", &time, &seed, "-max_len=4096"];
            cargo::nightly(&fuzz)?.run().context("the input is in fuzz/artifacts")?;
            println!("fuzz: {target} is clean after {} s", self.seconds);
        }
        Ok(())
    }
}

#[derive(clap::Args)]
pub struct Suite {
    /// A suite of `tests/`, such as `simulation`, `load`, `differential` or `conformance`.
    name: String,
    /// Run it on Soft-RoCE in a guest, instead of on the loopback device.
    #[arg(long)]
    soft_roce: bool,
    /// The suite's own options: `-- --help` prints them.
    #[arg(last = true)]
    options: Vec<String>,
}

impl Suite {
    pub fn run(&self) -> Result<()> {
        let Suite { name, soft_roce, options } = self;
        if *soft_roce { in_guest(name, options) } else { on_loopback(name, options) }
    }
}

/// The part of `cargo xtask test`: half a million steps, and a small load.
pub fn quick() -> Result<()> {
    on_loopback("simulation", &["--steps=500000"])?;
    on_loopback("load", &["--queue-pairs=1000", "--messages=50000"])
}

/// With debug assertions, which cost less time than a build that is not shared with `cargo xtask
/// test`.
fn on_loopback<S: AsRef<str>>(test: &str, options: &[S]) -> Result<()> {
    setup::ensure(&[Group::Build])?;
    let line = cargo::cargo(&suites(test))?.arg("--");
    Ok(line.args(options.iter().map(AsRef::as_ref)).run()?)
}

fn in_guest(test: &str, options: &[String]) -> Result<()> {
    setup::ensure(&[Group::Build, Group::Guest])?;
    let program = cargo::named(&built(test)?, test)?;
    let command = [&[program.display().to_string()], options].concat();
    match soft_roce::run(&Guest::default(), &command)? {
        0 => Ok(()),
        code => bail!("`{test}` failed in the guest with code {code}"),
    }
}
