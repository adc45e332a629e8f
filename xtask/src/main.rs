//! The commands a person types: `cargo xtask <command>`.
//!
//! Each does its own set-up on a fresh Debian or Ubuntu machine that has Rust. A subcommand is a
//! module with an `Args` and a `main(Args) -> Result<ExitCode>`, and one line in each `Command` here.

mod anywhere;
mod callgrind;
mod cargo;
mod chart;
mod demo;
mod differential;
mod docs;
mod field;
mod figures;
mod fuzz;
mod holes;
mod load;
mod loom;
mod machine_code;
mod miri;
mod mutants;
mod overhead;
mod package;
mod paths;
mod programs;
mod progress;
mod rate;
mod rules;
mod sanitize;
mod scale;
mod setup;
mod sh;
mod simulate;
mod soft_roce;
mod test;
mod time;
mod two_hosts;
mod ui;
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
    Demo(demo::Args),
    /// Run everything that must pass, or parts of it.
    Test(test::Args),
    /// Run the conformance suite under Miri.
    Miri(miri::Args),
    /// Run the models of the protocols between threads, in every order that there is.
    Loom(loom::Args),
    /// Run the suites under a sanitizer, or the examples under memcheck.
    Sanitize(sanitize::Args),
    /// Fuzz what parses bytes from a peer.
    Fuzz(fuzz::Args),
    /// Run the ui-tests: what must not compile, and what it says.
    Ui(ui::Args),
    /// Look at what the post paths are compiled to.
    MachineCode(machine_code::Args),
    /// Hold the rule book against its proofs.
    Rules(rules::Args),
    /// Change run-time logic, and see whether a test notices.
    Mutants(mutants::Args),
    /// Bring each hole that was ever found back, and see that something notices.
    Holes(holes::Args),
    /// See what happens in C when a dangerous rule is broken.
    WhatCDoes(what_c_does::Args),
    /// Two Soft-RoCE hosts, a lossy fabric between them, and peers that die.
    TwoHosts(two_hosts::Args),
    /// Count instructions of Rust and C through a stub provider; fail if Rust has more.
    Overhead(overhead::Args),
    /// See that every public item is documented, with its errors, an example and where it comes from.
    Docs(docs::Args),
    /// Compile the crate with the oldest Rust that it names, and for aarch64.
    Anywhere(anywhere::Args),
    /// See whether the crates could be published today.
    Package(package::Args),
    /// Run random programs on the loopback device and its faults, against a model.
    Simulate(simulate::Args),
    /// Write safe programs from a table of the public calls, and run what compiles, natively or under Miri.
    Programs(programs::Args),
    /// Run the same random programs on the loopback device and on Soft-RoCE.
    Differential(differential::Args),
    /// Load one completion queue and one shared receive queue with many queue pairs.
    Load(load::Args),
    /// The same on Soft-RoCE, for ten minutes.
    Soak(load::SoakArgs),
    /// Count instructions of the other crates for verbs, and of this one, doing the same work.
    Field(field::Args),
    /// Latency and message rate of C and Rust in turn, on Soft-RoCE in the guest.
    Rate(rate::Args),
    /// Draw the charts and write the README's tables from the recorded results.
    Chart(chart::Args),
    /// Count bytes on top of C's, and instructions with up to ten thousand queue pairs.
    Scale(scale::Args),
    /// Time the bench forms with criterion, for information.
    Time(time::Args),
    /// Install everything that is missing for the other commands.
    Setup(setup::Args),
    /// Run a command where there is an RDMA device: a guest with Soft-RoCE, or a real one.
    SoftRoce(soft_roce::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::main(args),
        Command::Test(args) => test::main(args),
        Command::Miri(args) => miri::main(args),
        Command::Loom(args) => loom::main(args),
        Command::Sanitize(args) => sanitize::main(args),
        Command::Fuzz(args) => fuzz::main(args),
        Command::Ui(args) => ui::main(args),
        Command::MachineCode(args) => machine_code::main(args),
        Command::Rules(args) => rules::main(args),
        Command::Mutants(args) => mutants::main(args),
        Command::Holes(args) => holes::main(args),
        Command::WhatCDoes(args) => what_c_does::main(args),
        Command::TwoHosts(args) => two_hosts::main(args),
        Command::Overhead(args) => overhead::main(args),
        Command::Docs(args) => docs::main(args),
        Command::Anywhere(args) => anywhere::main(args),
        Command::Package(args) => package::main(args),
        Command::Simulate(args) => simulate::main(args),
        Command::Programs(args) => programs::main(args),
        Command::Differential(args) => differential::main(args),
        Command::Load(args) => load::main(args),
        Command::Soak(args) => load::soak(args),
        Command::Field(args) => field::main(args),
        Command::Rate(args) => rate::main(args),
        Command::Chart(args) => chart::main(args),
        Command::Scale(args) => scale::main(args),
        Command::Time(args) => time::main(args),
        Command::Setup(args) => setup::main(args),
        Command::SoftRoce(args) => soft_roce::main(args),
    };
    result.unwrap_or_else(report)
}

/// 125, as env(1) and docker(1) have it: the failure is ours, not that of the command we ran.
fn report(error: anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(125)
}

/// What `main` of a subcommand returns.
type Outcome = Result<ExitCode>;
