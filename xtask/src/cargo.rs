//! Cargo, with what it needs to build the crate.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sh::Cmd;
use crate::{paths, setup};

/// `cargo ARGS` in the workspace, with the libclang that the bindings are generated with.
pub fn cargo(args: &[&str]) -> Result<Cmd> {
    let mut cmd = Cmd::new("cargo").args(args).current_dir(paths::workspace());
    for (name, value) in setup::libclang()?.env() {
        cmd = cmd.env(name, value);
    }
    Ok(cmd)
}

/// Runs `cargo ARGS` on the user's terminal; an error if it fails.
pub fn run(args: &[&str]) -> Result<()> {
    stream(cargo(args)?, args)
}

/// As `run`, with variables.
pub fn run_with(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let cmd = env.iter().fold(cargo(args)?, |cmd, (name, value)| cmd.env(name, value));
    stream(cmd, args)
}

fn stream(cmd: Cmd, args: &[&str]) -> Result<()> {
    match cmd.stream()? {
        0 => Ok(()),
        code => bail!("`cargo {}` failed with code {code}", args.join(" ")),
    }
}

/// Builds with `cargo ARGS` and gives the executables, by target name.
pub fn executables(what: &'static str, args: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let step = crate::progress::Step::start(what);
    let text = cargo(args)?.arg("--message-format=json-render-diagnostics").read_text()?;
    step.done(what);
    let mut found = Vec::new();
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).context("cargo's messages")?;
        let name = message["target"]["name"].as_str();
        if let (Some(path), Some(name)) = (message["executable"].as_str(), name) {
            found.push((name.to_owned(), PathBuf::from(path)));
        }
    }
    Ok(found)
}
