//! Cargo, in the workspace.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::paths;
use crate::progress::Step;
use crate::sh::{self, Cmd, Run, cmd};
use crate::toolchain::{CALLERS, WITH_NIGHTLY};

/// `cargo ARGS` in the workspace.
pub fn cargo(args: &[&str]) -> Result<Cmd<'static>> {
    let sh = sh::at(paths::workspace());
    Ok(cmd!(sh, "cargo {args...}"))
}

/// `cargo ARGS` by the named nightly. With `cargo xtask`, cargo names its own toolchain to us.
pub fn nightly(args: &[&str]) -> Result<Cmd<'static>> {
    let cmd = cargo(&[&[WITH_NIGHTLY], args].concat())?;
    Ok(CALLERS.iter().fold(cmd, |cmd, name| cmd.env_remove(name)))
}

/// Runs `cargo ARGS` on the user's terminal; an error if it fails.
pub fn run(args: &[&str]) -> Result<()> {
    Ok(cargo(args)?.run()?)
}

/// As `run`, with variables.
pub fn run_with<V: AsRef<OsStr>>(args: &[&str], env: &[(&str, V)]) -> Result<()> {
    Ok(cargo(args)?.envs(env.iter().map(|(name, value)| (name, value))).run()?)
}

/// Builds with `cargo ARGS` and gives the executables, by target name.
pub fn executables(what: &'static str, args: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    executables_with(what, args, &[])
}

/// As `executables`, with variables.
pub fn executables_with(
    what: &'static str,
    args: &[&str],
    env: &[(&str, String)],
) -> Result<Vec<(String, PathBuf)>> {
    let step = Step::start(what);
    let cargo = cargo(args)?.envs(env.iter().map(|(name, value)| (name, value)));
    let text = cargo.arg("--message-format=json-render-diagnostics").text()?;
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

/// The one of `executables` that has this name.
pub fn named(found: &[(String, PathBuf)], name: &str) -> Result<PathBuf> {
    let found = found.iter().find(|(target, _)| target == name);
    Ok(found.with_context(|| format!("cargo built no `{name}`"))?.1.clone())
}
