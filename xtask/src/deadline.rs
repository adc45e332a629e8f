//! The deadline of a run, in seconds since 1970 in `PROVERBS_DEADLINE`.
//!
//! `cargo xtask test` and `cargo xtask night` set it. The timeouts of guests, suites and scripts
//! are derived from the remaining time, so that a busy machine does not make them fail
//! (`tests/patience/mod.rs` and `tests/interop/patience.sh` do the same for tests and scripts).

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Error, Result};

pub const VARIABLE: &str = "PROVERBS_DEADLINE";
/// The time limit of a command that is started by hand, without a deadline.
const BY_HAND: Duration = Duration::from_secs(2 * 3600);
/// A guest is stopped this long before the deadline, so that there is time to show its console.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// Restarts this command with a deadline, unless it has one already.
pub fn start(limit: Duration) -> Result<()> {
    if env::var_os(VARIABLE).is_some() {
        return Ok(());
    }
    let mut again = Command::new(env::current_exe().context("cannot find this program")?);
    again.args(env::args_os().skip(1)).env(VARIABLE, after(limit)?);
    Err(Error::new(again.exec()).context("cannot restart this command with a deadline"))
}

/// The value of the variable for a run that starts now.
pub fn after(limit: Duration) -> Result<String> {
    Ok((SystemTime::now().duration_since(UNIX_EPOCH)? + limit).as_secs().to_string())
}

/// The remaining time of the run; zero after the deadline.
pub fn left() -> Duration {
    let deadline = env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let Some(deadline) = deadline.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)) else {
        return BY_HAND;
    };
    let left = deadline.duration_since(SystemTime::now()).unwrap_or_default();
    left.saturating_sub(LAST_WORDS)
}
