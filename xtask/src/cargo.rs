//! Cargo, in the workspace.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
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

/// `cargo ARGS` with the named nightly. `cargo xtask` sets the variable for its own toolchain.
pub fn nightly(args: &[&str]) -> Result<Cmd<'static>> {
    let cmd = cargo(&[&[WITH_NIGHTLY], args].concat())?;
    Ok(CALLERS.iter().fold(cmd, |cmd, name| cmd.env_remove(name)))
}

/// Runs `cargo ARGS` on the user's terminal; an error if it fails.
pub fn run(args: &[&str]) -> Result<()> {
    Ok(cargo(args)?.run()?)
}

/// Like `run`, with environment variables.
pub fn run_with<V: AsRef<OsStr>>(args: &[&str], env: &[(&str, V)]) -> Result<()> {
    Ok(cargo(args)?.envs(env.iter().map(|(name, value)| (name, value))).run()?)
}

/// Builds with `cargo ARGS` and returns the executables, by target name.
pub fn executables(what: &'static str, args: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    executables_with(what, args, &[])
}

/// Like `executables`, with environment variables.
pub fn executables_with(
    what: &'static str,
    args: &[&str],
    env: &[(&str, String)],
) -> Result<Vec<(String, PathBuf)>> {
    let step = Step::start(what);
    let cargo = cargo(args)?.envs(env.iter().map(|(name, value)| (name, value)));
    let text = cargo.arg("--message-format=json-render-diagnostics").text()?;
    step.done(what);
    Ok(messages(&text)?.executables)
}

/// The JSON messages of a build.
pub struct Messages {
    /// By target name.
    pub executables: Vec<(String, PathBuf)>,
    /// The compiler's error messages that have a location.
    pub errors: Vec<Value>,
}

/// Builds. Returns an error only if the build fails without a located error message.
pub fn try_build(cmd: Cmd<'_>) -> Result<(bool, Messages)> {
    let output = cmd.arg("--message-format=json").ignore_status().output()?;
    let messages = messages(&String::from_utf8_lossy(&output.stdout))?;
    let is_told = output.status.success() || !messages.errors.is_empty();
    ensure!(is_told, "cargo failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok((output.status.success(), messages))
}

fn messages(text: &str) -> Result<Messages> {
    let (mut executables, mut errors) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut message: Value = serde_json::from_str(line).context("cargo's messages")?;
        let name = message["target"]["name"].as_str();
        if let (Some(path), Some(name)) = (message["executable"].as_str(), name) {
            executables.push((name.to_owned(), PathBuf::from(path)));
        }
        let told = message["message"].take();
        if told["level"] == "error" && told["spans"].as_array().is_some_and(|all| !all.is_empty()) {
            errors.push(told);
        }
    }
    Ok(Messages { executables, errors })
}

/// The readable form of a compiler message.
pub fn rendered(message: &Value) -> &str {
    message["rendered"].as_str().unwrap_or("(no text)")
}

/// The executable with this name.
pub fn named(found: &[(String, PathBuf)], name: &str) -> Result<PathBuf> {
    let found = found.iter().find(|(target, _)| target == name);
    Ok(found.with_context(|| format!("cargo built no `{name}`"))?.1.clone())
}
