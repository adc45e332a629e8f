//! `cargo xtask anywhere`: whether the crate compiles where it says it does.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::setup::{self, Group};
use crate::sh::Cmd;
use crate::{Outcome, cargo};

/// Compiles the crate with the oldest Rust that it names, and for aarch64
#[derive(clap::Args)]
pub struct Args {}

/// All that needs no headers of the machine that it is for.
const OURS: [&str; 3] = ["--no-default-features", "--features", "loopback,serde,tokio"];

/// The other machine that deny.toml and the README name.
const ELSEWHERE: &str = "aarch64-unknown-linux-gnu";

pub fn main(_: Args) -> Outcome {
    setup::ensure(&[Group::Build])?;
    check()?;
    Ok(ExitCode::SUCCESS)
}

pub fn check() -> Result<()> {
    let oldest = oldest()?;
    setup::toolchain(&oldest)?;
    let with = format!("+{oldest}");
    cargo::run(&[&[with.as_str(), "check", "-p", "proverbs"][..], &OURS].concat())?;
    cargo::run(&[&with, "check", "-p", "proverbs", "--features", "serde,tokio"])?;
    target(ELSEWHERE)?;
    cargo::run(&[&["check", "-p", "proverbs", "--target", ELSEWHERE][..], &OURS].concat())?;
    println!("compiles with Rust {oldest}, with either bindings, and for {ELSEWHERE}");
    Ok(())
}

/// `rust-version` of the crate, as rustup names it.
fn oldest() -> Result<String> {
    let metadata = cargo::cargo(&["metadata", "--format-version", "1", "--no-deps"])?.read()?;
    let metadata: Value = serde_json::from_slice(&metadata).context("cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let ours = packages.iter().find(|package| package["name"] == "proverbs");
    let version = ours.context("there is no proverbs")?["rust_version"].as_str();
    let version = version.context("Cargo.toml of proverbs has no `rust-version`")?;
    // 1.85 is a channel of its own for rustup, which follows 1.85.1 and so on.
    Ok(if version.split('.').count() == 2 { format!("{version}.0") } else { version.into() })
}

/// Adds the standard library for another machine.
fn target(name: &str) -> Result<()> {
    let installed = Cmd::new("rustup")
        .args(["target", "list", "--installed"])
        .hint("install Rust with rustup")
        .read_text()?;
    if installed.lines().any(|line| line == name) {
        return Ok(());
    }
    Cmd::new("rustup")
        .args(["target", "add", name])
        .hint(format!("add it by hand: rustup target add {name}"))
        .run("Adding a target")
}
