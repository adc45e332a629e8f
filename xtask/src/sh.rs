//! Running other programs: say what runs, be quiet when it works, be clear when it does not.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{env, io};

use anyhow::{Context, Result, anyhow, bail};

use crate::progress::Step;

/// How much of a failed program's output is shown.
const TAIL_LINES: usize = 40;

/// A command to run, with what to try next should it fail.
pub struct Cmd {
    inner: Command,
    hint: Option<String>,
}

impl Cmd {
    /// `program` is looked up in PATH and where administrators' tools live: a plain user's PATH on
    /// Debian has no /usr/sbin, which is where depmod is.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut inner = Command::new(program);
        inner.env("PATH", path_with_sbin()).stdin(Stdio::null());
        Self { inner, hint: None }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.inner.arg(arg);
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.inner.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.inner.env_remove(name);
        self
    }

    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.inner.current_dir(dir);
        self
    }

    /// The next thing to try, part of the error.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Runs as a visible step, output shown only on failure.
    pub fn run(self, what: impl Into<Cow<'static, str>>) -> Result<()> {
        let step = Step::start(format!("{}: {}", what.into(), self.line()));
        let result = self.read();
        drop(step);
        result.map(drop)
    }

    /// Runs silently; what it wrote to stdout.
    pub fn read(mut self) -> Result<Vec<u8>> {
        // apt and dpkg are parsed, so they must not speak the user's language.
        let output = self.inner.env("LC_ALL", "C.UTF-8").output();
        let output = output.map_err(|error| self.not_started(&error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(self.failed(&output))
    }

    /// Runs silently; whether it worked, and what it wrote to stdout.
    pub fn read_anyway(mut self) -> Result<(bool, String)> {
        let output = self.inner.env("LC_ALL", "C.UTF-8").output();
        let output = output.map_err(|error| self.not_started(&error))?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// As `read`, for text.
    pub fn read_text(self) -> Result<String> {
        let line = self.line();
        String::from_utf8(self.read()?).with_context(|| format!("output of `{line}`"))
    }

    /// Runs silently; its exit code (128 + n for signal n), and what it said.
    pub fn capture(mut self) -> Result<(i32, String)> {
        use std::os::unix::process::ExitStatusExt;
        let output = self.inner.output().map_err(|error| self.not_started(&error))?;
        let code = output.status.code();
        let code = code.unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default());
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((code, text))
    }

    /// Runs silently; whether it worked.
    pub fn succeeds(mut self) -> bool {
        self.inner.output().is_ok_and(|output| output.status.success())
    }

    /// Runs on the user's terminal, untouched; its exit code (128 + n for signal n).
    pub fn stream(mut self) -> Result<i32> {
        use std::os::unix::process::ExitStatusExt;
        eprintln!("$ {}", self.line());
        self.inner.stdin(Stdio::inherit());
        let status = self.inner.status().map_err(|error| self.not_started(&error))?;
        match (status.code(), status.signal()) {
            (Some(code), _) => Ok(code),
            (None, Some(signal)) => Ok(128 + signal),
            (None, None) => bail!("`{}` ended with {status}", self.line()),
        }
    }

    /// For who reads what it writes while it runs.
    pub fn into_command(self) -> Command {
        self.inner
    }

    /// As one would type it.
    fn line(&self) -> String {
        let words = [self.inner.get_program()].into_iter().chain(self.inner.get_args());
        words.map(|word| quote(word).to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    fn not_started(&self, error: &io::Error) -> anyhow::Error {
        anyhow!("cannot run `{}`: {error}{}", self.line(), self.next())
    }

    fn failed(&self, output: &Output) -> anyhow::Error {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let (line, status) = (self.line(), output.status);
        anyhow!("`{line}` failed ({status}):\n{}{}", tail(&text, TAIL_LINES), self.next())
    }

    fn next(&self) -> String {
        self.hint.as_ref().map_or_else(String::new, |hint| format!("\nNext: {hint}"))
    }
}

fn path_with_sbin() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

/// The last lines of a text, indented to stand apart from our own words.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// A word for sh(1), quoted only where it must be.
pub fn quote(word: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = word.as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(b);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return word.to_owned();
    }
    let mut quoted = vec![b'\''];
    for &byte in bytes {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_survives_a_shell() {
        for word in ["", "a b", "it's", "$HOME `x` \"y\"", "new\nline", "plain/word-1.0"] {
            let script = format!("printf %s {}", quote(word.as_ref()).to_string_lossy());
            let printed = Cmd::new("sh").args(["-c", &script]).read_text();
            assert_eq!(printed.expect("sh runs"), word);
        }
    }

    #[test]
    fn a_failure_says_what_to_try() {
        let cmd = Cmd::new("sh").args(["-c", "echo why >&2; exit 3"]).hint("do that");
        let error = cmd.read().expect_err("it exits 3").to_string();
        assert!(error.contains("why") && error.contains("Next: do that"), "{error}");
    }
}
