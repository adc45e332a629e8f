//! The commands a person types: `cargo xtask <command>`.
//!
//! Each does its own set-up on a fresh Debian or Ubuntu machine that has Rust. A subcommand is one
//! line in each `Command` here, and its arguments and what it does in a module.

mod aarch64;
mod apt;
mod callgrind;
mod cargo;
mod deadline;
mod dice;
mod lines;
mod loom;
mod machine_code;
mod miri;
mod mutants;
mod night;
mod overhead;
mod paths;
mod programs;
mod progress;
mod release;
mod rules;
mod sanitize;
mod setup;
mod sh;
mod soft_roce;
mod suites;
mod test;
mod toolchain;
mod two_hosts;
mod what_c_does;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about)]
/// Build, test and measure proverbs.
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// See the main job work, in this process, on the loopback device.
    Demo,
    /// Run everything that must pass, or parts of it.
    Test(test::Args),
    /// Run the long searches: other kernels, Miri whole, sanitizers, fresh seeds.
    Night(night::Args),
    /// Run the conformance suite under Miri.
    Miri(miri::Args),
    /// Run the suites under a sanitizer or memcheck.
    Sanitize(sanitize::Args),
    /// Fuzz what parses bytes from a peer.
    Fuzz(suites::Fuzz),
    /// Remove each trait bound, and check that a ui-test that names its rule fails.
    Rules(rules::Args),
    /// Change run-time logic, and see whether a test notices.
    Mutants(mutants::Args),
    /// See what happens in C when a dangerous rule is broken.
    WhatCDoes(what_c_does::Args),
    /// Two Soft-RoCE hosts, a lossy fabric between them, and peers that die.
    TwoHosts(two_hosts::Args),
    /// Count instructions of Rust and C through a stub provider; fail if Rust has more than is
    /// recorded.
    Overhead(overhead::Args),
    /// Count the instructions of cold operations beside 1, 100 and 10,000 other objects.
    Growth(overhead::growth::Args),
    /// See whether the crates could be published today.
    Package(release::Package),
    /// Run one suite with options of its own, on the loopback device or on Soft-RoCE.
    Suite(suites::Suite),
    /// Write safe programs from a table of the public calls, and run what compiles, natively or
    /// under Miri.
    Programs(programs::Args),
    /// Count lines of code by part, and the lines of the hand-kept tables.
    Lines(lines::Args),
    /// Install everything that is missing for the other commands.
    Setup,
    /// Run a command where there is an RDMA device: a guest with Soft-RoCE, or a real one.
    SoftRoce(soft_roce::Args),
}

fn main() -> ExitCode {
    run(Cli::parse().command).unwrap_or_else(report)
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Demo => test::demo()?,
        Command::Test(args) => test::main(&args)?,
        Command::Night(args) => return night::main(&args),
        Command::Miri(args) => miri::main(&args)?,
        Command::Sanitize(args) => sanitize::main(&args)?,
        Command::Fuzz(args) => args.run()?,
        Command::Rules(args) => rules::main(&args)?,
        Command::Mutants(args) => return mutants::main(&args),
        Command::WhatCDoes(args) if args.kernels => what_c_does::on_other_kernels()?,
        Command::WhatCDoes(args) => what_c_does::run(args.driver)?,
        Command::TwoHosts(args) => two_hosts::main(&args)?,
        Command::Overhead(args) => overhead::main(&args)?,
        Command::Growth(args) => overhead::growth::main(&args)?,
        Command::Package(args) => args.run()?,
        Command::Suite(args) => args.run()?,
        Command::Programs(args) => return programs::main(args),
        Command::Lines(args) => lines::main(&args)?,
        Command::Setup => setup::main()?,
        Command::SoftRoce(args) => return soft_roce::main(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// 125, as env(1) and docker(1) have it: the failure is ours, not that of the command we ran.
fn report(error: anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(125)
}

/// What `main` of a subcommand returns.
type Outcome = Result<ExitCode>;
