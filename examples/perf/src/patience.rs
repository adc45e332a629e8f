//! How long this end waits for the other.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Each step of connecting by rdma_cm takes at most this long.
pub static STEP: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(10)));

/// Returns `by_hand`, or longer in a test run. `PROVERBS_DEADLINE` contains the end of the run, in
/// seconds since 1970. A quarter of the remaining time prevents failures on a busy machine.
pub fn patience(by_hand: Duration) -> Duration {
    let deadline = std::env::var("PROVERBS_DEADLINE").ok().and_then(|text| text.parse().ok());
    let left = deadline.and_then(|seconds| {
        (UNIX_EPOCH + Duration::from_secs(seconds)).duration_since(SystemTime::now()).ok()
    });
    by_hand.max(left.unwrap_or_default() / 4)
}
