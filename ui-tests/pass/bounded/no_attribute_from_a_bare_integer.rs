// R8.7, R8.8, R8.9, R4.8, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::bounded::{RetryCount, RnrRetry, Timeout};
use proverbs::prelude::*;

fn psn() -> Psn {
    Psn::new(7).unwrap()
}

fn retry_cnt() -> RetryCount {
    RetryCount::new(6).unwrap()
}

fn rnr_retry() -> RnrRetry {
    RnrRetry::Infinite
}

fn timeout() -> Timeout {
    Timeout::exponent(14).unwrap()
}

fn mtu() -> Mtu {
    Mtu::Bytes1024
}

fn depth() -> ReadDepth {
    ReadDepth::ONE
}
