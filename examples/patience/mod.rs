//! How long an example waits for its peer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `by_hand`, or longer if the example is part of a test run. The end of the run is in
/// `PROVERBS_DEADLINE`, as seconds since 1970. A quarter of what is left keeps a busy machine from
/// failing the example.
pub fn patience(by_hand: Duration) -> Duration {
    let deadline = std::env::var("PROVERBS_DEADLINE").ok().and_then(|text| text.parse().ok());
    let Some(deadline) = deadline.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)) else {
        return by_hand;
    };
    let left = deadline.duration_since(SystemTime::now()).unwrap_or_default();
    by_hand.max(left / 4)
}
