// Proves R8.7, R8.8, R8.9, R4.8, R8.6, ibv_modify_qp(3): no attribute from a bare integer.
// Enforced by the types of bounded.rs.
use proverbs::bounded::{RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;

fn psn() -> Psn {
    7
}

fn retry_cnt() -> RetryCount {
    6
}

fn rnr_retry() -> RnrRetry {
    7
}

fn timeout() -> Timeout {
    14
}

fn mtu() -> Mtu {
    1024
}

fn depth() -> ReadDepth {
    1
}

fn main() {}
