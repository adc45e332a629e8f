//! Runs other programs with xshell, without output on success and with a clear error on failure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Error, Result, anyhow, ensure};
pub use xshell::{Cmd, Shell, cmd};

use crate::progress::Step;

/// The number of lines shown from a failed program's output.
const TAIL_LINES: usize = 40;
/// The number of characters shown from a step's command.
const SHOWN: usize = 200;

/// A shell in a directory. It lives as long as this process, so that its commands can be returned.
pub fn at(dir: impl AsRef<Path>) -> &'static Shell {
    let sh = Shell::new().expect("this process is in a directory");
    sh.change_dir(dir);
    // On Debian, a normal user's PATH does not contain /usr/sbin, which has depmod.
    let path = env::var("PATH").unwrap_or_default();
    sh.set_var("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    Box::leak(Box::new(sh))
}

/// A shell in the caller's directory.
pub fn here() -> &'static Shell {
    at(".")
}

/// Ways to run a command, besides those of xshell.
pub trait Run: Sized {
    /// As a visible step, with output only on failure.
    fn step(self, what: impl Into<Cow<'static, str>>) -> Result<()>;
    /// Silently. Returns its stdout.
    fn bytes(self) -> Result<Vec<u8>>;
    /// Like `bytes`, for text.
    fn text(self) -> Result<String>;
    /// Silently. Returns its exit code (128 + n for signal n), and its output.
    fn capture(self) -> Result<(i32, String)>;
    /// Silently. Returns whether it succeeded.
    fn succeeds(self) -> bool;
    /// On the user's terminal. Returns its exit code.
    fn stream(self) -> Result<i32>;
}

impl Run for Cmd<'_> {
    fn step(self, what: impl Into<Cow<'static, str>>) -> Result<()> {
        let line = self.to_string();
        let rest = if line.chars().nth(SHOWN).is_some() { " ..." } else { "" };
        let line: String = line.chars().take(SHOWN).collect();
        let _step = Step::start(format!("{}: {line}{rest}", what.into()));
        self.bytes().map(drop)
    }

    fn bytes(self) -> Result<Vec<u8>> {
        let line = self.to_string();
        let output = self.ignore_status().output()?;
        let said = || tail(&text(&[&output.stdout, &output.stderr]), TAIL_LINES);
        ensure!(output.status.success(), "`{line}` failed ({}):\n{}", output.status, said());
        Ok(output.stdout)
    }

    fn text(self) -> Result<String> {
        Ok(text(&[&self.bytes()?]))
    }

    fn capture(self) -> Result<(i32, String)> {
        let output = self.ignore_status().output()?;
        Ok((code(output.status), text(&[&output.stdout, &output.stderr])))
    }

    fn succeeds(self) -> bool {
        self.capture().is_ok_and(|(code, _)| code == 0)
    }

    fn stream(self) -> Result<i32> {
        let line = self.to_string();
        eprintln!("$ {line}");
        let status = Command::from(self).status();
        Ok(code(status.with_context(|| format!("cannot run `{line}`"))?))
    }
}

/// An error that says what to try next.
pub trait Next<T> {
    fn next(self, hint: impl Display) -> Result<T>;
}

impl<T, E: Into<Error>> Next<T> for Result<T, E> {
    fn next(self, hint: impl Display) -> Result<T> {
        self.map_err(|error| anyhow!("{:#}\nNext: {hint}", error.into()))
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

fn text(parts: &[&[u8]]) -> String {
    String::from_utf8_lossy(&parts.concat()).into_owned()
}

/// The last lines of a text, indented to distinguish them from our own text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Calls a function for each item, on two threads, with the number of the thread. Returns the
/// results in order.
pub fn two_at_a_time<T: Sync, R: Send>(
    all: &[T],
    does: impl Fn(usize, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let work = |side: usize| -> Result<Vec<(usize, R)>> {
        let mut results = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else { return Ok(results) };
            results.push((at, does(side, one)?));
        }
    };
    let [these, others] = thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        [work(0), other.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))]
    });
    let results: BTreeMap<usize, R> = these?.into_iter().chain(others?).collect();
    Ok(results.into_values().collect())
}

/// A word for sh(1), quoted if necessary. Our words never contain a NUL.
pub fn quote(word: &OsStr) -> OsString {
    let quoted = shlex::bytes::Quoter::new().allow_nul(true).quote(word.as_bytes());
    OsString::from_vec(quoted.map_or_else(|_| Vec::new(), Cow::into_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_to_try() {
        let script = "echo why >&2; exit 3";
        let result = cmd!(here(), "sh -c {script}").text().next("do that");
        let error = result.expect_err("it exits 3").to_string();
        assert!(error.contains("why") && error.contains("Next: do that"), "{error}");
    }
}
