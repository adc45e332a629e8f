//! The time for which an example waits for its peer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns `by_hand`, or longer if the example is part of a test run. `PROVERBS_DEADLINE` contains
/// the end of the run, in seconds since 1970. A quarter of the remaining time prevents failures on
/// a busy machine.
pub fn patience(by_hand: Duration) -> Duration {
    let deadline = std::env::var("PROVERBS_DEADLINE").ok().and_then(|text| text.parse().ok());
    let Some(deadline) = deadline.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)) else {
        return by_hand;
    };
    let left = deadline.duration_since(SystemTime::now()).unwrap_or_default();
    by_hand.max(left / 4)
}
