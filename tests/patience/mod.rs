//! How long a test waits for an event that must come, before it fails instead of hanging.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Without a deadline: a test that was started by hand.
const BY_HAND: Duration = Duration::from_secs(300);
const LEAST: Duration = Duration::from_secs(10);

/// A quarter of the time that was left of the whole run when this process first called it, so that
/// a busy machine does not fail a test. `PROVERBS_DEADLINE` is the end of the run in seconds since
/// 1970; `cargo xtask test` and `cargo xtask night` set it.
pub fn long() -> Duration {
    static LONG: OnceLock<Duration> = OnceLock::new();
    *LONG.get_or_init(|| {
        let deadline = std::env::var("PROVERBS_DEADLINE").ok().and_then(|text| text.parse().ok());
        let Some(deadline) = deadline.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
        else {
            return BY_HAND;
        };
        let left = deadline.duration_since(SystemTime::now()).unwrap_or_default();
        (left / 4).max(LEAST)
    })
}
