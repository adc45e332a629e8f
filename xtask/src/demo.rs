//! `cargo xtask demo`: the main job, seen to work.

use std::process::ExitCode;

use anyhow::Result;

use crate::{Outcome, cargo, setup};

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_: Args) -> Outcome {
    setup::ensure(&[setup::Group::Build])?;
    run()?;
    Ok(ExitCode::SUCCESS)
}

/// The short example, and a ping-pong, both ends in one process on the loopback device.
fn run() -> Result<()> {
    println!("Two queue pairs, a chain of writes, a read and an atomic:");
    example("first_steps", &[])?;
    println!("\nAn RC ping-pong, every byte checked:");
    example("rc_pingpong", &["-d", "loopback", "-c"])?;
    println!("\nThe same on a real kernel's RDMA stack, against rdma-core's C programs:");
    println!("  cargo xtask test guest");
    Ok(())
}

fn example(name: &str, args: &[&str]) -> Result<()> {
    let mut all = vec!["run", "--quiet", "--release", "--example", name, "--"];
    all.extend(args);
    cargo::run(&all)
}
