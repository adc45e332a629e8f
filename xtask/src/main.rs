//! The commands of `cargo xtask <command>`. Each command does its own setup on a fresh Debian or
//! Ubuntu machine with Rust. A subcommand is one line in each `Command` here, and a module with its
//! arguments and implementation.

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
    /// Run two examples in one process, on the loopback device.
    Demo,
    /// Run everything that must pass, or parts of it.
    Test(test::Args),
    /// Run the long searches: other kernels, all of Miri, sanitizers, new seeds.
    Night(night::Args),
    /// Run the conformance suite under Miri.
    Miri(miri::Args),
    /// Run the suites under a sanitizer or memcheck.
    Sanitize(sanitize::Args),
    /// Fuzz the parsers of bytes from a peer.
    Fuzz(suites::Fuzz),
    /// Remove each trait bound, and check that a ui-test that names its rule fails.
    Rules(rules::Args),
    /// Change run-time logic, and check whether a test fails.
    Mutants(mutants::Args),
    /// Run C programs that break dangerous rules.
    WhatCDoes(what_c_does::Args),
    /// Run scenarios on two Soft-RoCE hosts, with a lossy fabric and peers that die.
    TwoHosts(two_hosts::Args),
    /// Count instructions of Rust and C on a stub provider; fail if Rust exceeds its record.
    Overhead(overhead::Args),
    /// Count the instructions of cold operations when 1, 100 and 10,000 other objects exist.
    Growth(overhead::growth::Args),
    /// Check that the crates can be published.
    Package(release::Package),
    /// Run one suite with its own options, on the loopback device or on Soft-RoCE.
    Suite(suites::Suite),
    /// Generate safe programs from a table of the public calls, and run those that compile,
    /// natively or under Miri.
    Programs(programs::Args),
    /// Count lines of code by part, and the lines of the hand-kept tables.
    Lines(lines::Args),
    /// Install everything that is missing for the other commands.
    Setup,
    /// Run a command with an RDMA device: in a guest with Soft-RoCE, or on a real device.
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

/// 125, as in env(1) and docker(1): xtask failed, not the command that it ran.
fn report(error: anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(125)
}

/// The result of a subcommand.
type Outcome = Result<ExitCode>;
