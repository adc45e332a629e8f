//! Suites that can be run by hand for longer, from another seed, or in the guest.

use anyhow::{Context, Result, bail};

use crate::setup::{self, Group};
use crate::soft_roce::{self, Guest};
use crate::test::FEATURES;
use crate::{cargo, toolchain};

#[derive(clap::Args)]
pub struct Ui {
    /// Take what the compiler says now as what is expected, for a person to read and commit.
    #[arg(long)]
    bless: bool,
}

impl Ui {
    pub fn run(&self) -> Result<()> {
        setup::ensure(&[Group::Build])?;
        let env: &[_] = if self.bless { &[("TRYBUILD", "overwrite")] } else { &[] };
        cargo::run_with(&["test", "--test", "ui"], env)
    }
}

#[derive(clap::Args)]
pub struct Fuzz {
    /// One target only; without, each of them.
    target: Option<String>,
    /// How long to fuzz each target, seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// What libFuzzer draws from; without, it chooses and prints a seed.
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
        // The files of `fuzz/fuzz_targets`.
        let all = ["endpoint", "pingpong_record", "rping_message", "remote_slice"];
        for target in self.target.as_deref().map_or(all.to_vec(), |one| vec![one]) {
            let fuzz = ["fuzz", "run", target, "--", &time, &seed, "-max_len=4096"];
            cargo::nightly(&fuzz)?.run().context("what did it is in fuzz/artifacts")?;
            println!("fuzz: {target} is clean after {} s", self.seconds);
        }
        Ok(())
    }
}

#[derive(clap::Args)]
pub struct Simulate {
    /// How many steps in all.
    #[arg(long, default_value_t = 1_000_000)]
    steps: u64,
    /// What the programs are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this world alone, as a failure names it.
    #[arg(long)]
    world: Option<u64>,
}

impl Simulate {
    pub fn run(&self) -> Result<()> {
        let mut options = options(&[("--steps", self.steps), ("--seed", self.seed)]);
        options.extend(self.world.iter().map(|world| format!("--world={world}")));
        on_loopback("simulation", &options)
    }
}

#[derive(clap::Args)]
pub struct Differential {
    /// Programs for each transport.
    #[arg(long, default_value_t = 10)]
    programs: u64,
    /// What the programs are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Differential {
    pub fn run(&self) -> Result<()> {
        let options = options(&[("--programs", self.programs), ("--seed", self.seed)]);
        in_guest("differential", &options)
    }
}

#[derive(clap::Args)]
pub struct Load {
    /// On Soft-RoCE in a guest, instead of on the loopback device.
    #[arg(long)]
    soft_roce: bool,
    /// Queue pairs; 1000, or 64 on Soft-RoCE.
    #[arg(long)]
    queue_pairs: Option<u64>,
    /// Messages; a million, or 5000 on Soft-RoCE.
    #[arg(long)]
    messages: Option<u64>,
}

impl Load {
    pub fn run(&self) -> Result<()> {
        let (pairs, messages) = if self.soft_roce { (64, 5000) } else { (1000, 1_000_000) };
        let options = options(&[
            ("--queue-pairs", self.queue_pairs.unwrap_or(pairs)),
            ("--messages", self.messages.unwrap_or(messages)),
        ]);
        match self.soft_roce {
            true => in_guest("load", &options),
            false => on_loopback("load", &options),
        }
    }
}

#[derive(clap::Args)]
pub struct Soak {
    /// How long, half of it with one thread and half with two.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    seconds: u64,
}

impl Soak {
    pub fn run(&self) -> Result<()> {
        let options = options(&[("--queue-pairs", 64), ("--seconds", self.seconds)]);
        in_guest("load", &options)
    }
}

/// What `cargo xtask test` runs of them: a million steps, and a small load.
pub fn quick() -> Result<()> {
    on_loopback("simulation", &options(&[("--steps", 1_000_000)]))?;
    on_loopback("load", &options(&[("--queue-pairs", 1000), ("--messages", 50_000)]))
}

fn options(all: &[(&str, u64)]) -> Vec<String> {
    all.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// Runs a test of this name. With debug assertions, which cost less than another build than that of
/// `cargo xtask test`.
fn on_loopback(test: &str, options: &[String]) -> Result<()> {
    setup::ensure(&[Group::Build])?;
    let line = cargo::cargo(&["test", "--quiet", "--features", FEATURES, "--test", test, "--"])?;
    Ok(line.args(options).run()?)
}

/// Runs a test of this name in a guest.
fn in_guest(test: &str, options: &[String]) -> Result<()> {
    setup::ensure(&[Group::Build, Group::Guest])?;
    // The features of `cargo xtask test`, so that they share a build.
    let build = ["test", "--no-run", "--features", FEATURES, "--test", test];
    let program = cargo::named(&cargo::executables("Building the test", &build)?, test)?;
    let command = [&[program.display().to_string()], options].concat();
    match soft_roce::run(&Guest::default(), &command)? {
        0 => Ok(()),
        code => bail!("`{test}` failed in the guest with code {code}"),
    }
}
